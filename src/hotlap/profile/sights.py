"""What the probe saw besides time: graphs kept alive, raw inputs, layers, torch's warnings.

Each becomes a spot, as if lint had found it, so that it gets its cost and stands once.
"""

import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hotlap.core.amounts import duration, size
from hotlap.core.primes import largest_prime
from hotlap.core.protocol import (
    Avoidable,
    Holder,
    InputStatistics,
    ProfilePayload,
    ShownWarning,
    UnusedRows,
)
from hotlap.core.registry import techniques
from hotlap.profile.join import split
from hotlap.profile.model import TITLES
from hotlap.profile.retained import binding
from hotlap.profile.sources import line_of, shown
from hotlap.profile.torch_warnings import known as known_warnings
from hotlap.source.checks.retaining import FREED
from hotlap.source.lint import Spot

RAW_PIXELS = (128, 255)
"""The largest value of a batch of 8-bit images."""
MULTIPLE = 8
ALL_OF_IT = 0.99
"""Part of a line's time in operators from which no part of it is spoken of."""
MUCH = 0.1
"""Share of a step from which stepping an environment is worth a word."""
ENVIRONMENT = re.compile(
    rb"(?:[\w.]*[._])?\w*(?:(?<![a-z])v?env|gym|simulator|emulator)\w*(?:\[[^]]*\])?\.step\(", re.I
)
PILES_UP = (
    "something grows with each step (hooks that are registered again, graphs that are kept, a list "
    "that is walked over), the data do, or the machine became busier"
)
STEPS_ENVIRONMENT = "the training waits while environments are stepped (rollout)"
ROLLOUT = (
    "what the model computes between two updates is the rollout; it is counted as forward where "
    "gradients are recorded or each update is preceded by some, as evaluation elsewhere"
)
VECTORISE = (
    "step several environments at once (gymnasium.vector.AsyncVectorEnv), or collect the rollouts "
    "in processes of their own while the model learns"
)


REPEATED = "repeated_in_step"
COMPUTED_AGAIN = "a step computes the same here several times: the same operators on the same data"
COMPUTE_ONCE = "compute it once in a step, and pass the result on"
PARAMETRIZED = "parametrized_weights"
WEIGHTS_AGAIN = "parametrized weights are computed anew each time that they are read"
CACHE_WEIGHTS = (
    "run the forward passes of a step in `with torch.nn.utils.parametrize.cached():`, which "
    "computes each weight once"
)
PILED = "piled_hooks"
REMOVE_HOOKS = (
    "register it once, before the loop; or keep the handle that register_forward_hook returns, and "
    "call handle.remove() after the pass"
)
UNUSED = "unused_rows"
PICK_FIRST = "pick the rows that are used before this line: it computes each row by itself"
DIAGONAL_USED = "only the diagonal of the matrix computed here is used"
DIAGONAL_ALONE = "compute the diagonal alone: that of a @ b is (a * b.T).sum(-1)"
DISCARDED = "unused_results"
USED_BY_NOTHING = "nothing uses what is computed here"
LEAVE_OUT = "leave it out: end the forward pass where the last result that is used is known"
COPIED = "copied_work"
COMPUTE_BEFORE = (
    "compute it for one, and copy the result: expand, repeat or pick rows by index after this "
    "line, not before it, and interpolate after a 1x1 convolution; of rows that are concatenated, "
    "multiply each part by its own columns of the weight, pick, and add up"
)
GROWN = "grown_work"
COMPUTED_BEFORE = "of what is computed here was computed before in the step, for a smaller input"
KEEP_EARLIER = (
    "keep the earlier results and compute those of the new part alone (a cache of keys and values, "
    "the last state of a recurrent layer); where all inputs are known, one pass with a causal mask "
    "gives every position"
)
SPARSE = "sparse_product"
ALL_ZEROS = "a factor of the matrix product here is zero except for 1 element in"
KEEP_SPARSE = (
    "keep it sparse: torch.sparse_coo_tensor(indices, values, size), made once, and "
    "torch.sparse.mm(matrix, x); where each row holds a single one, index x by it instead"
)
TRANSFORMS = "fft_length"
PAD = (
    "where the length is yours to choose, as in a convolution, pad to scipy.fft.next_fast_len(n), "
    "and cut the result"
)
ONE_BY_ONE = "called_one_by_one"
CALLED_EACH = "a layer is called here, piece by piece, on inputs that do not depend on its results"
CALL_ONCE = (
    "call it once: stack the inputs along the batch (for a recurrent layer along the time, whose "
    "state it passes on itself) and split the result; a layer that only reads what a loop makes, "
    "such as a decoder, can be called after the loop"
)
PICKED = "picked_matrices"
MATRIX_EACH = "each row is multiplied by its own copy of a matrix here"
AT_ONCE = (
    "multiply the rows of each matrix at once: sort the rows by its number, split them, multiply "
    "each part and put the results back; where the rows are picked too, as those of nodes for "
    "edges, multiply all that they are picked from by each matrix, then pick from the results"
)
PAIRWISE = "pairwise_matmul"
MEANINGS = {
    "environment_step": VECTORISE,
    REPEATED: COMPUTE_ONCE,
    PARAMETRIZED: CACHE_WEIGHTS,
    PILED: REMOVE_HOOKS,
    UNUSED: PICK_FIRST,
    COPIED: COMPUTE_BEFORE,
    GROWN: KEEP_EARLIER,
    DISCARDED: LEAVE_OUT,
    SPARSE: KEEP_SPARSE,
    TRANSFORMS: PAD,
    PICKED: AT_ONCE,
    ONE_BY_ONE: CALL_ONCE,
}
"""What to do about a sight that belongs to no technique, by its name."""


def _discarded(one: Avoidable) -> str:
    part = f" (a part of the line's results, {one.part:.0%} of its time)"
    return USED_BY_NOTHING + part * (one.part < ALL_OF_IT)


def _transformed(one: Avoidable) -> str:
    return (
        f"a Fourier transform of length {one.times:,} is slow: the length has the prime factor "
        f"{largest_prime(one.times):,}"
    )


IN_VAIN: Mapping[str, Callable[[Avoidable], str]] = {
    REPEATED: lambda one: f"{COMPUTED_AGAIN} ({one.times} times)",
    PARAMETRIZED: lambda one: f"{WEIGHTS_AGAIN} ({one.times} times in a step)",
    COPIED: lambda one: f"the same is computed here for {one.times} copies of each input",
    GROWN: lambda one: f"{one.part:.0%} {COMPUTED_BEFORE}",
    DISCARDED: _discarded,
    SPARSE: lambda one: f"{ALL_ZEROS} {one.times}",
    TRANSFORMS: _transformed,
    ONE_BY_ONE: lambda one: f"{CALLED_EACH} ({one.times} times in a step)",
    PICKED: lambda one: f"{MATRIX_EACH} ({one.times:,} copies of each)",
}
"""What to say of lines with work in vain, by the name under which the probe lists them.

Lines may call one another: what they cost together is bounded by the operators' time."""


@dataclass(frozen=True)
class Words:
    """What to say of a sight, and what to do about it."""

    says: str
    remedy: str


WORDS = {
    "input_normalised": Words(
        "the inputs are raw pixel values, which slows learning",
        "normalise them with the data set's mean and standard deviation",
    ),
    "loop_invariants": Words(
        "every step computes the same here: nothing that is read changes",
        "compute it once, before the loop (in a module: in __init__, as a buffer), and again only "
        "where what it reads changes",
    ),
}


def sights(payload: ProfilePayload, folder: Path) -> list[Spot]:
    """The spots of what was seen in the running program and has a place."""
    found = [
        *_retained(payload, folder),
        *_modules(payload, folder),
        *_warnings(payload.warnings, folder),
        *_invariants(payload, folder),
        *_in_vain(payload, folder),
        *_unused(payload, folder),
        *_pairs(payload, folder),
        *_hooks(payload, folder),
        *_environments(payload),
    ]
    return list({(spot.path, spot.line, spot.id): spot for spot in found}.values())


def _retained(payload: ProfilePayload, folder: Path) -> Iterator[Spot]:
    for holder in payload.retained:
        path = folder / holder.path
        if line := binding(path, holder):
            summed = "+=" in line_of(path, line)
            name = "graph_summed" if summed else "graph_kept"
            said = f"{holder.name}: {_growth(holder)}"
            spots = _spot("retained_graph", f"{path}:{line}", folder, said, name)
            yield from (replace(spot, hint=holder.freed) for spot in spots)


def _invariants(payload: ProfilePayload, folder: Path) -> Iterator[Spot]:
    for one in payload.invariants:
        longer = payload.step.mean / one.step if one.step else 1.0
        several = one.since < one.end_line
        details = (
            f"lines {one.since} to {one.end_line}" if several else "",
            "a part of the line" if one.in_part else "",
            "" if one.confirmed else "seen in three steps in a row",
        )
        detail = ", ".join(filter(None, details))
        spots = _spot("loop_invariants", f"{folder / one.path}:{one.line}", folder, detail)
        for spot in spots:
            lines = replace(spot, since=one.since, end_line=one.end_line)
            launched = bool(payload.facts.get("cuda"))  # a kernel outlasts the call that was timed
            most = 0.0 if launched else one.seconds * max(1.0, longer)
            yield replace(lines, phases=(), seconds=most)


def _in_vain(payload: ProfilePayload, folder: Path) -> Iterator[Spot]:
    """Lines of which a part of the work need not be done."""
    for name, says in IN_VAIN.items():
        for one in payload.in_vain.get(name, ()):
            yield from _vain(payload, folder, one, name, Words(says(one), MEANINGS[name]), one.part)


def _unused(payload: ProfilePayload, folder: Path) -> Iterator[Spot]:
    """Lines that compute rows of which few are used, or matrices of which the diagonal is."""
    for one in payload.unused:
        path = folder / one.picked_path
        picked = f", picked at {shown(path, folder)}:{one.picked_line}" * bool(one.picked_line)
        rows = f"only {one.used:.0%} of the rows computed here are used"
        says, remedy = (DIAGONAL_USED, DIAGONAL_ALONE) if one.diagonal else (rows, PICK_FIRST)
        words = Words(says + picked, remedy)
        yield from _vain(payload, folder, one, UNUSED, words, 1.0 - one.used)


def _pairs(payload: ProfilePayload, folder: Path) -> Iterator[Spot]:
    """Lines that sum up an element for each pair, in the words of the pattern that lint knows."""
    (pattern,) = techniques()[PAIRWISE].patterns
    for one in payload.pairs:
        words = Words(f"{pattern.says} ({one.times} times as many as go in)", pattern.remedy)
        for spot in _vain(payload, folder, one, pattern.id, words, one.part):
            yield replace(spot, technique=PAIRWISE, since=one.since)


def _vain(
    payload: ProfilePayload, folder: Path, one: Avoidable | UnusedRows, name: str,
    words: Words, part: float,
) -> Iterator[Spot]:  # fmt: skip
    """The spot of a line of which a part of the work need not be done."""
    at = split(f"{folder / one.path}:{one.line}", folder)
    seconds = _of_operators(payload, one, part)
    if at is not None and seconds:
        yield Spot(
            *at, 1, name, words.says, words.remedy, name, differentiated=one.differentiated,
            part=part, seconds=seconds,
        )  # fmt: skip


def _of_operators(payload: ProfilePayload, one: Avoidable | UnusedRows, part: float) -> float:
    """The seconds that a line takes in vain, outside of the backward pass and in it.

    `part`: what of its work is in vain. Where the line's own part of the backward pass is not
    known, its work takes as much longer there as all work does. That of unused rows is not: it is
    the line's own operators that compute them, and not all that it calls.
    """
    means = {name: phase.mean for name, phase in payload.phases.items()}
    forward, backward = means.get("forward", 0.0), means.get("backward", 0.0)
    if not forward:
        return 0.0
    ahead = one.share * (forward + means.get("optimizer", 0.0))
    if not one.differentiated:
        return ahead
    behind = 0.0
    if isinstance(one, Avoidable) and not one.since:
        _, _, behind = payload.operators_on.get(one.path, {}).get(one.line, (0, 0.0, 0.0))
    return ahead + part * behind * backward if behind else ahead * (1.0 + backward / forward)


def _growth(holder: Holder) -> str:
    """How much more memory a variable keeps after each step."""
    return f"{size(holder.bytes)} more each step" + (f", {FREED}" if holder.freed else "")


def _modules(payload: ProfilePayload, folder: Path) -> Iterator[Spot]:
    seen, places, facts = payload.modules, payload.places, payload.facts
    for layer in seen.bias_before_norm:
        yield from _spot("bias_before_norm", layer.place, folder)
    if facts.get("cuda"):
        for layer in seen.odd_sizes:
            sizes = ", ".join(f"{name}={size}" for name, size in layer.sizes.items())
            yield from _spot("dims_multiple_of_8", layer.place, folder, sizes)
        batch = facts.get("batch_size")
        if isinstance(batch, int) and batch % MULTIPLE:
            yield from _spot(
                "dims_multiple_of_8", places.get("loader", ""), folder, f"{batch}", "odd_batch"
            )
    if facts.get("data_parallel"):
        cost = spread_words(payload.spread, payload.step.mean)
        yield from _spot("ddp_not_dp", places.get("model", ""), folder, cost)
    if said := raw(seen.input):
        yield from _spot("input_normalised", places.get("model", ""), folder, said)


def spread_words(parts: Mapping[str, float], step: float) -> str:
    """What DataParallel's own work took of a step (seconds); empty where it spread nothing.

    The parallel forward passes themselves are left out: another way to spread runs them as well.
    """
    own = {name: seconds for name, seconds in parts.items() if name != "parallel_apply"}
    if not own or not step:
        return ""
    said = ", ".join(f"{name} {seconds * 1e3:.3g} ms" for name, seconds in own.items())
    return f"measured: {said}; together {sum(own.values()) / step:.0%} of a step"


def raw(statistics: InputStatistics | None) -> str:
    """How a model's inputs show that they are raw pixels; empty if they do not.

    Whole numbers from 0 to 255 are. Any other scale may be meant: row-normalised features are
    small, the inputs of a diffusion model are as large as its noise.
    """
    if statistics is None or not statistics.whole:
        return ""
    least, most = statistics.least, statistics.most
    pixels = least >= 0 and RAW_PIXELS[0] <= most <= RAW_PIXELS[1]
    return f"whole numbers from {least:.0f} to {most:.0f}" if pixels else ""


def grown_steps(payload: ProfilePayload) -> list[str]:
    """How much longer the last steps took than the first, and in which phase; empty elsewhere."""
    if not payload.grown_steps:
        return []
    first, last = payload.grown_steps["step"]
    more = {name: b - a for name, (a, b) in payload.grown_steps.items() if name != "step"}
    phase = max(more, key=lambda name: more[name])
    return [
        f"the steps took longer and longer: {duration(first)} at the beginning, {duration(last)} "
        f"at the end, most of the difference in {TITLES.get(phase, phase)}: {PILES_UP}"
    ]


def rollout(payload: ProfilePayload, folder: Path) -> list[str]:
    """What the phases mean where the program learns from an environment; empty elsewhere."""
    steps = sorted(_environment_steps(payload), key=lambda step: step.seconds, reverse=True)
    if not steps:
        return []
    path, line = steps[0].path, steps[0].line
    return [f"{shown(path, folder)}:{line} steps an environment: {ROLLOUT}"]


@dataclass(frozen=True)
class _EnvironmentStep:
    """A call that steps an environment: its columns (from 0), and its seconds a training step."""

    path: Path
    line: int
    begin: int
    end: int
    seconds: float


def _hooks(payload: ProfilePayload, folder: Path) -> Iterator[Spot]:
    """Functions that are registered as hooks again and again, with what they cost by now."""
    for one in payload.hooks:
        at = split(f"{folder / one.path}:{one.line}", folder)
        if at is not None:
            says = f"one module had {one.times} hooks of this function at the end, and calls all"
            yield Spot(*at, 1, PILED, says, REMOVE_HOOKS, PILED, end_line=one.end_line)


def _environments(payload: ProfilePayload) -> Iterator[Spot]:
    """The calls that step an environment to learn in, where they take `MUCH` of a step."""
    for one in _environment_steps(payload):
        if one.seconds > MUCH * payload.step.mean:
            yield _environment(one.path, one.line, one.begin, one.end)


def _environment_steps(payload: ProfilePayload) -> Iterator[_EnvironmentStep]:
    means = {name: phase.mean for name, phase in payload.phases.items()}
    for path, lines in payload.sampled.items():
        for line, phases in lines.items():
            seconds: dict[tuple[int, int], float] = {}
            for phase, (share, _, calls) in phases.items():
                mean = means.get("forward" if phase == "loss" else phase, 0.0)
                for *columns, part in calls:
                    begin, end = map(int, columns)
                    seconds[begin, end] = seconds.get((begin, end), 0.0) + share * part * mean
            text = linecache.getline(path, line).encode()
            for (begin, end), spent in seconds.items():
                if ENVIRONMENT.match(text[begin:end]) and not _wraps(path, line):
                    yield _EnvironmentStep(Path(path), line, begin, end, spent)


def _wraps(path: str, line: int) -> bool:
    """Whether a line belongs to a method `step`: an environment around another, counted there."""
    lines = linecache.getlines(path)
    depth = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    for text in reversed(lines[: line - 1]):
        inner = text.lstrip()
        if inner.startswith(("def ", "async def ")) and len(text) - len(inner) < depth:
            return inner.startswith("def step(")
    return False


def _environment(path: Path, line: int, begin: int, end: int) -> Spot:
    return Spot(
        path, line, begin + 1, "environment_step", STEPS_ENVIRONMENT, VECTORISE, "environment_step",
        end_line=line, end_column=end + 1,
    )  # fmt: skip


def _warnings(shown: list[ShownWarning], folder: Path) -> Iterator[Spot]:
    for entry, place in known_warnings(shown):
        at = split(place, folder)
        if at is not None and _asked_for(entry.id, at[0]):
            path, line = at
            yield Spot(
                path, line, 1, entry.id, entry.says, entry.remedy, entry.technique,
                phases=entry.phases,
            )  # fmt: skip


def _asked_for(name: str, path: Path) -> bool:
    """Whether the user's own file asks for what torch warns of; trainers pin batches unasked."""
    if name != "pinned_for_nobody":
        return True
    try:
        return b"pin_memory" in path.read_bytes()
    except OSError:
        return True


def _spot(
    technique: str, place: str, folder: Path, detail: str = "", name: str = ""
) -> Iterable[Spot]:
    """A sight in the words of its technique's pattern (`name`, or the first), if it has one."""
    at = split(place, folder)
    if at is None:
        return ()
    patterns = techniques()[technique].patterns
    known = [p for p in patterns if p.id == name] or list(patterns)
    words = known[0] if known else WORDS[technique]
    says = f"{words.says} ({detail})" if detail else words.says
    kind = known[0].id if known else technique
    return (Spot(at[0], at[1], 1, kind, says, words.remedy, technique, phases=NO_TIME),)


NO_TIME = ("memory",)
"""Their lines cost no time; what they lead to does."""
