"""How a race to a target looks in the terminal and as JSON."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console

from hotlap.core.amounts import duration, several
from hotlap.reporting.live_screen import LiveScreen
from hotlap.reporting.race_text import contestant
from hotlap.reporting.tables import Row, columns, table
from hotlap.reporting.words import ratio
from hotlap.trial.stats import Verdict
from hotlap.until.race import Point, Run, UntilResult, UntilRules
from hotlap.until.targets import LOSS, SMOOTHED_STEPS

WIDTH, HEIGHT = 60, 10
LOG_FROM = 50.0
"""Values that differ by more than this factor are drawn on a logarithmic scale."""
STARTING = 0.5
"""Part of a run's time from which its start-up is named as what kept it from the target."""
SAME_LOSSES = (
    "the seeds change nothing: all runs saw the same losses, so that the interval says nothing of "
    "other seeds"
)
SAID = {
    Verdict.FASTER: "B reaches the target sooner",
    Verdict.SLOWER: "B reaches the target later",
    Verdict.SAME: "both reach the target in the same time, to within 10 %",
    Verdict.INCONCLUSIVE: "inconclusive: raise --seeds or --budget",
}


@contextmanager
def live(out: Console, rules: UntilRules, *, enabled: bool) -> Iterator[Callable[..., None]]:
    """A screen that follows the race; in a pipe a line for each seed, and where it lasts."""
    screen = LiveScreen(
        out, "hotlap race: A and B to the target", budget=rules.seconds, verbose=enabled
    )
    last = -1

    def follow(seed: int, runners: Sequence[object]) -> None:
        nonlocal last
        if seed != last:
            last = seed
            screen.stage(f"seed {seed + 1} of {rules.seeds}")
        screen.now(_line(seed, runners, rules))

    with screen.showing():
        screen.stage("launching both commands")
        yield follow


def _line(seed: int, runners: Sequence[Any], rules: UntilRules) -> str:
    parts = []
    for letter, runner in zip("AB", runners, strict=True):
        value = runner.points[-1].value if runner.points else math.nan
        at = (
            "reached"
            if runner.reached is not None
            else "-"
            if math.isnan(value)
            else f"{value:.4g}"
        )
        parts.append(f"{letter} {duration(runner.seconds)} {at}")
    return f"seed {seed + 1} of {rules.seeds}: {', '.join(parts)}"


def show(
    out: Console, result: UntilResult, commands: Sequence[Sequence[str]], *, brief: bool = False
) -> None:
    """The outcome, on a console; `brief`: without the seeds and the curves."""
    if not brief:
        _seeds(out, result, commands)
    out.print(f"[bold]{SAID[result.ratio.verdict]}[/]")
    r = result.ratio
    known = r.low > 0 or math.isfinite(r.high)
    span = f"[{r.low:.2f}, {'-' if math.isinf(r.high) else f'{r.high:.2f}'}]" if known else "-"
    out.print(
        f"time to the target, A over B: {ratio(r.ratio)} {span} ({r.level:.0%} interval, "
        f"{r.pairs} of {len(result.pairs)} seeds tell)",
        markup=False,
    )
    for note in _notes(result):
        out.print(note, style="dim")


def _seeds(out: Console, result: UntilResult, commands: Sequence[Sequence[str]]) -> None:
    for letter, command in zip("AB", commands, strict=True):
        out.print(f"{letter}: {contestant(command)}", markup=False)
    out.print()
    rows = []
    for seed, (a, b) in enumerate(result.pairs):
        both = a.time.reached and b.time.reached
        share = ratio(a.time.seconds / b.time.seconds) if both else "-"
        rows.append(Row((str(seed), _said(a), _said(b), share)))
    titles = columns("seed", f"A to {result.target}", "B", "A over B")
    out.print(table(titles, rows, out.width))
    if result.pairs:
        out.print()
        _chart(out, result)
    out.print()


def _notes(result: UntilResult) -> Iterator[str]:
    if result.target.metric == LOSS:
        yield f"the loss is the mean of the last {SMOOTHED_STEPS} steps' training losses"
    runs = [run for pair in result.pairs for run in pair]
    short = [run for run in runs if not run.time.reached and not run.ended and run.started]
    if late := [run for run in short if run.started > STARTING * run.time.seconds]:
        longest = max(run.started for run in late)
        yield (
            f"{several(len(late), 'run')} spent more than half of the time on start-up (up to "
            f"{duration(longest)}): --budget is shared by the seeds, and too short for this command"
        )
    if result.same_losses:
        yield SAME_LOSSES
    if result.interrupted:
        yield f"interrupted: {len(result.pairs)} seeds are complete"


def _said(run: Run) -> str:
    if run.time.reached:
        return duration(run.time.seconds)
    best = "no finite value" if math.isnan(run.best) else f"best {run.best:.4g}"
    how = "ended after" if run.ended else "not in"
    steps = f"{several(run.steps, 'step')}, {best}"
    return f"{how} {duration(run.time.seconds)} ({steps})"


def _chart(out: Console, result: UntilResult) -> None:
    """The metric over the seconds and the steps of each run: the first seed's curves."""
    a, b = result.pairs[0]
    drawn = [_drawn(a.curve, b.curve, result.target.value, key) for key in ("seconds", "steps")]
    if all(drawn):
        for lines in drawn:
            for line in lines:
                out.print(line, markup=False, highlight=False)


def _drawn(a: Sequence[Point], b: Sequence[Point], target: float, key: str) -> list[str]:
    """A chart of two curves, `a` and `b`, with the target as a line of dashes."""
    points = [
        (getattr(p, key), p.value, mark) for curve, mark in ((a, "a"), (b, "b")) for p in curve
    ]
    if not points:
        return []
    right = max(x for x, _, _ in points) or 1.0
    values = sorted([v for _, v, _ in points] + [target])
    low, high = values[len(values) // 50], values[-1 - len(values) // 50]
    scale = math.log if low > 0 and high / low > LOG_FROM else float
    bottom, span = scale(low), (scale(high) - scale(low)) or 1.0
    rows = [[" "] * WIDTH for _ in range(HEIGHT)]

    def row(value: float) -> int:
        share = (scale(min(max(value, low), high)) - bottom) / span
        return HEIGHT - 1 - round(share * (HEIGHT - 1))

    rows[row(target)] = ["-"] * WIDTH
    for x, value, mark in points:
        cell = rows[row(value)]
        at = round(x / right * (WIDTH - 1))
        cell[at] = "*" if cell[at] not in (" ", "-", mark) else mark
    edges = {0: f"{high:.4g}", HEIGHT - 1: f"{low:.4g}", row(target): f"{target:.4g}"}
    lines = [f"{edges.get(i, ''):>10} |{''.join(cells)}" for i, cells in enumerate(rows)]
    end = duration(right) if key == "seconds" else f"{right:.0f} steps"
    return [*lines, f"{'':>10} 0{end:>{WIDTH}}"]


def document(result: UntilResult, commands: Sequence[Sequence[str]]) -> dict[str, object]:
    """The outcome as plain data."""
    return {
        "commands": [list(command) for command in commands],
        **asdict(result),
        "verdict": str(result.ratio.verdict),
    }
