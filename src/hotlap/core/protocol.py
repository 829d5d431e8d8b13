"""What goes between hotlap and the processes of a trial, as dataclasses; on the channel JSON.

Times are in seconds a step and memory in bytes, unless a field says otherwise. `decode` reads what
`dataclasses.asdict` and JSON have made of one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypedDict, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Losses = list[float | None]
"""A figure for each step; None in a step in which none was seen. It may be NaN or infinite."""


@dataclass(frozen=True)
class RaceOptions:
    """Of `Mode.RACE`: the steps of the first block; nudge the parameters once by rounding."""

    first: int = 1
    perturb: bool = False


@dataclass(frozen=True)
class BatchOptions:
    """Of `Mode.BATCH`: `loaders`, counted as the program constructs them, get batches of `size`.

    Without loaders nothing is changed.
    """

    first: int = 1
    loaders: list[int] = field(default_factory=list)
    size: int = 0


@dataclass(frozen=True)
class ProfileOptions:
    """Of `Mode.PROFILE`: what is looked at, and for how long.

    So many `steps` (0: to the end) after `warmup` ones, at most `seconds` of them (0: no bound),
    at least `least` seconds. `layers`: what each layer costs; `dataset`: how fast its samples would
    come from a packed copy. `stop`: wait after the report to be ended. `until`: the moment (seconds
    of CLOCK_MONOTONIC) at which it reports what it knows. `patience`: seconds without a step and
    without CPU time after which it reports as well.
    """

    warmup: int = 5
    steps: int = 0
    seconds: float = 0.0
    least: float = 0.0
    layers: bool = False
    dataset: bool = False
    stop: bool = False
    until: float | None = None
    patience: float = 120.0


@dataclass(frozen=True)
class RangeTestOptions:
    """Of `Mode.LR`: the learning rates of the steps, and which optimizer gets them, from 1."""

    rates: list[float]
    optimizer: int


@dataclass(frozen=True)
class LoaderSeen:
    """A DataLoader; `batch_size` is None where a `sampler` makes the batches.

    `samples` of one pass (0: not known); `around`: the loaders whose batches this one was given;
    `feeds`: it gave batches to the training.
    """

    batch_size: int | None
    sampler: bool
    place: str
    samples: int = 0
    around: list[int] = field(default_factory=list)
    feeds: bool = False


@dataclass(frozen=True)
class BatchReport:
    """What a block of `Mode.BATCH` trained on.

    `samples` as loaders yielded them, `elements` of the model's first input, `paused`: seconds of
    the block that were no training. `optimizer` and `lr` are the first one's; `device_total` and
    `device_peak` bytes of the accelerator (0: none).
    """

    samples: int
    elements: int
    micro_batches: int
    paused: float
    loaders: list[LoaderSeen]
    optimizer: str
    lr: float
    device_total: int
    device_peak: int


@dataclass(frozen=True)
class BlockReport:
    """A block of steps of one process: seconds, bytes of peak memory, and a loss a step.

    `at` is the number of steps so far. `special` lists (step, kinds, seconds) of the steps that are
    timed apart. `batches` of an epoch (0: unknown). `cpu` and `system` are the seconds of CPU time
    that the process took, all of it and in the kernel, `faults` its minor page faults. `ran` and
    `waited` are the seconds that its `threads` ran, and waited for a core. `workers`: the processes
    that stand still with this one, and that it lets go on itself.
    """

    rank: int
    world: int
    wall: float
    pid: int = 0
    steps: int = 0
    at: int = 0
    cpu: float = 0.0
    system: float = 0.0
    faults: int = 0
    special: list[tuple[int, str, float]] = field(default_factory=list)
    batches: int = 0
    threads: int = 1
    ran: float = 0.0
    waited: float = 0.0
    resident: int = 0
    cuda: int = 0
    workers: list[int] = field(default_factory=list)
    losses: Losses = field(default_factory=list)
    outputs: list[dict[str, object]] = field(default_factory=list)
    batch: BatchReport | None = None
    held: dict[str, list[str]] = field(default_factory=dict)
    inert: dict[str, str] = field(default_factory=dict)


class Order(TypedDict):
    """What a gate waits for: the steps of the next block, and what is on in it beside the rest.

    `also` maps techniques to their values.
    """

    go: int
    also: dict[str, dict[str, object]]


class Standing(TypedDict):
    """Where each technique took hold, and why others did not."""

    held: dict[str, list[str]]
    inert: dict[str, str]


class RaceDetails(Standing):
    """What `Mode.RACE` adds to a `BlockReport`."""

    losses: Losses
    outputs: list[dict[str, object]]


class BatchDetails(Standing):
    """What `Mode.BATCH` adds to a `BlockReport`."""

    batch: BatchReport


Document = Mapping[str, Any]
"""A JSON document, or a table of one, as it was read: its schema declares what it holds."""

LineShare = tuple[float, int, list[tuple[int, int, float]]]
"""Of a line in a phase: its share of the phase, the number of samples, and by the columns of each
expression that was running (from 0, the end exclusive) that one's share of the line's samples."""

SampledFile = dict[int, dict[str, LineShare]]
"""What was sampled in a file, by line and phase."""

OperatorCounts = dict[int, tuple[int, float, float]]
"""By line: how many operators of torch run from it in a step, their seconds, and the part of the
backward pass that works for them."""


@dataclass(frozen=True)
class PhaseTimes:
    """A phase's seconds a step: mean and quantiles; and in how many steps it was met.

    `usual` is the mean where the steps beyond the 10th and 90th percentile take as long as these:
    a few outliers do not make it (winsorised; of the steps that had the phase).
    """

    mean: float
    p10: float = 0.0
    p50: float | None = None
    p90: float = 0.0
    p95: float | None = None
    steps: int = 0
    usual: float | None = None


@dataclass(frozen=True)
class SampledLine:
    """A line of the user's; `share` of its phase's samples; `calls`: (expression, share of it).

    `operators` of torch that ran from the line itself, with their seconds a step.
    """

    place: str
    function: str
    text: str
    share: float
    samples: int = 0
    calls: list[tuple[str, float]] = field(default_factory=list)
    operators: list[tuple[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class PeakMemory:
    """Peak memory of a process: resident, and of the accelerator."""

    resident: int = 0
    cuda: int = 0


@dataclass(frozen=True)
class MemoryReport:
    """Most memory in use by phase, by owner (parameters, gradients, ...), and the peaks."""

    by_phase: dict[str, int] = field(default_factory=dict)
    by_owner: dict[str, int] = field(default_factory=dict)
    peak: PeakMemory = field(default_factory=PeakMemory)


@dataclass(frozen=True)
class Holder:
    """A variable that keeps graphs: `kind` is `local`, `global` or `attribute`.

    `function` is the first line of its function, 0 outside of one. `freed`: only nodes of the
    graphs stay; a backward pass has freed the activations. `bytes`: what it keeps more after each
    step.
    """

    kind: str
    name: str
    path: str
    function: int = 0
    freed: bool = False
    bytes: int = 0


@dataclass(frozen=True)
class Invariant:
    """Lines of a file whose work has the same result at every step.

    `since` to `end_line`, of which `line` costs most; `seconds`: what that work took in a step of
    `step` seconds.
    `in_part`: there is other work on the line. `confirmed`: also by steps at the run's end.
    """

    path: str
    line: int
    since: int
    end_line: int
    seconds: float
    step: float = 0.0
    in_part: bool = False
    confirmed: bool = False


@dataclass(frozen=True)
class Avoidable:
    """A line of a file with work that need not be done, as it does `times` times what suffices.

    `part`: what need not be done, of the line's time in operators, `share`: of that of all
    operators outside of the backward pass. `differentiated`: the backward pass goes through it.
    `since`: the line from which its work counts, where that is not `line`; 0 elsewhere.
    """

    path: str
    line: int
    times: int
    part: float
    share: float
    differentiated: bool = False
    since: int = 0


@dataclass(frozen=True)
class PiledHooks:
    """A function, from `line` to `end_line` of a file, that is a hook of one module many times."""

    path: str
    line: int
    end_line: int
    times: int


@dataclass(frozen=True)
class UnusedRows:
    """A line of a file that computes rows of which only the part `used` is used in the step.

    `share`: what the others take, of the time of all operators outside of the backward pass.
    `picked_line` of `picked_path`: where the used ones are taken out; empty and 0 where that is not
    known. `differentiated`: the backward pass goes through it. `diagonal`: they are square matrices
    of which the diagonals alone are used, an element of each row.
    """

    path: str
    line: int
    used: float
    share: float
    picked_path: str = ""
    picked_line: int = 0
    differentiated: bool = False
    diagonal: bool = False


@dataclass(frozen=True)
class Replaceable:
    """Operators that a technique would replace: seconds a step, and the costliest line."""

    seconds: float = 0.0
    place: str = ""


@dataclass(frozen=True)
class LayerSeen:
    """A layer with something odd: what norm follows its bias, or which sizes are odd."""

    layer: str
    kind: str
    place: str
    norm: str = ""
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class InputStatistics:
    """Smallest and largest value of a batch, and whether all are whole numbers."""

    least: float
    most: float
    whole: bool


@dataclass(frozen=True)
class ModuleReport:
    """What the live model showed.

    `unread`: the part of all gradients that is rows of embedding tables which the step has not
    looked up, `table` where the largest of them is made.
    """

    bias_before_norm: list[LayerSeen] = field(default_factory=list)
    odd_sizes: list[LayerSeen] = field(default_factory=list)
    input: InputStatistics | None = None
    unread: float = 0.0
    table: str = ""


@dataclass(frozen=True)
class ShownWarning:
    """A warning as it was shown, with its place (`file:line`, or empty)."""

    text: str
    place: str = ""


@dataclass(frozen=True)
class HeldObjects:
    """A list or dict of a dataset's that holds many Python objects: its path in the dataset."""

    path: str
    kind: str
    length: int
    bytes: float


@dataclass(frozen=True)
class SharedMemory:
    """/dev/shm: what `batches` of `batch` bytes under way need of it, its size and free space."""

    needed: int
    size: int
    batch: int
    free: int
    batches: int


@dataclass(frozen=True)
class ResourceReport:
    """What was used while steps were timed, and is held afterwards.

    `workers`: for each worker process its own memory over time, (seconds, bytes). `disk`: bytes a
    second from disks; `read`: by system calls, whatever they came from. `files`: large files held
    open or mapped. `kept`: freed bytes that malloc had not given back. `computed_by_workers`:
    the part of all processor time that the processes below this one took. `core_wait`: the part of
    the time in which a thread of this process waited for a core, of the one that waited longest.
    """

    workers: list[list[tuple[float, int]]] = field(default_factory=list)
    disk: float = 0.0
    read: float = 0.0
    files: list[str] = field(default_factory=list)
    objects: list[HeldObjects] = field(default_factory=list)
    shm: SharedMemory | None = None
    kept: int = 0
    computed_by_workers: float = 0.0
    core_wait: float = 0.0


@dataclass(frozen=True)
class Taken:
    """Samples that were read: their numbers, the images opened for them, and seconds a sample."""

    ids: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    labels: list[int | None] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class PackPlan:
    """How files would be packed and read: `resize` is one side, or [height, width].

    `transforms`: names of `hotlap.data.transforms` with their arguments. `sure`: the dataset's own
    resize is known. `simpler`: the dataset has random transforms that are not among `transforms`.
    `scaled`: it is known how the dataset scales pixels, so that a Normalize among them is its own.
    """

    profile: str = ""
    resize: int | list[int] = 0
    transforms: list[tuple[str, list[object]]] = field(default_factory=list)
    sure: bool = False
    simpler: bool = False
    scaled: bool = False


@dataclass(frozen=True)
class PackedComparison(PackPlan):
    """Seconds a sample of each round, (the script's, packed), and bytes of a packed sample."""

    pairs: list[tuple[float, float]] = field(default_factory=list)
    samples: int = 0
    bytes: float = 0.0


@dataclass(frozen=True)
class DatasetReport:
    """The dataset of the training.

    `bases` are the qualified names of its classes, `place` is its `__getitem__`'s. `draws`: its
    samples vary. `faults`: page faults while samples were read. `why` says what makes it unfit for
    a comparison with a packed copy, `failed` what went wrong in one; `packed` is the comparison.
    """

    kind: str = ""
    bases: list[str] = field(default_factory=list)
    place: str = ""
    length: int = 0
    part: bool = False
    root: str = ""
    batch_size: int = 0
    workers: int = 0
    shuffle: bool = False
    shape: list[int] = field(default_factory=list)
    dtype: str = ""
    draws: bool = False
    why: str = ""
    taken: Taken | None = None
    faults: dict[str, float] = field(default_factory=dict)
    failed: str = ""
    packed: PackedComparison | None = None


@dataclass(frozen=True)
class RankTimes:
    """Where the steps of one of several ranks go, in seconds a step.

    `errors`: the standard errors of `phases`. `exposed`: what its backward passes wait for
    all-reduces that no computation overlaps with, by DDP's own log (None: not known, or a group of
    some ranks reduces). `buffers`: what its forward passes spend in DDP's broadcast of buffers.
    `core`: how long that of its threads waits for a core which waits longest, loader workers
    included. `lines`: as in a `ProfilePayload`.
    """

    rank: int
    steps: int
    step: float
    phases: dict[str, float]
    errors: dict[str, float] = field(default_factory=dict)
    exposed: float | None = None
    buffers: float = 0.0
    core: float = 0.0
    lines: dict[str, list[SampledLine]] = field(default_factory=dict)


SHORTEST_TRAINING = 0.05
"""Seconds of training without which a program cannot be timed."""
FEWEST_STEPS = 10
"""Steps without which a tune would spend its time on starting the program: of each launch the first
half of them warms up, and what is left is less than the pairs that a verdict takes."""


@dataclass(frozen=True)
class ProfilePayload:
    """Everything that the probe learned.

    `phases` of a program on a GPU are by the GPU's clock; `starved`: seconds a step, by phase, that
    its stretches took at whose end the GPU waited for the host (None: not known).
    `ended` is what ended it: `steps`, `exit`, `left` or `still`. `stood_at`: where the program
    stood still. `detailed`: how many of the timed steps were looked at in detail
    (None: all). `grown_steps`: by phase and of the whole `step`, what the first and the last of
    them took, where they took longer and longer. `backwards`: backward passes of most steps.
    `sampled` holds, by file, line and sampled phase, what a line cost with all calls from it,
    `operators_on` the operators that ran from its lines in a diagnostic step. `backward_by_line`:
    the lines of the forward pass by the part of the backward pass that works for them (empty: not
    known). `faults`: the part of a step that page faults take. `held` and `inert`: what each
    technique has come to. `operators`: seconds a step, in the forward pass, in the functions that a
    technique replaces, where they were measured. `in_vain`: lines with work that need not be done,
    by the name of what is to be said of them (`hotlap.profile.sights`). `world`: how many ranks
    train together; `ranks`: those of them that were seen. `program`: the file that Python was
    started with.
    """

    step: PhaseTimes
    phases: dict[str, PhaseTimes]
    program: str = ""
    ended: str = "steps"
    stood_at: str = ""
    steps: int = 0
    detailed: int | None = None
    warmup: int = 0
    diagnostic: int = 0
    device: str = "cpu"
    starved: dict[str, float] | None = None
    cpu: float = 0.0
    grown_steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    samples: float = 0.0
    tokens: float = 0.0
    backwards: int = 0
    lines: dict[str, list[SampledLine]] = field(default_factory=dict)
    sampled: dict[str, SampledFile] = field(default_factory=dict)
    operators_on: dict[str, OperatorCounts] = field(default_factory=dict)
    backward_by_line: list[SampledLine] = field(default_factory=list)
    samples_taken: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    memory: MemoryReport = field(default_factory=MemoryReport)
    flops: float | None = None
    modules: ModuleReport = field(default_factory=ModuleReport)
    hooks: list[PiledHooks] = field(default_factory=list)
    retained: list[Holder] = field(default_factory=list)
    invariants: list[Invariant] = field(default_factory=list)
    in_vain: dict[str, list[Avoidable]] = field(default_factory=dict)
    unused: list[UnusedRows] = field(default_factory=list)
    pairs: list[Avoidable] = field(default_factory=list)
    lookups: Replaceable = field(default_factory=Replaceable)
    long_kernels: Replaceable = field(default_factory=Replaceable)
    layers: dict[str, object] = field(default_factory=dict)
    warnings: list[ShownWarning] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)
    resources: ResourceReport | None = None
    dataset: DatasetReport | None = None
    calls: dict[str, dict[str, float]] = field(default_factory=dict)
    faults: float = 0.0
    held: dict[str, list[str]] = field(default_factory=dict)
    inert: dict[str, str] = field(default_factory=dict)
    operators: dict[str, float] = field(default_factory=dict)
    world: int = 1
    ranks: list[RankTimes] = field(default_factory=list)

    @property
    def ended_after(self) -> int | None:
        """The steps after which the program came to its end; None where it did not."""
        return self.warmup + self.diagnostic + self.steps if self.ended == "exit" else None

    @property
    def usual_step(self) -> float:
        """Seconds of a usual step."""
        return self.step.mean if self.step.p50 is None else self.step.p50

    @property
    def too_short(self) -> bool:
        """Whether the program ends before there is enough of it for a race."""
        steps = self.ended_after
        if steps is None:
            return False
        return steps < FEWEST_STEPS or steps * self.usual_step < SHORTEST_TRAINING


def decode(kind: type[T], raw: Mapping[str, object]) -> T:
    """Make a dataclass of what JSON holds; keys that it does not know are left out.

    Raises:
        TypeError: a field without a default is missing.
    """
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    return kind(**{name: _decoded(hints[name], raw[name]) for name in hints if name in raw})


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


def _decoded(hint: object, value: object) -> object:
    """A value as its type hint has it; what is no container of dataclasses is left as it is."""
    if isinstance(value, Mapping):
        return _decoded_mapping(hint, value)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        fitting = [part for part in inner if get_origin(part) is list] or inner
        return _decoded(fitting[0], value) if isinstance(value, list) else value
    if origin is list and isinstance(value, list | tuple):
        return [_decoded(inner[0], entry) for entry in value]
    if origin is tuple and isinstance(value, list | tuple):
        kinds = [inner[0]] * len(value) if inner[-1] is ... else inner
        return tuple(_decoded(kind, entry) for kind, entry in zip(kinds, value, strict=True))
    return value


def _decoded_mapping(hint: object, value: Mapping[str, object]) -> object:
    for part in get_args(hint) if get_origin(hint) is UnionType else (hint,):
        if isinstance(part, type) and is_dataclass(part):
            return decode(part, value)
        if get_origin(part) in {dict, Mapping}:
            to_key, kind = get_args(part)
            return {to_key(key): _decoded(kind, entry) for key, entry in value.items()}
    return value
