"""A profile: where the steps of a run spent their time and memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hotlap.core.amounts import duration
from hotlap.core.protocol import ProfilePayload, SampledLine
from hotlap.core.technique import Symptom, Work

NOT_MEASURED = "cost not measured"
DATA = ("data", "loader", "evaluation_data")
TITLES = {
    "data": "data loading",
    "loader": "loader start",
    "copy": "transfer",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "evaluation": "evaluation",
    "evaluation_data": "evaluation data",
    "saving": "saving",
    "other": "other",
}


@dataclass(frozen=True)
class Phase:
    """One phase of a step: seconds a step (mean over all, 10th to 90th percentile of steps).

    `share` is that of the mean. `usual`: what findings go by; see `usual_times`.
    """

    name: str
    mean: float
    p10: float
    p90: float
    share: float
    usual: float | None = None

    @property
    def title(self) -> str:
        """The phase in words."""
        return TITLES.get(self.name, self.name)


MOST_OF_LINE = 0.6
"""Part of a line's text that a call makes up from which the line itself says enough."""


@dataclass(frozen=True)
class Line:
    """A line of the user's source and its share of a phase's samples.

    `samples`: how many fell on it (0: not known). `calls`: the expressions of the line that were
    running, and their share of its samples. `operators` of torch that run from the line itself, the
    costliest first, with their share of its time.
    """

    place: str
    function: str
    text: str
    share: float
    calls: tuple[tuple[str, float], ...] = ()
    samples: int = 0
    operators: tuple[tuple[str, float], ...] = ()

    @property
    def call(self) -> str:
        """The call that most of the line's time goes to, and its share; empty if it is the line."""
        text, share = self.calls[0] if self.calls else ("", 1.0)
        plain = not text.endswith(")") or len(text) > MOST_OF_LINE * len(self.text)
        return "" if plain else f"{text} ({share:.0%} of the line)"


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
class Rank:
    """One of several ranks that train together; times in seconds a step.

    `phases`: its own work, without what it waits for other ranks. `straggler`: what it waits for
    the rank that arrives last at the collectives; `communication`: what every rank waits, and no
    computation overlaps with (None: not known). `core`: how long its threads wait for a core.
    """

    rank: int
    steps: int
    step: float
    phases: Mapping[str, float]
    straggler: float | None = None
    communication: float | None = None
    core: float = 0.0

    @property
    def work(self) -> float:
        """All of its own work."""
        return sum(self.phases.values())


Sampled = tuple[float, int, tuple[object, ...]]
Lines = Mapping[int, Mapping[str, Sampled]]


@dataclass(frozen=True)
class Touched:
    """A source file that the profile met.

    `digest` is that of its content (empty: it changed while the profile was taken), `line_digests`
    those of its lines. `lines` gives, by line and sampled phase, seconds a step with all calls from
    the line included, the number of samples they stand on, and the columns (from 0) of the
    expressions that ran with their shares. `operators`: how many operators of torch ran from a line
    in a step, their seconds, and the part of the backward pass that works for them.
    """

    digest: str
    lines: Lines
    line_digests: tuple[str, ...] = ()
    operators: Mapping[int, tuple[int, float, float]] = field(default_factory=dict)


NO_BOUND = 1000.0
"""What `most` is where a technique acts on more than the profile can tell apart."""


CACHE_SHARE, CACHE_SECONDS, CACHE_TIMES = 0.8, 1.5e-3, 3.0
"""What work costs the rest of a step by evicting it from the CPU's caches: at most this part of the
work's own time, so many seconds a step, and so many times what the rest takes with warm caches.
Above all that `benchmarks.cold_caches` found."""


def bound(share: float, step: float) -> float:
    """The highest speed ratio if a `share` of the step (in seconds) took no time at all.

    Amdahl's law, with the rest of the step as fast as it can be with warm caches.
    """
    evicted = min(CACHE_SHARE * share, CACHE_SECONDS / step if step else 0.0)
    rest = 1.0 - share
    return 1.0 / max(1.0 / NO_BOUND, rest / CACHE_TIMES, rest - evicted)


@dataclass(frozen=True)
class Remedy:
    """A technique (or an advice) that would shorten a phase.

    `most` is the `bound` of what it acts on, `expected` the part of a step it can be expected to
    take away. `also` are further places where it is missing. `lines` are commands and
    code, to be shown as they are; `notes` what to mind. `share`: the part of a step that was
    measured on its own lines; 0: only that of its finding is known. `by_hand`: no race of
    `hotlap tune` can switch it on in this program; a person has to apply it.
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
    by_hand: bool = False
    share: float = 0.0


@dataclass(frozen=True)
class Finding:
    """Something seen, with its place, evidence and remedies.

    `problem`: something that was seen and costs time or memory; else it is an option whose effect
    is unknown until it is raced. `share` is that of its phases. `most` is the highest bound of its
    remedies: that of its `share`, or, as `what` says then, of a remedy's line or of further phases;
    1 where no time was measured, `NO_BOUND` where none holds. `pattern` is the lint pattern that it
    was seen by, if it was. `spread`: that its cost is not that of the line at its place alone.
    """

    what: str
    place: str
    text: str
    share: float
    most: float
    remedies: tuple[Remedy, ...]
    also: tuple[str, ...] = ()
    pattern: str = ""
    problem: bool = True
    spread: str = ""

    @property
    def expected(self) -> float:
        """The part of a step that its best remedy can be expected to take away."""
        return max(remedy.expected for remedy in self.remedies)


WAS_INTERRUPTED = "the program was interrupted"
"""Why a profile is partial where the user ended the program: that says nothing against a race."""
FEW_STEPS = 20
"""Steps below which the figures are said to be rough."""


def was_interrupted(partial: str) -> bool:
    """Whether that is why a profile is partial; by which signal may stand behind it."""
    return partial.startswith(WAS_INTERRUPTED)


@dataclass(frozen=True)
class Profile:
    """Everything a profile tells. Times in seconds a step, memory in bytes.

    `detailed` counts the steps whose phases were taken; the others were only clocked. `backwards`:
    backward passes that most steps have, as where gradients of several batches are accumulated.
    `latency` holds the median and the 95th percentile of a step. `calls`: of a program that
    generates text, the same of its `prefill` and `decode` calls, and how many there were.
    `partial` says why it holds fewer steps than were asked for. `files` are the source files met,
    by absolute path. `command` is what ran, as typed in a shell. `world`: processes that train
    together; the profile is that of rank 0, `ranks` compares those that were seen. `ended_after`:
    the steps after which the program came to its end, where it did; `too_short`: before there was
    enough of it for a race. `starved`: on a GPU, seconds a step by phase that its stretches took
    at whose end the GPU had nothing left to do, so that it waited for the host. `backward_by_line`:
    the lines of the forward pass, by the part of the backward pass that works for them.
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
    command: str = ""
    files: Mapping[str, Touched] = field(default_factory=dict)
    layers: Mapping[str, object] = field(default_factory=dict)
    latency: Mapping[str, float] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    world: int = 1
    ranks: tuple[Rank, ...] = ()
    ended_after: int | None = None
    too_short: bool = False
    starved: Mapping[str, float] | None = None
    backwards: int = 0
    backward_by_line: tuple[Line, ...] = ()

    @property
    def inference(self) -> bool:
        """Whether the program does not train: a step is a call of its model."""
        return bool(self.facts.get("inference"))

    @property
    def has_few_steps(self) -> bool:
        """Whether too few steps were timed for its shares to be more than rough."""
        return self.steps < FEW_STEPS

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What was seen, those that can be expected to give most first."""
        return tuple(finding for finding in self.findings if finding.problem)

    @property
    def options(self) -> tuple[Finding, ...]:
        """What is worth a race."""
        return tuple(finding for finding in self.findings if not finding.problem)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


STEADY = ("forward", "backward", "optimizer")
"""Phases that do the same in each step: a few outliers among them are hiccups of the machine."""


def usual_times(payload: ProfilePayload) -> tuple[dict[str, float], float]:
    """Seconds a step by phase, and of a step, without what a few outliers add to `STEADY` phases.

    All other phases keep their mean: a loader that stalls sometimes costs its stalls.
    """
    means = {name: phase.mean for name, phase in payload.phases.items()}
    seconds = {
        name: mean if name not in STEADY or usual is None else min(mean, usual)
        for name, mean in means.items()
        for usual in (payload.phases[name].usual,)
    }
    return seconds, payload.step.mean - sum(means.values()) + sum(seconds.values())


def rare_share(payload: ProfilePayload) -> float:
    """The part of the time that is spent in a few steps: stalls, evaluations, checkpoints.

    A race of plain steps leaves it out, or has it in a few of its blocks.
    """
    _, step = usual_times(payload)
    rare = 0.0
    for name, phase in payload.phases.items():
        if not phase.p90:
            rare += phase.mean
        elif name not in STEADY and phase.usual is not None:
            rare += max(0.0, phase.mean - phase.usual)
    return min(1.0, rare / step) if step else 0.0


def shares_of(payload: ProfilePayload) -> dict[str, float]:
    """The phases' shares of a usual step; what concerns feeding is added up under `data`.

    Page faults (`faults`) and operators that have faster forms (`lookups`, `long_kernels`) come in
    any phase; `buffers` is a part of forward.
    """
    seconds, step = usual_times(payload)
    shares = {name: spent / (step or 1.0) for name, spent in seconds.items()}
    shares["data"] = sum(shares.pop(name, 0.0) for name in DATA)
    spent = {
        "buffers": _sending_buffers(payload),
        "lookups": payload.lookups.seconds,
        "long_kernels": payload.long_kernels.seconds,
    }
    parts = {name: seconds / (step or 1.0) for name, seconds in spent.items()}
    return shares | parts | {"faults": payload.faults}


def _sending_buffers(payload: ProfilePayload) -> float:
    """Seconds a step that even the rank that waits least spends in DDP's broadcast of buffers."""
    return min((times.buffers for times in payload.ranks), default=0.0)


def starved_shares(payload: ProfilePayload) -> dict[str, float] | None:
    """By phase, the part of a usual step in which the GPU waits for the host; None: not known."""
    if payload.starved is None:
        return None
    seconds, step = usual_times(payload)
    return {
        name: min(spent, payload.starved.get(name, 0.0)) / (step or 1.0)
        for name, spent in seconds.items()
    }


def communicated_shares(payload: ProfilePayload) -> dict[str, float]:
    """By phase, the part of a usual step in which the ranks wait for data that is on its way.

    What even the rank that waits least waits; more of it is waiting for slower ranks.
    """
    exposed = [times.exposed for times in payload.ranks if times.exposed is not None]
    if not payload.ranks or len(exposed) < payload.world:
        return {}
    seconds, step = usual_times(payload)
    return {
        name: min(waited, seconds.get(name, 0.0)) / (step or 1.0)
        for name, waited in (("backward", min(exposed)), ("forward", _sending_buffers(payload)))
    }


def acted_on(
    symptom: Symptom,
    shares: Mapping[str, float],
    starved: Mapping[str, float] | None,
    communicated: Mapping[str, float],
) -> float:
    """The part of a step that a technique can shorten, of what its phases take."""
    whole = sum(shares.get(phase, 0.0) for phase in symptom.phases)
    if symptom.work is Work.COMMUNICATION:
        return whole
    whole -= sum(communicated.get(phase, 0.0) for phase in symptom.phases)
    if starved is None or symptom.work is Work.BOTH:
        return whole
    waits = sum(starved.get(phase, 0.0) for phase in symptom.phases)
    return waits if symptom.work is Work.LAUNCHES else max(0.0, whole - waits)


def line_share(
    place: str,
    phases: Iterable[str],
    shares: Mapping[str, float],
    lines: Mapping[str, Sequence[Line | SampledLine]],
) -> float:
    """The part of a step that was sampled on one line; `lines` by phase."""
    return sum(
        shares.get(phase, 0.0) * line.share
        for phase in phases
        for line in lines.get(phase, ())
        if line.place == place
    )


def most_saved(symptom: Symptom, share: float, whole: float) -> float:
    """The largest share of a step that a remedy is known to have taken away.

    `share`: the part of a step that it acts on, its line's where it acts on one; `whole`: that of
    its phases.
    """
    by_line = symptom.by_line and symptom.line_gives
    return min((symptom.line_gives if by_line else symptom.gives) * share, whole)


def headline(what: str, share: float, step: float) -> str:
    """What was seen and its cost, `the optimizer: 12 % of a step, 1.9 ms`. `step` in seconds."""
    return f"{what}: {share:.0%} of a step, {duration(share * step)}"
