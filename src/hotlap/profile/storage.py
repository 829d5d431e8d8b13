"""The disk that the data come from, and what else costs or endangers reading them, as findings."""

from collections.abc import Iterator, Sequence

from hotlap.core.protocol import ProfilePayload, ResourceReport
from hotlap.profile.model import Finding, Remedy
from hotlap.profile.rates import Rates, rates
from hotlap.profile.waiting import waiting, with_remedies
from hotlap.profile.worker_cores import busy_workers
from hotlap.profile.worker_memory import growing, shared_memory

WAITING = 0.1
BUSY = 0.3
"""The part of the disk's measured rate from which it is what the step waits for."""
FASTER = 1.5


def with_storage(found: Sequence[Finding], payload: ProfilePayload) -> list[Finding]:
    """Add what the disk and the memory behind the data show."""
    seen = payload.resources
    if seen is None:
        return list(found)
    place = _place(payload)
    apart = [
        *busy_workers(payload, seen, payload.places.get("dataset", "") or place),
        *shared_memory(payload, seen),
        *growing(seen, place),
    ]
    return [*with_remedies(found, list(_disk(payload, seen)), payload), *apart]


def _place(payload: ProfilePayload) -> str:
    own, places = payload.dataset.place if payload.dataset else "", payload.places
    return own or places.get("dataset", "") or places.get("loader", "")


def _disk(payload: ProfilePayload, seen: ResourceReport) -> Iterator[Remedy]:
    """The disk gives about all it can, while the step waits for data."""
    share, used = waiting(payload), seen.disk
    taken = payload.dataset.taken if payload.dataset else None
    files = (taken.files if taken else []) or seen.files
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
