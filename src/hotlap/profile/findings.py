"""From phases, facts and places to findings: problems, and options worth racing.

A *problem* was seen, and its cost was measured. An *option* is a setting whose effect on a script
nobody knows before a race; no gain is claimed for it. Remedies that shorten the same part of a step
make one finding: its headline is what was measured, its `bound` that of that share.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hotlap.core.amounts import several
from hotlap.core.protocol import ProfilePayload
from hotlap.core.registry import techniques
from hotlap.core.technique import Need, Symptom
from hotlap.profile.advice import ADVICE, SAMPLER
from hotlap.profile.model import (
    DATA,
    NO_BOUND,
    TITLES,
    Finding,
    Line,
    Remedy,
    acted_on,
    bound,
    communicated_shares,
    headline,
    line_share,
    most_saved,
    shares_of,
    starved_shares,
    usual_times,
)

WORTH = 0.02
"""Share of a step that a fix must be able to save."""
PROBLEM = {"data": 0.1, "lookups": 0.2, "long_kernels": 0.1}
"""Share of a step, by part, below which even a sure symptom is an option: every loop takes some
time to collate a batch, or to pick one out of a tensor."""
PHASES_OF_THEIR_OWN = ("step", "backward", "zero_grad")
"""Places whose samples between the phases are the way in and out of the phases, not work."""
OVERHEAD = {"loader_workers": 0.5e-3}
"""Seconds that a fix itself costs a step: a worker's batch goes through pickle, a queue and
shared memory, so that workers cannot shorten a wait of less."""
BLOCKING = re.compile(
    r"(?:^|[._])(?:fsync|fdatasync|sync|flush|write\w*|print|dump|save\w*|sleep|read\w*|recv\w*|send\w*|"
    r"urlopen|get|post|put|log\w*|info|add_scalars?|add_histogram|savefig|imsave|imwrite|wait|join|"
    r"collect|empty_cache|run|check_call|system|to_csv|execute|commit|show|display)$"
)
"""Calls that wait for a disk, a network, a terminal, another process or the garbage collector."""
JOINS_TEXT = re.compile(r"^[rbu]?[\"']|(?:^|\.)(?:path|sep|linesep)\.join$|^sep\.join$")
"""Calls of `join` that put text together, and wait for nothing."""
COLLECTIVE = re.compile(
    r"(?:(?:^|\.)(?:dist|distributed|c10d|accelerator|fabric)\.(?:reduce|gather|scatter|broadcast\w*|"
    r"all_to_all\w*|\w*barrier)|(?:^|\.)(?:all_reduce|all_gather\w*|reduce_scatter\w*))$"
)
"""Calls in which each rank waits for all others."""
SYNCED = re.compile(r"^(?!.*\bon_step\s*=\s*False\b).*\bsync_dist\s*=(?!\s*False\b)")
"""An argument of Lightning's `self.log` with which all ranks add up the value at once."""
LEAST_BLOCKING = 0.04
COLLECTS = (
    "every rank waits here for the slowest one. Figures to report can be added up on each rank, "
    "and reduced every n steps. Gradients have to be reduced in every step: "
    "DistributedDataParallel does that while the backward pass still computes"
)
COLLECTS_LOGS = (
    "every rank waits here for the slowest one; leave sync_dist out, or pass on_step=False and "
    "on_epoch=True, with which the ranks meet once an epoch"
)
BLOCKS = (
    "the training waits for it; call it every n steps, or, where it waits for a disk or a network, "
    "in another thread"
)
OUTSIDE = (
    "the time goes to Python, NumPy or files, not to operators of torch: compute it before the "
    "loop where it is always the same, else for the whole batch at once, with tensor operations"
)
ONE_BY_ONE = (
    "each call of an operator costs time, however little it computes: let one call take all rounds "
    "of the loop (a dimension of the batch in its place), or compute it before the training where "
    "it is always the same; where a round needs the one before, torch.compile joins its operators"
)
SLOW_LINE = (
    "this line is what a sample costs: do it once, in __init__ or before the training, or make it "
    "faster"
)
PARTS = {
    "data": "waiting for data",
    "copy": "copying and converting tensors",
    "step": "the whole step",
    "compute": "forward and backward",
    "forward": "the forward pass",
    "float64": "copying to and computing in float64",
    "half": "computing in 16 bits, for which this processor has no matrix units",
    "optimizer": "the optimizer",
    "evaluation": "evaluation",
    "saving": "writing files",
    "other": "code between the phases",
    "buffers": "sending DDP's buffers from rank 0 to the others",
    "faults": "page faults",
    "lookups": "picking rows by a tensor of indices",
    "long_kernels": "convolutions with long kernels",
}


COMPUTE = ("forward", "backward")
BY_DTYPE = {"float64": "float64", "float64_copied": "float64", "half": "half"}
"""Parts that are all that is computed in a dtype, by the places of their symptoms."""
PADDING = "dynamic_padding"
LEAST_PADDING = 0.2
"""Share of the positions that no sequence of the batch uses, from which padding is a finding."""
PAD_WITH_TOKENIZER = (
    'where a tokenizer pads, drop padding="max_length" from its call, and pass '
    "data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8), which alone changes "
    "nothing; where your own code pads, leave that to the data_collator"
)
PAD_BY_HAND = "torch.nn.utils.rnn.pad_sequence in collate_fn does it"
PADDING_CHANGES = (
    "the loss changes by rounding alone where the model and the loss leave padding out"
)
PADDING_RECURS = (
    "the model has a recurrent layer: unless it is given packed sequences (pack_padded_sequence), "
    "it computes on through the padding, and gives different results with less of it"
)
SQUARED = "if all of forward and backward grew with the square of the length, as attention does"


UNSPECIFIC = ("step", "compute", "forward", "other")
"""Parts that every step has: of a problem there the cause is said, and its place pointed at."""
WORK = ("step", "compute", "forward", "backward")
"""Parts that are the training itself: a problem there costs an unknown part of them, unless its own
lines or functions were timed."""
SPREAD = 0.35
"""Part of a phase's time below which its costliest line is not what the phase is spent on."""
STANDARD_ERRORS = 1.96
"""By which the samples of a line must differ from the next one's for it to be called the first."""
FEW = 10
"""Samples of a phase below which its costliest line may be another one.

The standard error of a line's part is up to half of the root of one over them: 0.16 at ten.
"""
LITTLE = 0.01
"""What fixing a problem is expected to save that costs an unknown part of some of that work."""
EVIDENCE = {
    "sleeping_threads": ("threads_waited", "threads waited for a core {:.0%} of the time"),
    "zero_rate": ("zero_rate", "the learning rate of {:.1%} of the parameters is 0"),
}
"""Facts that measure how much of their phases remedies act on, and what they say."""


@dataclass(frozen=True)
class Seen:
    """What the findings are made from; `lines` by phase.

    `operators`: by technique, the part of the forward pass in the functions that it replaces.
    `seconds`: of a step, by phase; in `shares` all that concerns loading is added up under `data`.
    `starved`: the parts of a step in which a GPU waits for the host, by phase; `communicated`:
    those in which ranks wait for data that is on its way.
    """

    facts: Mapping[str, object]
    places: Mapping[str, str]
    shares: Mapping[str, float]
    lines: Mapping[str, tuple[Line, ...]]
    step: float
    operators: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    starved: Mapping[str, float] | None = None
    communicated: Mapping[str, float] = field(default_factory=dict)

    def share(self, phases: Iterable[str]) -> float:
        """The phases' part of a step."""
        return sum(self.shares.get(phase, 0.0) for phase in phases)

    def hottest(self, phases: Iterable[str]) -> Line | None:
        """The user's line that takes most of the phases' time, of the phase where it takes most."""
        spent: dict[str, float] = defaultdict(float)
        found = self._sampled(phases)
        for name, line in found:
            spent[line.place] += self._seconds(name, line)
        weighed = ((spent[line.place], self._seconds(name, line), line) for name, line in found)
        return max(weighed, key=lambda one: one[:2], default=(0.0, 0.0, None))[2]

    def part_of(self, line: Line, phases: Iterable[str]) -> float:
        """The part of the phases' time that a line takes: of what was sampled, or of their share.

        Lines whose cost has a finding of its own are no longer among them, so that both may differ.
        """
        found = self._sampled(phases)
        whole = sum(self._seconds(*one) for one in found)
        if set(phases) == {"other"}:
            whole = max(whole, self.share(phases) * self.step)
        mine = sum(self._seconds(*one) for one in found if one[1].place == line.place)
        return mine / whole if whole else 1.0

    def stands_out(self, line: Line, phases: Iterable[str]) -> bool:
        """Whether so many samples fell on a line that chance alone does not make it the first.

        By the difference of two counts: its standard error is the root of their sum.
        """
        counts: Counter[str] = Counter()
        for _, each in self._sampled(phases):
            counts[each.place] += each.samples
        mine = counts.pop(line.place, 0)
        next_one = max(counts.values(), default=0)
        return not mine or mine - next_one > STANDARD_ERRORS * math.sqrt(mine + next_one)

    def samples(self, phases: Iterable[str]) -> int:
        """How many samples the lines of the phases are known from."""
        return sum(line.samples for _, line in self._sampled(phases))

    def _sampled(self, phases: Iterable[str]) -> list[tuple[str, Line]]:
        """The lines that samples of the phases fell on, with their phase."""
        names = [n for phase in phases for n in (DATA if phase == "data" else (phase,))]
        return [(name, line) for name in names for line in self.lines.get(name, ())]

    def _seconds(self, name: str, line: Line) -> float:
        return line.share * self.seconds.get(name, self.step)


def seen_in(payload: ProfilePayload, lines: Mapping[str, tuple[Line, ...]]) -> Seen:
    """What a payload of the probe holds to make findings from."""
    (seconds, step), shares = usual_times(payload), shares_of(payload)
    forward = shares.get("forward", 0.0) * step
    parts = {name: min(1.0, s / forward) for name, s in payload.operators.items() if forward}
    facts, starved = payload.facts, starved_shares(payload)
    if "operators" in payload.notes:  # no step was watched: a tune races them, no finding says so
        facts = {name: of for name, of in facts.items() if not name.startswith("calls_")}
    return Seen(
        facts, payload.places, shares, lines, step, parts, seconds, starved,
        communicated_shares(payload),
    )  # fmt: skip


def proposed(seen: Seen) -> list[Finding]:
    """What the techniques' symptoms say; each worth at least 2 %."""
    return _found(
        [
            (record.id, record.symptom.where(seen.facts), 0.0)
            for record in techniques().values()
            if record.symptom and not record.missing(dict(seen.facts)) and not record.on_request
        ],
        seen,
    )


def padded(seen: Seen) -> list[Finding]:
    """The padding that padding each batch to its longest sequence would leave out.

    Only forward and backward shrink with it. Most of their time grows with the length, that of
    attention with its square: the first is what to expect; where the model has attention, the
    second is the bound.
    """
    share, columns = (seen.facts.get(name) for name in ("padded_share", "padded_columns"))
    if not isinstance(share, float) or not isinstance(columns, float) or columns < LEAST_PADDING:
        return []
    saved = most = columns * seen.share(COMPUTE)
    what = headline("computing on padding", saved, seen.step)
    if seen.facts.get("attends") or seen.facts.get("transformers"):
        most = (1 - (1 - columns) ** 2) * seen.share(COMPUTE)
        what += f" ({most:.0%} {SQUARED})"
    what += f"; {share:.0%} of the input positions are padding"
    place, speedup = seen.places.get("model", ""), bound(most, seen.step)
    says = (
        f"pad each batch to its own longest sequence, in collate_fn: {columns:.0%} fewer positions"
    )
    how = PAD_WITH_TOKENIZER if seen.facts.get("transformers") else PAD_BY_HAND
    notes = (how, PADDING_CHANGES, *([PADDING_RECURS] if seen.facts.get("recurrent") else ()))
    remedy = Remedy(PADDING, says, COMPUTE, place, speedup, saved, notes=notes)
    return [Finding(what, place, "", saved, speedup, (remedy,))] if saved >= WORTH else []


def advised(seen: Seen, explained: Mapping[str, float], places: frozenset[str]) -> list[Finding]:
    """What no technique changes, in the part of the step that nothing else explains.

    `explained`: seconds a step by phase that have findings already, `places`: their lines.
    """
    shares = {
        phase: max(0.0, share - explained.get(phase, 0.0) / seen.step if seen.step else 0.0)
        for phase, share in seen.shares.items()
    }
    taken = places | {seen.places.get(kind, "") for kind in PHASES_OF_THEIR_OWN}
    lines = {
        phase: tuple(line for line in found if line.place not in taken)
        for phase, found in seen.lines.items()
    }
    left = replace(seen, shares=shares, lines=lines)
    blocking = _blocking(left)
    for one in blocking:
        (phase,) = one.remedies[0].phases
        rest = max(0.0, left.shares[phase] - one.share)
        left = replace(left, shares={**left.shares, phase: rest})
    found = _found(
        [(one.id, one.symptom, one.least) for one in ADVICE if _hold(one.needs, left)], left
    )
    return [replace(one, problem=True) for one in found] + blocking


def free(finding: Finding, seen: Seen) -> bool:
    """Whether nothing was measured of it, and the phases that it concerns take next to no time."""
    phases = {phase for remedy in finding.remedies for phase in remedy.phases}
    timed = bool(phases) and phases <= seen.shares.keys()
    return timed and not finding.share and seen.share(phases) < WORTH


def _blocking(seen: Seen) -> list[Finding]:
    """The costliest call that waits for a file or a program, and those that wait for other ranks.

    Ranks that wait for one another do so at the first of these calls: without it, at the next one.
    In the forward pass and the loss only waits for other ranks can be known from work. Its cost is
    that of the call alone, not of all that stands on its line.
    """
    candidates = (
        (seen.share((phase,)) * line.share * share, line, call, phase)
        for phase in ("other", "forward")
        for line in seen.lines.get(phase, ())
        for call, share in line.calls
        if _collects(call, seen) or (phase == "other" and _blocks(call.partition("(")[0]))
    )
    first: dict[str, tuple[float, Line, str, str]] = {}
    for one in sorted(candidates, key=lambda one: one[0], reverse=True):
        first.setdefault(one[1].place, one)
    ranked = list(first.values())
    if not ranked or ranked[0][0] < LEAST_BLOCKING:
        return []
    others = (one for one in ranked[1:] if one[0] >= WORTH and _collects(one[2], seen))
    return [_waits(*one, seen) for one in (ranked[0], *others)]


def _blocks(name: str) -> bool:
    return BLOCKING.search(name) is not None and JOINS_TEXT.search(name) is None


def _waits(share: float, line: Line, call: str, phase: str, seen: Seen) -> Finding:
    """What a call that waits costs."""
    what = headline(f"`{call}` in the step", share, seen.step)
    most = bound(share, seen.step)
    name, says = ("blocking_call", BLOCKS)
    if _collects(call, seen):
        name, says = "collective_in_step", COLLECTS_LOGS if SYNCED.search(call) else COLLECTS
    remedy = Remedy(name, says, (phase,), line.place, most, share)
    return Finding(what, line.place, line.text, share, most, (remedy,))


def _collects(call: str, seen: Seen) -> bool:
    synced = seen.facts.get("distributed") and SYNCED.search(call)
    return bool(COLLECTIVE.search(call.partition("(")[0]) or synced)


def _found(candidates: Iterable[tuple[str, Symptom, float]], seen: Seen) -> list[Finding]:
    parts: dict[tuple[str, bool], list[Remedy]] = {}
    unpriced: list[Finding] = []
    for name, symptom, least in candidates:
        share = seen.share(symptom.phases)
        remedy = _remedy(name, symptom, seen)
        nowhere = not remedy.place and seen.hottest(symptom.phases) is None
        if _saved(name, symptom, remedy.place, seen) < WORTH or share < least or nowhere:
            continue
        part = _part(symptom, remedy, seen)
        problem = symptom.sure and share >= PROBLEM.get(part, 0.0)
        if problem and part in WORK and not symptom.by_line and name not in seen.operators:
            unpriced.append(_unpriced(symptom, remedy, seen))
        else:
            parts.setdefault((part, problem), []).append(remedy)
    priced = [
        _finding(part, remedies, seen, problem=problem)
        for (part, problem), remedies in parts.items()
    ]
    return priced + unpriced


def _hold(needs: Iterable[Need], seen: Seen) -> bool:
    return all(need.holds(dict(seen.facts)) for need in needs)


def _part(symptom: Symptom, remedy: Remedy, seen: Seen) -> str:
    if symptom.place in BY_DTYPE:
        return BY_DTYPE[symptom.place]
    if set(COMPUTE) <= set(symptom.phases):
        whole = "step" if "optimizer" in symptom.phases else "compute"
        return "forward" if seen.facts.get("inference") else whole
    if symptom.by_line:
        return max(symptom.phases, key=lambda phase: _line_share(remedy.place, (phase,), seen))
    return symptom.phases[0]


def _remedy(name: str, symptom: Symptom, seen: Seen) -> Remedy:
    place = seen.places.get(symptom.place, "")
    if not place and seen.hottest(symptom.phases) is None:  # a Trainer's evaluation has no own line
        place = seen.places.get(symptom.phases[0], "")
    saved = _saved(name, symptom, place, seen)
    only_line = symptom.by_line and not symptom.line_gives
    share = _line_share(place, symptom.phases, seen) if only_line else seen.share(symptom.phases)
    most = bound(share, seen.step) if _bounded(symptom, seen) else NO_BOUND
    if name in seen.operators:
        most = bound(_operators_share(name, symptom, seen), seen.step)
    expected = saved * symptom.expected / symptom.gives
    return Remedy(name, symptom.says, symptom.phases, place, most, expected)


def _bounded(symptom: Symptom, seen: Seen) -> bool:
    """Whether the phases' share bounds the gain: not where other phases' work competes with it.

    Loader workers take cores from the step, so that relieving them speeds up every phase. The cost
    of page faults is an estimate. What acts on a part of its phases is not bounded by all of them.
    """
    workers = bool(seen.facts.get("fed_by_workers")) and "data" in symptom.phases
    return symptom.whole and not workers and "faults" not in symptom.phases


def _saved(name: str, symptom: Symptom, place: str, seen: Seen) -> float:
    """The largest share of a step that a remedy is known to have taken away."""
    by_line = symptom.by_line
    whole = acted_on(symptom, seen.shares, seen.starved, seen.communicated)
    if "data" in symptom.phases and name != SAMPLER:  # no worker or cache takes that line away
        whole = max(0.0, whole - _line_share(seen.places.get("sampler", ""), ("data",), seen))
    share = _line_share(place, symptom.phases, seen) if by_line else whole
    if seen.step:
        share = max(0.0, share - OVERHEAD.get(name, 0.0) / seen.step)
    if name in seen.operators:
        return _operators_share(name, symptom, seen)
    return most_saved(symptom, share, whole)


def _operators_share(name: str, symptom: Symptom, seen: Seen) -> float:
    """The part of a step in the functions that a technique replaces.

    Their backward part is taken to be to the backward pass as they are to the forward pass.
    """
    return seen.operators[name] * seen.share(symptom.phases)


def _line_share(place: str, phases: Iterable[str], seen: Seen) -> float:
    return line_share(place, phases, seen.shares, seen.lines)


def _finding(part: str, remedies: list[Remedy], seen: Seen, *, problem: bool) -> Finding:
    remedies.sort(key=lambda remedy: remedy.expected, reverse=True)
    own = dict.fromkeys(("step", *BY_DTYPE.values()), remedies[0].phases)
    joint = {"compute": COMPUTE, **own}
    phases = joint.get(part, (part,))
    share = seen.share(phases)
    line = seen.hottest(phases)
    place, text = _where(part, remedies, line, seen)
    most = max(remedy.most for remedy in remedies)
    what = _headline(part, share, seen)
    what += _bounded_by(remedies, phases, seen) if problem else ""
    spread = ""
    if problem and part in UNSPECIFIC and remedies[0].place:
        what = f"{what}; {remedies[0].says}"
        place, text = remedies[0].place, ""
    elif line is not None and line.place == place and (problem or part == "other"):
        here = seen.part_of(line, phases)
        if here < SPREAD and not seen.stands_out(line, phases):
            spread = "spread over several lines, of which none stands out"
            place, text = remedies[0].place or place, ""
        elif 0 < (samples := seen.samples(phases)) < FEW:
            what = f"{what}; the line is known from {several(samples, 'sample')} only"
        elif here < SPREAD:
            spread = f"spread over several lines, {here:.0%} of it at the costliest"
        elif problem and line.call:
            what = f"{what}; mostly {line.call}"
    what = f"{what}; {spread}" if spread else what
    also_slow = part == "data" and problem and not spread
    remedies += _slow_line(line, place, seen) if also_slow else []
    if part == "evaluation" and seen.facts.get("eval_in_train_mode"):
        what = f"{what}, in train mode (model.eval() is not called)"
    also = tuple(sorted({remedy.place for remedy in remedies} - {place, ""}))
    return Finding(
        what, place, text, share, most, tuple(remedies), also, problem=problem, spread=spread
    )


def _slow_line(line: Line | None, place: str, seen: Seen) -> list[Remedy]:
    """That a line is what a sample costs, whatever moves or saves that work.

    Not the head of a loop: its cost is that of what the loop reads, which lies in a library.
    """
    elsewhere = seen.facts.get("fed_by_workers") or place == seen.places.get("sampler")
    if line is None or line.place != place or elsewhere:  # slow_samples, slow_sampler say it
        return []
    if line.text.startswith(("for ", "async for ")):
        return []
    share = seen.part_of(line, ("data",)) * seen.share(("data",))
    most = bound(share, seen.step)
    return [Remedy("slow_line", SLOW_LINE, ("data",), place, most, share / 2, share=share)]


def _headline(part: str, share: float, seen: Seen) -> str:
    """What was seen, and its cost: of the wait for data also how much is that of the evaluation."""
    if part == "step":
        return PARTS[part]
    evaluation = seen.seconds.get("evaluation_data", 0.0) / (seen.step or 1.0)
    of_it = f" ({evaluation:.0%} in evaluation)" if part == "data" and evaluation >= WORTH else ""
    return headline(PARTS.get(part, part), share, seen.step) + of_it


def _bounded_by(remedies: Iterable[Remedy], phases: tuple[str, ...], seen: Seen) -> str:
    """What the bound follows from, where that is not the share of the finding's phases.

    A remedy may act on more phases than the one that its line is in, or on its line alone.
    """
    highest = max(remedies, key=lambda remedy: remedy.most)
    whole = bound(seen.share(phases), seen.step)
    if highest.most >= NO_BOUND or math.isclose(highest.most, whole):
        return ""
    if highest.most < whole:
        line = _line_share(highest.place, highest.phases, seen)
        return f", {line:.0%} on its line" if line else ""
    further = [name for name in highest.phases if name not in phases and seen.share((name,))]
    named = " and ".join(TITLES[name] for name in further)
    return f", with {named} {seen.share(highest.phases):.0%}"


def _unpriced(symptom: Symptom, remedy: Remedy, seen: Seen) -> Finding:
    """A problem that costs an unknown part of its phases, so that it has no share of its own.

    What it can be expected to save follows from its evidence, if there is some; it is little where
    only a part of the phases' work is concerned.
    """
    expected = remedy.expected
    fact, words = EVIDENCE.get(remedy.id, ("", ""))
    what, measured = remedy.says, seen.facts.get(fact)
    if isinstance(measured, float):
        expected *= measured
        what = f"{words.format(measured)}; {what}"
    elif not symptom.whole:
        expected = min(expected, LITTLE)
    remedy = replace(remedy, most=1.0, expected=expected)
    line = seen.hottest(symptom.phases)
    place = remedy.place or (line.place if line else "")
    return Finding(what, place, "", 0.0, 1.0, (remedy,))


def _where(part: str, remedies: list[Remedy], line: Line | None, seen: Seen) -> tuple[str, str]:
    """Data and the rest are pointed at by their hottest line, all else by the remedy's place."""
    place = next((remedy.place for remedy in remedies if remedy.place), "")
    if line is not None and (part in {"data", "other"} or not place):
        return line.place, line.text
    if part in {"compute", "forward"}:
        place = seen.places.get("model", place)
    return place, ""  # the line itself is read once all findings are there
