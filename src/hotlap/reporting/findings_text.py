"""The findings of a profile in the terminal: problems, what is worth racing, what to do next."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from hotlap.core.registry import techniques
from hotlap.profile.model import Finding, Profile, Remedy
from hotlap.reporting.view import PROBLEMS
from hotlap.reporting.words import hanging, pasted, ratio, shortened

PLACES = 3
UNBOUNDED = 100.0
"""A bound above is no news."""
NAMED = 2
"""Of more techniques the next command names none: `tune` finds by itself what applies."""


def show(out: Console, profile: Profile, *, brief: bool = False, following: bool = True) -> None:
    """Problems, options, and the next command; each list with the most valuable first.

    `brief`: the problems alone; `following`: with the next command.
    """
    if profile.problems:
        out.print(f"[bold]Problems[/] ({PROBLEMS})")
        for number, finding in enumerate(profile.problems, 1):
            _show_problem(out, number, finding)
    else:
        out.print("[bold]No problem found[/] that costs 2 % of a step")
        out.print()
    if profile.options and not brief:
        out.print("[bold]Worth racing[/] (effect unknown until raced)")
        for finding in profile.options:
            _show_option(out, finding)
        out.print()
    if following and not brief:
        _show_next(out, profile)


def _show_problem(out: Console, number: int, finding: Finding) -> None:
    head = hanging(f"{number}. {finding.what}{_most(finding)}", out.width, then="   ")
    out.print(Text(head, "bold"))
    if finding.place:
        out.print(shortened(f"   at {finding.place}  {finding.text}", out.width), style="cyan")
    for remedy in finding.remedies:
        out.print(Text(hanging(_remedy(remedy, finding), out.width, "   - ", "     ")))
        show_steps(out, remedy.lines, remedy.notes)
    out.print()


def _show_option(out: Console, finding: Finding) -> None:
    out.print(Text(hanging(finding.what, out.width, "  ", "    ")))
    for remedy in finding.remedies:
        bound = f" (at most {ratio(remedy.most)})" if 1.0 < remedy.most <= UNBOUNDED else ""
        out.print(Text(hanging(f"{_remedy(remedy, finding)}{bound}", out.width, "  - ", "    ")))
        show_steps(out, remedy.lines, remedy.notes)


def _show_next(out: Console, profile: Profile) -> None:
    """The command that races what was found and can be switched on, or the one that explains."""
    known = techniques()
    named = dict.fromkeys(
        remedy.id
        for finding in profile.findings
        for remedy in finding.remedies
        if remedy.id in known and known[remedy.id].moves
    )
    if named:
        only = f"--only {','.join(named)} " if len(named) <= NAMED else ""
        command = f"hotlap tune {only}{profile.command or 'CMD'}"
        equal = "outputs" if profile.inference else "losses"
        out.print(f"[bold]Next[/]: race them, keep what is proved faster with equal {equal}:")
        out.print(Text(pasted(command, out.width, "  "), "green"), soft_wrap=True)
    elif profile.problems:
        out.print("`hotlap explain ID` describes a technique; `hotlap lint` shows each place")


def show_steps(out: Console, lines: Iterable[str], notes: Iterable[str]) -> None:
    """Commands and code as they are to be typed, never broken; then what to mind."""
    for line in lines:
        out.print(Text(f"       {line}", "green"), soft_wrap=True)
    for note in notes:
        out.print(Text(hanging(f"note: {note}", out.width, "     ", "     "), "dim"))


def _most(finding: Finding) -> str:
    if finding.most <= 1.0:
        return "" if finding.share else " (cost not measured)"
    return "" if finding.most > UNBOUNDED else f" (at most {ratio(finding.most)})"


def _remedy(remedy: Remedy, finding: Finding) -> str:
    named = dict.fromkeys((remedy.place, *remedy.also))
    places = [place for place in named if place not in {finding.place, ""}]
    more = f" and {len(places) - PLACES} more" if len(places) > PLACES else ""
    where = f" [{', '.join(places[:PLACES])}{more}]" if places else ""
    return f"{remedy.id}: {remedy.says}{where}"
