"""What the probe of each of several ranks reports of its own steps: times by phase, DDP's waits.

A rank other than the first reports at growing intervals, because the last report may never come:
the program is ended as soon as the first rank has its steps, and another rank may be killed.
"""

from hotlap.core.protocol import RankTimes
from hotlap.seam.probe.device import DeviceTimeline
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.probe.sampler import hottest

FIRST_REPORT, LONGEST_INTERVAL = 0.1, 1.0
"""Seconds of timed steps before the first report, and between reports at most."""


class Schedule:
    """When a report is due: intervals double up to `LONGEST_INTERVAL`."""

    def __init__(self) -> None:
        self._next = FIRST_REPORT

    def due(self, elapsed: float) -> bool:
        """Whether a report is due, `elapsed` seconds after the timed steps began."""
        if elapsed < self._next:
            return False
        self._next = elapsed + min(elapsed, LONGEST_INTERVAL)
        return True


def rank_times(rec: Recorder, rank: int) -> RankTimes:
    """What is known by now of the steps of this rank: its phases on a GPU by the device's clock."""
    tally, line, roots = rec.measured(), rec.timeline, rec.session.roots.found
    step = sum(tally.means().values())
    phased = line.tally if isinstance(line, DeviceTimeline) and line.tally.steps else tally
    phases = phased.means()
    whole = sum(phases.values())
    shares = {name: seconds / whole for name, seconds in phases.items()} if whole else {}
    clocked = rec.tally.clocked
    return RankTimes(
        rank=rank,
        steps=tally.steps,
        step=step,
        phases=phases,
        errors=phased.errors(),
        exposed=rec.waits.exposed(roots, rec.world, clocked),
        buffers=rec.waits.in_buffers(clocked),
        core=rec.waits.for_core(clocked),
        lines=hottest(dict(rec.sampler.stacks), shares),
    )
