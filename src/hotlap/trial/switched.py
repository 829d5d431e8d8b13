"""A race of a live process with itself: techniques are switched on for every second block.

Two processes of one program differ for as long as they live, by 3 % to 40 %, so that a race between
processes has to launch both again and again to tell a small gain from that. Here both blocks of a
pair are run by the same process, and what is left is by how much a gain differs from launch to
launch. Both blocks are of different steps of the training. Which of the two comes first is drawn
for each pair, so that no rhythm of the program's own (a log, a longer batch) can meet with that of
the blocks. Losses of such a process say nothing: see `Side.losses`.
"""

import random
import time
from dataclasses import replace

from hotlap.trial.launch import Techniques
from hotlap.trial.load import LoadMeter
from hotlap.trial.race import Evidence, OnPair, RaceResult, RunningRace, paired_test, wait_alike
from hotlap.trial.side import Pace, Side
from hotlap.trial.stopping import StoppingRules
from hotlap.trial.trial import Block

SWITCH_SD = 0.01
LUCK_OF_GAIN = 0.1
"""By how much a ratio differs from launch to launch, 1 sd of its log (benchmarks.switched): where
there is no gain, and as a part of a larger one."""
BLOCK = 0.03
"""Seconds a block lasts at the least. Two processes need longer ones: pausing one takes 2 ms."""


def race_switched(
    side: Side, also: Techniques, rules: StoppingRules, on_pair: OnPair = lambda _: None,
    *, busy: bool = False, evidence: Evidence | None = None,
) -> RaceResult:  # fmt: skip
    """Race a side with techniques switched on (B) against itself as it was started (A).

    It may be live already, and stays live, with nothing switched on. With `evidence` it goes on
    where an earlier race ended, in the same process or in another one.

    Raises:
        TrialFailedError: the program failed; its last words are the message.
        TimeOverError: the deadline of the side came before the first pair.
    """
    begin = time.monotonic()
    meter = LoadMeter()
    wait_alike(side, side, busy=busy)
    evidence = evidence or switched_evidence(rules)
    if rules.plain_steps:  # they show it in a shorter time than the shortest epochs
        evidence.unit = "step"
    try:
        side.ready()
        if evidence.launches and side.launches not in evidence.launches:
            evidence.test.relaunched()
        return _SwitchedRace(side, also, rules, meter, evidence).run(on_pair, begin)
    finally:
        side.also = {}


def switched_evidence(rules: StoppingRules) -> Evidence:
    """What is known before the first pair, at the rules' level."""
    return Evidence(paired_test(rules, SWITCH_SD))


class _SwitchedRace(RunningRace):
    """The pairs of one side, and which techniques are on in its second blocks."""

    launch_sd = SWITCH_SD
    block_seconds = BLOCK
    switched = True

    def __init__(
        self, side: Side, also: Techniques, rules: StoppingRules, meter: LoadMeter,
        evidence: Evidence,
    ) -> None:  # fmt: skip
        self._also = also
        self._draw = random.Random(len(evidence.launches))
        super().__init__(side, side, rules, True, meter, evidence)

    @property
    def processes(self) -> tuple[Side, ...]:
        return (self.a,)

    def _paces(self) -> tuple[Pace, Pace]:
        """What an epoch has once is taken to be the same on both sides."""
        off = self.a.ready_pace()
        on = self.a.pace_with(self._also)
        saved = off.epoch * (off.step - on.step)
        return off, replace(on, epoch_seconds=max(0.0, off.epoch_seconds - saved))

    def _relaunch(self) -> None:
        super()._relaunch()
        self.a.pace_with(self._also)

    def _blocks(self) -> tuple[Block, Block]:
        blocks = {on: self._switched_block(on=on) for on in self._draw.sample((False, True), 2)}
        return blocks[False], blocks[True]

    def _switched_block(self, *, on: bool) -> Block:
        self.a.also = self._also if on else {}
        return self._block(self.a, self.steps)

    def _seen_luck(self) -> float:
        return LUCK_OF_GAIN * abs(self.test.interval().centre)

    def _faults(self) -> None:
        """Both sides are of one launch."""

    def _memory(self) -> float:
        return 1.0
