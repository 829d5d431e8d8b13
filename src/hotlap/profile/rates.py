"""How fast files can be read here: cold and warm, whole and in random order, this disk and others.

Only the page cache's copies of a sample of the files are dropped, by `posix_fadvise`, which harms
nothing. Whether that worked is seen with `preadv2(RWF_NOWAIT)`, which reads cached pages alone.
"""

import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar

Found = TypeVar("Found")
MOST_FILES = 192
MOST_BYTES = 64 << 20
SECONDS = 0.4
"""Of each of the at most five measurements."""
PIECE = 1 << 17
LARGE = 8 << 20
WRITTEN = 24 << 20
WRITING = 0.3


@dataclass(frozen=True)
class Rates:
    """Bytes a second: cold in random order, cold in one run, and from RAM; 0 where unknown.

    `others` are other disks' cold rates in random order, by folder. `each`: bytes of a read.
    """

    random: float
    sequential: float
    ram: float
    each: float
    others: dict[str, float]


def rates(files: Iterable[str]) -> Rates | None:
    """Measure where these files lie, within 2 s; None where nothing could be read cold."""
    chosen = _chosen(files)
    if not chosen:
        return None
    pieces = _pieces(chosen)
    cold = _cold_rate(chosen, pieces)
    if not cold:
        return None
    each = sum(size for _, _, size in pieces) / len(pieces)
    others = dict(_others(chosen[0], int(each)))
    return Rates(cold, _sequential(chosen), _rate(pieces), each, others)


def _chosen(files: Iterable[str]) -> list[str]:
    """A random sample of the files that can be read."""
    known = [path for path in files if os.access(path, os.R_OK) and Path(path).stat().st_size]
    return random.Random(0).sample(known, min(MOST_FILES, len(known)))


Piece = tuple[str, int, int]


def _pieces(files: list[str]) -> list[Piece]:
    """(file, offset, bytes) to read, in random order: small files whole, parts of large ones."""
    draw, found = random.Random(1), []
    for path in files:
        size = Path(path).stat().st_size
        if size < LARGE:
            found.append((path, 0, size))
        else:
            count = min(256, size // PIECE)
            starts = draw.sample(range(size // PIECE), count)
            found += [(path, start * PIECE, PIECE) for start in starts]
    draw.shuffle(found)
    return found


def _cold_rate(files: list[str], pieces: list[Piece]) -> float:
    for path in files:
        _forget(path)
    cached = sum(_is_cached(path, at) for path, at, _ in pieces[:32])
    return _rate(pieces) if cached <= min(32, len(pieces)) // 4 else 0.0


def _sequential(files: list[str]) -> float:
    """The rate of one run through a large file: the largest, else one written beside them."""
    largest = max(files, key=lambda path: Path(path).stat().st_size)
    if Path(largest).stat().st_size >= LARGE:
        return _run(largest)
    with _written(_same_disk(largest)) as path:
        return _run(path) if path else 0.0


def _run(path: str) -> float:
    _forget(path)
    size = min(Path(path).stat().st_size, MOST_BYTES)
    if _is_cached(path, 0):
        return 0.0
    return _rate([(path, at, 1 << 20) for at in range(0, size - (1 << 20) + 1, 1 << 20)])


def _others(path: str, each: int) -> Iterator[tuple[str, float]]:
    """Other disks that a person could put files on: the temporary and the working folder."""
    seen = {Path(path).stat().st_dev}
    for folder in (Path(tempfile.gettempdir()), Path.cwd()):
        device = folder.stat().st_dev
        if device in seen or _in_memory(folder):
            continue
        seen.add(device)
        with _written(folder) as written:
            if written and (rate := _cold_rate([written], _parts(written, each))):
                yield str(folder), rate


def _parts(path: str, each: int) -> list[Piece]:
    size = Path(path).stat().st_size
    starts = list(range(0, max(1, size - each), max(each, 4096)))
    random.Random(2).shuffle(starts)
    return [(path, start, each) for start in starts]


def _same_disk(path: str) -> Path | None:
    """A folder of ours on the same disk, to write a trial file to."""
    device = Path(path).stat().st_dev
    folders = (Path.cwd(), Path(tempfile.gettempdir()))
    return next((folder for folder in folders if folder.stat().st_dev == device), None)


@contextmanager
def _written(folder: Path | None) -> Iterator[str]:
    """A file of up to 24 MB there, on the disk, for as long as needed; "" where it cannot be."""
    path = ""
    try:
        if folder is not None:
            with suppress(OSError):
                path = _write(folder)
        yield path
    finally:
        if path:
            Path(path).unlink(missing_ok=True)


def _write(folder: Path) -> str:
    handle, path = tempfile.mkstemp(prefix=".hotlap-", dir=folder)
    try:
        block, begin = os.urandom(1 << 20), perf_counter()
        for _ in range(WRITTEN >> 20):
            os.write(handle, block)
            if perf_counter() - begin > WRITING:
                break
        os.fsync(handle)
    except BaseException:
        Path(path).unlink()
        raise
    finally:
        os.close(handle)
    return path


def _in_memory(folder: Path) -> bool:
    """Whether a folder lies in RAM already."""
    longest = ("", "")
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, place, kind, *_ = line.split()
            if folder.is_relative_to(place) and len(place) > len(longest[0]):
                longest = (place, kind)
    return longest[1] in {"tmpfs", "ramfs"}


def _forget(path: str) -> None:
    _with(path, lambda handle: os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED))


def _is_cached(path: str, at: int) -> bool:
    def look(handle: int) -> bool:
        try:
            return os.preadv(handle, [bytearray(1)], at, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            return False

    return _with(path, look)


def _rate(pieces: list[Piece]) -> float:
    """Bytes a second of reading so; ends when its time is over."""
    total, begin = 0, perf_counter()
    for path, at, size in pieces:
        total += _with(path, partial(_read, at=at, size=size))
        if perf_counter() - begin > SECONDS or total > MOST_BYTES:
            break
    return total / max(1e-9, perf_counter() - begin)


def _read(handle: int, at: int, size: int) -> int:
    return len(os.pread(handle, size, at))


def _with(path: str, use: Callable[[int], Found]) -> Found:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return use(handle)
    finally:
        os.close(handle)
