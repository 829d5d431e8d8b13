"""Loader workers that compute on the cores which the training waits for."""

from collections.abc import Iterator

from hotlap.core.protocol import ProfilePayload, ResourceReport
from hotlap.profile.model import NO_BOUND, Finding, Remedy, headline, usual_times

BUSY = "busy_workers"
LESS = (
    "have workers do less: what is the same in each epoch once, before the training; crop, pick "
    "and shard before the costly steps, not after them"
)
MOST_COMPUTED = 0.25
"""Part of what the program computes from which that of workers is a problem where cores are short.
"""
LEAST = 0.1
"""Part of a step that can be saved from which it is one."""


def busy_workers(payload: ProfilePayload, seen: ResourceReport, place: str) -> Iterator[Finding]:
    """Workers on the same cores as the training, whose threads wait for one.

    With no core left idle a step takes as long as all that the program computes in it, so that
    without the workers' part it would be shorter by that part, and about by what is waited at most.
    No bound: workers take caches and memory bandwidth as well.
    """
    computed = seen.computed_by_workers
    saved = min(computed, seen.core_wait)
    if payload.device != "cpu" or computed < MOST_COMPUTED or saved < LEAST:
        return
    _, step = usual_times(payload)
    what = (
        f"{headline('loader workers on cores that the training waits for', saved, step)}; "
        f"they do {computed:.0%} of all that this program computes"
    )
    remedy = Remedy(BUSY, LESS, ("forward", "backward"), place, NO_BOUND, 0.5 * saved)
    yield Finding(what, place, "", saved, remedy.most, (remedy,), problem=True)
