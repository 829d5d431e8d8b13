"""Running a command under the probe until its profile has come."""

import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from hotlap.common.signals import signal_name
from hotlap.core.protocol import ProfileOptions, ProfilePayload, RankTimes, decode
from hotlap.core.spec import Mode
from hotlap.profile.model import WAS_INTERRUPTED
from hotlap.trial.channel import Message
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting, spin
from hotlap.trial.reach import OtherStepsError, Reach
from hotlap.trial.trial import TimeOverError

INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
"""Exit codes of a program that Ctrl-C has ended."""


@dataclass(frozen=True)
class Bounds:
    """How far to look: so many steps (0: to the end) and at most seconds of them (0: no bound).

    Short steps go on until `least` seconds are over. `layers`: what each layer costs as well.
    `dataset`: where steps wait for data, how fast they would come from a packed copy. `until`: the
    moment (of `time.monotonic`) at which the step that runs is the last, also of the warm-up;
    `deadline`: the one at which the command is ended, whether it has reported or not.
    """

    steps: int = 200
    seconds: float = 20.0
    patience: float = 120.0
    least: float = 0.0
    layers: bool = False
    dataset: bool = True
    until: float = math.inf
    deadline: float = math.inf

    def options(self) -> dict[str, object]:
        """The bounds as the probe in the process takes them."""
        options = ProfileOptions(
            steps=self.steps, seconds=self.seconds, least=self.least, layers=self.layers,
            dataset=self.dataset, stop=bool(self.steps), patience=self.patience,
            until=None if math.isinf(self.until) else self.until,
        )  # fmt: skip
        return asdict(options)


@dataclass(frozen=True)
class Look:
    """What came of it: the probe's payload, and the program's exit code if it ran to its end.

    `ended_by`: the signal from outside by which the program was to end, None where there was none.
    `asleep`: its threads slept while they waited for one another, though the user's would spin.
    """

    payload: ProfilePayload
    exit_code: int | None
    ended_by: int | None = None
    asleep: bool = False
    patience: float = 0.0

    @property
    def partial(self) -> str:
        """What ended the program before its time; empty if nothing did."""
        if self.payload.ended == "still":
            at = f" at {self.payload.stood_at}" if self.payload.stood_at else ""
            each = (
                " (`hotlap launch` says where each rank stands)" if self.payload.world > 1 else ""
            )
            return (
                f"the program stood still{at}{each}, so that it was ended: for "
                f"{self.patience:.0f} s it ended no step and used next to no CPU time"
            )
        code = self.exit_code
        if code in INTERRUPTED or self.ended_by == signal.SIGINT:
            return WAS_INTERRUPTED
        if self.ended_by:
            return f"{WAS_INTERRUPTED} by {signal_name(self.ended_by)}"
        if not code:
            return ""
        if code < 0:
            return f"the program was ended by {signal_name(-code)}"
        return f"the program failed with exit code {code}"


OnSteps = Callable[[int, int], None]


@dataclass(frozen=True)
class Meanwhile:
    """What is called as a command runs.

    `steps` is, at intervals, with how many of how many were timed; `tick` a few times a second.
    """

    steps: OnSteps = lambda *_: None
    tick: Callable[[], None] = lambda: None


def look(setting: Setting, bounds: Bounds, meanwhile: Meanwhile | None = None) -> Look:
    """Run the command under the probe.

    Where its threads were made to sleep while they wait (`passive_wait`), the facts say that in the
    user's own runs they would spin, so that their sleep is proposed and raced as well: an option,
    as nobody saw them spin.

    Raises:
        NotReachedError: no step was seen, and what was seen instead.
        TimeOverError: the deadline came first.
        TrialFailedError: the probe could not start, or the program failed before its first step.
        KeyboardInterrupt: the program was interrupted before that.
    """
    calls = meanwhile or Meanwhile()
    try:
        found = _look(setting, bounds, bounds.options(), calls)
    except OtherStepsError as other:  # what a step is is known now
        found = _look(setting, bounds, {**bounds.options(), "inference": other.inference}, calls)
    if not (setting.passive_wait and would_spin(found.payload.facts)):
        return found
    facts = found.payload.facts | {"contended_threads": True, "threads_waited": None}
    return replace(found, payload=replace(found.payload, facts=facts), asleep=True)


def would_spin(facts: Mapping[str, object]) -> bool:
    """Whether threads that were made to sleep while they wait spin as the user runs the script."""
    threads = facts.get("threads")
    return isinstance(threads, int) and not facts.get("cuda") and spin(threads)


class _Reports:
    """What the ranks have reported: profiles of the first one, the latest times of the others."""

    def __init__(self) -> None:
        self.profiles: list[ProfilePayload] = []
        self._others: dict[int, RankTimes] = {}

    def take(self, message: Message) -> None:
        """Take in a message, if it is a report."""
        if message.type == "profile":
            self.profiles.append(decode(ProfilePayload, message.fields))
        elif message.type == "rank":
            times = decode(RankTimes, message.fields)
            self._others[times.rank] = times

    def joined(self) -> ProfilePayload:
        """The latest profile, with the times of every rank if those of the first are known."""
        found = self.profiles[-1]
        others = [self._others[rank] for rank in sorted(self._others)]
        return replace(found, ranks=[*found.ranks, *others]) if found.ranks else found


def _look(setting: Setting, bounds: Bounds, options: dict[str, object], calls: Meanwhile) -> Look:
    reports = _Reports()
    reach = Reach(bounds.patience, setting.output, setting.scratch, setting.command)

    def see(message: Message | None) -> bool:
        if time.monotonic() > bounds.deadline:
            raise TimeOverError(
                "the time was over before a training step had ended", "raise --budget"
            )
        reach.see(message)
        if message is None:
            calls.tick()
            return False
        if message.type == "progress":
            calls.steps(message.fields["steps"], bounds.steps)
        reports.take(message)
        return message.type == "profile" and _is_last(reports.profiles[-1], bounds)

    setting = replace(setting, mode=Mode.PROFILE, options=options)
    signals: list[int] = []
    code = run_foreground(setting, see, reach.leaves, signals.append)
    if not reports.profiles and (code in INTERRUPTED or signals):
        raise KeyboardInterrupt
    if not reports.profiles:
        raise reach.failure(code)
    payload = reports.joined()
    ours = payload.ended in {"steps", "still"}
    if ours:
        return Look(payload, None, patience=bounds.patience)
    return Look(payload, code, next(iter(signals), None), patience=bounds.patience)


def _is_last(payload: ProfilePayload, bounds: Bounds) -> bool:
    """Whether the command is ended once this has come."""
    return payload.ended == "still" or (bool(bounds.steps) and payload.ended == "steps")
