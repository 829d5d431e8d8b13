"""The same timeline on a GPU's clock: an event at each mark, read some steps later.

The host runs ahead of the device, so that host times say when work was handed over, not how long
it took. Events on the training's stream do: between two of them lies what the stream did, and where
the host was late (data!) the wait shows in the phase that was late. The events of a step are read
when its last one has passed. Once, before the first of them, the device is synchronised: from then
on it is known how far the device is behind the host. Where it is not behind when the host makes a
mark, it had nothing left to do. Steps of less than 5 ms have events in one of
eight, so that recording them stays cheap.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from threading import get_ident
from time import perf_counter_ns

import torch

from hotlap.core.protocol import PhaseTimes
from hotlap.seam.patch import replaced
from hotlap.seam.probe.phases import OPEN, Marks, name_of
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.probe.tally import Tally
from hotlap.seam.probe.timeline import Timeline

MOST_MARKS = 4096
SHORT_STEP = 0.005
STRIDE = 8
FEWEST = 3
"""Steps with events without which the phases are the host's."""
BEHIND_NS = 50_000
"""Nanoseconds after a mark at which an idle device has passed its event."""
DRIFT = 5e-5
"""What two clocks may drift apart: cheap oscillators are exact to 50 parts in a million."""
LONGEST_NS = 20_000_000_000
"""Nanoseconds between two events whose distance, in float32, is still exact to 2 us."""
SYNCHRONISING = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__float__", "__int__")


class Pool:
    """Timing events to use again; making one costs more than recording it."""

    def __init__(self) -> None:
        self._free: list[torch.cuda.Event] = []

    def record(self) -> torch.cuda.Event:
        """An event recorded on the current stream."""
        event = self._free.pop() if self._free else torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def give_back(self, events: list[torch.cuda.Event]) -> None:
        """These are not needed any more."""
        self._free.extend(events)


def _in_use() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@dataclass
class Peaks:
    """The device's peak memory by phase, while `on`."""

    on: bool = False
    by_phase: dict[str, int] = field(default_factory=dict)

    def note(self, phase: str) -> None:
        """A phase ends: keep its peak, begin anew."""
        peak = torch.cuda.max_memory_allocated()
        self.by_phase[phase] = max(self.by_phase.get(phase, 0), peak)
        torch.cuda.reset_peak_memory_stats()


class Lag:
    """How far the device is behind the host, from when both are synchronised on.

    The clocks drift apart, so that what an idle device shows is followed: the least that was seen,
    which may rise by `DRIFT` at most.
    """

    def __init__(self, pool: Pool) -> None:
        torch.cuda.synchronize()
        self._first = pool.record()
        self._first.synchronize()
        self._began = perf_counter_ns()
        self._idle, self._at = 0.0, self._began

    def of(self, times: list[int], events: list[torch.cuda.Event]) -> list[float]:
        """Nanoseconds by which the device was behind at each of a step's marks."""
        begin = self._began + round(self._first.elapsed_time(events[0]) * 1e6)
        found = [
            begin + events[0].elapsed_time(event) * 1e6 - time
            for time, event in zip(times, events, strict=True)
        ]
        self._idle = min(*found, self._idle + DRIFT * (times[-1] - self._at))
        self._at = times[-1]
        return [behind - self._idle for behind in found]

    def rebased(self, event: torch.cuda.Event) -> bool:
        """Whether from now on `event` is what others are measured from, as the first is too old."""
        distance = round(self._first.elapsed_time(event) * 1e6)
        if distance < LONGEST_NS:
            return False
        self._first, self._began = event, self._began + distance
        return True


@dataclass(frozen=True)
class DeviceReport:
    """Phases by the device's clock, `starved` as in a `ProfilePayload`, peak memory by phase."""

    phases: dict[str, PhaseTimes]
    starved: dict[str, float]
    memory: dict[str, int]

    def scaled(self, step: float) -> "DeviceReport":
        """The same for a mean step of `step` seconds: of short steps not all have events."""
        whole = sum(phase.mean for phase in self.phases.values())
        factor = step / whole if whole and step else 1.0
        phases = {name: _scaled(phase, factor) for name, phase in self.phases.items()}
        starved = {name: seconds * factor for name, seconds in self.starved.items()}
        return replace(self, phases=phases, starved=starved)


def _scaled(phase: PhaseTimes, factor: float) -> PhaseTimes:
    times = ("mean", "p10", "p50", "p90", "p95", "usual")
    known = {name: seconds for name in times if (seconds := getattr(phase, name)) is not None}
    return replace(phase, **{name: seconds * factor for name, seconds in known.items()})


class Stamps(list[int]):
    """Times of marks; says when one is added."""

    def __init__(self, added: Callable[[], None]) -> None:
        super().__init__()
        self._added = added

    def append(self, time: int) -> None:
        """Add one."""
        super().append(time)
        self._added()


class DeviceTimeline(Timeline):
    """A timeline that follows the device as well, once CUDA is in use."""

    may_rest = False

    def __init__(self) -> None:
        self.tally = Tally()
        self.starved = Tally()
        self.peaks = Peaks()
        self._pool = Pool()
        self._lag: Lag | None = None
        self._events: list[torch.cuda.Event] | None = None
        self._waiting: deque[tuple[Marks, list[torch.cuda.Event]]] = deque()
        self._steps = 0
        self._last = 0.0
        super().__init__()

    def _stamps(self) -> list[int]:
        return Stamps(self._stamped)

    def _stamped(self) -> None:
        """A mark was made."""
        if self.peaks.on:
            ended = self.codes[len(self.times) - 2]  # at the step's end there is no new code
            self.peaks.note(name_of(ended, evaluating=self.evaluations.going_on))
        if self._events is not None:
            self._record(self._events)

    def _record(self, events: list[torch.cuda.Event]) -> None:
        if len(events) < MOST_MARKS:
            events.append(self._pool.record())
        else:  # a long evaluation: this step is left to the host's clock
            self._pool.give_back(events)
            self._events = None

    def unmark(self) -> None:
        """The latest mark was for nothing."""
        super().unmark()
        if self._events:
            self._pool.give_back([self._events.pop()])

    def close(self) -> Marks:
        """The step ends: its marks on the host's clock; its events wait to be read."""
        marks = super().close()
        self._last = (marks[1][-1] - marks[1][0]) * 1e-9
        if self._events is not None and len(self._events) == len(marks[1]):
            self._waiting.append((marks, self._events))
        self._events = None
        return marks

    def reopen(self, begin: int = 0) -> None:
        """The next step begins; whether it has events depends on how long steps are."""
        self.resolve()
        self._steps += 1
        due = self._last >= SHORT_STEP or self._steps % STRIDE == 0
        if due and _in_use():
            self._lag = self._lag or Lag(self._pool)
            self._events = [self._pool.record()]
        super().reopen(begin)

    def resolve(self) -> None:
        """Read the steps whose last event has passed."""
        while self._waiting and self._waiting[0][1][-1].query():  # type: ignore[no-untyped-call]
            (codes, times, evaluated), events = self._waiting.popleft()
            passed = [round(events[0].elapsed_time(event) * 1e6) for event in events]
            self.tally.add((codes, passed, evaluated))
            assert self._lag is not None
            behind = self._lag.of(times, events)
            self.starved.add((codes, _without_work(passed, behind), evaluated))
            self._pool.give_back(events[self._lag.rebased(events[0]) :])

    def restart(self) -> None:
        """What was measured so far belongs to the warm-up."""
        self.tally, self.starved = Tally(), Tally()
        self._waiting.clear()

    def watch_memory(self, *, on: bool) -> None:
        """Note the peak memory of each phase from now on, or stop."""
        if _in_use():
            self.peaks.on = on
            torch.cuda.reset_peak_memory_stats()

    def device_results(self) -> DeviceReport | None:
        """By the device's clock, if enough steps had events."""
        self.resolve()
        if self.tally.steps < FEWEST:
            return None
        return DeviceReport(self.tally.phases(), self.starved.means(), self.peaks.by_phase)


def _without_work(passed: list[int], behind: list[float]) -> list[int]:
    """Stamps between which lie only the stretches that leave the device without work.

    `passed`: when the event of each mark did (ns), `behind` by how much after the host's mark.
    """
    stamps = [0]
    for before, after, late in zip(passed, passed[1:], behind[1:], strict=False):
        stamps.append(stamps[-1] + (after - before if late < BEHIND_NS else 0))
    return stamps


@contextmanager
def synchronising(rec: Recorder) -> Iterator[None]:
    """Count the calls in a step that make the host wait for the device, with their lines."""
    calls: Counter[str] = Counter()
    rec.sync_calls = calls
    with ExitStack() as stack:
        for name in SYNCHRONISING:
            stack.enter_context(_counting(rec, name, calls))
        yield


def _counting(rec: Recorder, name: str, calls: Counter[str]) -> AbstractContextManager[object]:
    codes = rec.timeline.codes

    def make(original: Callable[..., object]) -> object:
        def call(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
            if OPEN[codes[-1]] and tensor.is_cuda and get_ident() == rec.thread:
                if rec.tally.steps:
                    calls[name] += 1
                rec.facts.point("sync")
            return original(tensor, *args, **kwargs)

        return call

    return replaced(torch.Tensor, name, make)
