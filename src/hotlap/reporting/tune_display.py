"""A tune while it runs: a live display in a terminal, one line an event in a pipe."""

import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import several
from hotlap.core.registry import technique
from hotlap.reporting.live_screen import LiveScreen
from hotlap.reporting.tune_table import STYLES, plain
from hotlap.reporting.words import interval, named, raced_so_far, ratio, shortened
from hotlap.trial.command import shown
from hotlap.trial.load import OtherPrograms
from hotlap.trial.stats import Estimate
from hotlap.tune.result import Outcome, Status
from hotlap.tune.state import TuneConfig

LOAD_SECONDS = 5.0
BAR_COLUMNS = 25
BAR_RANGE = 4.0  # the bar shows ratios from 1 / 4 to 4
RESERVED_LINES = 10
LEGEND = "o speed, = interval, | no change"
NOTHING_NEW = "as before; what was left of the time gave no further pair"


class TuneDisplay(LiveScreen):
    """Follows a search; silent unless `verbose`."""

    def __init__(self, out: Console, config: TuneConfig, *, verbose: bool) -> None:
        title = f"hotlap tune {shown(config.setting.command)}"
        super().__init__(out, title, budget=config.budget, verbose=verbose)
        self._others, self._load, self._sampled = OtherPrograms(), math.nan, self._begin
        self._waiting: list[str] = []
        self._outcomes: list[Outcome] = []
        self._now = "starting"
        self._racing = self._long_start = ""
        self._notes: list[str] = []
        self._since = self._begin
        self._estimate: Estimate | None = None

    def stage(self, text: str) -> None:
        """A new stage began."""
        self._racing, self._estimate = "", None
        super().stage(text)

    def note(self, text: str) -> None:
        """Something to know from now on: it stays on the screen."""
        self._notes.append(text)
        self._say(text)

    def candidates(self, names: Sequence[str]) -> None:
        """These are waiting to be raced, in this order."""
        self._waiting = list(names)
        if names:
            self._say(f"{several(len(names), 'candidate')}: {_counted(names)}")

    def racing(self, name: str, values: Mapping[str, object]) -> None:
        """A candidate is being started."""
        self._racing = self._now = named(name, values)
        self._since, self._long_start = time.monotonic(), _long_start(name)
        self._estimate = None
        if name in self._waiting:
            self._waiting.remove(name)
        self._say(f"racing {self._racing}")

    def pair(self, estimate: Estimate) -> None:
        """One more pair of blocks was run."""
        self._estimate = estimate

    def outcome(self, outcome: Outcome) -> None:
        """What became of a technique is known."""
        if outcome.status is Status.NOT_RACED and outcome.technique in self._waiting:
            self._waiting.remove(outcome.technique)
        begun = self._racing == named(outcome.technique, outcome.values)
        told = outcome.race or outcome.status in {Status.CRASHED, Status.INCONCLUSIVE}
        if not (told or begun):
            return
        before = [row for row in self._outcomes if row.same_as(outcome)]
        self._outcomes = [row for row in self._outcomes if row not in before] + [outcome]
        self._racing = ""
        again = [plain(outcome)] == [plain(row) for row in before]
        name = named(outcome.technique, outcome.values)
        self._say(f"{name}: {NOTHING_NEW}" if again else plain(outcome))

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._sampled > LOAD_SECONDS:
            self._load, self._others, self._sampled = self._others.cores(), OtherPrograms(), now

    def _current(self) -> str:
        """What is going on, with the ratio so far."""
        if self._estimate is None:
            if not self._racing:
                return self._now
            seconds = time.monotonic() - self._since
            return f"starting {self._racing}{self._long_start}, {seconds:.0f} s"
        return f"{self._now}  {raced_so_far(self._estimate)}"

    def _lines(self) -> list[Text]:
        done = len(self._outcomes)
        of = done + len(self._waiting) + bool(self._racing)
        which = f"candidate {min(done + 1, of)} of {of}: " if self._racing else ""
        lines = [
            Text(self._title, "bold"),
            Text(f"{self._elapsed()}   {self._host()}   best so far {self._gained()}"),
            *(Text(note, "yellow") for note in self._notes),
            *self._states(self._out.height - RESERVED_LINES),
            Text(f"{which}{self._current()}", "bold cyan"),
        ]
        if self._estimate is not None:
            lines.append(Text(f"{bar(self._estimate)}  {LEGEND}", "cyan"))
        return lines

    def _host(self) -> str:
        cores = os.cpu_count() or 1
        if math.isnan(self._load):
            return "load of other programs: not known yet"
        return f"other programs use {min(self._load, cores):.1f} of {cores} cores"

    def _gained(self) -> str:
        """The product of what was kept: what the plain script has gained so far."""
        found = 1.0
        for row in self._outcomes:
            if row.status is Status.KEPT and row.estimate is not None:
                found *= row.estimate.ratio
        return ratio(found)

    def _states(self, most: int) -> list[Text]:
        """A line for each candidate: what it came to, or that it waits."""
        rows = [Text(f"  {_state(row)}", STYLES.get(row.status, "dim")) for row in self._outcomes]
        rows = rows[-max(1, most - 1) :]
        if self._waiting:
            waiting = f"  waiting: {_counted(self._waiting)}"
            rows.append(shortened(waiting, self._out.width))
            rows[-1].stylize("dim")
        return rows


def _counted(names: Sequence[str]) -> str:
    """Techniques with the number of values that are raced of each, `tf32, cpu_threads (2)`."""
    counts = Counter(names)
    return ", ".join(f"{name} ({n} values)" if n > 1 else name for name, n in counts.items())


def _long_start(name: str) -> str:
    """What a start takes its time for."""
    record = technique(name)
    if dict(record.grants).get("compiled"):
        return ", which compiles"
    return ", which runs through an epoch first" if record.whole_epochs else ""


def _state(row: Outcome) -> str:
    """A row in columns that stay where they are: status, technique, ratio, interval."""
    figures = ""
    if row.estimate is not None and row.status is not Status.NOT_APPLICABLE:
        known = interval(row.estimate)
        figures = f"{ratio(row.estimate.ratio):>8}  {known}" if known != "-" else f"{known:>8}"
    return f"{row.status:15}{named(row.technique, row.values):28}{figures}".rstrip()


def bar(estimate: Estimate, columns: int = BAR_COLUMNS) -> str:
    """The interval on a logarithmic axis from 1/4x to 4x: `0.25x ....===o==|....... 4x`."""

    def column(value: float) -> int:
        inside = min(max(value, 1.0 / BAR_RANGE), BAR_RANGE)
        return round((math.log(inside, BAR_RANGE) + 1) / 2 * (columns - 1))

    cells = ["."] * columns
    known = interval(estimate) != "-"
    if known:
        for index in range(column(estimate.low), column(estimate.high) + 1):
            cells[index] = "="
    cells[column(1.0)] = "|"
    if known:
        cells[column(estimate.ratio)] = "o"
    return f"  {1 / BAR_RANGE:g}x {''.join(cells)} {BAR_RANGE:g}x"
