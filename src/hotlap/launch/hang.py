"""A node on which no rank gets on: each rank's stack, a word on who stood where, and an end."""

import contextlib
import datetime
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.launch.rank_records import Answer, Rank, ask, living
from hotlap.launch.stacks import place

Tell = Callable[[str], None]
DEPTH = 12
STARTED_AGAIN = (
    "the ranks were ended, and started again: a script that loads no checkpoint trains from its "
    "beginning"
)


@dataclass(frozen=True)
class HangWatch:
    """Ends the ranks when none of them has made an optimizer step for `limit` seconds.

    Before the first step of any rank no time counts: imports, downloads, rendezvous, compilation.
    The launcher then starts them again, from their last checkpoint, as if they had died; that, and
    every other new start, is said. `folder` holds their records, `reports` takes the whole stacks,
    `pids` are those of the ranks that were seen.
    """

    folder: Path
    reports: Path
    limit: float
    tell: Tell
    pids: dict[int, int] = field(default_factory=dict)

    def look(self) -> None:
        """Look at the ranks once; called at intervals."""
        ranks = living(self.folder)
        self._see_new_start(ranks)
        stepped = any(rank.steps for rank in ranks)
        if self.limit and stepped and all(rank.idle > self.limit for rank in ranks):
            self._end(ranks)

    def _see_new_start(self, ranks: list[Rank]) -> None:
        """Say once that the ranks run in new processes; all old ones are gone by then."""
        if any(self.pids.get(rank.number, rank.pid) != rank.pid for rank in ranks):
            self.pids.clear()
            self.tell(STARTED_AGAIN)
        self.pids.update({rank.number: rank.pid for rank in ranks})

    def _end(self, ranks: list[Rank]) -> None:
        answers = ask(self.folder, ranks)
        for line in described(answers, self.limit):
            self.tell(line)
        self._keep(answers)
        for rank in ranks:
            with contextlib.suppress(OSError):
                os.kill(rank.pid, signal.SIGKILL)

    def _keep(self, answers: list[Answer]) -> None:
        now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        path = self.reports / f"hang-{now}-{os.getpid()}.txt"
        parts = [f"rank {a.rank.number}, pid {a.rank.pid}\n{a.text or a.state}\n" for a in answers]
        try:
            path.write_text("\n".join(parts))
        except OSError as error:
            self.tell(f"the stacks of all threads could not be kept: {error}")
            return
        self.tell(f"the stacks of all threads are in {path}")


def described(answers: list[Answer], limit: float) -> Iterator[str]:
    """Say who stands where, ranks that stand alike together, those farthest behind first."""
    groups: dict[tuple[int, str], list[Answer]] = {}
    for answer in answers:
        groups.setdefault((answer.rank.steps, _where(answer)), []).append(answer)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], len(item[1])))
    yield (
        f"no rank here has made an optimizer step for {limit:g} s: ending them "
        "(--hang-timeout says how long is too long)"
    )
    for (steps, where), members in ordered:
        yield f"{_numbers(members)} after step {steps}: {where}"
    for _, members in ordered:
        yield from _stack(members)


def _where(answer: Answer) -> str:
    if not answer.text:
        return f"did not answer; its process is {answer.state}"
    return place(answer.stack)


def _numbers(members: list[Answer]) -> str:
    numbers = ", ".join(str(answer.rank.number) for answer in members)
    return f"rank {numbers} stands" if len(members) == 1 else f"ranks {numbers} stand"


def _stack(members: list[Answer]) -> Iterator[str]:
    frames = members[0].stack
    if frames:
        yield f"the stack of rank {members[0].rank.number}, innermost call first:"
    for frame in frames[:DEPTH]:
        yield f"    {frame}"
    if len(frames) > DEPTH:
        yield f"    and {len(frames) - DEPTH} more"
