"""How a race looks in the terminal and as JSON."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import duration, several
from hotlap.reporting.live_screen import LiveScreen
from hotlap.reporting.tables import Row, columns, table
from hotlap.reporting.words import (
    by_sample,
    hanging,
    interval,
    more_memory,
    pasted,
    raced_so_far,
    speed,
    verdict,
)
from hotlap.trial.command import shown
from hotlap.trial.launch import PASSIVE_WAIT, SLEEPING_THREADS, STEADY_HEAP, THREADING
from hotlap.trial.load import load_now
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.trial.stopping import StopReason


class Follow(LiveScreen):
    """What goes on in a race of so many seconds, drawn or in plain lines."""

    def __init__(self, out: Console, seconds: float, *, enabled: bool) -> None:
        super().__init__(out, "hotlap race: B against A", verbose=enabled)
        self._seconds = self._planned = seconds
        self._racing_since = 0.0
        self._shown = ""

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Draw for as long as the context is open."""
        with super().showing():
            self.stage(
                "settling both commands (start and warm-up, on top of the "
                f"{duration(self._seconds)} to race)"
            )
            yield

    def ready(self, least: float) -> None:
        """Both have settled; `least`: seconds that the fewest pairs take."""
        slow = " for six pairs of blocks" if least > self._seconds else ""
        self._planned, self._racing_since = max(self._seconds, least), time.monotonic()
        self.stage(
            f"settled after {self._elapsed()}; racing for about {duration(self._planned)}{slow}"
        )

    def pair(self, estimate: Estimate) -> None:
        """Another pair has been run."""
        self._shown = f": speed B over A {so_far(estimate)}"

    def _tick(self) -> None:
        """Say how long it races; beyond the plan, why: what starts anew in a block takes longer."""
        if not self._racing_since:
            return
        spent = max(1.0, time.monotonic() - self._racing_since)
        over = " (six pairs are run in any case)" if spent > 1.1 * self._planned else ""
        self.now(f"racing, {duration(spent)} of {duration(self._planned)}{over}{self._shown}")


def so_far(estimate: Estimate) -> str:
    """What a race that goes on has shown, by how many pairs, and how busy the machine is."""
    return f"{raced_so_far(estimate)}, {load_now()}"


def show(
    out: Console, race: RaceResult, commands: Sequence[Sequence[str]], *, brief: bool = False,
    again: Callable[[float], str] | None = None, limit: float | None = None,
) -> None:  # fmt: skip
    """The outcome, on a console; `brief`: the verdict and the ratio.

    `again` gives the command that races for so many seconds more. `limit`: times as long as A that
    B may take, where that was asked for.
    """
    if not brief:
        out.print(_steps(race, commands, out.width))
        out.print()
    _show_verdict(out, race, limit)
    if brief:
        return
    cpu = f"CPU time A over B {race.cpu:.2f}, peak memory of B: {more_memory(race.memory)}"
    notes = (by_sample(race.samples), cpu, *_notes(race, limit), *_load_dependent(commands))
    for line in filter(None, notes):
        out.print(Text(hanging(line, out.width)), style="dim")
    more = race.seconds if undecided(race, limit) else race.seconds_needed
    if again is not None and (undecided(race, limit) or _would_settle(race, limit)):
        out.print(Text(pasted(again(more), out.width, "  "), "green"), soft_wrap=True)


def _steps(race: RaceResult, commands: Sequence[Sequence[str]], width: int) -> Text:
    rows = [
        Row((letter, duration(step)), contestant(command))
        for letter, step, command in zip("AB", (race.a_step, race.b_step), commands, strict=True)
    ]
    return table(columns("", "a step"), rows, width)


def contestant(words: Sequence[str]) -> str:
    """A side's command in a line, behind the revision that it is raced at, if there is one."""
    if words and words[0].endswith(":"):
        return f"{words[0]} {shown(words[1:])}"
    return shown(words)


def undecided(race: RaceResult, limit: float | None) -> str:
    """Why the limit says nothing, and what B took; empty where there is none, or it decided."""
    if limit is None or race.too_slow is not None:
        return ""
    e = race.estimate
    times = Estimate(1 / e.ratio, 1 / e.high, 1 / e.low if e.low else math.inf, e.pairs, e.level)
    took = "" if interval(times) == "-" else f": it took {speed(times)} as long as A"
    return f"could not tell whether B is slower than allowed ({limit:g}x){took}; raise --budget"


def _show_verdict(out: Console, race: RaceResult, limit: float | None) -> None:
    e = race.estimate
    out.print(Text(hanging(_outcome(race, limit), out.width), "bold"))
    words = (
        f"speed B over A {speed(e)} "
        f"({e.level:.0%} interval, from {several(e.pairs, 'pair')} of blocks{_launches(race)}, "
        f"{timed(race)})"
    )
    out.print(Text(hanging(words, out.width)))


def _outcome(race: RaceResult, limit: float | None) -> str:
    """What was found in a sentence: of the limit where there is one."""
    found = undecided(race, limit) or verdict(race.verdict)
    if race.too_slow is not None:
        found = ALLOWED[race.too_slow]
    elif race.stopped is StopReason.INTERRUPTED and race.verdict is Verdict.INCONCLUSIVE:
        found = "not decided"
    return f"interrupted: {found}" if race.stopped is StopReason.INTERRUPTED else found


def _notes(race: RaceResult, limit: float | None) -> Iterator[str]:
    """What else a reader needs to judge the result."""
    yield from _conditions(race)
    if _would_settle(race, limit):
        yield f"about {duration(race.seconds_needed)} more of racing would settle it"
    elif race.verdict is Verdict.INCONCLUSIVE and LONGEST < race.seconds_needed < math.inf:
        yield "more than 15 min of racing would settle it at this noise: try a calmer machine"
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
    if race.verdict is Verdict.FASTER and race.starts_longer and race.break_even < math.inf:
        yield f"B's longer start-up pays off after {race.break_even:.0f} steps"


def _would_settle(race: RaceResult, limit: float | None) -> bool:
    """Whether it is known how much more racing would show which is faster, and that was asked."""
    open_yet = limit is None and race.verdict is Verdict.INCONCLUSIVE
    return open_yet and 0 < race.seconds_needed <= LONGEST


def _conditions(race: RaceResult) -> Iterator[str]:
    """How the two were run and timed."""
    if str(race.load):
        yield f"background load: {race.load}"
    if race.corrected:
        yield f"times and speed are {CORRECTED}"
    if race.passive_wait:
        yield SLEEPING_THREADS
    if race.faults is not None and not race.steady_heap:
        yield FAULTS.format(*race.faults, HEAP_VARIABLES)
    if race.steady_heap:
        yield KEPT_HEAP
    if race.queues_left_out:
        yield (
            "the epochs are short: the time in which loader workers fill their queues at the start "
            "of an epoch was left out. It counts where both commands have as many steps an epoch, "
            "and --budget holds two epochs of both"
        )
    if not race.lockstep:
        yield "memory did not allow both at once: blocks ran one after the other"


def _load_dependent(commands: Sequence[Sequence[str]]) -> Iterator[str]:
    """That how threads wait for one another pays or costs by the load of the machine."""
    first, second = (dict(THREADING.findall(" ".join(command))) for command in commands)
    if any(first.get(name) != second.get(name) for name in PASSIVE_WAIT):
        yield (
            "how threads wait differs between A and B: threads that sleep are slower on an idle "
            "machine and much faster on a busy one, so that this holds at the load of the race"
        )


def _launches(race: RaceResult) -> str:
    """How many, where processes last for many pairs."""
    if not race.lockstep:
        return ""
    return f" in {race.launches} launches" if race.launches > 1 else " in 1 launch"


LONGEST = 900.0
"""Seconds of racing above which a calmer machine is the better advice."""
CORRECTED = "corrected for background load"
HEAP_VARIABLES = " ".join(f"{name}={value}" for name, value in STEADY_HEAP.items())
FAULTS = (
    "page faults a step: A {:,.0f}, B {:,.0f}. Whether malloc gives memory back to the kernel in "
    "each step may change from launch to launch, so that only more launches (--budget) can tell. "
    "If A and B allocate alike, take it out of both: {} hotlap race ..."
)
KEPT_HEAP = (
    f"both sides ran with a malloc that keeps freed memory ({HEAP_VARIABLES}), since launches of "
    "the same command differed by page faults; without these variables steps may take longer, by "
    "chance"
)
ALLOWED = {True: "B is slower than allowed", False: "B is not slower than allowed"}
SHARED = (
    "plain steps timed; to each is added its share of what an epoch has once (its start, an "
    "evaluation), seen in one epoch of each side"
)
UNITS = {
    "epoch": "whole epochs timed",
    "step": "plain steps timed: epoch starts, evaluations and checkpoints left out",
}


WITHIN = (
    "steps timed: epoch starts, evaluations and checkpoints left out, but not where each step of a "
    "block had one ({})"
)
MUCH_WITHIN = 0.1
"""Part of a side's blocks without a plain step from which it is said that there are some."""
MUCH_LEFT_OUT = 0.1
"""Part of a side's time from which it is said how much was left out."""


def timed(race: RaceResult) -> str:
    """What the blocks of a race held of an epoch."""
    if race.epoch_shared:
        return SHARED
    within = [name for name, part in zip("AB", race.within, strict=True) if part >= MUCH_WITHIN]
    words = WITHIN.format(" and ".join(within)) if within else UNITS[race.unit]
    if max(race.left_out) < MUCH_LEFT_OUT:
        return words
    a, b = race.left_out
    return f"{words}; what was left out took {a:.0%} of A's time and {b:.0%} of B's"


def document(
    race: RaceResult, commands: Sequence[Sequence[str]], limit: float | None = None
) -> dict[str, object]:
    """The outcome as plain data; `limit`: times as long as A that B may take."""
    return {
        "commands": [list(command) for command in commands],
        **asdict(race),
        "verdict": str(race.verdict),
        "break_even": race.break_even,
        "max_slowdown": limit,
    }
