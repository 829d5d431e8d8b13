"""Disk, shared memory, the workers' memory and malloc, as findings; each on a measurement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hotlap.profile.model import DATA, Finding, Remedy, headline
from hotlap.profile.rates import Rates, rates

WAITING = 0.1
BUSY = 0.3
"""The part of the disk's measured rate from which it is what the step waits for."""
FASTER = 1.5
GROWN = 16 << 20
STEADY = 0.4
"""A second half that grows by less than this part of the first is warming up, not growing."""
LONG = 2.0
KEPT = 256 << 20
FAULTS = 0.1
NO_TIME = ("memory",)


def with_storage(found: Sequence[Finding], payload: Mapping[str, Any]) -> list[Finding]:
    """Add what the disk and the memory behind the data show."""
    seen = payload.get("resources") or {}
    if not seen:
        return list(found)
    remedies = [*_disk(payload, seen), *_faults(payload)]
    apart = [*_shared_memory(payload, seen), *_growth(payload, seen)]
    return [*_joined(list(found), remedies, payload), *apart]


def waiting(payload: Mapping[str, Any]) -> float:
    """The part of a step that waits for data."""
    whole = payload["step"]["mean"] or 1.0
    phases = payload["phases"]
    spent = sum(float(phases[n]["mean"]) for n in DATA[:2] if n in phases)
    return min(1.0, spent / float(whole))


def _joined(
    found: list[Finding], remedies: list[Remedy], payload: Mapping[str, Any]
) -> list[Finding]:
    """The remedies of a wait for data belong to the finding of that wait."""
    if not remedies:
        return found
    for index, finding in enumerate(found):
        if finding.remedies[0].phases == ("data",):
            every = sorted((*finding.remedies, *remedies), key=lambda one: -one.expected)
            found[index] = replace(finding, remedies=tuple(every))
            return found
    share = waiting(payload)
    what = headline("waiting for data", share, payload["step"]["mean"])
    most = max(remedy.most for remedy in remedies)
    return [*found, Finding(what, remedies[0].place, "", share, most, tuple(remedies))]


def _place(payload: Mapping[str, Any]) -> str:
    places = payload["places"]
    own = (payload.get("dataset") or {}).get("place", "")
    return own or places.get("dataset", "") or places.get("loader", "")


def _disk(payload: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[Remedy]:
    """The disk gives about all it can, while the step waits for data."""
    share, used = waiting(payload), seen.get("disk", 0.0)
    taken = (payload.get("dataset") or {}).get("taken") or {}
    files = taken.get("files") or seen.get("files") or []
    if share < WAITING or used < 1e6 or not files:
        return
    measured = rates(files)
    if measured is None or used < BUSY * measured.random:
        return
    best = max(measured.sequential, *measured.others.values(), measured.ram)
    gives = share * max(0.0, 1.0 - measured.random / best)
    yield Remedy(
        "storage", _disk_says(used, measured), ("data",), _place(payload),
        1.0 / max(1e-3, 1.0 - gives), 0.5 * gives, notes=tuple(_disk_notes(measured)),
    )  # fmt: skip


def _disk_says(used: float, found: Rates) -> str:
    read = f"reads of {found.each / 1e3:,.0f} kB in random order"
    parts = [f"{_rate(found.random)} cold in {read}"]
    if found.sequential:
        parts.append(f"{_rate(found.sequential)} in one run")
    parts.append(f"{_rate(found.ram)} from RAM")
    parts += [f"{_rate(rate)} cold below {folder}" for folder, rate in found.others.items()]
    return f"the data came from the disk at {_rate(used)}; measured where they lie: " + ", ".join(
        parts
    )


def _disk_notes(found: Rates) -> Iterator[str]:
    """What is worth doing, of what was measured to be faster."""
    if found.sequential > FASTER * found.random:
        yield "one packed file that is read ahead comes at the rate of one run: `hotlap pack`"
    for folder, rate in found.others.items():
        if rate > FASTER * found.random:
            yield f"a copy below {folder} would be read {rate / found.random:.1f}x as fast"


def _rate(bytes_a_second: float) -> str:
    return f"{bytes_a_second / 1e6:,.0f} MB/s"


def _shared_memory(payload: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[Finding]:
    """Workers hand batches over in /dev/shm: one that is too small ends them with a bus error."""
    found = seen.get("shm") or {}
    if not found or found["needed"] <= found["free"]:
        return
    need, free, size = (f"{found[key] / 2**20:,.0f} MiB" for key in ("needed", "free", "size"))
    what = f"/dev/shm has {free} free of {size}, the loader's batches may need {need}"
    says = (
        f"{found['batches']} batches of {found['batch'] / 2**20:,.1f} MiB can be under way; when "
        "it is full, workers die with a bus error: make it larger (docker run --shm-size), lower "
        "prefetch_factor, or use hotlap.data.Loader, whose batches do not lie there"
    )
    yield _of_memory(what, "shared_memory", says, payload["places"].get("loader", ""))


def growth(series: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Bytes that a worker grew by, and bytes a second; (0, 0) unless it was growing to the end.

    `series`: (seconds, bytes) in order. A worker that warms up grows fast and then no more.
    """
    if len(series) < 3 or series[-1][0] - series[0][0] < LONG:
        return 0.0, 0.0
    middle = min(series, key=lambda look: abs(look[0] - (series[0][0] + series[-1][0]) / 2))
    early = (middle[1] - series[0][1]) / max(1e-9, middle[0] - series[0][0])
    late = (series[-1][1] - middle[1]) / max(1e-9, series[-1][0] - middle[0])
    if late <= 0 or late < STEADY * early:
        return 0.0, 0.0
    return series[-1][1] - series[0][1], late


def _growth(payload: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[Finding]:
    """Memory that the workers do not share any more, and go on taking."""
    grown = [growth(series) for series in seen.get("workers", ())]
    total, pace = sum(size for size, _ in grown), sum(rate for _, rate in grown)
    if total < GROWN:
        return
    what = (
        f"the memory of {sum(size > 0 for size, _ in grown)} worker processes grew by "
        f"{total / 2**20:,.0f} MiB, and goes on at {pace / 2**20:,.1f} MiB/s"
    )
    names = seen.get("objects") or []
    says = _objects(names[0], len(grown)) if names else _unknown()
    notes = tuple(_malloc(seen))
    yield _of_memory(what, "worker_memory", says, _place(payload), notes)


def _objects(found: Mapping[str, Any], workers: int) -> str:
    size = found["bytes"] / 2**20
    return (
        f"the dataset's {found['path']} is a {found['kind']} of {found['length']:,} Python "
        f"objects, about {size:,.0f} MiB: looking at one writes its reference count, and the "
        f"worker copies the page, up to {workers} times all of it; keep it as a numpy array or a "
        "torch tensor (strings as one array of bytes), or pack the data (`hotlap pack`)"
    )


def _unknown() -> str:
    return (
        "the dataset holds no long list of Python objects: look for what its samples add to "
        "(a cache, a log, open files)"
    )


def _malloc(seen: Mapping[str, Any]) -> Iterator[str]:
    kept = seen.get("kept", 0)
    if kept >= KEPT:
        yield (
            f"malloc_trim gave back {kept / 2**20:,.0f} MiB of freed memory that malloc had kept "
            "in this process: MALLOC_ARENA_MAX=2, or jemalloc or tcmalloc by LD_PRELOAD, may hold "
            "less; `hotlap race CMD -- env MALLOC_ARENA_MAX=2 CMD` measures it"
        )


def _faults(payload: Mapping[str, Any]) -> Iterator[Remedy]:
    """Samples whose buffers malloc gives back to the kernel and takes anew each time."""
    dataset = payload.get("dataset") or {}
    found, share = dataset.get("faults") or {}, waiting(payload)
    part = found.get("share", 0.0)
    if share < WAITING or part < FAULTS:
        return
    gives = part * share
    line = "MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=1073741824"
    yield Remedy(
        "malloc",
        f"a sample takes {found['faults']:,.0f} page faults, about {part:.0%} of its time by what "
        "one costs here: malloc gives buffers back to the kernel and takes them anew; the "
        "variables below keep them",
        ("data",),
        _place(payload),
        1.0 / max(1e-3, 1.0 - gives),
        0.5 * gives,
        lines=(f"hotlap race CMD -- env {line} CMD",),
    )


def _of_memory(what: str, name: str, says: str, place: str, notes: tuple[str, ...] = ()) -> Finding:
    remedy = Remedy(name, says, NO_TIME, place, 1.0, 0.0, notes=notes)
    return Finding(what, place, "", 0.0, 1.0, (remedy,))
