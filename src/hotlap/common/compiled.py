"""Compile hotlap's own C sources once for a machine, and load them.

What is loaded runs with the user's rights. It is therefore loaded only from a folder that this user
owns and nobody else can write to, and only files of which the same is true.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from hotlap.common.disk import cache_dir

SHARED = ("-O3", "-shared", "-fPIC")
LIMIT = 20.0  # seconds
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
VARIABLE = "HOTLAP_KERNELS"
"""Set to 0, nothing is compiled and nothing compiled is used."""


@cache
def library(
    source: Path, *headers: Path, flags: tuple[str, ...] = (), either: tuple[str, ...] = ("",)
) -> ctypes.CDLL | None:
    """Return a compiled source; None where it is not wanted, or cannot be compiled.

    Args:
        source: the C file.
        headers: what it includes of ours.
        flags: the compiler's, besides those of any shared library.
        either: of these flags the first with which it can be compiled and loaded.
    """
    if os.environ.get(VARIABLE) == "0":
        return None
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
        if not shutil.which(compiler[0]):
            return None
        commands = [[*compiler, *SHARED, *flags, *filter(None, [flag])] for flag in either]
        return _first(commands, source, headers)
    except (OSError, RuntimeError, ValueError):  # no place to keep it; no home; CC is not quoted
        return None


def _first(
    commands: Sequence[list[str]], source: Path, headers: Sequence[Path]
) -> ctypes.CDLL | None:
    folder = cache_dir() / "kernels"
    if not _is_private(folder):
        return None
    for command in commands:
        target = folder / f"{source.stem}-{_key(command, (source, *headers))}.so"
        for _ in range(2):
            if _is_own(target) or _compiled(command, source, target):
                try:
                    return ctypes.CDLL(str(target))
                except OSError:  # half of a file, or the runtime of its threads is missing
                    target.unlink(missing_ok=True)
    return None


def _compiled(command: list[str], source: Path, target: Path) -> bool:
    """Compile next to the target and move it there, since other processes may do the same."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        words = [*command, str(source), "-o", str(made), "-lm"]
        try:
            done = subprocess.run(words, capture_output=True, timeout=LIMIT, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        if done.returncode:
            return False
        made.chmod(0o700)  # whatever the umask lets others do
        made.replace(target)
    return True


def _is_private(folder: Path) -> bool:
    """Make a folder that only this user can write to; False where it belongs to another user."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        warnings.warn(
            f"hotlap runs without compiled kernels, which is slower: {folder} belongs to user "
            f"{found.st_uid}, not to user {os.geteuid()} who runs this, so that what lies in it is "
            "not loaded; set XDG_CACHE_HOME to a folder of your own",
            stacklevel=2,
        )
        return False
    if found.st_mode & OTHERS_WRITE:
        folder.chmod(0o700)
    return True


def _is_own(path: Path) -> bool:
    """Whether this user wrote a file, and nobody else could have changed it since."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    ours = found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE
    return ours and stat.S_ISREG(found.st_mode)


def _key(command: list[str], sources: Sequence[Path]) -> str:
    """Of the sources, how they are compiled, and the processor that they are compiled for."""
    digest = hashlib.sha256(" ".join([*command, platform.machine()]).encode())
    for part in (*(path.read_bytes() for path in sources), *_processor()):
        digest.update(part)
    return digest.hexdigest()[:16]


def _processor() -> Iterator[bytes]:
    """What the first processor is and can do."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_bytes()
        wanted = (b"model name", b"flags", b"Features")
        yield from (line for line in text.partition(b"\n\n")[0].splitlines()
                    if line.startswith(wanted))  # fmt: skip
