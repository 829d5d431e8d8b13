"""What lint found out about a file's content, kept from run to run.

An entry's key is made of the content and of everything else that the answer depends on, so that an
entry is never wrong, only unused. Entries unused for a month are removed at times.
"""

import hashlib
import json
import os
import sys
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import hotlap
from hotlap.common.disk import cache_dir

_UNUSED_SECONDS = 30 * 24 * 3600
_SWEEP_SECONDS = 24 * 3600


class LintCache:
    """Entries in a folder, one file each; a folder that cannot be written to keeps nothing."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` defaults to `lint` in the user's cache directory."""
        self._given = folder

    def get(self, *key: str | bytes) -> Any:
        """The entry of a key; None: there is none."""
        try:
            path = self._path(key)
            found = json.loads(path.read_bytes())
        except (OSError, ValueError, RuntimeError):
            return None
        return found

    def put(self, value: object, *key: str | bytes) -> None:
        """Keep an entry."""
        with suppress(OSError, RuntimeError):
            path = self._path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps(value), "utf-8")
            beside.replace(path)

    def sweep(self) -> None:
        """Remove the entries of other versions and those unused for long, once a day."""
        with suppress(OSError, RuntimeError):
            mark = self._folder / "swept"
            now = time.time()
            if not self._folder.is_dir() or (mark.exists() and now - mark.stat().st_mtime
                                             < _SWEEP_SECONDS):  # fmt: skip
                return
            mark.touch()
            for path in self._folder.rglob("*.json"):
                if now - max(path.stat().st_mtime, path.stat().st_atime) > _UNUSED_SECONDS:
                    path.unlink(missing_ok=True)

    @cached_property
    def _folder(self) -> Path:
        return self._given or cache_dir() / "lint"

    def _path(self, key: tuple[str | bytes, ...]) -> Path:
        digest = hashlib.sha256(self._version)
        for part in key:
            digest.update(part.encode() if isinstance(part, str) else part)
            digest.update(b"\0")
        name = digest.hexdigest()
        return self._folder / name[:2] / f"{name[2:]}.json"

    @cached_property
    def _version(self) -> bytes:
        """Changes with hotlap's own code and with Python's grammar."""
        package = Path(hotlap.__file__).parent
        files = [*(package / "source").rglob("*.py"), *(package / "techniques").glob("*.py")]
        stats = sorted((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
        return repr((hotlap.__version__, sys.version_info[:3], stats)).encode()
