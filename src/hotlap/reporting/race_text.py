"""How a race looks in the terminal and as JSON."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from hotlap.reporting.tables import Row, columns, table
from hotlap.reporting.words import duration, hanging, more_memory, pasted, several, speed, verdict
from hotlap.trial.command import shown
from hotlap.trial.launch import SLEEPING_THREADS
from hotlap.trial.load import load_now
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict


@contextmanager
def live(out: Console, seconds: float, *, enabled: bool) -> Iterator[Callable[[Estimate], None]]:
    """One line that follows a race of so many seconds, or says what goes on where none can."""
    if not (enabled and out.is_terminal):
        if enabled:
            out.print(f"settling both commands, then racing for about {duration(seconds)}")
        yield lambda _: None
        return
    with out.status("settling both commands") as status:
        yield lambda e: status.update(
            f"B over A {speed(e)} {several(e.pairs, 'pair')}, {load_now()}"
        )


def show(
    out: Console, race: RaceResult, commands: Sequence[Sequence[str]], *, brief: bool = False,
    again: Callable[[float], str] | None = None,
) -> None:  # fmt: skip
    """The outcome, on a console; `brief`: the verdict and the ratio.

    `again` gives the command that races for so many seconds more.
    """
    if not brief:
        out.print(_steps(race, commands, out.width))
        out.print()
    _show_verdict(out, race)
    if brief:
        return
    cpu = f"CPU time A over B {race.cpu:.2f}, peak memory of B: {more_memory(race.memory)}"
    for line in (cpu, *_notes(race)):
        out.print(Text(hanging(line, out.width)), style="dim")
    if again is not None and _would_settle(race):
        out.print(
            Text(pasted(again(race.seconds_needed), out.width, "  "), "green"), soft_wrap=True
        )


def _steps(race: RaceResult, commands: Sequence[Sequence[str]], width: int) -> Text:
    rows = [
        Row((letter, duration(step)), shown(command))
        for letter, step, command in zip("AB", (race.a_step, race.b_step), commands, strict=True)
    ]
    return table(columns("", "a step"), rows, width)


def _show_verdict(out: Console, race: RaceResult) -> None:
    e = race.estimate
    said = verdict(race.verdict)
    out.print(f"[bold]{said if race.too_slow is None else ALLOWED[race.too_slow]}[/]")
    words = (
        f"speed B over A {speed(e)} "
        f"({e.level:.0%} interval, from {several(e.pairs, 'pair')} of blocks{_launches(race)}, "
        f"{UNITS[race.unit]})"
    )
    out.print(Text(hanging(words, out.width)))


def _notes(race: RaceResult) -> Iterator[str]:
    """What else a reader needs to judge the result."""
    yield from _conditions(race)
    if _would_settle(race):
        yield f"about {duration(race.seconds_needed)} more of racing would settle it"
    if race.restarts > race.estimate.pairs:
        yield (
            f"the programs came to their end and were started again {race.restarts} times: let "
            "them train longer, and the same time gives more pairs"
        )
        if race.ends_vary:
            yield (
                "they did not always end after the same number of steps: a program that ends by "
                "the clock counts the time in which the race stops it"
            )
    if race.verdict is Verdict.FASTER and 1 < race.break_even < math.inf:
        yield f"B's longer start-up pays off after {race.break_even:.0f} steps"


def _would_settle(race: RaceResult) -> bool:
    """Whether it is known how much more racing would show which is faster."""
    return race.verdict is Verdict.INCONCLUSIVE and 0 < race.seconds_needed < math.inf


def _conditions(race: RaceResult) -> Iterator[str]:
    """How the two were run and timed."""
    if str(race.load):
        yield f"background load: {race.load}"
    if race.corrected:
        yield f"times and speed are {CORRECTED}"
    if race.passive_wait:
        yield SLEEPING_THREADS
    if race.queues_left_out:
        yield (
            "the epochs are short: the time in which loader workers fill their queues at the start "
            "of an epoch was left out. Whole epochs are timed where both commands have as many "
            "steps an epoch and six pairs fit in --budget"
        )
    if not race.lockstep:
        yield "memory did not allow both at once: blocks ran one after the other"


def _launches(race: RaceResult) -> str:
    """How many, where processes last for many pairs."""
    if not race.lockstep:
        return ""
    return f" in {race.launches} launches" if race.launches > 1 else " in 1 launch"


CORRECTED = "corrected for background load"
ALLOWED = {True: "B is slower than allowed", False: "B is not slower than allowed"}
UNITS = {
    "epoch": "whole epochs timed",
    "step": "plain steps timed: epoch starts, evaluations and checkpoints left out",
}


def document(race: RaceResult, commands: Sequence[Sequence[str]]) -> dict[str, object]:
    """The outcome as plain data."""
    return {
        "commands": [list(command) for command in commands],
        **asdict(race),
        "verdict": str(race.verdict),
        "break_even": race.break_even,
    }
