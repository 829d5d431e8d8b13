"""What a page of a report shows, whatever verb it is of."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hotlap.core.protocol import Document

PROBLEMS = "seen in this run or in its source"
INCONCLUSIVE = "Inconclusive"


@dataclass
class View:
    """What the templates show; whatever is empty is left out."""

    verb: str
    command: str = ""
    figure: str = ""
    headline: str = ""
    text: str = ""
    notes: Sequence[str] = ()
    step: float = 0.0
    tuned_step: float = 0.0
    timed: str = ""
    profiled: float = 0.0
    before: Sequence[Mapping[str, object]] = ()
    after: Sequence[Mapping[str, object]] = ()
    limit: str = ""
    findings_note: str = ""
    findings: Mapping[str, Sequence[Mapping[str, object]]] = field(default_factory=dict)
    rows: Sequence[Mapping[str, object]] = ()
    rows_note: str = ""
    left_out: Sequence[Mapping[str, object]] = ()
    left_out_title: str = "Not raced"
    scale: "Scale | None" = None
    losses: Mapping[str, object] | None = None
    courses: Sequence[Mapping[str, object]] = ()
    front: Mapping[str, object] | None = None
    sweep: Mapping[str, object] | None = None
    memory: Sequence[Mapping[str, object]] = ()
    peak: str = ""
    loads: Sequence[Mapping[str, object]] = ()
    advice: Sequence[Mapping[str, object]] = ()
    steps_title: str = "Commands"
    steps: Sequence[str] = ()
    diff: Sequence[tuple[str, str]] = ()
    fields: Sequence[tuple[str, str]] = ()
    tables: Sequence[Mapping[str, object]] = field(default_factory=list)
    conditions: str = ""


class Scale:
    """A logarithmic axis of ratios, in percent of its width."""

    def __init__(self, estimates: Sequence[Any]) -> None:
        self._low = min([0.8, *(e.low for e in estimates)])
        self._high = max([1.25, *(e.high for e in estimates)])

    def x(self, value: float) -> float:
        """Percent from the left."""
        inside = min(max(value, self._low), self._high)
        share = math.log(inside / self._low) / math.log(self._high / self._low)
        return round(2 + 96 * share, 2)


def estimate_of(found: Document | None) -> Any:
    """An estimate that can be drawn; None where it has no end."""
    if not found or found["high"] is None or not found["low"]:
        return None
    return SimpleNamespace(**found) if math.isfinite(found["high"]) else None
