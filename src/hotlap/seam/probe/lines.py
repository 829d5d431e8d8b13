"""From sampled stacks to lines: where the time goes, and what a line costs with all below it."""

import linecache
import os
from collections import Counter
from collections.abc import Mapping
from types import CodeType
from typing import Any

from hotlap.seam.where import Stack, short

LEAST = 0.005
ALWAYS = 3
LOSS = "loss"
"""Samples between a training forward and what follows it: part of the phase `forward`."""

Stacks = Mapping[tuple[str, Stack], int]


def phase_of(sampled: str) -> str:
    """The phase that is reported for the one that was sampled."""
    return "forward" if sampled == LOSS else sampled


def hottest(stacks: Stacks, shares: Mapping[str, float]) -> dict[str, list[dict[str, Any]]]:
    """By phase: the innermost lines of the user's, and their share of the phase's samples.

    Those that make up 0.5 % of a step, and a few of each phase in any case. `shares`: the phases'
    shares of a step.
    """
    phases: dict[str, Counter[tuple[CodeType, int] | None]] = {}
    for (phase, stack), count in stacks.items():
        phases.setdefault(phase_of(phase), Counter())[stack[0] if stack else None] += count
    return {phase: _top(counts, shares.get(phase, 0.0)) for phase, counts in phases.items()}


def _top(counts: "Counter[tuple[CodeType, int] | None]", share: float) -> list[dict[str, Any]]:
    total = counts.total()
    found: list[dict[str, Any]] = [
        {
            "place": f"{short(line[0].co_filename)}:{line[1]}",
            "function": line[0].co_qualname,
            "text": source(line[0].co_filename, line[1]),
            "share": count / total,
            "samples": count,
        }
        for line, count in counts.most_common()
        if line is not None
    ]
    return [e for i, e in enumerate(found) if i < ALWAYS or e["share"] * share >= LEAST]


def by_file(stacks: Stacks, shares: Mapping[str, float]) -> dict[str, dict[int, dict[str, Any]]]:
    """By file and line: the share of each sampled phase's samples, calls from the line included.

    `files[path][line][phase]` is a pair: the share of the phase (LOSS and `forward` are two parts
    of one), and how many samples it stands on. Lines below 0.5 % of a step are left out; a file
    keeps its entry.
    """
    totals: Counter[str] = Counter()
    counts: Counter[tuple[str, int, str]] = Counter()
    for (phase, stack), count in stacks.items():
        totals[phase_of(phase)] += count
        for path, line in {(code.co_filename, line) for code, line in stack}:
            counts[(path, line, phase)] += count
    files: dict[str, dict[int, dict[str, Any]]] = {}
    for (name, line, phase), count in counts.items():
        lines = files.setdefault(os.path.abspath(name), {})
        share = count / totals[phase_of(phase)]
        if share * shares.get(phase_of(phase), 0.0) >= LEAST:
            lines.setdefault(line, {})[phase] = (share, count)
    return files


def source(path: str, line: int) -> str:
    """A line of source as written, without its indentation."""
    return linecache.getline(path, line).strip()
