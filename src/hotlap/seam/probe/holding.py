"""What the loader's dataset and this process hold: Python objects, open files, kept memory."""

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from hotlap.common.randomness import attributes

MANY = 10_000
SAMPLE = 200
LARGE = 1 << 20


def objects(dataset: Any) -> list[dict[str, Any]]:
    """Long lists and dicts of Python objects that a dataset holds, the largest first.

    An object's count is written to whenever it is looked at, so that a forked worker copies the
    page it lies on.
    """
    found = []
    for path, value in attributes(dataset):
        if isinstance(value, (list, tuple, dict)) and len(value) >= MANY:
            entries = value.values() if isinstance(value, dict) else value
            each = sum(map(_size, islice(entries, SAMPLE))) / SAMPLE
            if each:
                kind = type(value).__name__
                found.append(
                    {
                        "path": path[1:],
                        "kind": kind,
                        "length": len(value),
                        "bytes": each * len(value),
                    }
                )
    return sorted(found, key=lambda entry: -entry["bytes"])


def _size(value: Any, depth: int = 2) -> int:
    """Bytes of an object with those in it; nothing for arrays and tensors."""
    if not isinstance(value, (str, bytes, int, float, tuple, list, dict, os.PathLike)):
        return 0
    if not depth or not isinstance(value, (tuple, list, dict)):
        return sys.getsizeof(value)
    inner = value.values() if isinstance(value, dict) else value
    return sys.getsizeof(value) + sum(_size(entry, depth - 1) for entry in inner)


def files() -> list[str]:
    """Large files that this process holds open or mapped, other than code."""
    return sorted({path for path in (*_handles(), *_maps()) if _is_data(path)})


def _handles() -> Iterator[str]:
    for handle in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            yield os.readlink(f"/proc/self/fd/{handle}")


def _maps() -> Iterator[str]:
    with suppress(OSError), open("/proc/self/maps") as file:
        for line in file:
            _, access, *_ = line.split(maxsplit=2)
            path = line.partition("/")[2].strip()
            if path and "x" not in access:
                yield f"/{path}"


def _is_data(path: str) -> bool:
    system = ("/dev/", "/proc/", "/sys/", "/usr/", "/lib", "/memfd:", sys.prefix, sys.base_prefix)
    code = ".so" in Path(path).name or path.endswith((".py", ".pyc"))
    if path.startswith(system) or code:
        return False
    with suppress(OSError):
        return os.path.isfile(path) and os.stat(path).st_size >= LARGE
    return False


def kept() -> int:
    """Bytes of freed memory that malloc had not given back; it does now. 0 where it cannot."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return 0
    before = _resident()
    trim(0)
    return max(0, before - _resident())


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def shared_memory(loader: Any, batch: int) -> dict[str, int]:
    """Bytes of /dev/shm that a loader's workers may need at once, and that it has in all."""
    ahead = (loader.prefetch_factor or 2) * loader.num_workers + 1
    with suppress(OSError):
        found = os.statvfs("/dev/shm")
        return {
            "needed": ahead * batch, "size": found.f_blocks * found.f_frsize, "batch": batch,
            "free": found.f_bavail * found.f_frsize, "batches": ahead,
        }  # fmt: skip
    return {}
