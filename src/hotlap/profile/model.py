"""A profile: where the steps of a run spent their time and memory."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

DATA = ("data", "loader", "evaluation_data")
TITLES = {
    "data": "waiting for data",
    "loader": "starting the loader",
    "copy": "copies, conversions",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "evaluation": "evaluation",
    "evaluation_data": "data for evaluation",
    "saving": "saving files",
    "rest": "the rest",
}


@dataclass(frozen=True)
class Phase:
    """One phase of a step: seconds a step (mean over all, 10th to 90th percentile of steps)."""

    name: str
    mean: float
    p10: float
    p90: float
    share: float

    @property
    def title(self) -> str:
        """The phase in words."""
        return TITLES.get(self.name, self.name)


@dataclass(frozen=True)
class Line:
    """A line of the user's source and its share of a phase's samples."""

    place: str
    function: str
    text: str
    share: float


@dataclass(frozen=True)
class Headroom:
    """What share of the machine's measured limits a step reaches.

    `flops`: floating-point operations of matrix products and convolutions a step. `rate`: FLOP/s
    over forward and backward. `peak`: the machine's GEMM peak in `dtype`. None: not known.
    """

    flops: float
    rate: float
    dtype: str
    peak: float | None
    caution: str = ""

    @property
    def share(self) -> float | None:
        """Rate over peak."""
        return self.rate / self.peak if self.peak else None


@dataclass(frozen=True)
class Touched:
    """A source file that the profile met.

    `digest` is that of its content (empty: it changed while the profile was taken). `lines` gives,
    by line and sampled phase, seconds a step with all calls from the line included, and the number
    of samples they stand on.
    """

    digest: str
    lines: Mapping[int, Mapping[str, tuple[float, int]]]


@dataclass(frozen=True)
class Remedy:
    """A technique (or an advice) that would shorten a phase.

    `most` is the speed ratio if it took away all it can, `expected` the part of a step it can be
    expected to take away. `also` are further places where it is missing. `lines` are commands and
    code, to be shown as they are; `notes` what to mind.
    """

    id: str
    says: str
    phases: tuple[str, ...]
    place: str
    most: float
    expected: float
    also: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something seen, with its place, evidence and remedies.

    `most` is the Amdahl bound of the best remedy: the speed ratio if it took away all it can; 1
    where no time was measured. `pattern` is the lint pattern that it was seen by, if it was.
    """

    what: str
    place: str
    text: str
    share: float
    most: float
    remedies: tuple[Remedy, ...]
    also: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def expected(self) -> float:
        """The part of a step that its best remedy can be expected to take away."""
        return max(remedy.expected for remedy in self.remedies)


@dataclass(frozen=True)
class Profile:
    """Everything a profile tells. Times in seconds a step, memory in bytes.

    `detailed` counts the steps whose phases were taken; the others were only clocked.
    `partial` says why it holds fewer steps than were asked for. `files` are the source files met,
    by absolute path.
    """

    steps: int
    step: float
    step_p10: float
    step_p90: float
    device: str
    phases: tuple[Phase, ...]
    lines: Mapping[str, tuple[Line, ...]]
    samples_per_second: float
    tokens_per_second: float
    memory_by_phase: Mapping[str, int]
    memory_by_owner: Mapping[str, int]
    peak_memory: int
    headroom: Headroom | None
    findings: tuple[Finding, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cpu: float = 0.0
    detailed: int = 0
    partial: str = ""
    folder: str = ""
    files: Mapping[str, Touched] = field(default_factory=dict)
    layers: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def shares_of(payload: Mapping[str, Any]) -> dict[str, float]:
    """The phases' shares of a step; what concerns feeding is added up under `data`.

    `faults` is no phase of its own: page faults come in any of them.
    """
    whole = payload["step"]["mean"] or 1.0
    shares = {name: phase["mean"] / whole for name, phase in payload["phases"].items()}
    shares["data"] = sum(shares.pop(name, 0.0) for name in DATA)
    return shares | {"faults": payload.get("faults", 0.0)}


def headline(what: str, share: float, step: float) -> str:
    """What was seen and its cost, `the optimizer: 12 % of a step, 1.9 ms`. `step` in seconds."""
    return f"{what}: {share:.0%} of a step, {share * step * 1e3:.3g} ms"
