"""Compile the kernels once for a machine, and load them."""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from hotlap.common.cache import cache_dir

HERE = Path(__file__).parent
SPLIT = 1 << 18
"""Elements from which all threads take a tensor together."""
FLAGS = (
    *("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"),
    *("-shared", "-fPIC", f"-DSPLIT={SPLIT}L"),
)
THREADED, ALONE = "-fopenmp", "-fopenmp-simd"
LIMIT = 20.0  # seconds
VARIABLE = "HOTLAP_KERNELS"
"""Set to 0, nothing is compiled and nothing compiled is used."""


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled kernels; None where they are not wanted, or cannot be compiled."""
    if os.environ.get(VARIABLE) == "0":
        return None
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
        return _loaded(compiler) if shutil.which(compiler[0]) else None
    except (OSError, RuntimeError, ValueError):  # no place to keep it; no home; CC is not quoted
        return None


def _loaded(compiler: list[str]) -> ctypes.CDLL | None:
    folder = cache_dir() / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    for threads in (THREADED, ALONE):
        target = folder / f"layerwise-{_key(compiler, threads)}.so"
        for _ in range(2):
            if target.exists() or _compiled([*compiler, *FLAGS, threads], target):
                try:
                    return ctypes.CDLL(str(target))
                except OSError:  # half of a file, or the runtime of its threads is missing
                    target.unlink(missing_ok=True)
    return None


def _compiled(command: list[str], target: Path) -> bool:
    """Compile next to the target and move it there, since other processes may do the same."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        words = [*command, str(HERE / "layerwise.c"), "-o", str(made), "-lm"]
        try:
            done = subprocess.run(words, capture_output=True, timeout=LIMIT, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        if done.returncode:
            return False
        made.replace(target)
    return True


def _key(compiler: list[str], threads: str) -> str:
    """Of the source, how it is compiled, and the processor that it is compiled for."""
    digest = hashlib.sha256(" ".join([*compiler, *FLAGS, threads, platform.machine()]).encode())
    for part in (*_sources(), *_processor()):
        digest.update(part)
    return digest.hexdigest()[:16]


def _sources() -> Iterator[bytes]:
    for name in ("layerwise.c", "step.h"):
        yield (HERE / name).read_bytes()


def _processor() -> Iterator[bytes]:
    """What the first processor is and can do."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_bytes()
        wanted = (b"model name", b"flags", b"Features")
        yield from (line for line in text.partition(b"\n\n")[0].splitlines()
                    if line.startswith(wanted))  # fmt: skip
