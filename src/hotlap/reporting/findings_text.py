"""The findings of a profile in the terminal: problems, what is worth racing, what to do next."""

from collections import defaultdict
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import several
from hotlap.core.registry import techniques
from hotlap.profile.findings import FEW
from hotlap.profile.model import NOT_MEASURED, Finding, Line, Profile, Remedy, was_interrupted
from hotlap.reporting.view import PROBLEMS
from hotlap.reporting.words import hanging, pasted, ratio, shortened
from hotlap.trial.command import THIS_CELL, hotlap_line

PLACES = 3
UNBOUNDED = 100.0
"""A bound above is no news."""
TELLING = 5.0
"""A bound above does not tell whether to race an option."""
NAMED = 2
"""Of more techniques the next command names none: `tune` finds by itself what applies."""
NEXT_LIVE = (
    "`hotlap tune` before the command of this training races them, and keeps what is proved faster "
    "with equal losses"
)
TOO_SHORT = "let the program train longer: it ends before there is enough of it for a race"
BROKEN = (
    "fix what made the program fail or stand still, and profile it again: a race needs a program "
    "that trains on"
)
ORDER = "the largest expected gain first"
UNKNOWN = "effect unknown until raced"
EXPLAIN = "`hotlap explain ID` describes a technique; `hotlap lint` shows each place"
NOT_KNOWN = "hotlap knows no cause that can be removed there"
AT_MOST = "at most: the speed-up without that time, with the caches left to the rest"


MUCH_OF_A_STEP = 0.3
"""Share of a step from which a line is pointed at though nothing is known against it."""


def bound_legend(profile: Profile) -> str:
    """What the bounds of the problems are; empty where none has one."""
    return AT_MOST if any(_bound(finding.most) for finding in profile.problems) else ""


def show(out: Console, profile: Profile, *, brief: bool = False, following: bool = True) -> None:
    """Problems, options, and the next command; each list with the most valuable first.

    `brief`: the problems alone; `following`: with the next command.
    """
    if profile.problems:
        out.print(f"[bold]Problems[/] ({PROBLEMS}; {ORDER})")
        if legend := bound_legend(profile):
            out.print(legend, style="dim")
        for number, finding in enumerate(profile.problems, 1):
            _show_problem(out, number, finding)
    else:
        show_costliest(out, profile)
    if profile.options and not brief:
        out.print(f"[bold]Worth racing[/] ({UNKNOWN}; {ORDER})")
        for finding in profile.options:
            _show_option(out, finding)
        out.print()
    if following and not brief:
        _show_next(out, profile)


def show_costliest(out: Console, profile: Profile) -> None:
    """That no problem is known, and the line that takes most of a step."""
    of_few = f" in {several(profile.steps, 'step')}, too few to tell"
    of_all = " costs 2 % of a step"
    out.print(f"[bold]No known problem[/]{of_few if profile.has_few_steps else of_all}")
    for words, text in costliest(profile):
        out.print(hanging(f"{words}:", out.width))
        out.print(shortened(f"  {text}", out.width))
    out.print()


def costliest(profile: Profile) -> list[tuple[str, str]]:
    """Words for the line that takes most of a step, if it is much, and its text.

    With the backward pass behind it; without phases whose lines are known from a few samples.
    """
    of_step = {phase.name: phase.share for phase in profile.phases}
    lines: dict[str, Line] = {}
    shares: dict[str, float] = defaultdict(float)
    for name, found in {**profile.lines, "backward": profile.backward_by_line}.items():
        known = not 0 < sum(line.samples for line in found) < FEW
        for line in found if known else ():
            lines.setdefault(line.place, line)
            shares[line.place] += line.share * of_step.get(name, 0.0)
    place = max(shares, key=lambda one: shares[one], default="")
    if shares[place] < MUCH_OF_A_STEP:
        return []
    words = f"most time goes to {place} ({shares[place]:.0%} of a step); {NOT_KNOWN}"
    return [(words, lines[place].text)]


def _show_problem(out: Console, number: int, finding: Finding) -> None:
    head = hanging(f"{number}. {problem_words(finding)}", out.width, then="   ")
    out.print(Text(head, "bold"))
    if finding.place:
        out.print(shortened(f"   at {finding.place}  {finding.text}", out.width), style="cyan")
    for remedy in finding.remedies:
        out.print(Text(hanging(remedy_words(remedy, finding), out.width, "   - ", "     ")))
        show_steps(out, remedy.lines, remedy.notes)
    out.print()


def _show_option(out: Console, finding: Finding) -> None:
    out.print(Text(hanging(finding.what, out.width, "  ", "    ")))
    for remedy in finding.remedies:
        out.print(Text(hanging(remedy_words(remedy, finding), out.width, "  - ", "    ")))
        show_steps(out, remedy.lines, remedy.notes)


def _show_next(out: Console, profile: Profile) -> None:
    words, command = next_step(profile)
    if words:
        text = Text(hanging(words, out.width))
        text.stylize("bold", 0, len("Next") if command else 0)
        out.print(text)
    if command:
        out.print(Text(pasted(command, out.width, "  "), "green"), soft_wrap=True)


def next_step(profile: Profile) -> tuple[str, str]:
    """What to do next, and the command for it, each empty where there is none.

    The command races what was found and can be switched on. After a program that failed or hung
    there is none: it would fail in a race as well.
    """
    if profile.partial and not was_interrupted(profile.partial):
        return f"Next: {BROKEN}", ""
    named = dict.fromkeys(
        remedy.id
        for finding in profile.findings
        for remedy in finding.remedies
        if not remedy.by_hand
    )
    if named and not profile.command:
        return f"Next: {NEXT_LIVE}", ""
    if named and profile.too_short:
        return f"Next: {TOO_SHORT}", ""
    if named:
        only = f"--only {','.join(named)}" if len(named) <= NAMED else ""
        command = hotlap_line("tune", only, profile.command)
        equal = "outputs" if profile.inference else "losses"
        where = ", above the code of the cell" if profile.command == THIS_CELL else ""
        return f"Next: race them, keep what is proved faster with equal {equal}{where}:", command
    return (EXPLAIN, "") if profile.problems else ("", "")


def show_steps(out: Console, lines: Iterable[str], notes: Iterable[str]) -> None:
    """Commands and code as they are to be typed, never broken; then what to mind."""
    for line in lines:
        out.print(Text(f"       {line}", "green"), soft_wrap=True)
    for note in notes:
        out.print(Text(hanging(f"note: {note}", out.width, "     ", "     "), "dim"))


def cost(share: float, most: float) -> str:
    """A part of a step with its bound, `26% of a step (at most 1.83x)`."""
    return f"{share:.0%} of a step{_bound(most)}" if share else NOT_MEASURED


def problem_words(finding: Finding) -> str:
    """What was seen, with its bound."""
    unmeasured = finding.most <= 1.0 and not finding.share
    return f"{finding.what}{f' ({NOT_MEASURED})' if unmeasured else _bound(finding.most)}"


def _bound(most: float, words: str = "at most") -> str:
    """The bound in words; empty where there is none, or it is no news."""
    return f" ({words} {ratio(most)})" if 1.0 < most <= UNBOUNDED else ""


def remedy_words(remedy: Remedy, finding: Finding) -> str:
    """A technique, what it would do, and its lines that are not printed yet.

    An option has no line of source above it: where a pattern found it, its place stands here. Its
    bound is its own, where it is low enough to tell whether to race it.
    """
    option = not finding.problem
    shown = "" if option and finding.pattern else finding.place
    telling = option and remedy.most <= TELLING
    most = _bound(remedy.most, "cannot give more than") if telling else ""
    named = dict.fromkeys((remedy.place, *remedy.also))
    places = [place for place in named if place not in {shown, ""}]
    more = f" and {len(places) - PLACES} more" if len(places) > PLACES else ""
    where = f" [{', '.join(places[:PLACES])}{more}]" if places else ""
    return f"{remedy.id}{' (by hand)' * remedy.by_hand}: {_says(remedy, finding)}{where}{most}"


def _says(remedy: Remedy, finding: Finding) -> str:
    """What a remedy says; the technique's title where the finding's head has said it already."""
    record = techniques().get(remedy.id)
    if record is None or not remedy.says or not finding.what.endswith(remedy.says):
        return remedy.says
    return f"{record.title[0].lower()}{record.title[1:]}"
