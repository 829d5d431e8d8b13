"""Does a program that does not train still answer the same? Compares its outputs by class.

- exact (rule `bitwise`): the bits of the outputs have the same checksum.
- all others (`outputs`): sampled values differ by at most the class's limit, relative to the
  largest sampled value of that step; and the best class of a row is another one in at most
  `OTHER_CHOICES` of the rows, those left out whose two best lie within the limit.

Steps whose token inputs differ are left out: a text that once took another word goes on otherwise.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.numerics import Numerics
from hotlap.trial.parity import FEWEST, Parity

LIMIT = {Numerics.ROUNDING: 1e-3, Numerics.PRECISION: 0.05, Numerics.TRAINING: 0.05}
OTHER_CHOICES = 0.01
Output = Mapping[str, Any]


def compare_outputs(
    reference: Sequence[Output], candidate: Sequence[Output], numerics: Numerics
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
    return _bitwise(pairs) if exact else _near(pairs, rule, LIMIT[numerics])


def _bitwise(pairs: Sequence[tuple[Output, Output]]) -> Parity:
    for old, new in pairs:
        if old["bits"] != new["bits"] or _differ(old["values"], new["values"]):
            off = _deviation(old, new)
            reason = (
                f"step {old['step']}: outputs differ by {100 * off:.2g} % of the largest (must be "
                "equal)"
            )
            return Parity(False, "bitwise", len(pairs), off, 0.0, reason)
    return Parity(True, "bitwise", len(pairs), 0.0, 0.0, f"outputs equal in all {len(pairs)} steps")


def _near(pairs: Sequence[tuple[Output, Output]], rule: str, limit: float) -> Parity:
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


def _deviation(old: Output, new: Output) -> float:
    """The largest difference of the sampled values over the largest of the reference's."""
    scale, worst = _scale(old), 0.0
    for a, b in zip(old["values"], new["values"], strict=True):
        if a == b or (math.isnan(a) and math.isnan(b)):
            continue
        off = abs(a - b) / scale
        worst = max(worst, off if math.isfinite(off) else math.inf)
    return worst


def _scale(output: Output) -> float:
    sizes = [abs(float(value)) for value in output["values"]]
    return max([1e-12, *(size for size in sizes if math.isfinite(size))])


def _choices(old: Output, new: Output, limit: float) -> tuple[int, int]:
    """Rows with a best class, and those of them whose best class is another without a near tie."""
    other = 0
    columns = (old.get("choice", ()), old.get("best", ()), new.get("choice", ()))
    rows = list(zip(*columns, strict=False))
    scale = _scale(old)
    for (first, second), (best, next_best), (now, _) in rows:
        tie = best - next_best <= 2 * limit * scale
        other += now != first and not (tie and (now == second or limit > LIMIT[Numerics.ROUNDING]))
    return len(rows), other


def _differ(old: Sequence[float], new: Sequence[float]) -> bool:
    return any(
        a != b and not (math.isnan(a) and math.isnan(b)) for a, b in zip(old, new, strict=True)
    )
