"""What a raced candidate has come to: kept, or why not."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hotlap.core.numerics import Numerics
from hotlap.core.registry import technique
from hotlap.trial.parity import Noise, Parity, compare
from hotlap.trial.race import RaceResult
from hotlap.trial.side import Side
from hotlap.trial.stats import Verdict
from hotlap.trial.stopping import StopReason
from hotlap.tune.result import Outcome, Status


def judged(row: Outcome, side: Side) -> Outcome:
    """A raced row with its fate: it must have taken hold, kept parity, and be faster."""
    assert row.race is not None
    assert row.parity is not None
    trial = side.trial
    if trial is not None and row.technique not in trial.held:
        reason = trial.inert.get(row.technique, "it found nothing to change in this script")
        return replace(row, status=Status.NOT_APPLICABLE, reason=reason)
    if not row.parity.kept:
        return replace(row, status=Status.BROKE_PARITY, reason=row.parity.reason)
    if row.race.verdict is not Verdict.FASTER:
        status, reason = _not_kept(row.race)
        return replace(row, status=status, reason=reason)
    return replace(row, reason=row.parity.reason)


def _not_kept(found: RaceResult) -> tuple[Status, str]:
    if found.verdict is Verdict.SLOWER:
        return Status.NO_GAIN, "slower"
    if found.not_faster or found.verdict is Verdict.SAME:
        return Status.NO_GAIN, "not faster"
    if found.stopped is StopReason.FUTILE:
        return Status.INCONCLUSIVE, "dropped early: a gain looked unlikely; --budget gives it more"
    return Status.INCONCLUSIVE, "inconclusive within the time limit; raise --budget"


def parity_of(
    chosen: Iterable[str], plain: Sequence[float], tuned: Sequence[float], noise: Noise
) -> Parity:
    """Whether the losses agree, by the widest numerics class of the techniques that are on."""
    records = [technique(name) for name in chosen]
    order = list(Numerics)
    numerics = max((r.numerics for r in records), key=order.index, default=Numerics.EXACT)
    layout = any(record.layout_sensitive for record in records)
    return compare(plain, tuned, numerics, noise, layout_sensitive=layout)
