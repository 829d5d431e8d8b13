"""How a tune to a target looks in the terminal and as JSON."""

import math
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from hotlap.core.amounts import duration
from hotlap.reporting.tables import Row, columns, table
from hotlap.reporting.until_text import SAME_LOSSES
from hotlap.reporting.words import named, ratio
from hotlap.tune.result import Status
from hotlap.until.race import Run
from hotlap.until.search import TrainingRow, UntilTune
from hotlap.until.targets import SMOOTHED_STEPS, Target


def show(out: Console, result: UntilTune, written: Path | None) -> None:
    """The table, the outcome and what to mind."""
    plain = result.plain
    if plain is None:
        out.print("interrupted before the plain script reached the target")
        return
    if not plain.time.reached:
        out.print(_not_reached(result.target, plain), markup=False)
        return
    if result.at_once:
        out.print(
            f"the first {SMOOTHED_STEPS} steps of the plain script already reach {result.target}: "
            "nothing was raced. Give a harder target.",
            markup=False,
        )
        return
    out.print(
        f"the plain script reaches {result.target} in {duration(plain.time.seconds)}, "
        f"{plain.steps} steps\n",
        markup=False,
    )
    titles = columns(
        "technique", "time to the target, plain over it", "seeds", "outcome", left=["outcome"]
    )
    out.print(table(titles, [_row(row) for row in result.rows], out.width, joint=": "))
    out.print()
    for line in _closing(result, written):
        out.print(line, markup=False)


def _row(row: TrainingRow) -> Row:
    seeds = str(len(row.race.pairs)) if row.race else ""
    style = "green" if row.status is Status.KEPT else ""
    cells = (named(row.technique, row.values), _ratio(row), seeds, str(row.status))
    return Row(cells, row.reason, style)


def _not_reached(target: Target, plain: Run) -> str:
    """Why nothing could be raced, and what to do."""
    how = "ended without reaching" if plain.ended else "did not reach"
    took = f"{'after' if plain.ended else 'in'} {duration(plain.time.seconds)}"
    said = f"the plain script {how} {target} {took}"
    budget = "a larger --budget; a quarter of the budget goes to this run"
    if not math.isnan(plain.best):
        then = "an easier target" if plain.ended else f"an easier target or {budget}"
        return f"{said}: its best was {plain.best:.4g}. Give {then}."
    if plain.ended:
        return f"{said}: no value was finite."
    return (
        f"{said}: no finite value of {target.metric!r} was seen. Where the program prints it late, "
        f"give {budget}; else say where it is: --metric-pattern, --metric-file, or "
        "hotlap.report(name, value) in the script."
    )


def _ratio(row: TrainingRow) -> str:
    if row.race is None or math.isnan(row.race.ratio.ratio):
        return ""
    found = row.race.ratio
    high = "-" if math.isinf(found.high) else f"{found.high:.2f}"
    return f"{ratio(found.ratio)} [{found.low:.2f}, {high}]"


def _closing(result: UntilTune, written: Path | None) -> Iterator[str]:
    best = result.best
    if best is None:
        yield "nothing is kept: no technique was shown to reach the target sooner"
    else:
        yield f"kept: {named(best.technique, best.values)}"
        yield (
            "it changes the training: check the final quality on a whole run. Techniques were "
            "raced one by one; the recipe holds the one that gains most"
        )
    if written is not None:
        yield f"recipe: {written}; hotlap run --recipe {shlex.quote(str(written))} CMD applies it"
    if any(row.race and row.race.same_losses for row in result.rows):
        yield SAME_LOSSES
    if result.interrupted:
        yield "interrupted: the rows above are complete"


def document(result: UntilTune, written: Path | None) -> dict[str, object]:
    """The outcome as plain data."""
    return {**asdict(result), "recipe": str(written) if written else None}
