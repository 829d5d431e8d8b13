"""The lockstep race: A runs a block while B is stopped, then B while A is stopped.

Both see the same weather, so that the ratio of each pair of blocks says what the clock alone
cannot. The order alternates; a sequential test says when to stop.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from hotlap.core.errors import TrialFailedError
from hotlap.core.machine import available_memory
from hotlap.trial.side import BLOCK, Side
from hotlap.trial.stats import Estimate, PairedTest, Verdict
from hotlap.trial.stopping import PAIRS_OF_LAUNCH, StoppingRules, StopReason
from hotlap.trial.trial import Block

EXTENSION = 3.0
LARGE = 1.5


@dataclass(frozen=True)
class RaceResult:
    """The outcome. Ratios are A over B: above 1, B is faster, or smaller.

    `unit` says what was timed: `epoch` (whole epochs with all that is in them) or `step` (plain
    steps; epoch starts, evaluations and checkpoints left out). `lockstep` is False where memory
    did not allow two live processes. `cpu` compares CPU time a step, a witness of contention.
    `launches`: how often both were launched to see whether they differ again. `restarts`: how often
    one was started again since its program had come to its end. `unrepeated`: whether they differ,
    but not in enough launches. `too_slow`: whether B is slower than the rules' threshold allows;
    None where that is not shown, or there is none. `stopped`: why the race ended. `not_faster`:
    whether the interval excludes the smallest gain worth having. `seconds_needed`: about how much
    more racing would give a verdict; 0 when there is one, infinite where no end is in sight.
    """

    estimate: Estimate
    verdict: Verdict
    unit: str
    lockstep: bool
    a_step: float
    b_step: float
    cpu: float
    memory: float
    a_warmup: float
    b_warmup: float
    seconds: float
    launches: int = 1
    restarts: int = 0
    unrepeated: bool = False
    too_slow: bool | None = None
    stopped: StopReason = StopReason.DECIDED
    not_faster: bool = False
    seconds_needed: float = 0.0

    @property
    def break_even(self) -> float:
        """Steps after which B's longer warm-up is earned back; infinite if it never is."""
        extra, gain = self.b_warmup - self.a_warmup, self.a_step - self.b_step
        return max(0.0, extra) / gain if gain > 0 else math.inf


OnPair = Callable[[Estimate], None]


def race(a: Side, b: Side, rules: StoppingRules, on_pair: OnPair = lambda _: None) -> RaceResult:
    """Race B against A. Both may be live already, and both stay live.

    Raises:
        TrialFailedError: one of the two failed; its last words are the message.
    """
    begin = time.monotonic()
    together = _settle_both(a, b)
    runner = _Runner(a, b, together)
    launches = rules.launches if together else 1  # else pair after pair is of fresh processes
    test = PairedTest(rules.min_effect, rules.alpha, rules.candidates, launches)
    start = time.monotonic()
    launching = 0.0
    stopped = StopReason.PAIRS
    while runner.pairs < rules.max_pairs:
        runner.pair(test)
        on_pair(test.estimate())
        if _decided(test, rules):
            stopped = StopReason.DECIDED
            break
        if rules.until_gain and test.gain_unlikely():
            stopped = StopReason.FUTILE
            break
        spent = time.monotonic() - start
        fewest = rules.fewest_pairs + PAIRS_OF_LAUNCH * (test.launches - 1)
        if runner.pairs >= fewest and spent > _allowed(test, rules, launching):
            stopped = StopReason.TIME
            break
        if test.awaits_launch(rules.threshold):
            again = a.start_up + b.start_up + PAIRS_OF_LAUNCH * (spent - launching) / runner.pairs
            if not rules.until_gain or spent + again < rules.seconds_if_promising:
                launching += runner.relaunch(test)
    return runner.outcome(test, rules, stopped, time.monotonic() - begin)


def _allowed(test: PairedTest, rules: StoppingRules, launching: float) -> float:
    """Seconds from the first pair on, of which so many went into launching once more."""
    allowed = rules.seconds + extension(test, rules) + launching
    return (
        min(allowed, max(rules.seconds, rules.seconds_if_promising))
        if rules.until_gain
        else allowed
    )


def extension(test: PairedTest, rules: StoppingRules) -> float:
    """Seconds more for what looks like a gain."""
    if not (rules.until_gain and test.promising()):
        return 0.0
    room = max(0.0, rules.seconds_if_promising - rules.seconds)
    large = test.estimate().ratio >= LARGE
    return room if large else min(room, EXTENSION * rules.seconds)


def _decided(test: PairedTest, rules: StoppingRules) -> bool:
    if rules.until_gain and test.not_faster():
        return True
    if rules.threshold is not None:
        return _too_slow(test, rules.threshold) is not None
    return test.settled(rules.precision)


def _too_slow(test: PairedTest, threshold: float | None) -> bool | None:
    if threshold is None:
        return None
    if test.below(threshold):
        return True
    return False if test.estimate().low > threshold else None


def _settle_both(a: Side, b: Side) -> bool:
    """Make both live; False when memory only allows one at a time."""
    a.ready()
    if not a.peak or a.peak < 0.9 * available_memory():
        try:
            b.ready()
        except TrialFailedError as error:
            b.close()
            if not out_of_memory(str(error)):
                raise
        else:
            return True
    a.close()
    b.ready()
    return False


def out_of_memory(words: str) -> bool:
    """Whether a program's last words say that it ran out of memory."""
    low = words.lower()
    return any(
        sign in low for sign in ("out of memory", "memoryerror", "exit code -9", "bad_alloc")
    )


class _Runner:
    """Runs pairs and adds them up."""

    def __init__(self, a: Side, b: Side, together: bool) -> None:
        self.a, self.b, self.together = a, b, together
        self.pairs = 0
        self.unit, self.steps = self._unit()
        self._launched = a.launches + b.launches
        self._a: list[Block] = []
        self._b: list[Block] = []

    def _unit(self) -> tuple[str, int]:
        a, b = self.a.ready_pace(), self.b.ready_pace()
        if a.epoch == b.epoch and a.whole and b.whole:
            shorter = min(a.epoch_seconds, b.epoch_seconds)
            return "epoch", a.epoch * max(1, math.ceil(BLOCK / shorter))
        return "step", max(1, math.ceil(BLOCK / min(a.step, b.step)))

    def pair(self, test: PairedTest) -> None:
        """Run one pair of blocks; the order turns with each."""
        sides = (self.b, self.a) if self.pairs % 2 else (self.a, self.b)
        blocks = {id(side): self._block(side) for side in sides}
        a, b = blocks[id(self.a)], blocks[id(self.b)]
        self.steps = min(self.steps, a.steps, b.steps)  # a short program had them shortened
        self._a.append(a)
        self._b.append(b)
        self.pairs += 1
        test.add(self._time(a), self._time(b))

    def relaunch(self, test: PairedTest) -> float:
        """Give both a fresh process, B first; return the seconds that took."""
        begin = time.monotonic()
        self.a.close()
        self.b.close()
        self.b.ready()
        self.a.ready()
        test.relaunched()
        return time.monotonic() - begin

    def _block(self, side: Side) -> Block:
        if not self.together:
            (self.b if side is self.a else self.a).close()
        return side.block(self.steps)

    def _time(self, block: Block) -> float:
        return block.step if self.unit == "epoch" else block.plain_step

    def _restarts(self, launches: int) -> int:
        """Launches beside those made to see whether the sides differ again."""
        if not self.together:
            return 0
        return self.a.launches + self.b.launches - self._launched - 2 * (launches - 1)

    def outcome(
        self, test: PairedTest, rules: StoppingRules, stopped: StopReason, seconds: float
    ) -> RaceResult:
        """Everything the pairs have shown."""
        a_steps, b_steps = sum(x.steps for x in self._a), sum(x.steps for x in self._b)
        a_pace, b_pace = self.a.ready_pace(), self.b.ready_pace()
        return RaceResult(
            estimate=test.estimate(),
            verdict=test.verdict(),
            unit=self.unit,
            lockstep=self.together,
            a_step=_middle([self._time(x) for x in self._a]),
            b_step=_middle([self._time(x) for x in self._b]),
            cpu=(sum(x.cpu for x in self._a) / a_steps)
            / max(sum(x.cpu for x in self._b) / b_steps, 1e-9),
            memory=self.a.peak / self.b.peak if self.b.peak else 1.0,
            a_warmup=a_pace.warmup,
            b_warmup=b_pace.warmup,
            seconds=seconds,
            launches=test.launches,
            restarts=self._restarts(test.launches),
            unrepeated=test.unrepeated(),
            too_slow=_too_slow(test, rules.threshold),
            stopped=stopped,
            not_faster=test.not_faster(),
            seconds_needed=test.pairs_needed() * (_total(self._a) + _total(self._b)) / self.pairs,
        )


def _total(blocks: list[Block]) -> float:
    return sum(block.wall for block in blocks)


def _middle(values: list[float]) -> float:
    ranked = sorted(values)
    return ranked[len(ranked) // 2]
