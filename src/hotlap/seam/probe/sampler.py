"""Which of the user's lines the time goes to: a thread that looks at uneven times.

It looks at the training thread's stack and at the phase it is in, and reads how much memory is
resident. The interval is uneven, so that it cannot fall into step with the program. From the stacks
come lines, with what a line costs with all below it.
"""

import ctypes
import linecache
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from types import CodeType, MappingProxyType
from typing import NamedTuple

from hotlap.core.protocol import SampledFile, SampledLine
from hotlap.seam.gate import thread_times
from hotlap.seam.probe.phases import LOSS as AFTER
from hotlap.seam.probe.phases import Range, phase_at
from hotlap.seam.probe.rest import BURST, Rest
from hotlap.seam.where import Stack, short, users_stack

INTERVAL = 0.02
LONGEST = 0.1
RARELY = 0.2
MANY = 20
SHORT = 0.001
SHOWS = 0.004
"""Seconds: what a sample costs is much of a `SHORT` step, and shows in one below `SHOWS`."""
SWITCH = 0.001
SWITCH_ALONE = 0.00002
"""Seconds (`benchmarks.line_samples`, `timed_lines.py`): with 0.2 ms, short Python lines got too
few samples."""
CONTENDS = 0.02
"""Part of a core that the program's other Python threads use for their turns to matter."""
PR_SET_TIMERSLACK = 29
PAGE = os.sysconf("SC_PAGE_SIZE")


class Moment(NamedTuple):
    """Where in a step a sample was taken: its latest mark, that mark's code, and the likely phase.

    What looks like an evaluation is known to be one only later.
    """

    mark: int
    code: int
    phase: str


class Sampler:
    """Samples the thread `thread()`; `now()` says where in a step it is.

    `usual` is how long a step lasts (seconds), 0 while it is not known. At `rest` nothing is known
    of phases: then a look is asked for.
    """

    def __init__(
        self, thread: Callable[[], int], now: Callable[[], Moment | None], rest: Rest
    ) -> None:
        self._thread = thread
        self._now = now
        self._rest = rest
        self.stacks: Counter[tuple[str, Stack]] = Counter()
        self._of_step: list[tuple[Moment, Stack]] = []
        self.resident: dict[str, int] = {}
        self.timing = False
        self.usual = 0.0
        self._struck = False
        self._taken = 0
        self._turns = Turns()
        self._end = threading.Event()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample until the context ends.

        Meanwhile threads hand over sooner than after 5 ms. A sample waits for the interpreter's
        lock, so that lines which let go of it (torch's operators) are seen too often and pure
        Python too rarely: the shorter the wait, the less so.
        """
        thread = threading.Thread(target=self._run, name="hotlap sampler", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join(1)
            self._turns.restore()

    def forked(self) -> None:
        """In a forked child, which has no sampler."""
        self._turns.restore()

    def _run(self) -> None:
        _wake_on_time()
        uneven = random.Random(0)  # the program's own random numbers stay as they were
        others, samples = _Others(self._thread()), 0
        while True:
            if samples % MANY == 0:
                self._turns.shorten(SWITCH if others.compute() else SWITCH_ALONE)
            if self._end.wait(self._interval() * (0.5 + uneven.random())):
                return
            if not self._rest.resting or self._awake(uneven.random()):
                self._sample()
                samples += 1

    def _awake(self, part: float) -> bool:
        """Ask for a look, and wait for a moment somewhere in it."""
        self._rest.ask()
        self._end.wait(self.usual * (1.5 + part * (BURST - 3)))
        return not self._rest.resting

    def struck(self) -> bool:
        """Whether a short step was hit by a sample since last asked: it took too long then."""
        hit, self._struck = self._struck, False
        return hit and 0 < self.usual < SHOWS

    def _interval(self) -> float:
        """Seconds between samples: the more were taken, the less another one tells.

        A sample makes the training thread wait for the interpreter's lock and come back with cold
        caches: about 0.6 ms in all. Of short steps it also asks the probe for a look.
        """
        if 0 < self.usual < SHORT:
            return RARELY
        return min(LONGEST, INTERVAL * max(1.0, self._taken / MANY))

    def _sample(self) -> None:
        frame = sys._current_frames().get(self._thread())
        moment = self._now()
        if moment is None:
            return
        stack = users_stack(frame)
        del frame
        self._struck = True
        if self.timing:
            self._of_step.append((moment, stack))
            self._taken += 1
        if resident := resident_memory():
            self.resident[moment.phase] = max(self.resident.get(moment.phase, 0), resident)

    def settle(self, evaluations: Sequence[Range]) -> None:
        """A step is over: its samples belong to the phases that its time is counted as."""
        samples, self._of_step = self._of_step, []
        for moment, stack in samples:
            inside = any(first <= moment.mark < end for first, end in evaluations)
            after = moment.code == AFTER and not inside
            phase = LOSS if after else phase_at(moment.code, evaluating=inside)
            self.stacks[(phase, stack)] += 1

    def clear(self) -> None:
        """What was sampled so far does not count."""
        self._of_step.clear()
        self.stacks.clear()


def _wake_on_time() -> None:
    """Have the kernel end this thread's waits when they are over, not up to 50 us later."""
    with suppress(AttributeError, OSError):  # not Linux
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)


class Turns:
    """How long a thread may keep the interpreter's lock (seconds): shorter while we sample.

    What the program sets meanwhile is what it finds afterwards.
    """

    def __init__(self) -> None:
        self._programs = self._ours = sys.getswitchinterval()

    def shorten(self, most: float) -> None:
        """From now on at most so long."""
        self._set(min(self._value(), most))

    def restore(self) -> None:
        """From now on as long as the program has it."""
        self._set(self._value())

    def _value(self) -> float:
        now = sys.getswitchinterval()
        if now != self._ours:
            self._programs = now
        return self._programs

    def _set(self, seconds: float) -> None:
        sys.setswitchinterval(seconds)
        self._ours = sys.getswitchinterval()  # whole microseconds


class _Others:
    """The Python threads but for the training one and the one that asks.

    Those that compute would pay for short turns at the interpreter's lock at every moment, the
    training thread only for samples.
    """

    def __init__(self, training: int) -> None:
        self._training = training
        self._seen = (time.perf_counter(), self._ran())

    def compute(self) -> bool:
        """Whether they used much of a core since last asked."""
        (before, had), self._seen = self._seen, (time.perf_counter(), self._ran())
        now, ran = self._seen
        return ran - had > CONTENDS * (now - before)

    def _ran(self) -> float:
        not_these = {self._training, threading.get_ident()}
        others = [t.native_id for t in threading.enumerate() if t.ident not in not_these]
        return thread_times(only=[str(number) for number in others])[0]


def resident_memory() -> int:
    """Bytes of this process that lie in memory now; 0 where the system does not say.

    The file is opened each time: a program may close every descriptor that it does not know.
    """
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(128).split()[1]) * PAGE
    except OSError:
        return 0


LEAST = 0.005
ALWAYS = 3
CALLS = 3
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
LOSS = "loss"
BACKWARD = ".backward("
"""Samples between a training forward and what follows it: part of the phase `forward`."""

OwnOperators = Mapping[tuple[str, int], list[tuple[str, float]]]
"""By file and line: the operators that run from the line itself, and their seconds a step."""
NOT_WATCHED: OwnOperators = MappingProxyType({})

Line = tuple[CodeType, int]
Stacks = Mapping[tuple[str, Stack], int]


def phase_of(sampled: str) -> str:
    """The phase that is reported for the one that was sampled."""
    return "forward" if sampled == LOSS else sampled


def hottest(
    stacks: Stacks, shares: Mapping[str, float], operators: OwnOperators = NOT_WATCHED
) -> dict[str, list[SampledLine]]:
    """By phase: the innermost lines of the user's, and their share of the phase's samples.

    Those that make up 0.5 % of a step, and a few of each phase in any case. `shares`: the phases'
    shares of a step. `calls` of a line: the expressions that were running and their share of its
    samples, the most frequent first. `operators`: those that ran from the lines themselves; of a
    line with several phases, as where a trainer is called, in the one with most of its samples.
    """
    phases: dict[str, Counter[Line | None]] = {}
    calls: dict[str, dict[Line, Counter[str]]] = {}
    for (phase, stack), count in stacks.items():
        line = innermost([(code, line) for code, line, _ in stack]) if stack else None
        running = running_call(*stack[0]) if stack else None
        name = phase_of(phase)
        if phase == LOSS and running is not None and BACKWARD in running.text:
            name = "backward"  # on the way into it
        phases.setdefault(name, Counter())[line] += count
        if line is not None:
            counts = calls.setdefault(name, {}).setdefault(line, Counter())
            counts[running.text if running else ""] += count
    mostly = _mostly(phases)
    return {
        phase: _top(
            counts,
            calls.get(phase, {}),
            {at: ran for at, ran in operators.items() if mostly.get(at, phase) == phase},
            shares.get(phase, 0.0),
        )
        for phase, counts in phases.items()
    }


def _mostly(phases: Mapping[str, "Counter[Line | None]"]) -> dict[tuple[str, int], str]:
    """The phase in which each line was met most, the backward pass apart."""
    most: dict[tuple[str, int], tuple[int, str]] = {}
    for phase, counts in phases.items():
        for line, count in counts.items():
            if line is not None and phase != "backward":
                at = (line[0].co_filename, line[1])
                most[at] = max(most.get(at, (0, "")), (count, phase))
    return {at: phase for at, (_, phase) in most.items()}


def innermost(lines: Sequence[Line]) -> Line:
    """The first of some lines, of a comprehension that of the function it stands in.

    Before Python 3.12 each comprehension is a function of its own: a line would be listed twice.
    """
    for (code, line), (outer, outer_line) in pairwise(lines):
        same = code.co_filename == outer.co_filename and line == outer_line
        if not (same and code.co_name in COMPREHENSIONS):
            return code, line
    return lines[-1]


def _top(
    counts: "Counter[Line | None]",
    calls: Mapping[Line, "Counter[str]"],
    operators: OwnOperators,
    share: float,
) -> list[SampledLine]:
    total = counts.total()
    found = [
        SampledLine(
            f"{short(line[0].co_filename)}:{line[1]}",
            line[0].co_qualname,
            source(line[0].co_filename, line[1]),
            count / total,
            count,
            [(text, times / count) for text, times in calls[line].most_common(CALLS) if text],
            operators.get((line[0].co_filename, line[1]), []),
        )
        for line, count in counts.most_common()
        if line is not None
    ]
    return [e for i, e in enumerate(found) if i < ALWAYS or e.share * share >= LEAST]


@dataclass(frozen=True)
class Running:
    """An expression that was running: its columns (from 0, the end exclusive) and its text."""

    column: int
    end_column: int
    text: str


@lru_cache(maxsize=4096)
def running_call(code: CodeType, line: int, instruction: int) -> Running | None:
    """Find the expression of a line that a bytecode instruction belongs to.

    None where the compiler kept no columns (`python -X no_debug_ranges`), or where the expression
    is not on that line alone. For a call the instruction is the one that makes it.
    """
    at = next(islice(code.co_positions(), instruction // 2, None), None)
    if at is None or None in at or at[0] != line or at[1] != line:
        return None
    _, _, begin, end = at
    text = linecache.getline(code.co_filename, line).encode()[begin:end]
    return Running(begin or 0, end or 0, text.decode(errors="replace"))


def by_file(stacks: Stacks, shares: Mapping[str, float]) -> dict[str, SampledFile]:
    """By file and line: the share of each sampled phase's samples, calls from the line included.

    `files[path][line][phase]` is (share of the phase, number of samples, calls): LOSS and `forward`
    are two parts of one phase; `calls` lists the columns of each expression that was running and
    its share of the line's samples. Lines below 0.5 % of a step are left out; a file keeps its
    entry.
    """
    totals: Counter[str] = Counter()
    counts: Counter[tuple[str, int, str]] = Counter()
    calls: dict[tuple[str, int, str], Counter[tuple[int, int]]] = {}
    for (phase, stack), count in stacks.items():
        totals[phase_of(phase)] += count
        innermost = {(code.co_filename, line): (code, line, at) for code, line, at in stack[::-1]}
        for (path, line), entry in innermost.items():
            key = (path, line, phase)
            counts[key] += count
            if running := running_call(*entry):
                columns = (running.column, running.end_column)
                calls.setdefault(key, Counter())[columns] += count
    files: dict[str, SampledFile] = {}
    for (name, line, phase), count in counts.items():
        lines = files.setdefault(os.path.abspath(name), {})
        share = count / totals[phase_of(phase)]
        if share * shares.get(phase_of(phase), 0.0) >= LEAST:
            ran = calls.get((name, line, phase), Counter())
            parts = [(*columns, times / count) for columns, times in ran.items()]
            lines.setdefault(line, {})[phase] = (share, count, parts)
    return files


def source(path: str, line: int) -> str:
    """A line of source as written, without its indentation."""
    return linecache.getline(path, line).strip()
