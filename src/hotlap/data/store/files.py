"""Writing so that a crash leaves either the old state or the new one."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotlap.data.errors import PackError


@contextmanager
def room(path: Path) -> Iterator[None]:
    """Turn a full disk or an unwritable folder into a message that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise PackError(
                f"no space left on the disk of {path}: free some and give the same command again; "
                "what is packed so far stays"
            ) from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise PackError(f"cannot write to {path}: {error.strerror}") from error
        raise


def write_whole(path: Path, payload: bytes) -> None:
    """Write a file under a passing name, bring it to the disk, then give it its name."""
    passing = path.with_name(path.name + ".tmp")
    with room(path):
        with passing.open("wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        passing.rename(path)
