"""What a tune proposes beside what it raced: work for the user, with the ratio it would bring."""

from dataclasses import replace
from pathlib import Path

from hotlap.core.protocol import ProfilePayload
from hotlap.profile.packing import WORTH, proposal
from hotlap.tune.result import Advice, TuneResult

CEILING = "data_free"


def advice(payload: ProfilePayload | None, result: TuneResult, folder: Path) -> list[Advice]:
    """A packed copy of the dataset, where it would bring more than what was kept.

    Its ratio is bounded by the upper-bound race with zero data-loading time, if it was run.
    """
    made = proposal(payload, folder) if payload else None
    if made is None:
        return []
    bound = _bound(result)
    made = replace(
        made,
        expected=min(made.expected, bound),
        least=min(made.least, bound),
        most=min(made.most, bound),
    )
    if made.least < WORTH or made.expected < WORTH * _kept(result):
        return []
    says = f"{made.says}, measured from the plain script: {made.evidence}"
    return [Advice("packed_dataset", says, made.place, made.lines, made.notes)]


def _bound(result: TuneResult) -> float:
    highs = [b.estimate.high for b in result.upper_bounds if b.name == CEILING and b.estimate]
    return min((max(high, 1.0) for high in highs), default=1e9)


def _kept(result: TuneResult) -> float:
    """The ratio of the whole recipe, or of its parts where it was not raced as a whole."""
    if result.final is not None:
        return max(1.0, result.final.estimate.ratio)
    ratio = 1.0
    for row in result.kept:
        ratio *= row.estimate.ratio if row.estimate else 1.0
    return max(1.0, ratio)
