"""From the probe's payload to a profile."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotlap.core.machine import Machine, available_memory
from hotlap.core.peaks import Peaks
from hotlap.core.protocol import ProfilePayload, SampledLine
from hotlap.core.registry import techniques
from hotlap.notebook.script import notebook_of
from hotlap.profile.advice import addressed
from hotlap.profile.callers import from_one_call
from hotlap.profile.findings import Seen, advised, free, padded, proposed, seen_in
from hotlap.profile.join import FORWARD, Costed, Past, joined, split
from hotlap.profile.merge import merged
from hotlap.profile.micro_batches import micro_batches
from hotlap.profile.model import (
    Finding,
    Headroom,
    Line,
    Phase,
    Profile,
    usual_times,
    was_interrupted,
)
from hotlap.profile.outside import outside_of_torch
from hotlap.profile.packing import with_packing
from hotlap.profile.ranks import late_for_a_core, ranks_of, straggling
from hotlap.profile.sights import (
    IN_VAIN,
    UNUSED,
    grown_steps,
    rollout,
    sights,
)
from hotlap.profile.small_operators import small_operators
from hotlap.profile.sources import line_of, shown, touched
from hotlap.profile.storage import with_storage
from hotlap.source.config import read_config
from hotlap.source.fixes import fixes
from hotlap.source.lint import Spot
from hotlap.trial.command import THIS_CELL

ON_CPU = {
    "host_sync": (
        "values are read out of tensors at every step",
        "add up loss.detach() and read the sum every n steps",
    ),
    "moved_after_creation": (
        "the same tensor is built anew at every step",
        "build it once, for the largest size (register_buffer in a module), and take a slice",
    ),
}
"""What costs time without a GPU too, by pattern or technique, and what to say of it there."""
_OF_DATA = re.compile(
    r"\b(?:rand\w*\(|(?:tensor|as_tensor|from_numpy|FloatTensor|LongTensor)\("
    r"(?!\s*(?:np|numpy)\.(?:arange|linspace|tri|tri[lu]\((?:np|numpy)\.ones)\())"
)


MEASURED = ("retained_graph",)
"""Techniques of which the probe measures at the place what it costs."""
PRICED = frozenset({"loop_invariants", UNUSED, *IN_VAIN})
"""Sights that are only worth a word where what the probe saw costs time."""
NOT_MEASURED = {
    "retained": "graphs that outlive their step",
    "memory": "memory by owner",
    "modules": "sizes and biases of layers",
    "flops": "FLOPs",
    "operators": "the time of functions that have faster forms",
    "invariants": "work with the same result at every step",
    "layers": "time by layer",
}
"""What a diagnosis of the probe finds out, in words."""


WITHOUT_CHECKPOINTS = 20
"""Activations that are taken to be kept without checkpoints, over those that are with them: a
transformer block keeps some twenty tensors of the size of its input."""


@dataclass(frozen=True)
class Circumstances:
    """Of the run that was profiled.

    `began`: seconds since the epoch; `folder`: its working folder; `command`: as typed in a shell,
    or `this cell`.
    """

    began: float
    folder: Path = field(default_factory=Path.cwd)
    partial: str = ""
    command: str = ""


def profile_from(
    payload: ProfilePayload, machine: Machine, peaks: Peaks | None, run: Circumstances
) -> Profile:
    """Build the profile; without `peaks` the share of the machine's limits stays unknown."""
    bare = _bare(payload, machine, peaks, run)
    seen = seen_in(payload, bare.lines)
    own = [*proposed(seen), *padded(seen)]
    known = replace(bare, findings=tuple(own))
    left = _left(machine, bare)
    try:
        spots = _affordable(_spots(known, sights(payload, run.folder)), bare, left)
        written = {} if run.command == THIS_CELL else _written_by_lint(spots, run.folder)
    except Exception as error:  # a profile that took a minute outlives a rule that fails
        note = f"source not judged: {error!r}"
        spots, written, bare = [], {}, replace(bare, notes=(*bare.notes, note))
    notes = (
        *grown_steps(payload), *_changed(bare, run.folder), *_unpacked(payload),
        *rollout(payload, run.folder),
    )  # fmt: skip
    bare = replace(bare, notes=(*bare.notes, *notes))
    found = [*_all(own, spots, seen, bare), *micro_batches(bare, left)]
    found = with_packing(found, payload, run.folder)
    ranked = _ranked([*with_storage(found, payload), *straggling(payload)], run.folder)
    own_words = tuple(addressed(one, payload.facts, run.command, written) for one in ranked)
    return replace(bare, findings=own_words)


def _left(machine: Machine, profile: Profile) -> int:
    """Bytes of memory that the profiled program could still take on its device."""
    if profile.device != "cuda":
        return available_memory()
    return max(0, min((gpu.memory for gpu in machine.gpus), default=0) - profile.peak_memory)


def _affordable(spots: list[Costed], profile: Profile, left: int) -> list[Costed]:
    """Without checkpointed blocks where it is not certain that their activations would fit."""
    kept = profile.memory_by_owner.get("activations", 0)
    if kept and left >= max(WITHOUT_CHECKPOINTS * kept, profile.peak_memory):
        return spots
    return [one for one in spots if one.spot.technique != "keep_activations"]


def _unpacked(payload: ProfilePayload) -> list[str]:
    """Why the training's files were not compared with a packed copy, where that went wrong."""
    why = payload.dataset.failed if payload.dataset else ""
    return [f"not compared with a packed copy: {why}"] if why else []


def _changed(bare: Profile, folder: Path) -> list[str]:
    """The files whose lines are no longer those that ran."""
    return [
        f"not judged: {_shown(path, folder)} changed while it ran"
        for path in map(Path, sorted(bare.files))
        if not bare.files[str(path)].digest
    ]


def _all(own: list[Finding], spots: list[Costed], seen: Seen, profile: Profile) -> list[Finding]:
    """Every finding that time, source and the model show."""
    folder = Path(profile.folder)
    known = merged(own, spots, folder)
    found = [replace(one, problem=one.problem and not free(one, seen)) for one in known.findings]
    by_others = sum(known.explained.get(phase, 0.0) for phase in FORWARD)
    outside = outside_of_torch(profile, folder, known.places, by_others)
    taken = dict.fromkeys(known.places, profile.step)
    taken |= {at: one.share * profile.step for one in found for at in (one.place, *one.also)}
    loops = small_operators(profile, folder, taken, by_others)
    places, explained = known.places | {one.place for one in loops}, dict(known.explained)
    for one in loops:
        if "other" in one.remedies[0].phases:
            explained["other"] = explained.get("other", 0.0) + one.share * profile.step
    found = [from_one_call(one, profile, folder) for one in found]
    return [*found, *outside, *loops, *advised(seen, explained, places)]


def _ranked(found: list[Finding], folder: Path) -> tuple[Finding, ...]:
    """With their lines of source; problems first, those that can be expected to give most first."""
    texts = [_with_text(finding, folder) for finding in found]
    return tuple(sorted(texts, key=lambda finding: (not finding.problem, -finding.expected)))


def _with_text(finding: Finding, folder: Path) -> Finding:
    at = None if finding.text else split(finding.place, folder)
    return replace(finding, text=line_of(*at)) if at else finding


def _spots(known: Profile, seen: list[Spot]) -> list[Costed]:
    """The spots of the files that the profile met, and what the probe saw itself, with costs.

    Lint's come first: where both saw the same, its words stand, but for what the probe measured.
    """
    document = known.to_json()
    past = Past(document)
    paths = sorted(path for path in past.met if path.is_file())
    found = joined(paths, document, read_config(Path(known.folder))) if paths else []
    measured = {_where(spot): spot for spot in seen if spot.technique in MEASURED}
    found = [
        replace(one, spot=replace(one.spot, says=measured[at].says, hint=measured[at].hint))
        if (at := _where(one.spot)) in measured
        else one
        for one in found
    ]
    have = {_where(one.spot) for one in found}
    others = [past.cost(spot) for spot in seen if _where(spot) not in have]
    found += [one for one in others if one.worth or one.spot.technique not in PRICED]
    unchanged = known.facts.get("unchanged", {})  # a fault is one all the same
    found = [one for one in found if not (one.spot.hint and one.spot.technique in unchanged)]
    if known.facts.get("inference"):
        found = [one for one in found if _for_inference(one.spot.technique)]
    if known.facts.get("loaders") and not known.facts.get("loader_workers"):
        found = [one for one in found if not _needs_workers(one.spot.technique)]
    return found if known.device == "cuda" else [*_without_device(found)]


def _where(spot: Spot) -> tuple[Path, int, str]:
    return spot.path.resolve(), spot.line, spot.technique


def _written_by_lint(spots: Iterable[Costed], folder: Path) -> dict[str, str]:
    """The commands with which `hotlap lint` writes techniques, where it can do so safely."""
    found: dict[str, list[Spot]] = {}
    for one in spots:
        if not (one.stale or one.spot.hint):
            found.setdefault(one.spot.technique, []).append(one.spot)
    config, commands = read_config(folder), {}
    for name, same in found.items():
        files = sorted({_shown(file.path, folder) for file in fixes(same, config).changed})
        if files:
            commands[name] = shlex.join(["hotlap", "lint", "--fix", *files])
    return commands


def _shown(path: Path, folder: Path) -> str:
    """A path as it would be typed in a folder; of a notebook's script that of the notebook."""
    return shown(Path(notebook_of(str(path)) or path), folder)


def _for_inference(name: str) -> bool:
    """Whether what source shows concerns a program that does not train."""
    record = techniques().get(name)
    return record is None or record.inference


def _needs_workers(name: str) -> bool:
    """Whether what source shows concerns a loader's workers; their number may be a variable."""
    record = techniques().get(name)
    return record is not None and any(need.fact == "loader_workers" for need in record.needs)


def _of_data(spot: Spot) -> bool:
    """Whether what is made and then moved is made of data, and is not the same at every step."""
    made = spot.id == "moved_after_creation"
    return made and _OF_DATA.search(line_of(spot.path, spot.line)) is not None


def _without_device(found: Iterable[Costed]) -> Iterator[Costed]:
    """Leave out what can only cost time where there is a GPU.

    On a CPU `.item()` waits for nothing: the cost is that of reading, formatting and printing.
    """
    for one in found:
        record = techniques().get(one.spot.technique)
        for_gpu = record is not None and any(need.fact == "cuda" for need in record.needs)
        words = ON_CPU.get(one.spot.id, ON_CPU.get(one.spot.technique))
        if words is None and not for_gpu:
            yield one
        elif words is not None and one.worth and not _of_data(one.spot):
            says, remedy = words
            yield replace(one, spot=replace(one.spot, says=says, remedy=remedy))


def _bare(
    payload: ProfilePayload, machine: Machine, peaks: Peaks | None, run: Circumstances
) -> Profile:
    """All but the findings."""
    step, memory = payload.step, payload.memory
    means = {name: found.mean for name, found in payload.phases.items()}
    lines = {
        phase: tuple(_line(line, means.get(phase, 0.0)) for line in found)
        for phase, found in payload.lines.items()
    }
    behind = (_line(line, means.get("backward", 0.0)) for line in payload.backward_by_line)
    latency = {"p50": step.p50, "p95": step.p95}
    return Profile(
        steps=step.steps,
        detailed=step.steps if payload.detailed is None else payload.detailed,
        step=step.mean,
        step_p10=step.p10,
        step_p90=step.p90,
        device=payload.device,
        phases=_phases(payload),
        starved=payload.starved,
        lines=lines,
        backward_by_line=tuple(behind),
        samples_per_second=_rate(payload.samples, step.mean),
        tokens_per_second=_rate(payload.tokens, step.mean),
        backwards=payload.backwards,
        memory_by_phase=memory.by_phase,
        memory_by_owner=memory.by_owner,
        peak_memory=memory.peak.cuda or memory.peak.resident,
        headroom=_headroom(payload, machine, peaks),
        findings=(),
        facts=payload.facts,
        places=payload.places,
        notes=(*_notes(payload.notes), *_contended(payload.facts), *late_for_a_core(payload)),
        cpu=payload.cpu,
        partial=run.partial,
        latency={name: seconds for name, seconds in latency.items() if seconds is not None},
        calls=payload.calls,
        world=payload.world,
        ranks=ranks_of(payload),
        folder=str(run.folder),
        command=run.command,
        files=touched(payload, run.began),
        layers=payload.layers,
        ended_after=None if was_interrupted(run.partial) else payload.ended_after,
        too_short=payload.too_short and not was_interrupted(run.partial),
    )


def _line(line: SampledLine, phase: float) -> Line:
    """A line of a phase that takes so many seconds a step.

    Its operators were timed in other steps than the phase.
    """
    seconds = max(line.share * phase, sum(spent for _, spent in line.operators))
    operators = tuple((name, spent / seconds) for name, spent in line.operators if spent)
    calls = tuple(line.calls)
    return Line(line.place, line.function, line.text, line.share, calls, line.samples, operators)


def _phases(payload: ProfilePayload) -> tuple[Phase, ...]:
    whole = payload.step.mean or 1.0
    usual, _ = usual_times(payload)
    return tuple(
        Phase(name, found.mean, found.p10, found.p90, found.mean / whole, usual[name])
        for name, found in payload.phases.items()
        if found.mean > 0
    )


def _notes(missing: Mapping[str, str]) -> tuple[str, ...]:
    """What was not measured, by reason."""
    reasons: dict[str, list[str]] = {}
    for what, why in missing.items():
        reasons.setdefault(why, []).append(NOT_MEASURED.get(what, what))
    return tuple(f"not measured: {', '.join(whats)}: {why}" for why, whats in reasons.items())


def _contended(facts: Mapping[str, object]) -> tuple[str, ...]:
    """What was seen of threads that spin while cores are short."""
    waited = facts.get("threads_waited")
    if not facts.get("contended_threads") or not isinstance(waited, float):
        return ()
    return (
        f"torch computes with {facts.get('threads')} threads, which waited for a core {waited:.0%} "
        "of the time in which they were ready to run: that stretches the step, and shares are of "
        "the stretched step",
    )


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds else 0.0


def _headroom(payload: ProfilePayload, machine: Machine, peaks: Peaks | None) -> Headroom | None:
    flops = payload.flops
    phases = payload.phases
    seconds = sum(phases[name].mean for name in ("forward", "backward") if name in phases)
    if not flops or not seconds:
        return None
    dtype = _dtype(payload.facts)
    limits = peaks.on(payload.device) if peaks else None
    caution = ""
    if peaks and peaks.busy(machine) and payload.device == "cpu":
        caution = "the peak was measured on a busy machine; `hotlap machine --refresh` when idle"
    return Headroom(
        flops, flops / seconds, dtype, limits.gemm.get(dtype) if limits else None, caution
    )


def _dtype(facts: Mapping[str, object]) -> str:
    if facts.get("autocast_on"):
        return "bfloat16"
    if facts.get("float64_model"):
        return "float64"
    half = facts.get("dtype")
    return str(half) if half in {"bfloat16", "float16"} else "float32"
