"""The disk that the data come from, and what else costs or endangers reading them, as findings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hotlap.profile.model import Finding, Remedy, headline
from hotlap.profile.rates import Rates, rates
from hotlap.profile.waiting import waiting, with_remedies
from hotlap.profile.worker_memory import growing, shared_memory

WAITING = 0.1
BUSY = 0.3
"""The part of the disk's measured rate from which it is what the step waits for."""
FASTER = 1.5
FAULTS, STEP_FAULTS = 0.1, 0.05
HEAP_KEPT = "MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1073741824"
"""In words that every glibc takes: older ones refuse MALLOC_MMAP_THRESHOLD_ above 32 MiB."""


def with_storage(found: Sequence[Finding], payload: Mapping[str, Any]) -> list[Finding]:
    """Add what the disk and the memory behind the data show."""
    seen = payload.get("resources") or {}
    if not seen:
        return list(found)
    faults = list(_faults(payload))
    remedies = [*_disk(payload, seen), *faults]
    apart = [*shared_memory(payload, seen), *growing(seen, _place(payload))]
    if not faults:
        apart += _step_faults(payload, seen)
    return [*with_remedies(found, remedies, payload), *apart]


def _place(payload: Mapping[str, Any]) -> str:
    places = payload["places"]
    own: str = (payload.get("dataset") or {}).get("place", "")
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


def _faults(payload: Mapping[str, Any]) -> Iterator[Remedy]:
    """Samples whose buffers malloc gives back to the kernel and takes anew each time."""
    dataset = payload.get("dataset") or {}
    found, share = dataset.get("faults") or {}, waiting(payload)
    part = found.get("share", 0.0)
    if share < WAITING or part < FAULTS:
        return
    gives = part * share
    says = (
        f"a sample takes {found['faults']:,.0f} page faults, about {part:.0%} of its time by what "
        "one costs here"
    )
    yield _malloc(says, ("data",), _place(payload), gives)


def _step_faults(payload: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[Finding]:
    """Steps that take their memory anew from the kernel each time."""
    step = payload["step"]["mean"]
    share = min(1.0, seen.get("faults", 0.0) * seen.get("fault_seconds", 0.0))
    if share < STEP_FAULTS:
        return
    each = seen["faults"] * step
    says = f"a step takes {each:,.0f} page faults, counted in the later half of the profile"
    place = payload["places"].get("model", "")
    remedy = _malloc(says, ("forward", "backward"), place, share)
    what = headline("page faults", share, step)
    yield Finding(what, place, "", share, remedy.most, (remedy,))


def _malloc(says: str, phases: tuple[str, ...], place: str, gives: float) -> Remedy:
    return Remedy(
        "malloc",
        f"{says}: malloc gives buffers back to the kernel and takes them anew; the variables "
        "below keep them",
        phases,
        place,
        1.0 / max(1e-3, 1.0 - gives),
        0.5 * gives,
        lines=(f"hotlap race CMD -- env {HEAP_KEPT} CMD",),
    )
