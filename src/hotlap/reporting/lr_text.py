"""How a range test looks in the terminal and as JSON."""

from rich.console import Console
from rich.text import Text

from hotlap.lr.range_run import RangeTestRun
from hotlap.optim.curve import drawn
from hotlap.optim.sweep import MEANINGS


def document(found: RangeTestRun) -> dict[str, object]:
    """Everything as plain data."""
    return {
        **found.sweep.to_json(),
        "optimizer": found.asked.optimizer,
        "optimizers": list(found.optimizers),
        "whole_run": found.whole_run,
        "failure": found.failure,
    }


def show(out: Console, found: RangeTestRun, *, brief: bool = False) -> None:
    """Show the curve and what to read from it; `brief` leaves the suggestion alone."""
    sweep = found.sweep
    if not brief:
        for line in drawn(sweep, width=max(20, min(72, out.width - 14))):
            out.print(Text(line), soft_wrap=True)
        for note in _notes(found):
            out.print(note, style="dim")
        out.print()
    rate = sweep.suggestion()
    if rate is None:
        out.print(
            "[bold]no suggestion:[/] the loss fell by no more than it varies from step to step"
        )
        return
    out.print(f"[bold]learning rate {rate:.1e}[/], a fifth of where the loss is lowest")
    for name, reading in sweep.readings().items():
        if reading is not None and not brief:
            out.print(f"  {name:<10}{reading:.1e}  {MEANINGS[name]}", style="dim")


def _notes(found: RangeTestRun) -> list[str]:
    sweep, steps = found.sweep, len(found.sweep.rates)
    last = f"{sweep.rates[-1]:.1e}" if sweep.rates else "none"
    notes = [f"{steps} steps, the last at {last}: {sweep.ended}"]
    if found.whole_run:
        notes.append(
            f"the program's whole run has {found.asked.steps} steps, so the sweep was made that"
            " long; with more epochs the curve gets finer"
        )
    if sweep.still_falling():
        notes.append("the loss still fell at the last rate: try a higher --to")
    driven = found.asked.optimizer
    if len(found.optimizers) > 1:
        names = ", ".join(f"{i} {name}" for i, name in enumerate(found.optimizers, 1))
        notes.append(f"optimizer {driven} of {names}; --optimizer takes another")
    return notes
