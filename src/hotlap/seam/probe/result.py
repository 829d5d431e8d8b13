"""The profile as the process sends it: plain JSON, times in seconds a step, memory in bytes."""

import math
import os
import sys
from contextlib import suppress
from functools import partial

from torch.utils.data import DataLoader

from hotlap.common import heap
from hotlap.core.protocol import (
    DatasetReport,
    MemoryReport,
    ModuleReport,
    PhaseTimes,
    ProfilePayload,
    RankTimes,
    SampledLine,
    ShownWarning,
)
from hotlap.seam.gate import peak_memory
from hotlap.seam.probe import operators
from hotlap.seam.probe.dataset_report import costly, fed, held
from hotlap.seam.probe.device import DeviceReport, DeviceTimeline
from hotlap.seam.probe.facts import contended, global_facts, optimizer_facts, zero_rate
from hotlap.seam.probe.hooks import piled_hooks
from hotlap.seam.probe.line_work import replaced
from hotlap.seam.probe.loaders import dispatched
from hotlap.seam.probe.models import anything_compiled
from hotlap.seam.probe.ranks import rank_times
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.probe.repeats import Place
from hotlap.seam.probe.resources import MIN_FAULT_SHARE, share_of_step
from hotlap.seam.probe.sampler import Stacks, by_file, hottest, phase_of
from hotlap.seam.probe.spread import ddp_facts

AT_FIRST_STEP = "Python, torch and data at the first step"
"""The owner of what a process on the CPU held before it trained, models and gradients apart."""
MOST_UNREAD = 0.8
"""Part of all gradients from which rows that nobody looked up are a problem: that much of the
optimizer's work is theirs."""
LEAST_REPLACED = 0.01
"""Part of a step in operators that a technique replaces below which it is not tried."""
HELD_BY_THEN = ("parameters", "buffers", "gradients")


def payload(rec: Recorder, ended: str) -> ProfilePayload:
    """Everything that was learned; `ended` is what ended it: `steps` or `exit`."""
    rec.resources.steps_over()
    ranks = _first_rank(rec, ended)  # before the data set is read again
    tally = rec.measured()
    device = _on_device(rec, tally.step().mean)
    steps = max(1, tally.steps)
    samples, tokens = rec.per_step()
    stacks = dict(rec.sampler.stacks)
    phases = device.phases if device else tally.phases()
    shares = _shares(phases)
    dataset = fed(rec, ended, _training_loader(rec), _waiting(shares))
    faults = _faults(rec, dataset, _waiting(shares))
    resources = held(rec, ended, _training_loader(rec))
    costly_line = costly(rec, ended, _training_loader(rec), resources, _waiting(shares))
    draws = rec.loaders.draws(rec.training_loader) or (dataset is not None and dataset.draws)
    learned, notes = rec.diagnostics.result()
    followed = learned["invariants"] or {}
    facts = _facts(rec, ended) | operators.facts(learned["operators"], followed.get("ran", ()))
    timed = {} if facts["cuda"] else followed  # there a call returns before the work is done
    lines = hottest(stacks, shares, timed.get("own", {}))
    most = partial(_most, stacks, tally.step().mean)
    lookups = replaced(timed.get("index_select", {}), most)
    convolved = replaced(timed.get("fft_convolution", {}), most)
    modules = learned["modules"] or ModuleReport()
    evaluated = phases.get("evaluation")
    each_step = evaluated is not None and evaluated.p10 > 0  # in nine steps of ten
    facts |= {"draws": draws, "page_faults": faults >= MIN_FAULT_SHARE,
              "asks_each_step": each_step and rec.facts.asked_in_train_mode,
              "dense_rows": modules.unread >= MOST_UNREAD,
              "row_lookups": lookups.seconds >= LEAST_REPLACED * tally.step().mean,
              "long_kernels": convolved.seconds >= LEAST_REPLACED * tally.step().mean}  # fmt: skip
    places = _places(rec, lines, costly_line)
    facts["slow_sampler"] = "sampler" in places
    seen_at = {"dense_rows": modules.table, "row_lookups": lookups.place,
               "long_kernels": convolved.place}  # fmt: skip
    facts |= contended(rec.pool_waited(), cuda=bool(facts["cuda"]))
    return ProfilePayload(
        program=_program(),
        ended=ended,
        steps=tally.steps,
        detailed=tally.detailed,
        warmup=rec.warmed - (0 if tally is rec.tally else tally.steps),
        diagnostic=rec.diagnostics.steps,
        device="cuda" if facts["cuda"] else "cpu",
        step=tally.step(),
        grown_steps=tally.grown(),
        phases=phases,
        starved=device.starved if device else None,
        cpu=rec.clock()["cpu"] / steps,
        samples=samples,
        tokens=tokens,
        backwards=rec.passes(),
        lines=lines,
        sampled=by_file(stacks, shares),
        samples_taken=sum(stacks.values()),
        facts=facts,
        places=places | {name: place for name, place in seen_at.items() if place},
        memory=_memory(rec, device, learned["memory"] or {}),
        flops=learned["flops"],
        modules=modules,
        hooks=piled_hooks(rec.session.roots.found),
        retained=learned["retained"] or [],
        invariants=followed.get("invariants", []),
        in_vain=timed.get("in_vain", {}),
        unused=timed.get("unused", []),
        pairs=timed.get("pairs", []),
        lookups=lookups,
        long_kernels=convolved,
        operators_on=timed.get("by_line", {}),
        backward_by_line=timed.get("backward", []),
        layers=learned.get("layers") or {},
        warnings=[ShownWarning(*shown) for shown in rec.warnings],
        notes=notes,
        spread=rec.spread.per_call(),
        resources=resources,
        dataset=dataset,
        calls=rec.calls.result(),
        faults=faults,
        world=rec.world,
        ranks=ranks,
        operators=(learned["operators"] or {}).get("seconds", {}),
        **rec.session.standing(),
    )


def _on_device(rec: Recorder, step: float) -> DeviceReport | None:
    """What the device's clock shows of a mean step of `step` seconds; None without a GPU."""
    if not isinstance(rec.timeline, DeviceTimeline):
        return None
    found = rec.timeline.device_results()
    return found.scaled(step) if found else None


def _program() -> str:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(main) if main else ""


def _waiting(shares: dict[str, float]) -> float:
    return shares.get("data", 0.0) + shares.get("loader", 0.0)


def _faults(rec: Recorder, dataset: DatasetReport | None, waiting: float) -> float:
    """The part of a step that page faults take; 0 where malloc has nothing to set."""
    if not heap.available():
        return 0.0
    of_samples = dataset.faults.get("share", 0.0) if dataset else 0.0
    with suppress(OSError):  # no memory to measure one on
        return share_of_step(rec.resources.fault_rate(), of_samples, waiting)
    return 0.0


def _facts(rec: Recorder, ended: str) -> dict[str, object]:
    found = {"cuda": False, "model": False, "compiled": False, **global_facts(), **rec.facts.values}
    found |= optimizer_facts(list(rec.optimizers), rec.session.roots.found)
    found |= rec.loaders.facts(rec.training_loader)
    found |= _of_ranks(rec) if ended != "still" else {}  # DDP holds its log while it waits
    with suppress(Exception):  # the device may have failed by now
        found |= rec.padded.facts()
    found["decodes_uncached"] = rec.calls.uncached
    found["generates_uncached"] = rec.generation.uncached
    found["compiled"] = found["compiled"] or anything_compiled()
    if found["cuda"] and found["loaders"]:
        found.setdefault("pageable", not found["loader_pinned"])
    with suppress(Exception):  # Accelerate's own business
        found["dispatched_batches"] = dispatched()
    feeds = rec.training_loader
    found["each_sample_once"] = rec.each_sample_once()
    found["batch_size"] = feeds.kind.batch_size if feeds else None
    found["sync_calls"] = sum(rec.sync_calls.values()) / max(1, rec.tally.steps)
    found["parameters"] = _parameters(rec)
    found["zero_rate"] = zero_rate(rec.optimizers, rec.idle_groups)
    return found


def _of_ranks(rec: Recorder) -> dict[str, object]:
    with suppress(Exception):  # the group is gone by now: the profile is sent all the same
        return ddp_facts(rec.session.roots.found)
    return {"ddp": False}


def _most(stacks: Stacks, step: float, place: Place) -> float:
    """Seconds that a line takes at most outside of the backward pass, by three standard errors.

    Where it is in none of so many samples, it is in fewer than three of as many on average, at 95%.
    """
    taken = sum(stacks.values())
    found = sum(
        count
        for (phase, stack), count in stacks.items()
        if phase != "backward" and any((code, line) == place for code, line, _ in stack)
    )
    return step * (found + 3.0 * math.sqrt(found) + 3.0) / taken if taken else math.inf


def _first_rank(rec: Recorder, ended: str) -> list[RankTimes]:
    """The times of this rank, as the others report theirs."""
    if rec.world > 1 and ended != "still":
        with suppress(Exception):
            return [rank_times(rec, 0)]
    return []


def _parameters(rec: Recorder) -> int:
    return sum(p.numel() for p in rec.root.parameters()) if rec.root is not None else 0


def _training_loader(rec: Recorder) -> DataLoader[object] | None:
    return rec.training_loader.loader() if rec.training_loader is not None else None


def _shares(phases: dict[str, PhaseTimes]) -> dict[str, float]:
    """The phases' shares of a step."""
    whole = sum(phase.mean for phase in phases.values()) or 1.0
    return {name: phase.mean / whole for name, phase in phases.items()}


def _places(rec: Recorder, lines: dict[str, list[SampledLine]], costly_line: str) -> dict[str, str]:
    """The places to point at; `dataset` is the user's line that the wait for data is spent in.

    Where workers read the samples it is `costly_line`, if that is known. `sampler` is the line in
    which the wait is spent, where it belongs to a sampler.
    """
    places = dict(rec.facts.places)
    feeds = rec.training_loader
    fed_by = feeds.kind if feeds else next(iter(rec.loaders.kinds), None)
    if fed_by and fed_by.place:
        places["loader"] = fed_by.place
    copied = places.get("float64", "")
    if rec.facts.values.get("float64_model") and "float64_made" in places:
        places["float64"] = places["float64_made"]  # the cause of all that the step converts
    for kind in ("float64_array", "float64_made"):  # where nothing in the step itself converts
        if kind in places:
            places.setdefault("float64", places[kind])
    if "float64" in places:
        places["float64_copied"] = copied or places["float64"]
    return places | _of_data(rec, lines.get("data", []), costly_line)


def _of_data(rec: Recorder, hot: list[SampledLine], costly_line: str) -> dict[str, str]:
    """Where the wait for data is spent."""
    loader = _training_loader(rec)
    if hot and loader is not None and hot[0].function.startswith(_samplers(loader)):
        return dict.fromkeys(("dataset", "sampler"), hot[0].place)
    place = costly_line or (hot[0].place if hot else "")
    return {"dataset": place} if place else {}


def _samplers(loader: DataLoader[object]) -> tuple[str, ...]:
    """How the names of functions begin that choose samples: these run in this process always."""
    kinds = {type(getattr(loader, name, None)) for name in ("sampler", "batch_sampler")}
    return tuple(f"{kind.__qualname__}." for kind in kinds)


def _memory(rec: Recorder, device: DeviceReport | None, owners: dict[str, int]) -> MemoryReport:
    by_phase = device.memory if device else {}
    if owners and not device and rec.resident:
        counted = sum(owners[name] for name in HELD_BY_THEN)
        owners = {AT_FIRST_STEP: max(0, rec.resident - counted), **owners}
    return MemoryReport(by_phase or _resident(rec), owners, peak_memory())


def _resident(rec: Recorder) -> dict[str, int]:
    """The most that was resident in each phase."""
    found: dict[str, int] = {}
    for phase, size in rec.sampler.resident.items():
        name = phase_of(phase)
        found[name] = max(found.get(name, 0), size)
    return found
