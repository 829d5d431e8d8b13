"""The ranks of a profile side by side: their own work, and what they wait for."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import duration, several
from hotlap.profile.model import TITLES, Profile, Rank
from hotlap.reporting.tables import Column, Row, table
from hotlap.reporting.words import hanging

TITLE = "Work and waits of each rank, a step"
COLUMNS = (
    Column("rank"),
    Column("own work"),
    Column("longest phase", left=True, spare=1),
    Column("for others"),
    Column("communication"),
    Column("for a core", spare=2),
)
MOST = 16
"""Of more ranks only those that work longest are listed."""
KNOWN = (
    "beside its own work a rank waits for others that are late, and for communication that nothing "
    "overlaps with (or for ranks that are late by turns); a wait for a core is part of the work"
)
UNKNOWN = "what the ranks wait for each other is not known: no DDP model of all ranks logged it"


def show(out: Console, profile: Profile) -> None:
    """The table, of a program of several ranks."""
    cells, note = ranks_table(profile)
    if cells:
        out.print(f"\n[bold]{TITLE}[/]")
        out.print(table(COLUMNS, [Row(row) for row in cells], out.width))
        out.print(Text(hanging(note, out.width)), style="dim")


def ranks_table(profile: Profile) -> tuple[list[Sequence[str]], str]:
    """The cells of each row, by `COLUMNS`, and what to say of them; no rows where there is one."""
    ranks = profile.ranks
    if profile.world < 2 or not ranks:
        return [], ""
    shown = ranks
    if len(ranks) > MOST:
        shown = tuple(sorted(ranks, key=lambda rank: -rank.work)[:MOST])
    notes = [UNKNOWN if ranks[0].straggler is None else KNOWN]
    if missing := profile.world - len(ranks):
        notes = [f"{several(missing, 'rank')} of {profile.world} sent no times"]
    if left_out := len(ranks) - len(shown):
        notes.append(f"{several(left_out, 'rank')} more that work less")
    return [_cells(rank) for rank in shown], "; ".join(notes)


def _cells(rank: Rank) -> Sequence[str]:
    longest = max(rank.phases, key=lambda name: rank.phases[name], default="")
    phase = f"{TITLES.get(longest, longest)} {duration(rank.phases[longest])}" if longest else ""
    waits = [rank.straggler, rank.communication]
    work = "" if rank.straggler is None else duration(rank.work)
    times = ["" if wait is None else duration(wait) for wait in waits]
    return (str(rank.rank), work, phase, *times, duration(rank.core))
