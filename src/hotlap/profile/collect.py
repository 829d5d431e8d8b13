"""From the probe's payload to a profile."""

from collections.abc import Mapping
from typing import Any

from hotlap.core.machine import Machine
from hotlap.core.peaks import Peaks
from hotlap.profile.findings import findings
from hotlap.profile.model import Headroom, Line, Phase, Profile


def profile_from(payload: Mapping[str, Any], machine: Machine, peaks: Peaks | None) -> Profile:
    """Build the profile; without `peaks` the share of the machine's limits stays unknown."""
    step = payload["step"]
    lines = {
        phase: tuple(
            Line(found["place"], found["function"], found["text"], found["share"])
            for found in entries
        )
        for phase, entries in payload["lines"].items()
    }
    memory = payload["memory"]
    return Profile(
        steps=step["steps"],
        step=step["mean"],
        step_p10=step["p10"],
        step_p90=step["p90"],
        device=payload["device"],
        phases=_phases(payload),
        lines=lines,
        samples_per_second=_rate(payload["samples"], step["mean"]),
        tokens_per_second=_rate(payload["tokens"], step["mean"]),
        memory_by_phase=memory["by_phase"],
        memory_by_owner=memory["by_owner"],
        peak_memory=memory["peak"]["cuda"] or memory["peak"]["resident"],
        headroom=_headroom(payload, machine, peaks),
        findings=tuple(findings(payload, lines)),
        facts=payload["facts"],
        places=payload["places"],
        notes=tuple(f"{what}: not measured: {why}" for what, why in payload["notes"].items()),
        cpu=payload["cpu"],
    )


def _phases(payload: Mapping[str, Any]) -> tuple[Phase, ...]:
    whole = payload["step"]["mean"] or 1.0
    return tuple(
        Phase(name, found["mean"], found["p10"], found["p90"], found["mean"] / whole)
        for name, found in payload["phases"].items()
        if found["mean"] > 0
    )


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds else 0.0


def _headroom(payload: Mapping[str, Any], machine: Machine, peaks: Peaks | None) -> Headroom | None:
    flops = payload["flops"]
    phases = payload["on_device"].get("phases") or payload["phases"]
    seconds = sum(phases[name]["mean"] for name in ("forward", "backward") if name in phases)
    if not flops or not seconds:
        return None
    dtype = _dtype(payload["facts"])
    limits = peaks.on(payload["device"]) if peaks else None
    caution = ""
    if peaks and peaks.load > 0.8 * machine.logical_cores and payload["device"] == "cpu":
        caution = "the peak was measured on a busy machine; `hotlap machine --refresh` when idle"
    return Headroom(
        flops, flops / seconds, dtype, limits.gemm.get(dtype) if limits else None, caution
    )


def _dtype(facts: Mapping[str, Any]) -> str:
    if facts.get("autocast_on"):
        return "bfloat16"
    if facts.get("float64_model"):
        return "float64"
    half = facts.get("dtype")
    return half if half in {"bfloat16", "float16"} else "float32"
