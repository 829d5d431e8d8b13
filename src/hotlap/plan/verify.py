"""The best layouts, run by dry run until one is seen to fit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotlap.core.errors import HotlapError
from hotlap.plan.child import ask
from hotlap.plan.cluster import Cluster
from hotlap.plan.cost import Plan
from hotlap.plan.dryrun import Measured, job, measured, stages
from hotlap.plan.layout_search import usable
from hotlap.plan.shape import Shape


@dataclass(frozen=True)
class Verified:
    """A plan, and each distinct stage of it by dry run; `problem` says why there are none."""

    plan: Plan
    ranks: tuple[Measured, ...]
    problem: str = ""

    def fits(self, cluster: Cluster) -> bool:
        """Whether every rank that was run fits."""
        return bool(self.ranks) and all(rank.peak <= usable(cluster) for rank in self.ranks)


def verify(shape: Shape, plan: Plan, batch: int) -> Verified:
    """Run one rank of each distinct pipeline stage of a plan."""
    layout = plan.layout
    places = stages(layout)
    try:
        answers = ask([job(shape, layout, batch, stage) for stage in places])
    except HotlapError as error:
        return Verified(plan, (), str(error))
    failed = [answer["error"] for answer in answers if "error" in answer]
    if failed:
        return Verified(plan, (), str(failed[0]))
    found = (
        measured(shape, layout, batch, stage, answer)
        for stage, answer in zip(places, answers, strict=True)
    )
    return Verified(plan, tuple(found))


def until_one_fits(
    shape: Shape, cluster: Cluster, plans: Sequence[Plan], batch: int, tries: int
) -> Iterator[Verified]:
    """Verify one plan after another, at most `tries`, and end with the first that fits."""
    for plan in plans[:tries]:
        found = verify(shape, plan, batch)
        yield found
        if found.fits(cluster):
            return
