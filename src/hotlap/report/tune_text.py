"""How a tune looks in the terminal: live while it runs, a table at its end, and as JSON."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from hotlap.report import tune_table
from hotlap.report.findings_text import show_steps
from hotlap.report.words import duration, hanging, interval, named, ratio, with_recipe
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate
from hotlap.tune.result import Advice, Outcome, Status, TuneResult

NOISY = 1.8
ENOUGH = 6
"""Pairs from which a wide interval tells of the machine rather than of their number."""


class Follow:
    """Follows a search: a growing table and the candidate that is racing now."""

    def __init__(self, out: Console, seconds: float, *, verbose: bool) -> None:
        self._out = out
        self._end = time.monotonic() + seconds
        self._verbose = verbose
        self._rows: list[Outcome] = []
        self._now = "starting"
        self._estimate: Estimate | None = None
        self._live: Live | None = None
        self._spinner = Spinner("dots")

    @contextmanager
    def showing(self) -> Iterator["Follow"]:
        """Draw while the search runs; plain lines where there is no terminal."""
        if not (self._verbose and self._out.is_terminal):
            yield self
            return
        with Live(
            get_renderable=self._draw, console=self._out, refresh_per_second=4, transient=True
        ) as self._live:
            yield self

    def stage(self, text: str) -> None:
        """A new stage began."""
        self._now, self._estimate = text, None
        if self._verbose and self._live is None:
            self._out.print(Text(f"hotlap: {text}"), soft_wrap=True)

    def racing(self, name: str, values: Mapping[str, Any]) -> None:
        """A candidate is being started."""
        self._now, self._estimate = named(name, values), None

    def pair(self, estimate: Estimate) -> None:
        """One more pair of blocks was run."""
        self._estimate = estimate

    def row(self, outcome: Outcome) -> None:
        """A technique's fate is known."""
        if outcome.race is None and outcome.status is not Status.CRASHED:
            return
        self._rows.append(outcome)
        if self._verbose and self._live is None:
            self._out.print(Text(f"hotlap: {tune_table.plain(outcome)}"), soft_wrap=True)

    def _draw(self) -> RenderableType:
        left = max(0.0, self._end - time.monotonic())
        line = f"{self._now}"
        if self._estimate is not None:
            e = self._estimate
            line += f"  {ratio(e.ratio)} {interval(e)} after {e.pairs} pairs"
        self._spinner.update(text=Text(f"{line}  ({duration(left)} left)"))
        if not self._rows:
            return self._spinner
        return Group(tune_table.table(self._rows, self._out.width), self._spinner)


def show(out: Console, result: TuneResult, *, everything: bool) -> None:
    """The outcome of a tune, on a console."""
    raced = result.raced
    _show_floor(out, result)
    if raced:
        out.print(tune_table.table(raced, out.width))
        out.print("each over the script with the kept ones above it\n", style="dim")
    others = [row for row in result.outcomes if row not in raced]
    if everything and others:
        out.print(tune_table.table(others, out.width))
    elif others:
        counts = {s: sum(row.status is s for row in others) for s in Status}
        words = ", ".join(f"{n} {s}" for s, n in counts.items() if n)
        out.print(f"left out: {words} (--verbose says why)", style="dim")
    for note in result.notes:
        out.print(f"note: {note}")
    _show_final(out, result)
    for advice in result.advice:
        _show_advice(out, advice)


def _show_advice(out: Console, advice: Advice) -> None:
    head = f"yours to do: {advice.technique} [{advice.place}]: {advice.says}"
    out.print()
    out.print(Text(hanging(head, out.width, "", "  "), "bold"))
    show_steps(out, advice.lines, advice.notes)


def _show_floor(out: Console, result: TuneResult) -> None:
    if result.floor is not None:
        e = result.floor.estimate
        same = "repeats exactly" if result.deterministic else "is not deterministic by itself"
        told = f"{ratio(e.ratio)} {interval(e)}" if e.pairs >= ENOUGH else "too few pairs to tell"
        out.print(f"the script against itself: {told}; a run {same}", style="dim")
        if e.high > NOISY * e.low and e.pairs >= ENOUGH:
            out.print("the machine is very noisy at the moment: small gains cannot be seen")
    for ceiling in result.ceilings:
        e = ceiling.estimate  # type: ignore[assignment]
        words = f"{ratio(e.ratio)} {interval(e)}" if e else f"not known: {ceiling.reason}"
        out.print(f"{ceiling.title}: {words}", style="dim")
    out.print()


def _show_final(out: Console, result: TuneResult) -> None:
    if result.interrupted:
        out.print("interrupted: what is kept so far has not been raced as a whole", style="yellow")
        return
    if result.final is None:
        words = "nothing that was raced was shown to make this script faster on this machine"
        out.print(f"[bold]{words if result.timed else 'nothing was raced'}[/]")
        _show_needed(out, result, "everything" if result.timed else "anything")
        return
    assert result.final_parity is not None
    e = result.final.estimate
    out.print(
        f"\n[bold]{ratio(e.ratio)} {interval(e)}[/] {with_recipe(e)}: "
        f"{duration(result.final.a_step)} a step became {duration(result.final.b_step)} "
        f"({e.pairs} pairs)"
    )
    memory = result.final.memory
    out.print(
        f"peak memory {ratio(1 / memory)} of the plain script's; {result.final_parity.reason}"
    )
    if not result.final_parity.kept:
        out.print("the whole recipe broke parity and was not written", style="bold red")
    elif not result.confirmed:
        out.print("the whole recipe is slower and was not written", style="bold red")
    _show_needed(out, result, "everything")


def _show_needed(out: Console, result: TuneResult, what: str) -> None:
    """Which budget would have sufficed."""
    if result.needed:
        enough = f"--budget {result.needed:.0f}s would do"
        out.print(f"the time was too short to race {what}: about {enough}")


def document(result: TuneResult) -> dict[str, Any]:
    """The outcome as plain data."""
    return {
        **asdict(result),
        "outcomes": [asdict(row) for row in result.outcomes],
        "confirmed": result.confirmed,
        "final_steps": _steps(result.final),
    }


def _steps(final: RaceResult | None) -> dict[str, float] | None:
    return None if final is None else {"plain": final.a_step, "tuned": final.b_step}
