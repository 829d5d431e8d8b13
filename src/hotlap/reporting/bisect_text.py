"""How a bisection looks in the terminal and as JSON."""

from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from hotlap.reporting.live_screen import LiveScreen
from hotlap.reporting.race_text import so_far
from hotlap.reporting.tables import Row, columns, table
from hotlap.reporting.words import ratio
from hotlap.trial.bisect import Bisection, Speed, Step
from hotlap.trial.revisions import Commit
from hotlap.trial.stats import Estimate


class Follow(LiveScreen):
    """The race that goes on, and a line for each that has ended."""

    def __init__(self, out: Console, *, enabled: bool) -> None:
        super().__init__(out, "hotlap bisect: commits against the fast one", verbose=enabled)
        self._racing = ""

    def begin(self, good: Commit, bad: Commit, commits: int) -> None:
        """The search starts."""
        plural = "commit" if commits == 1 else "commits"
        self.row(f"searching {commits} {plural} after {good.short}, up to {bad.short}")

    def racing(self, commit: Commit) -> None:
        """A commit's race begins."""
        self._racing = f"racing {commit.short} ({commit.subject})"
        self.stage(self._racing)

    def pair(self, estimate: Estimate) -> None:
        """Another pair has been run."""
        self.now(f"{self._racing}: speed {so_far(estimate)}")

    def step(self, step: Step, suspects: int) -> None:
        """A race is over; so many commits may still be the one."""
        left = f"{suspects} left" if suspects > 1 else "found"
        self.row(f"{step.commit.short} {_said(step)}  ({left})")


def show(out: Console, result: Bisection, good: Commit, bad: Commit, *, brief: bool) -> None:
    """The outcome, on a console; `brief`: without the races."""
    if not brief:
        out.print(_races(result, out.width))
        out.print()
    out.print(f"[bold]{_headline(result, good, bad)}[/]", highlight=False)
    for commit in result.suspects:
        out.print(f"  {commit.short}  {commit.subject}", markup=False, highlight=False)


def _races(result: Bisection, width: int) -> Text:
    rows = []
    for step in result.steps:
        raced = step.speed is not Speed.UNKNOWN or step.ratio == step.ratio
        span = f"[{step.low:.2f}, {step.high:.2f}]" if raced and step.low > 0 else "-"
        figures = (step.commit.short, ratio(step.ratio) if raced else "-", span, str(step.speed))
        rows.append(Row(figures, "; ".join(filter(None, (step.reason, step.commit.subject)))))
    return table(columns("commit", "speed", "95 % interval", "verdict", left=["verdict"]), rows,
                 width)  # fmt: skip


def _headline(result: Bisection, good: Commit, bad: Commit) -> str:
    if not result.suspects:
        slower = "is not shown to be slower" if result.steps[0].reason else "is not slower"
        return f"{bad.short} {slower} than {good.short}: nothing to search for"
    if len(result.suspects) == 1:
        return "the step became slower with this commit:"
    why = "interrupted" if result.interrupted else "some commits could not be placed"
    return f"{why}: the step became slower with one of these commits:"


def _said(step: Step) -> str:
    if step.speed is Speed.UNKNOWN:
        return f"not placed: {step.reason}"
    return f"{step.speed}: {ratio(step.ratio)} [{step.low:.2f}, {step.high:.2f}]"


def document(result: Bisection) -> dict[str, object]:
    """The outcome as plain data."""
    return asdict(result)
