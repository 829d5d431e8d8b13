"""Memory of the loader's workers: what goes on growing, and the /dev/shm that they need."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hotlap.core.amounts import several
from hotlap.core.protocol import HeldObjects, ProfilePayload, ResourceReport
from hotlap.profile.model import Finding, Remedy

GROWN = 16 << 20
"""Bytes that a worker must grow by: those of equal batches differ by up to 10 MiB."""
UNEXPLAINED = 64 << 20
"""The same where no list of the dataset explains it: libraries that a worker meets late, and what
malloc keeps, add up to 25 MiB over half a minute."""
STEADY = 0.4
"""A third of the time that adds less than this part of the mean is no part of steady growth."""
FEWEST_LOOKS = 4
LONG = 2.0
KEPT = 256 << 20
NO_TIME = ("memory",)


def shared_memory(payload: ProfilePayload, seen: ResourceReport) -> Iterator[Finding]:
    """Workers hand batches over in /dev/shm: one that is too small ends them with a bus error."""
    found = seen.shm
    if found is None or found.needed <= found.free:
        return
    sizes = (found.needed, found.free, found.size)
    need, free, size = (f"{amount / 2**20:,.0f} MiB" for amount in sizes)
    what = f"/dev/shm has {free} free of {size}, the loader's batches may need {need}"
    says = (
        f"{found.batches} batches of {found.batch / 2**20:,.1f} MiB can be under way; when "
        "it is full, workers die with a bus error: make it larger (docker run --shm-size), lower "
        "prefetch_factor, or use hotlap.data.Loader, whose batches do not lie there"
    )
    yield _of_memory(what, "shared_memory", says, payload.places.get("loader", ""))


def growth(series: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Bytes that a worker grew by, and bytes a second; (0, 0) unless it grew in each third of it.

    `series`: (seconds, bytes) in order. A worker that warms up grows fast and then no more, and
    what two batches of other sizes leave behind differs by some MiB.
    """
    if len(series) < FEWEST_LOOKS or series[-1][0] - series[0][0] < LONG:
        return 0.0, 0.0
    begin, lasted = series[0][0], series[-1][0] - series[0][0]
    looks = [
        min(series, key=lambda look: abs(look[0] - begin - part * lasted))
        for part in (0.0, 1 / 3, 2 / 3, 1.0)
    ]
    paces = [(new[1] - old[1]) / max(1e-9, new[0] - old[0]) for old, new in pairwise(looks)]
    grown = series[-1][1] - series[0][1]
    if grown < GROWN or min(paces) < STEADY * grown / lasted:
        return 0.0, 0.0
    return grown, paces[-1]


def growing(seen: ResourceReport, place: str) -> Iterator[Finding]:
    """Memory that the workers do not share any more, and go on taking."""
    grown = [growth(series) for series in seen.workers]
    total, pace = sum(size for size, _ in grown), sum(rate for _, rate in grown)
    if max((size for size, _ in grown), default=0.0) < (GROWN if seen.objects else UNEXPLAINED):
        return
    workers = several(sum(size > 0 for size, _ in grown), "loader worker")
    what = (
        f"the memory of {workers} grew by {total / 2**20:,.0f} MiB, and goes on at "
        f"{pace / 2**20:,.1f} MiB/s"
    )
    says = _objects(seen.objects[0], len(grown)) if seen.objects else _unknown()
    notes = tuple(_malloc(seen))
    yield _of_memory(what, "worker_memory", says, place, notes)


def _objects(found: HeldObjects, workers: int) -> str:
    size = found.bytes / 2**20
    return (
        f"the dataset's {found.path} is a {found.kind} of {found.length:,} Python "
        f"objects, about {size:,.0f} MiB: looking at one writes its reference count, and the "
        f"worker copies the page, up to {workers} times all of it; keep it as a numpy array or a "
        "torch tensor (strings as one array of bytes), or pack the data (`hotlap pack`)"
    )


def _unknown() -> str:
    return (
        "the dataset holds no long list of Python objects: look for what its samples add to "
        "(a cache, a log, open files)"
    )


def _malloc(seen: ResourceReport) -> Iterator[str]:
    if seen.kept >= KEPT:
        yield (
            f"malloc_trim gave back {seen.kept / 2**20:,.0f} MiB of freed memory that malloc had "
            "kept in this process: MALLOC_ARENA_MAX=2, or jemalloc or tcmalloc by LD_PRELOAD, may "
            "hold less; `hotlap race CMD -- env MALLOC_ARENA_MAX=2 CMD` measures it"
        )


def _of_memory(what: str, name: str, says: str, place: str, notes: tuple[str, ...] = ()) -> Finding:
    remedy = Remedy(name, says, NO_TIME, place, 1.0, 0.0, notes=notes)
    return Finding(what, place, "", 0.0, 1.0, (remedy,))
