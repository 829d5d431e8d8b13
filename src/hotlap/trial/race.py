"""The lockstep race: A runs a block while B is stopped, then B the same block while A is stopped.

Both see the same background load, so that the ratio of each pair of blocks says what the clock
alone cannot; and both stand at the same step, so that they compute on the same data. The order
alternates; a sequential test says when to stop.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hotlap.core.errors import TrialFailedError
from hotlap.core.machine import available_memory
from hotlap.core.registry import technique
from hotlap.trial.launch import allocator_set, spin, threading_variables
from hotlap.trial.load import LoadMeter, LoadSummary, busy_now
from hotlap.trial.side import BLOCK, PAIRS_OF_EPOCHS, Pace, Side, block_size
from hotlap.trial.stats import LAUNCH_SD, Estimate, PairedTest, Verdict
from hotlap.trial.stopping import PAIRS_OF_LAUNCH, StoppingRules, StopReason
from hotlap.trial.trial import Block, StepCost, TimeOverError, merged, step_cost

CONFIRM_SECONDS = 4.0
"""Seconds that fresh pairs take together at the least, however short each of them is."""
OVERTIME = 0.25
"""Part of its time that a race may take longer, where that is expected to bring a verdict: less
than what a second race of the same two would take."""
SAMPLES_ALIKE = 0.05
"""Log ratio of the samples of a step up to which two count as the same."""
EVEN = 0.5  # chance from which a verdict is expected
NOTED_WAIT = 0.01  # part of a block's time from which waits for a core are reported
DIFFERENT = frozenset({Verdict.FASTER, Verdict.SLOWER})
EPOCHS_TO_SHARE = 2
"""Times that the race's time must hold an epoch of both for each side to run one before it."""
CATCH_UP_SECONDS = 3.0  # what it may take the side behind to get to the step of the other
FAULTS_A_STEP, FAULTS_TIMES = 100, 2
"""Page faults a step, and in multiples of the other side's, from which a launch is to blame:
benchmarks.launches with `--kinds cnn` shows launches of one program that far apart."""
FAULTS_SECONDS = 3.0
"""Seconds of pairs that show what page faults a launch has: few pairs where they are epochs."""
LEAST_LEFT = 0.5
"""Part of the time that was raced that has to be left for a race to begin anew."""
LAUNCHES_IN_DOUBT = 2
"""Launches that are ended early to see whether page faults are their luck: one that shows it is
likely to be among the next two."""
HEAP_ROOM = 2
"""Times their memory that has to be free where both sides keep what they free."""
MOST_AGAIN = 3
"""Blocks that are run for one with a plain step."""
START_DIFFERS = 2.0
"""Seconds of warm-up that are not told from the luck of a start."""


@dataclass(frozen=True)
class RaceResult:
    """The outcome. Ratios are A over B: above 1, B is faster, or smaller.

    `unit` says what was timed: `epoch` (whole epochs with all that is in them) or `step` (plain
    steps; epoch starts, evaluations and checkpoints left out, or with `epoch_shared` added to each
    by their share, as one epoch of each side had shown them). `samples`: what a step of A and of B
    takes, where they differ; ratios are by sample then. `lockstep` is False where memory did not
    allow two live processes. `a_step` and `b_step` are seconds a step, of the same pairs and
    corrected in the same way as the ratio, which is their quotient (by sample); `corrected`:
    whether waits for a core lengthened the blocks by more than 1 %. `cpu` compares CPU time.
    `launches`: how often both were launched to see whether they differ again. `restarts`: how often
    one was started again since its program had come to its end, `ends_vary` whether one ended after
    different numbers of steps. `too_slow`: whether B is slower than the rules' threshold allows;
    None where that is not shown, or there is none. `stopped`: why the race ended. `not_faster`:
    whether the interval excludes the smallest gain worth having. `seconds_needed`: about how much
    more racing would give a verdict; 0 when there is one, infinite where no end is in sight.
    `fresh`: the ratio of the pairs that were run after the verdict, in this race or in an earlier
    one from which it goes on, and which it did not select; None without. `load`: what other
    programs took. `passive_wait`: whether both ran with OpenMP threads that sleep while they wait.
    `same_steps`: whether both always timed the same steps of the training. `queues_left_out`:
    whether loader workers fill their queues in steps that were not timed, and read ahead a good
    part of so short an epoch. `switched`: both are one live process, in which what is raced was
    switched on for B's blocks. `faults`: page faults a step of A and of B in the last launch, where
    they are so far apart that launches are expected to differ by them; else None. `steady_heap`:
    whether both ran with a malloc that keeps what is freed, since launches of one side had differed
    by page faults; what was raced before that does not count. `left_out`: the
    part of A's and of B's time that was left out, `within`: the part of the blocks in which each
    step had an epoch's start, an evaluation or a checkpoint, so that they were timed with it.
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
    too_slow: bool | None = None
    stopped: StopReason = StopReason.DECIDED
    not_faster: bool = False
    seconds_needed: float = 0.0
    fresh: Estimate | None = None
    load: LoadSummary = field(default_factory=LoadSummary)
    passive_wait: bool = False
    same_steps: bool = True
    corrected: bool = False
    queues_left_out: bool = False
    epoch_shared: bool = False
    ends_vary: bool = False
    switched: bool = False
    faults: tuple[float, float] | None = None
    steady_heap: bool = False
    samples: tuple[float, float] | None = None
    left_out: tuple[float, float] = (0.0, 0.0)
    within: tuple[float, float] = (0.0, 0.0)

    def with_estimate(self, estimate: Estimate) -> "RaceResult":
        """The same race reported by other pairs of it: the quotient of its times is their ratio."""
        level = math.sqrt(self.a_step * self.b_step)
        half = math.sqrt(estimate.ratio * larger(self.samples))
        return replace(self, estimate=estimate, a_step=level * half, b_step=level / half)

    @property
    def extra_start(self) -> float:
        """Seconds by which B's warm-up is longer."""
        return self.b_warmup - self.a_warmup

    @property
    def starts_longer(self) -> bool:
        """Whether B's warm-up is longer by more than the luck of a start."""
        return self.extra_start > START_DIFFERS

    @property
    def break_even(self) -> float:
        """Steps after which B's longer warm-up pays off; infinite if it never is."""
        gain = self.a_step / larger(self.samples) - self.b_step
        return max(0.0, self.extra_start) / gain if gain > 0 else math.inf


def larger(samples: tuple[float, float] | None) -> float:
    """How many times as many samples a step of A takes as one of B."""
    return samples[0] / samples[1] if samples else 1.0


@dataclass(eq=False)
class Evidence:
    """What earlier races of the same two commands have shown, for one that goes on from there.

    `seconds` of racing made it, in blocks of `unit`; `launches` are those of A that took part: each
    counts once.
    """

    test: PairedTest
    seconds: float = 0.0
    unit: str = ""
    launches: set[int] = field(default_factory=set)

    def go_on(self, a: Side) -> None:
        """Another race begins: A has to be a process that took no part, or it tells nothing new."""
        if a.trial is not None and a.launches in self.launches:
            a.close()
            a.start()

    def begin(self, a: Side) -> None:
        """Both are there: what comes now is of another launch."""
        self.go_on(a)
        if self.launches:
            self.test.relaunched()


OnPair = Callable[[Estimate], None]
OnReady = Callable[[float], None]
"""Told, as both sides are ready, how many seconds the fewest pairs take."""


def race(
    a: Side, b: Side, rules: StoppingRules, on_pair: OnPair = lambda _: None,
    *, busy: bool | None = None, evidence: Evidence | None = None,
    on_ready: OnReady = lambda _: None,
) -> RaceResult:  # fmt: skip
    """Race B against A. Both may be live already, and both stay live.

    With `evidence` it goes on where the earlier races ended, at their level: the intervals hold
    however often one looks. What is new is added to it.

    Args:
        a: the reference.
        b: what it is compared with.
        rules: when to stop.
        on_pair: called behind each pair.
        evidence: what earlier races of the same two have shown, if there were any.
        busy: whether other programs want the cores; None: look, where no trial of ours runs yet.
        on_ready: called once, before the first pair.

    Raises:
        TrialFailedError: one of the two failed; its last words are the message.
        TimeOverError: the deadline of a side came before the first pair.
    """
    begin = time.monotonic()
    meter = LoadMeter()
    wait_alike(a, b, busy=busy_now() if busy is None else busy)
    if evidence is not None:
        evidence.begin(a)
    together = _settle_both(a, b)
    running = RunningRace(a, b, rules, together, meter, evidence)
    on_ready(running.least_seconds())
    return running.run(on_pair, begin)


def paired_test(rules: StoppingRules, launch_sd: float = LAUNCH_SD) -> PairedTest:
    """The test of a race at the rules' level; `launch_sd` 0: each pair is of fresh processes."""
    return PairedTest(rules.min_effect, rules.alpha, rules.candidates, rules.same_within, launch_sd)


def wait_alike(a: Side, b: Side, *, busy: bool) -> None:
    """Have the threads of both sleep while they wait for one another, if the machine is busy.

    A thread that spins takes a core from the one it waits for. Not where the two commands set
    variables of OpenMP or MKL differently: that difference is what is raced. A side that is live
    and waits otherwise with several threads is closed, to be launched anew.
    """
    busy = busy or any(side.passive_wait and side.trial is not None for side in (a, b))
    asleep = busy and threading_variables(a.setting) == threading_variables(b.setting)
    for side in (a, b):
        if side.passive_wait is not asleep and side.threads != 1:
            side.close()
        side.passive_wait = asleep


def explained_by_faults(one: StepCost, other: StepCost) -> float:
    """The log ratio that page faults explain, where one has many times the other's.

    Both are of all blocks of a launch: what comes and goes from block to block is in the spread of
    the pairs already. Whether malloc gives a step's buffers back to the kernel and faults them in
    again depends on what lies on top of the heap: an accident of the launch
    (`benchmarks.launches`).
    """
    few, many = sorted((one, other))
    if many.faults < FAULTS_A_STEP or many.faults < FAULTS_TIMES * few.faults:
        return 0.0
    return math.log1p(max(0.0, many.system - few.system) / max(few.cpu, 1e-9))


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


class RunningRace:
    """Two sides that are ready, and what their pairs of blocks have shown."""

    launch_sd = LAUNCH_SD
    """By how much launches are expected to differ (1 sd of the log ratio)."""
    block_seconds = BLOCK
    switched = False

    def __init__(
        self,
        a: Side,
        b: Side,
        rules: StoppingRules,
        together: bool,
        meter: LoadMeter,
        evidence: Evidence | None = None,
    ) -> None:
        self.a, self.b, self.rules, self.together, self.meter = a, b, rules, together, meter
        if not (together and evidence):
            evidence = Evidence(paired_test(rules, self.launch_sd if together else 0.0))
        self.evidence, self.test = evidence, evidence.test
        self._earlier = self.test.launches - 1
        self._before = self.evidence.seconds
        self._costs: list[tuple[StepCost, StepCost]] = []  # of A and B, of the launches that ended
        self._may_keep_heap = rules.unknown_change and not self._before and self._heap_can_be_kept()
        self._won = self.test.verdict() in DIFFERENT
        self.fresh = paired_test(replace(rules, candidates=1), self.launch_sd if self._won else 0.0)
        self.pairs: list[tuple[Block, Block]] = []
        self.same_steps, self.steady_heap = True, False
        self._launched = sum(side.launches for side in self.processes)
        self._launch_seconds = 1.25 * max(a.start_up, b.start_up)  # both start at the same time
        self._racing = 0.0
        self._turns = 0
        self._never_plain = not self.together  # to run a block again starts a process again
        self._asked = 0
        changed = set(a.setting.techniques) ^ set(b.setting.techniques)
        self._acts_on_faults = any("faults" in technique(name).phases for name in changed)
        longest = rules.seconds if rules.plain_steps else math.inf
        longest = {"step": 0.0, "epoch": math.inf}.get(self.evidence.unit, longest)
        self._reads_ahead = rules.unknown_change and (a.reads_ahead or b.reads_ahead)
        whole = together and (rules.whole_epochs or self._fit(PAIRS_OF_EPOCHS))
        share = together and (rules.share_epoch or self._fit(EPOCHS_TO_SHARE))
        if whole or share:
            for side in self.processes:
                side.see_epoch()
        paces = self._paces()
        self.start = time.monotonic()
        self.unit, self.steps, self._pair_seconds = block_size(
            *paces, longest, whole=whole, least=self.block_seconds
        )
        self.evidence.unit = self.unit
        known = paces[0].epoch == paces[1].epoch > 0
        self.epoch_shared = share and known and self.unit == "step"
        self._shares = [pace.once_an_epoch if self.epoch_shared else 0.0 for pace in paces]
        self.samples = self._different_samples()

    def _different_samples(self) -> tuple[float, float] | None:
        """What a step of A and of B takes, if nothing is known of what is raced and they differ."""
        if not (self.rules.unknown_change and self.a.samples and self.b.samples):
            return None
        a, b = self.a.samples, self.b.samples
        return (a, b) if abs(math.log(a / b)) > SAMPLES_ALIKE else None

    @property
    def processes(self) -> tuple[Side, ...]:
        """The sides that have processes of their own."""
        return self.a, self.b

    def _paces(self) -> tuple[Pace, Pace]:
        """The paces of both, that blocks are sized by."""
        return self.a.ready_pace(), self.b.ready_pace()

    def _fit(self, epochs: int) -> bool:
        """Whether workers read ahead in epochs of which the time holds so many of both."""
        if not self._reads_ahead:
            return False
        return epochs * (self.a.longest_epoch + self.b.longest_epoch) <= self.rules.seconds

    def least_seconds(self) -> float:
        """About how long the fewest pairs take."""
        return min(self.rules.fewest_pairs, self.rules.max_pairs) * self._pair_seconds

    def run(self, on_pair: OnPair, begin: float) -> RaceResult:
        """Run pairs, and launch both again, until the rules say stop."""
        stopped = None
        try:
            while stopped is None:
                self._launch_where_it_pays()
                self._pair(self.test, *([self.fresh] if self._won else []))
                on_pair(self.test.estimate())
                stopped = self._stop()
                if stopped is StopReason.DECIDED:
                    stopped = self._confirm(on_pair)
        except TimeOverError:
            if not self.pairs:
                raise
            stopped = StopReason.TIME
        except KeyboardInterrupt:
            if not (self.rules.partial and self.pairs):
                raise
            stopped = StopReason.INTERRUPTED
        return self._result(stopped, time.monotonic() - begin)

    def _stop(self) -> StopReason | None:
        """Why the race is over, if it is: the table of hotlap.trial.stopping, in its order."""
        rules, test = self.rules, self.test
        fewest = max(rules.fewest_pairs, self._in(rules.least_seconds))
        if len(self.pairs) < min(fewest, rules.max_pairs):
            return None
        decided = self._decided()
        if decided or len(self.pairs) >= 2 * self._asked:
            self._asked = len(self.pairs)
            if rules.lost():
                return StopReason.LOST
        if decided:
            return StopReason.DECIDED
        if self._spent() > self._allowed():
            return StopReason.TIME
        growth = (self._before + self._allowed()) / max(self._before + self._spent(), 1e-9)
        if rules.until_gain and rules.give_up and test.gain_unlikely(growth):
            return StopReason.FUTILE
        return StopReason.PAIRS if len(self.pairs) >= rules.max_pairs else None

    def _decided(self) -> bool:
        rules, test = self.rules, self.test
        if rules.threshold is not None:
            return test.below(rules.threshold) is not None
        return (rules.until_gain and test.not_faster()) or test.settled(rules.precision)

    def _confirm(self, on_pair: OnPair) -> StopReason | None:
        """Run fresh pairs after a verdict that there is a difference; None if it does not hold."""
        if self._won or self.test.verdict() not in DIFFERENT:
            return StopReason.DECIDED
        self.fresh = PairedTest(self.rules.min_effect, self.rules.alpha)
        enough = max(self.rules.confirm_pairs, self._in(CONFIRM_SECONDS))
        for _ in range(enough if self.rules.confirm_pairs else 0):
            if self._spent() > self._allowed():
                break
            self._pair(self.test, self.fresh)
            on_pair(self.test.estimate())
        return self._stop()

    def _in(self, seconds: float) -> int:
        """The pairs that take so many seconds."""
        return math.ceil(seconds / max(self._pair_seconds, 1e-9))

    def _spent(self) -> float:
        return time.monotonic() - self.start

    def _allowed(self) -> float:
        """Seconds that the race may take by what it shows now."""
        rules = self.rules
        promising = rules.until_gain and self.test.promising()
        seconds = max(rules.seconds, rules.seconds_if_promising) if promising else rules.seconds
        longest = (1 + OVERTIME) * seconds
        spent = self._spent()
        more = (self.test.growth_needed(EVEN) - 1) * (self._before + spent)
        return longest if seconds < spent + more <= longest else seconds

    def _launch_where_it_pays(self) -> None:
        """Launch both again, if that tells more than the next pair would."""
        if self._heap_pays():
            self._keep_heaps()
        elif self._heap_in_doubt() or self._launch_pays():
            self._relaunch()

    def _launch_pays(self) -> bool:
        """Whether a second of launching narrows the interval more than a second of racing."""
        test, pairs = self.test, len(self.pairs)
        few = test.launches > 1 or self.steady_heap
        enough = PAIRS_OF_LAUNCH if few else self.rules.fewest_pairs
        more = self.together and test.launches - self._earlier < self.rules.launches
        if not (more and pairs) or test.pairs_of_launch < enough:
            return False
        again = self._launch_seconds + PAIRS_OF_LAUNCH * self._racing / pairs
        if self._spent() + again > self._allowed():
            return False
        now = test.interval()
        by_launching = now.between**2 / (test.launches + 1) / max(self._launch_seconds, 1e-9)
        return by_launching > now.within**2 / max(self._racing, 1e-9)

    def _heap_can_be_kept(self) -> bool:
        """Whether both can run with a malloc that keeps what is freed."""
        room = HEAP_ROOM * (self.a.peak + self.b.peak) < available_memory()
        return self.together and room and not allocator_set(self.a.setting, self.b.setting)

    def _faults_are_known(self) -> bool:
        """Whether the pairs of this launch show what page faults it has."""
        return self.test.pairs_of_launch >= min(PAIRS_OF_LAUNCH, self._in(FAULTS_SECONDS))

    def _heap_in_doubt(self) -> bool:
        """Whether A and B differ by page faults, and another launch shows if that is luck in time.

        The sooner a race begins anew, the more of its time is left.
        """
        doubted = len(self._costs) < LAUNCHES_IN_DOUBT and self._faults_are_known()
        if not (self._may_keep_heap and doubted):
            return False
        again = 2 * self._launch_seconds + self._in(FAULTS_SECONDS) * self._pair_seconds
        in_time = self._spent() + again + self.least_seconds() <= self._allowed()
        return in_time and self._seen_luck() >= self.launch_sd

    def _heap_pays(self) -> bool:
        """Whether launches of one side differ by page faults, so that both should keep the heap."""
        if not (self._may_keep_heap and self._costs and self._faults_are_known()):
            return False
        luck = max(
            explained_by_faults(*costs)
            for earlier in self._costs
            for costs in zip(earlier, self._cost_of_launch(), strict=True)
        )
        again = self._launch_seconds + max(self.least_seconds(), LEAST_LEFT * self._racing)
        return luck >= self.launch_sd and self._spent() + again <= self._allowed()

    def _keep_heaps(self) -> None:
        """Begin anew with a malloc that keeps what is freed, in both.

        What was raced before counts until the first new pair is there.
        """
        self._may_keep_heap = False
        self.a.steady_heap = self.b.steady_heap = True
        self._relaunch()
        before, test = len(self.pairs), paired_test(self.rules, self.launch_sd)
        self._racing = 0.0
        self._pair(self.test, test)
        self.evidence.test = self.test = test
        self.evidence.launches = {self.a.launches}
        self.fresh = paired_test(replace(self.rules, candidates=1), 0.0)
        self.pairs, self.same_steps, self._asked = self.pairs[before:], True, 0
        self._launched = sum(side.launches for side in self.processes)
        self._before = self._racing - self._spent()
        self.steady_heap = True

    def _relaunch(self) -> None:
        """Give all fresh processes; they start at the same time, and settle in turns."""
        begin = time.monotonic()
        self._costs.append(self._cost_of_launch())
        sides = self.processes[::-1]
        for side in sides:
            side.close()
        for side in sides:
            side.start()
        for side in sides:
            side.first_step()
        for side in sides:
            side.ready()
        self.test.relaunched()
        self.fresh.relaunched()
        self._launch_seconds = time.monotonic() - begin

    def _pair(self, *tests: PairedTest) -> None:
        """Run one pair of blocks and add it."""
        begin = time.monotonic()
        a, b = self._blocks()
        self.same_steps &= a.at == b.at
        self.steps = min(self.steps, a.steps, b.steps)  # a short program had them shortened
        self.pairs.append((a, b))
        self.evidence.launches.add(self.a.launches)
        self._racing += time.monotonic() - begin
        for test in tests:
            test.add(
                (self._time(a) + self._shares[0]) / larger(self.samples),
                self._time(b) + self._shares[1],
                a.stretch, b.stretch,
            )  # fmt: skip
        self.test.launches_differ_by(self._seen_luck())

    def _seen_luck(self) -> float:
        """By how much launches can be seen to differ (1 sd of the log ratio), if they can."""
        return 0.0 if self._acts_on_faults else explained_by_faults(*self._cost_of_launch())

    def _cost_of_launch(self) -> tuple[StepCost, StepCost]:
        """What a step of A and of B has cost since the last launch."""
        a, b = zip(*self.pairs[-self.test.pairs_of_launch :], strict=True)
        return step_cost(a), step_cost(b)

    def _faults(self) -> tuple[float, float] | None:
        if not self._seen_luck():
            return None
        a, b = self._cost_of_launch()
        return a.faults, b.faults

    def _blocks(self) -> tuple[Block, Block]:
        """A block of A and one of B, run in pieces by turns; the order turns with each piece.

        They are run once more where a program came to its end in between, so that the two are of
        different steps; and a few times where one of the two has no plain step, unless that is so
        for good, as where every step is followed by an evaluation.
        """
        turns, again, ended = self._turns, 0, False
        while True:
            self._turns = turns  # what is run again is run in the same order
            aligned = self._same_step()
            pieces: dict[int, list[Block]] = {id(self.a): [], id(self.b): []}
            for steps in self._pieces():
                order = (self.b, self.a) if self._turns % 2 else (self.a, self.b)
                self._turns += 1
                for side in order:
                    pieces[id(side)].append(self._block(side, steps))
            a, b = merged(pieces[id(self.a)]), merged(pieces[id(self.b)])
            if aligned and a.at != b.at and not ended:
                ended = True
            elif self._without_plain_step(a, b) and again < MOST_AGAIN:
                again += 1
            else:
                self._never_plain |= self._without_plain_step(a, b)
                return a, b

    def _without_plain_step(self, *blocks: Block) -> bool:
        sought = self.unit == "step" and not self._never_plain
        none = sought and any(len(block.special) >= block.steps for block in blocks)
        return none and self._spent() <= self._allowed()

    def _pieces(self) -> Sequence[int]:
        """The steps of each piece of a block: both run an epoch side by side, not one by one.

        A machine's speed drifts, so that a second in between makes more noise than a tenth of one.
        """
        if not self.together:
            return (self.steps,)
        count = min(self.steps, max(1, round(self._pair_seconds / 2 / BLOCK)))
        whole, more = divmod(self.steps, count)
        return [whole + (piece < more) for piece in range(count)]

    def _same_step(self) -> bool:
        """Let the side that is behind catch up, untimed, where that takes little time."""
        behind, ahead = sorted((self.a, self.b), key=lambda side: side.at)
        steps = ahead.at - behind.at
        if not (self.together and behind.at):
            return False
        ends = behind.ends_after and ahead.at + self.steps > behind.ends_after
        if steps and not ends and steps * behind.ready_pace().step < CATCH_UP_SECONDS:
            behind.catch_up(steps)
        return behind.at == ahead.at

    def _block(self, side: Side, steps: int) -> Block:
        if not self.together:
            (self.b if side is self.a else self.a).close()
        self.meter.begin()
        block = side.block(steps)
        self.meter.end(block.ran, block.waited)
        return block

    def _time(self, block: Block) -> float:
        return block.step if self.unit == "epoch" else block.plain_step

    def _restarts(self) -> int:
        """Launches beside those made to see whether the sides differ again."""
        if not self.together:
            return 0
        again = len(self.processes) * (self.test.launches - 1 - self._earlier)
        return sum(side.launches for side in self.processes) - self._launched - again

    def _slept(self) -> bool:
        """Whether threads slept while they waited that would spin without us."""
        return self.a.passive_wait and spin(max(self.a.threads, self.b.threads))

    def _memory(self) -> float:
        """Peak memory, A over B."""
        return self.a.memory_over(self.b, min(block.at for block in self.pairs[-1]))

    def _result(self, stopped: StopReason, seconds: float) -> RaceResult:
        test, rules = self.test, self.rules
        self.evidence.seconds = self._before + self._spent()
        a_blocks, b_blocks = zip(*self.pairs, strict=True)
        a_step, b_step = test.times()
        a_pace, b_pace = self.a.ready_pace(), self.b.ready_pace()
        fresh = self.fresh.estimate()
        return RaceResult(
            estimate=test.estimate(),
            verdict=test.verdict(),
            unit=self.unit,
            lockstep=self.together,
            a_step=a_step * larger(self.samples),
            b_step=b_step,
            corrected=test.waited() > NOTED_WAIT,
            cpu=_cpu(a_blocks) / max(_cpu(b_blocks), 1e-9) / larger(self.samples),
            memory=self._memory(),
            a_warmup=a_pace.warmup,
            b_warmup=b_pace.warmup,
            seconds=seconds,
            launches=test.launches,
            restarts=self._restarts(),
            too_slow=None if rules.threshold is None else test.below(rules.threshold),
            stopped=stopped,
            not_faster=test.not_faster(),
            seconds_needed=(test.growth_needed() - 1) * self.evidence.seconds,
            fresh=fresh if fresh.pairs else None,
            load=self.meter.summary(),
            passive_wait=self._slept(),
            same_steps=self.same_steps,
            queues_left_out=self._reads_ahead and self.unit == "step" and not self.epoch_shared,
            epoch_shared=self.epoch_shared,
            ends_vary=any(len(side.ends) > 1 for side in self.processes),
            switched=self.switched,
            faults=self._faults(),
            steady_heap=self.steady_heap,
            samples=self.samples,
            left_out=(self._left_out(a_blocks), self._left_out(b_blocks)),
            within=(self._within(a_blocks), self._within(b_blocks)),
        )

    def _left_out(self, blocks: Sequence[Block]) -> float:
        """The part of the blocks' time that is not in the times of their steps."""
        if self.unit == "epoch":
            return 0.0
        beside = sum(block.wall - block.plain_step * block.steps for block in blocks)
        return max(0.0, beside) / sum(block.wall for block in blocks)

    def _within(self, blocks: Sequence[Block]) -> float:
        """The part of the blocks that hold no plain step."""
        if self.unit == "epoch":
            return 0.0
        return sum(len(block.special) >= block.steps for block in blocks) / len(blocks)


def _cpu(blocks: Sequence[Block]) -> float:
    """Seconds of CPU time a step."""
    return sum(block.cpu for block in blocks) / sum(block.steps for block in blocks)
