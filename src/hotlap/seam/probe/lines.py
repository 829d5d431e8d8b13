"""From sampled stacks to lines: where the time goes, and what a line costs with all below it."""

import linecache
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any

from hotlap.seam.where import Stack, short

LEAST = 0.005
ALWAYS = 3
CALLS = 3
LOSS = "loss"
"""Samples between a training forward and what follows it: part of the phase `forward`."""

Line = tuple[CodeType, int]
Stacks = Mapping[tuple[str, Stack], int]


def phase_of(sampled: str) -> str:
    """The phase that is reported for the one that was sampled."""
    return "forward" if sampled == LOSS else sampled


def hottest(stacks: Stacks, shares: Mapping[str, float]) -> dict[str, list[dict[str, Any]]]:
    """By phase: the innermost lines of the user's, and their share of the phase's samples.

    Those that make up 0.5 % of a step, and a few of each phase in any case. `shares`: the phases'
    shares of a step. `calls` of a line: the expressions that were running and their share of its
    samples, the most frequent first.
    """
    phases: dict[str, Counter[Line | None]] = {}
    calls: dict[str, dict[Line, Counter[str]]] = {}
    for (phase, stack), count in stacks.items():
        name, line = phase_of(phase), stack[0][:2] if stack else None
        phases.setdefault(name, Counter())[line] += count
        if line is not None:
            running = running_call(*stack[0])
            counts = calls.setdefault(name, {}).setdefault(line, Counter())
            counts[running.text if running else ""] += count
    return {
        phase: _top(counts, calls.get(phase, {}), shares.get(phase, 0.0))
        for phase, counts in phases.items()
    }


def _top(
    counts: "Counter[Line | None]", calls: Mapping[Line, "Counter[str]"], share: float
) -> list[dict[str, Any]]:
    total = counts.total()
    found: list[dict[str, Any]] = [
        {
            "place": f"{short(line[0].co_filename)}:{line[1]}",
            "function": line[0].co_qualname,
            "text": source(line[0].co_filename, line[1]),
            "share": count / total,
            "samples": count,
            "calls": [
                (text, times / count) for text, times in calls[line].most_common(CALLS) if text
            ],
        }
        for line, count in counts.most_common()
        if line is not None
    ]
    return [e for i, e in enumerate(found) if i < ALWAYS or e["share"] * share >= LEAST]


@dataclass(frozen=True)
class Running:
    """An expression that was running: its columns (from 0, the end exclusive) and its text."""

    column: int
    end_column: int
    text: str


@lru_cache(maxsize=4096)
def running_call(code: CodeType, line: int, instruction: int) -> Running | None:
    """Find the expression of a line that a bytecode instruction belongs to.

    None where the compiler kept no columns (`python -X no_debug_ranges`), or where the expression
    is not on that line alone. For a call the instruction is the one that makes it.
    """
    at = next(islice(code.co_positions(), instruction // 2, None), None)
    if at is None or None in at or at[0] != line or at[1] != line:
        return None
    _, _, begin, end = at
    text = linecache.getline(code.co_filename, line).encode()[begin:end]
    return Running(begin or 0, end or 0, text.decode(errors="replace"))


def by_file(stacks: Stacks, shares: Mapping[str, float]) -> dict[str, dict[int, dict[str, Any]]]:
    """By file and line: the share of each sampled phase's samples, calls from the line included.

    `files[path][line][phase]` is (share of the phase, number of samples, calls): LOSS and `forward`
    are two parts of one phase; `calls` lists the columns of each expression that was running and
    its share of the line's samples. Lines below 0.5 % of a step are left out; a file keeps its
    entry.
    """
    totals: Counter[str] = Counter()
    counts: Counter[tuple[str, int, str]] = Counter()
    calls: dict[tuple[str, int, str], Counter[tuple[int, int]]] = {}
    for (phase, stack), count in stacks.items():
        totals[phase_of(phase)] += count
        innermost = {(code.co_filename, line): (code, line, at) for code, line, at in stack[::-1]}
        for (path, line), entry in innermost.items():
            key = (path, line, phase)
            counts[key] += count
            if running := running_call(*entry):
                columns = (running.column, running.end_column)
                calls.setdefault(key, Counter())[columns] += count
    files: dict[str, dict[int, dict[str, Any]]] = {}
    for (name, line, phase), count in counts.items():
        lines = files.setdefault(os.path.abspath(name), {})
        share = count / totals[phase_of(phase)]
        if share * shares.get(phase_of(phase), 0.0) >= LEAST:
            ran = calls.get((name, line, phase), Counter())
            parts = [(*columns, times / count) for columns, times in ran.items()]
            lines.setdefault(line, {})[phase] = (share, count, parts)
    return files


def source(path: str, line: int) -> str:
    """A line of source as written, without its indentation."""
    return linecache.getline(path, line).strip()
