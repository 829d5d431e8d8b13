"""Which ranks a block waits for, and the losses of all of them as one figure a step.

The ranks of a training depend on one another at each step, so that all stop after the same one and
go on together. Where they do not come together - uneven epochs, a rank that only serves - the
lowest rank that came is followed alone from then on, and the others run as it makes them.
"""

import time
from dataclasses import dataclass

from hotlap.core.protocol import BlockReport, decode
from hotlap.trial.channel import Message, Peer

FOREVER = 1 << 60
STRAGGLE = 20.0
PER_BLOCK = 4.0


@dataclass(frozen=True)
class RankReport:
    """A rank's report of a block, and the connection that it waits at."""

    peer: Peer
    block: BlockReport


class Ranks:
    """The ranks of one trial. Messages go in; `complete` says when all have ended the block."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.alone: int | None = None
        self._peers: dict[int, Peer] = {}
        self._reports: dict[int, RankReport] = {}
        self._losses: dict[int, list[float]] = {}
        self._deadline = 0.0

    @property
    def reports(self) -> list[RankReport]:
        """What has come of this block, the first rank's first."""
        return [self._reports[rank] for rank in sorted(self._reports)]

    def begin(self) -> None:
        """A new block begins: nobody has reported."""
        self._reports = {}

    def see(self, message: Message) -> None:
        """Take in a report, or that a process is gone."""
        if message.type == "gone":
            self._peers = {r: peer for r, peer in self._peers.items() if peer is not message.peer}
        elif message.type == "block":
            self._report(message)

    def _report(self, message: Message) -> None:
        block = decode(BlockReport, message.fields)
        rank = block.rank
        stranger = self._peers.setdefault(rank, message.peer) is not message.peer
        if stranger or self.alone not in (None, rank):
            message.peer.send(go=FOREVER)
            return
        if not self._reports:
            wait = STRAGGLE + PER_BLOCK * block.wall
            self._deadline = time.monotonic() + wait
        self._reports[rank] = RankReport(message.peer, block)
        self._losses.setdefault(rank, []).extend(block.losses)

    def complete(self) -> bool:
        """Whether everybody has ended the block."""
        if not self._reports:
            return False
        world = 1 if self.alone is not None else max(report.block.world for report in self.reports)
        if len(self._reports) < world:
            return False
        self._join()
        return True

    def tick(self) -> None:
        """Nothing more has come for now: who is much too late is let run, for good."""
        if self._reports and time.monotonic() > self._deadline:
            self._follow_one()

    def _follow_one(self) -> None:
        self.alone = min(self._reports)
        self.losses = []
        for rank, peer in self._peers.items():
            if rank != self.alone:
                peer.send(go=FOREVER)
        self._reports = {self.alone: self._reports[self.alone]}

    def _join(self) -> None:
        """One loss a step: the mean over the ranks, which is that of the whole batch."""
        columns = [self._losses[rank] for rank in sorted(self._reports)]
        for step in range(len(self.losses), min(map(len, columns))):
            self.losses.append(sum(column[step] for column in columns) / len(columns))
