"""The findings of a profile in the terminal: what, where, and what to do."""

import shlex
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from hotlap.core.registry import techniques
from hotlap.profile.model import Finding, Profile, Remedy
from hotlap.report.words import hanging, ratio, shortened

PLACES = 3


def show(out: Console, profile: Profile, *, brief: bool = False) -> None:
    """Every finding, the most valuable first; then what can be done with them."""
    if not profile.findings:
        out.print("[bold]nothing found that would be worth 2 %[/]")
        return
    for number, finding in enumerate(profile.findings, 1):
        _show(out, number, finding)
    if not brief:
        out.print(
            "`hotlap tune` races what it can change and keeps what is proved; `hotlap explain ID`",
            style="dim",
        )


def _show(out: Console, number: int, finding: Finding) -> None:
    most = _most(finding)
    head = hanging(f"{number}. {finding.what}{most}", out.width, then="   ")
    out.print(Text(head, "bold"))
    if finding.place:
        out.print(shortened(f"   at {finding.place}  {finding.text}", out.width), style="cyan")
    for remedy in finding.remedies:
        out.print(Text(hanging(_remedy(remedy, finding), out.width, "   - ", "     ")))
        show_steps(out, remedy.lines, remedy.notes)
    if raced := _raced(finding):
        out.print(Text(hanging(f"race it: {raced}", out.width, "   ", "     "), "dim"))
    out.print()


def show_steps(out: Console, lines: Iterable[str], notes: Iterable[str]) -> None:
    """Commands and code as they are to be typed, never broken; then what to mind."""
    for line in lines:
        out.print(Text(f"       {line}", "green"), soft_wrap=True)
    for note in notes:
        out.print(Text(hanging(f"note: {note}", out.width, "     ", "     "), "dim"))


def _most(finding: Finding) -> str:
    if finding.most <= 1.0:
        return ""
    return " (no bound)" if finding.most > 100 else f" (at most {ratio(finding.most)})"


def _remedy(remedy: Remedy, finding: Finding) -> str:
    named = dict.fromkeys((remedy.place, *remedy.also))
    places = [place for place in named if place not in {finding.place, ""}]
    more = f" and {len(places) - PLACES} more" if len(places) > PLACES else ""
    where = f" [{', '.join(places[:PLACES])}{more}]" if places else ""
    return f"{remedy.id}: {remedy.says}{where}"


def _raced(finding: Finding) -> str:
    """The command that proves or refutes the remedies of a wait for data.

    More workers, or a cache, can as well cost time.
    """
    if finding.remedies[0].phases != ("data",):
        return ""
    known = techniques()
    names = [r.id for r in finding.remedies if r.id in known and known[r.id].moves]
    only = shlex.quote(",".join(names))
    bound = "" if finding.most > 100 else f"  (at most {ratio(finding.most)}, if data were free)"
    return f"hotlap tune --only {only} CMD{bound}" if names else ""
