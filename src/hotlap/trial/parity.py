"""Is the training still the same? Compare a trial's losses and data with the reference's.

The numerics class says how much may differ. All deviations are relative to the scale of the loss:
its size at the start or, where it has grown, now; so a loss that vanishes is no trouble.

- exact (rule `bitwise`): equal to the last bit.
- rounding, precision (`tolerance`): nearly equal in the first steps, before rounding has grown by
  chaos; later, equal in the mean over windows.
- training (`statistical`): finite, and at the end not much worse than the reference.
- Any class, where the script differs from itself when run twice (`statistical`): equal in the mean
  over windows, to within noise.
- Any class, where a technique changes which process reads a sample and the dataset was seen to draw
  random numbers, or the sampler to shuffle in another order (`statistical`): the same data by
  `data_parity`, and losses equal in the mean.

How far rounding alone takes the losses is measured where that could be: an A/A test nudges one
side's parameters by one unit in the last place (`Noise.fork`); the limits of later steps follow.

But for bitwise, a loss that is stuck while the reference falls is looked for in all of them; where
the reference does not fall either, the reason says so. Steps where the reference itself is not
finite are left out, and those in which no loss was seen.

Of a program that does not train the outputs are compared, by class:

- exact (rule `bitwise`): the bits of the outputs have the same checksum.
- all others (`outputs`): sampled values differ by at most the class's limit, relative to the
  largest sampled value of that step; and the best class of a row is another one in at most
  `OTHER_CHOICES` of the rows, those left out whose two best lie within the limit.

Steps whose token inputs differ are left out: a text that once took another word goes on otherwise.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import TypeGuard

from hotlap.core.protocol import Document
from hotlap.core.technique import PERTURBED_AT, Numerics
from hotlap.trial.data_parity import DataUse, changed_data, reshuffled

Recorded = Sequence[float | None]
"""The losses of a run from step 0; None in a step in which none was seen."""

FEWEST = 3  # steps to compare at all; also the "first steps" of the tolerance rule
WINDOWS, SHORTEST = 3, 16  # up to 3 windows, of 16 steps or more: few looks, few false alarms
NEARLY_ALL = 0.9
"""Part of pairs of an early and a late loss in which the same one is the higher, from which a loss
has moved."""
SIGMAS = 3.0  # standard errors that chance may explain
NOISE = 3.0  # times the script's own run-to-run difference that chance may explain
STUCK = 0.5  # share of the reference's fall that must not be missing
WORSE = 0.1  # share of the reference's fall by which `training` may end higher
HOPELESS = 0.1  # of the scale: no noise excuses more; where it is larger, nothing can be shown
FORKED = 4.0  # times the measured effect of rounding that chance may explain
FORK_FLOOR = 1e-3  # of the scale: the least limit of a window's mean, other kernels round otherwise
BATCHES = 8  # a window's mean has the error that so many means of its parts show

# Limits relative to the scale of the loss: of each of the first steps, and of a window's mean.
FIRST = {Numerics.ROUNDING: 1e-3, Numerics.PRECISION: 0.03}
LATER = {
    Numerics.EXACT: 0.01,
    Numerics.ROUNDING: 0.01,
    Numerics.PRECISION: 0.03,
    Numerics.TRAINING: 0.03,
}
# A window's mean, where each step saw other data. Of SGD runs that differed in their data order
# alone, 99 % were kept (97 % at 0.03, as noise in the path outlasts a step).
REORDERED = 0.05

BY_CLASS = (
    f"training changes: may end higher by {WORSE:.0%} of the reference's fall, "
    f"{LATER[Numerics.TRAINING]:.0%} of its start, or chance"
)
BEYOND = "; the plain script is known to repeat itself in its first {known} steps only"
NOT_REPEATED = "; whether the plain script repeats itself is not known"
BY_ITSELF = "not deterministic by itself: compared statistically"
BY_ORDER = "the sampler shuffles with another seed: compared statistically"
BY_DRAWS = "the data draw random numbers ({names}) in each process: compared statistically"
UNMOVED = "the loss itself moved no more than by chance in them, so this says little of learning"
UNSEEN = (
    "no loss was seen: the script calls neither backward() nor torch.autograd.grad() on one before "
    "a step"
)
OTHER_DRAWS = "other draws may make such a difference; more steps would show it"


@dataclass(frozen=True)
class Noise:
    """How a script differs from itself: two runs of it, same seed, nothing switched on.

    `spread`: signed difference at each common step, relative to the scale of the loss. `fork`: the
    script repeats itself, and the spread is what a nudge by rounding made of it. `repeats`: the
    first steps in which two runs without a nudge were seen to have equal losses.
    """

    deterministic: bool
    spread: tuple[float, ...]
    fork: bool = False
    repeats: int = 0

    def after(self, again: "Noise") -> "Noise":
        """What is known after another run without a nudge: it may repeat more steps, or differ."""
        if not again.deterministic:
            return again
        return replace(self, repeats=max(self.repeats, again.repeats))


@dataclass(frozen=True)
class Parity:
    """Whether the losses agree, by which rule, and the figure that decided.

    `rule` is bitwise, tolerance, statistical or outputs; `steps` were compared; `deviation`
    (relative) is the first beyond its `limit` or, if none is, the one nearest to it; `reason` is
    one sentence.
    `data_changed`: the data were seen to be others, whatever the noise of the losses. `unclear`:
    not kept, and the difference is one that other random draws of the data may make, or the plain
    script itself when it is run again.
    """

    kept: bool
    rule: str
    steps: int
    deviation: float
    limit: float
    reason: str
    data_changed: bool = False
    unclear: bool = False

    @property
    def lost(self) -> bool:
        """Whether more steps are not going to make the two agree.

        A step that differs stays so. The mean of a window may still change: twice its limit counts.
        """
        if self.kept or self.unclear or self.steps < FEWEST:
            return False
        far = self.rule == "tolerance" and self.deviation > 2 * self.limit
        return far or self.rule in ("bitwise", "outputs")


@dataclass(frozen=True)
class _Check:
    """One deviation and its limit, relative to the scale of the loss, and what to say of it.

    `scale` is that scale where it is not the loss that the text names.
    """

    deviation: float
    limit: float
    text: str
    scale: float | None = None


@dataclass(frozen=True)
class _Runs:
    """The common steps of two runs and the script's own spread there (may be shorter)."""

    steps: Sequence[int]
    reference: Sequence[float]
    candidate: Sequence[float]
    spread: Sequence[float]
    fork: bool = False
    repeats: int = 0

    @cached_property
    def diffs(self) -> list[float]:
        """Candidate less reference at each step, relative to the scale of the loss."""
        return _relative(self.reference, self.candidate)

    def own_noise(self, part: slice) -> float:
        """Mean difference of the script with itself over a part of the steps."""
        own = self.spread[part] or self.spread
        return NOISE * abs(fmean(own)) if own else 0.0

    def forked(self, part: slice) -> float | None:
        """What rounding alone may make of the mean over a part of the steps; None if not measured.

        Divergence grows, so that earlier parts count as well. A nudge is one draw of many: its
        mean may be small by chance, and the error of the mean stands in.
        """
        if not self.fork or len(self.spread) < part.stop:
            return None
        width = part.stop - part.start
        parts = (slice(max(0, at - width), at) for at in range(part.stop, 0, -width))
        own = [self.spread[each] for each in parts]
        return FORKED * max(math.hypot(fmean(each), _error(each)) for each in own)


def noise(first: Recorded, again: Recorded, *, perturbed: bool = False) -> Noise:
    """Measure a script's noise from two runs with the same seed, over their common steps.

    `perturbed`: the second was nudged after `PERTURBED_AT` steps, so that those before show whether
    the script repeats itself, and those after where rounding takes it.
    """
    common = min(len(first), len(again))
    alike = min(common, PERTURBED_AT) if perturbed else common
    equal = common >= FEWEST and all(map(_same, first[:alike], again[:alike]))
    spread = tuple(_relative(first[:common], again[:common]))
    fork = perturbed and equal and common > PERTURBED_AT
    return Noise(equal, spread, fork=fork, repeats=alike if equal else 0)


def first_difference(one: Recorded, other: Recorded) -> int | None:
    """The first common step (from 0) in which the losses are not equal; None if all are."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((step for step, (a, b) in pairs if not _same(a, b)), None)


def compare(
    reference: Recorded,
    candidate: Recorded,
    numerics: Numerics,
    noise: Noise,
    data: tuple[DataUse, DataUse] | None = None,
) -> Parity:
    """Compare a candidate's losses with the reference's, both from step 0, by the class's rule.

    `data`: what the reference and the candidate did with their data, where the technique may change
    which process reads a sample. If both draw no random numbers, and shuffle alike, the class's
    own rule holds.
    """
    if len(reference) >= FEWEST and all(loss is None for loss in reference):
        return Parity(False, _rule(numerics, noise), 0, 0.0, 0.0, UNSEEN)
    runs = _common(reference, candidate, noise)
    found = _by_rule(runs, numerics, noise, data)
    if found.kept and found.rule != "bitwise" and _unmoved(runs):
        return replace(found, reason=f"{found.reason}; {UNMOVED}")
    return found


def _by_rule(
    runs: _Runs, numerics: Numerics, noise: Noise, data: tuple[DataUse, DataUse] | None
) -> Parity:
    primary = _rule(numerics, noise)
    if len(runs.steps) < FEWEST:
        few = f"too few steps to compare: {len(runs.steps)}, at least {FEWEST} are needed"
        return Parity(False, primary, len(runs.steps), 0.0, 0.0, few)
    if (broken := _not_finite(runs, primary)) is not None:
        return broken
    if primary == "bitwise":
        parity = _bitwise(runs)
    elif primary == "tolerance":
        parity = _decide(runs, primary, _tolerance(runs, numerics))
    elif numerics is Numerics.TRAINING:
        return _because(BY_CLASS, _decide(runs, primary, _not_worse(runs)))
    else:
        parity = _because(BY_ITSELF, _decide(runs, primary, _windows(runs, LATER[numerics])))
    if data is None or (parity.kept and primary != "statistical"):
        return parity
    return _with_data(parity, runs, *data)


def _with_data(parity: Parity, runs: _Runs, before: DataUse, now: DataUse) -> Parity:
    """The verdict once it is known what both did with their data."""
    draws = before.draws | now.draws
    changed = changed_data(before, now)
    if not changed and not parity.kept and (draws or reshuffled(before, now)):
        why = BY_DRAWS.format(names=", ".join(sorted(draws))) if draws else BY_ORDER
        found = _because(why, _decide(runs, "statistical", _windows(runs, REORDERED)))
        stuck = any(check.deviation > check.limit for check in _stuck(runs))
        if found.kept or stuck or found.deviation > HOPELESS:
            return found
        return replace(found, reason=f"{found.reason}; {OTHER_DRAWS}", unclear=True)
    if not changed:
        return parity
    reason = changed if parity.kept else f"{parity.reason}; {changed}"
    return replace(parity, kept=False, reason=reason, data_changed=True, unclear=False)


def _common(reference: Recorded, candidate: Recorded, noise: Noise) -> _Runs:
    """Align the runs, leaving out steps where one has no loss or the reference's is not finite."""
    pairs = enumerate(zip(reference, candidate, strict=False))
    seen = [(step, old, new) for step, (old, new) in pairs if _finite(old) and new is not None]
    steps = [step for step, _, _ in seen]
    return _Runs(
        steps=steps,
        reference=[old for _, old, _ in seen],
        candidate=[new for _, _, new in seen],
        spread=[noise.spread[step] for step in steps if step < len(noise.spread)],
        fork=noise.fork,
        repeats=noise.repeats,
    )


def _rule(numerics: Numerics, noise: Noise) -> str:
    if numerics is Numerics.TRAINING or not noise.deterministic:
        return "statistical"
    return "bitwise" if numerics is Numerics.EXACT else "tolerance"


def _not_finite(runs: _Runs, rule: str) -> Parity | None:
    for step, old, new in zip(runs.steps, runs.reference, runs.candidate, strict=True):
        if not _finite(new):
            reason = f"step {step}: loss became {new}, the reference has {old:.5g}"
            return Parity(False, rule, len(runs.steps), math.inf, 0.0, reason)
    return None


def _bitwise(runs: _Runs) -> Parity:
    count, index = len(runs.steps), first_difference(runs.reference, runs.candidate)
    if index is None:
        return Parity(True, "bitwise", count, 0.0, 0.0, f"losses equal in all {count} steps")
    step, old, new = runs.steps[index], runs.reference[index], runs.candidate[index]
    off = _percent(abs(runs.diffs[index]))
    reason = f"step {step}: loss {old:.9g} became {new:.9g}, relative difference {off}"
    reason += " (must be equal)"
    if beyond := step >= runs.repeats:
        reason += BEYOND.format(known=runs.repeats) if runs.repeats else NOT_REPEATED
    largest = max(map(abs, runs.diffs))
    return Parity(False, "bitwise", count, largest, 0.0, reason, unclear=beyond)


def _decide(runs: _Runs, rule: str, checks: Iterable[_Check]) -> Parity:
    """Take the first check that fails, or else the one nearest to failing."""
    done = [*checks, *_stuck(runs)]
    failed = next((check for check in done if check.deviation > check.limit), None)
    worst = failed or max(done, key=lambda check: check.deviation / check.limit)
    off, limit = _percent(worst.deviation), _percent(worst.limit)
    part = f"relative difference {off}"
    if worst.scale is not None:
        part = f"{off} of the loss at the start, {worst.scale:.5g}"
    reason = f"{worst.text}, {part} (tolerance {limit})"
    if not failed:
        largest = f"largest relative difference {off}, tolerance {limit}"
        reason = f"losses match over {len(runs.steps)} steps ({largest})"
    return Parity(not failed, rule, len(runs.steps), worst.deviation, worst.limit, reason)


def _because(why: str, parity: Parity) -> Parity:
    return replace(parity, reason=why if parity.kept else f"{why}; {parity.reason}")


def _tolerance(runs: _Runs, numerics: Numerics) -> Iterator[_Check]:
    for index in range(FEWEST):
        old, new = runs.reference[index], runs.candidate[index]
        what = f"step {runs.steps[index]}: loss {old:.5g} became {new:.5g}"
        yield _Check(abs(runs.diffs[index]), FIRST[numerics], what)
    yield from _windows(runs, LATER[numerics], start=FEWEST)


def _windows(runs: _Runs, floor: float, start: int = 0) -> Iterator[_Check]:
    """Compare means over windows: within the floor, the script's own noise, or chance."""
    later = len(runs.steps) - start
    count = min(WINDOWS, max(1, later // SHORTEST)) if later else 0
    edges = [start + later * k // count for k in range(count + 1)] if count else []
    for part in map(slice, edges, edges[1:]):
        old, new = fmean(runs.reference[part]), fmean(runs.candidate[part])
        span = f"steps {runs.steps[part.start]} to {runs.steps[part.stop - 1]}"
        forked = runs.forked(part)
        if forked is not None and floor == LATER[Numerics.ROUNDING]:
            limit = max(FORK_FLOOR, min(forked, HOPELESS))
        else:
            chance = max(runs.own_noise(part), SIGMAS * _error(runs.diffs[part]))
            limit = max(floor, min(chance, HOPELESS))
        yield _Check(
            abs(fmean(runs.diffs[part])),
            limit,
            f"{span}: mean loss {old:.5g} became {new:.5g}",
            _larger_scale(runs, old),
        )


def _larger_scale(runs: _Runs, loss: float) -> float | None:
    """The scale of differences, where it is more than the loss beside which it is printed."""
    scale = _scale(runs.reference)
    return scale if scale > abs(loss) else None


def _not_worse(runs: _Runs) -> Iterator[_Check]:
    """One-sided: it may end higher by a tenth of the reference's fall, by 3 %, or by chance."""
    head, tail = _ends(runs)
    old, new = fmean(runs.reference[tail]), fmean(runs.candidate[tail])
    allowed = WORSE * (fmean(runs.reference[head]) - old) / _scale(runs.reference)
    chance = max(runs.own_noise(tail), SIGMAS * _error(runs.diffs[tail]))
    yield _Check(
        max(0.0, fmean(runs.diffs[tail])),
        max(LATER[Numerics.TRAINING], allowed, min(chance, HOPELESS)),
        f"final loss {old:.5g} became {new:.5g}",
        _larger_scale(runs, old),
    )


def _stuck(runs: _Runs) -> Iterator[_Check]:
    """Where the reference clearly falls, the candidate has to fall by half as much at least."""
    if len(runs.steps) < SHORTEST:
        return
    head, tail = _ends(runs)
    scale = _scale(runs.reference)
    fall, blur = _fall(runs)
    if fall <= max(SIGMAS * blur, runs.own_noise(tail)):
        return
    missing = fmean(runs.diffs[tail]) - fmean(runs.diffs[head])
    chance = SIGMAS * math.hypot(_error(runs.diffs[head]), _error(runs.diffs[tail]))
    what = f"loss fell by {(fall - missing) * scale:.3g}, the reference's by {fall * scale:.3g}"
    yield _Check(max(0.0, missing), max(STUCK * fall, min(chance, HOPELESS)), what)


def _fall(runs: _Runs) -> tuple[float, float]:
    """By how much the reference's loss fell from its first to its last fifth, and the error."""
    head, tail = _ends(runs)
    scale = _scale(runs.reference)
    fall = (fmean(runs.reference[head]) - fmean(runs.reference[tail])) / scale
    return fall, math.hypot(_error(runs.reference[head]), _error(runs.reference[tail])) / scale


def _unmoved(runs: _Runs) -> bool:
    """Whether the reference's loss moved by no more than chance, in enough steps to tell.

    A loss that falls steeply varies much within its first fifth: that nearly all of it lies above
    the last one shows the fall all the same.
    """
    if len(runs.steps) < SHORTEST:
        return False
    fall, blur = _fall(runs)
    head, tail = (sorted(runs.reference[part]) for part in _ends(runs))
    above = fmean(bisect_left(tail, loss) / len(tail) for loss in head)
    return abs(fall) <= SIGMAS * blur and 1.0 - NEARLY_ALL < above < NEARLY_ALL


def _ends(runs: _Runs) -> tuple[slice, slice]:
    """First and last fifth of the steps."""
    count = len(runs.steps)
    fifth = max(1, count // 5)
    return slice(0, fifth), slice(count - fifth, count)


def _relative(reference: Recorded, candidate: Recorded) -> list[float]:
    """Signed differences relative to the scale of the loss; 0 where one is not a finite loss."""
    start = _scale(reference)
    pairs = zip(reference, candidate, strict=True)
    return [
        (new - old) / max(abs(old), start) if _finite(old) and _finite(new) else 0.0
        for old, new in pairs
    ]


def _scale(losses: Recorded) -> float:
    """Size of the loss at the start: the largest of the first steps (1e-12 for a loss of none)."""
    return max([1e-12, *(abs(loss) for loss in losses[:FEWEST] if _finite(loss))])


def not_finite(losses: Recorded) -> str:
    """That losses of the plain script are NaN or infinite; empty where all are numbers."""
    seen = [(step, loss) for step, loss in enumerate(losses, 1) if loss is not None]
    broken = [step for step, loss in seen if not _finite(loss)]
    if not broken:
        return ""
    return (
        f"the loss of the plain script is NaN or infinite in {len(broken)} of {len(seen)} steps, "
        f"first in step {broken[0]}: parity was judged by the other steps"
    )


def _finite(loss: float | None) -> TypeGuard[float]:
    """Whether a loss is a number; one beyond 1e100 is as good as inf, and its square is."""
    return loss is not None and abs(loss) < 1e100


def _error(values: Sequence[float]) -> float:
    """Give the standard error of the mean; 0 for a single value.

    From the means of `BATCHES` stretches where there are enough values: neighbouring steps are
    alike, so that the spread of single ones would give too small an error.
    """
    if len(values) >= 2 * BATCHES:
        edges = [len(values) * k // BATCHES for k in range(BATCHES + 1)]
        values = [fmean(values[begin:end]) for begin, end in pairwise(edges)]
    count, mean = len(values), fmean(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return math.sqrt(squares / max(count - 1, 1) / count)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or (math.isnan(one) and math.isnan(other))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


# Outputs of a program that does not train

LIMIT = {Numerics.ROUNDING: 1e-3, Numerics.PRECISION: 0.05, Numerics.TRAINING: 0.05}
OTHER_CHOICES = 0.01


def compare_outputs(
    reference: Sequence[Document], candidate: Sequence[Document], numerics: Numerics
) -> Parity:
    """Compare the outputs that two runs recorded at the same steps."""
    exact = numerics is Numerics.EXACT
    rule = "bitwise" if exact else "outputs"
    theirs = {output["step"]: output for output in candidate}
    both = [(old, theirs[old["step"]]) for old in reference if old["step"] in theirs]
    pairs = [(old, new) for old, new in both if old["given"] == new["given"]]
    if len(pairs) < FEWEST:
        others = f", {len(both) - len(pairs)} more had other inputs" if both else ""
        reason = f"outputs of only {len(pairs)} steps could be compared{others}"
        return Parity(False, rule, len(pairs), math.inf, 0.0, reason)
    for old, new in pairs:
        if old["shape"] != new["shape"]:
            reason = f"step {old['step']}: output of shape {old['shape']} became {new['shape']}"
            return Parity(False, rule, len(pairs), math.inf, 0.0, reason)
    return _same_bits(pairs) if exact else _near(pairs, rule, LIMIT[numerics])


def _same_bits(pairs: Sequence[tuple[Document, Document]]) -> Parity:
    for old, new in pairs:
        if old["bits"] != new["bits"] or _differ(old["values"], new["values"]):
            off = _deviation(old, new)
            reason = (
                f"step {old['step']}: outputs differ by {100 * off:.2g} % of the largest (must be "
                "equal)"
            )
            return Parity(False, "bitwise", len(pairs), off, 0.0, reason)
    return Parity(True, "bitwise", len(pairs), 0.0, 0.0, f"outputs equal in all {len(pairs)} steps")


def _near(pairs: Sequence[tuple[Document, Document]], rule: str, limit: float) -> Parity:
    off, step = max((_deviation(old, new), old["step"]) for old, new in pairs)
    rows = other = 0
    for old, new in pairs:
        its_rows, its_other = _choices(old, new, limit)
        rows, other = rows + its_rows, other + its_other
    agreement = 1.0 - other / rows if rows else 1.0
    tolerance = f"tolerance {100 * limit:.2g} %"
    words = f"largest difference {100 * off:.2g} % of the largest value, {tolerance}"
    if off > limit:
        return Parity(False, rule, len(pairs), off, limit, f"step {step}: outputs differ: {words}")
    if 1.0 - agreement > OTHER_CHOICES:
        reason = f"argmax agrees in only {agreement:.1%} of {rows} rows"
        return Parity(False, rule, len(pairs), 1.0 - agreement, OTHER_CHOICES, reason)
    agrees = f"; argmax agrees in {agreement:.1%} of {rows} rows" if rows else ""
    reason = f"outputs match over {len(pairs)} steps ({words}{agrees})"
    return Parity(True, rule, len(pairs), off, limit, reason)


def _deviation(old: Document, new: Document) -> float:
    """The largest difference of the sampled values over the largest of the reference's."""
    scale, worst = _largest_value(old), 0.0
    for a, b in zip(old["values"], new["values"], strict=True):
        if a == b or (math.isnan(a) and math.isnan(b)):
            continue
        off = abs(a - b) / scale
        worst = max(worst, off if math.isfinite(off) else math.inf)
    return worst


def _largest_value(output: Document) -> float:
    sizes = [abs(float(value)) for value in output["values"]]
    return max([1e-12, *(size for size in sizes if math.isfinite(size))])


def _choices(old: Document, new: Document, limit: float) -> tuple[int, int]:
    """Rows with a best class, and those of them whose best class is another without a near tie."""
    other = 0
    columns = (old.get("choice", ()), old.get("best", ()), new.get("choice", ()))
    rows = list(zip(*columns, strict=False))
    scale = _largest_value(old)
    for (first, second), (best, next_best), (now, _) in rows:
        tie = best - next_best <= 2 * limit * scale
        other += now != first and not (tie and (now == second or limit > LIMIT[Numerics.ROUNDING]))
    return len(rows), other


def _differ(old: Sequence[float], new: Sequence[float]) -> bool:
    return any(
        a != b and not (math.isnan(a) and math.isnan(b)) for a, b in zip(old, new, strict=True)
    )
