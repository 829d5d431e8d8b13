"""Running a command while its learning rate is driven, until the curve is whole."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from hotlap.core.errors import HotlapError, TrialFailedError, UsageError
from hotlap.core.protocol import Document, RangeTestOptions
from hotlap.core.spec import Mode
from hotlap.isolation.refusals import refusal_hint
from hotlap.optim.sweep import FEWEST, Divergence, Sweep, geometric
from hotlap.trial.channel import Message, Peer
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting
from hotlap.trial.reach import Reach, last_words

END, DIVERGED = "end of the sweep", "diverged"
RAN_OUT, INTERRUPTED, FAILED = "the program ended", "interrupted", "the program failed"

Follow = Callable[[int, float, float], None]
"""Called after each step with the steps made, the rate and the loss."""


@dataclass(frozen=True)
class Ask:
    """What to sweep: `steps` rates from `start` to `end`, of the n-th optimizer (from 1)."""

    start: float = 1e-6
    end: float = 10.0
    steps: int = 120
    optimizer: int = 1
    patience: float = 120.0

    def rates(self) -> list[float]:
        """The rates, evenly spaced on a logarithmic scale.

        Raises:
            UsageError: they make no curve.
        """
        try:
            return geometric(self.start, self.end, self.steps)
        except ValueError as error:
            raise UsageError(str(error), "see --from, --to and --steps") from None


@dataclass(frozen=True)
class RangeTestRun:
    """The curve; `optimizers` in the order of their first steps; `whole_run` if the run was short.

    `failure` is the program's last line, where it failed before the curve was whole.
    """

    sweep: Sweep
    optimizers: tuple[str, ...]
    asked: Ask
    whole_run: bool = False
    failure: str = ""


@dataclass
class _Run:
    """What one run of the command has shown."""

    rates: list[float]
    follow: Follow
    reach: Reach
    watch: Divergence = field(default_factory=Divergence)
    losses: list[float] = field(default_factory=list)
    optimizers: list[str] = field(default_factory=list)
    peer: Peer | None = None
    unknown: bool = False
    ended: str = RAN_OUT

    def see(self, message: Message | None) -> bool:
        """Take a message; True when the curve is whole."""
        self.reach.see(message)
        if message is None or message.type not in ("optimizer", "rate"):
            return False
        self.peer = self.peer or message.peer
        if message.peer is not self.peer:  # another rank
            return False
        if message.type == "optimizer":
            self.optimizers.append(message.fields["name"])
            return False
        return self._loss(message.fields)

    def _loss(self, fields: Document) -> bool:
        self.unknown = not fields["known"]
        loss = math.nan if fields["loss"] is None else fields["loss"]
        self.losses.append(loss)
        done = len(self.losses) - 1
        self.follow(done, self.rates[max(0, done - 1)], loss)
        if self.unknown or self.watch.add(loss):
            self.ended = DIVERGED
            return True
        if done == len(self.rates):
            self.ended = END
            return True
        return False

    def sweep(self) -> Sweep:
        """The curve so far."""
        losses = self.losses or [math.nan]
        return Sweep(losses[0], tuple(self.rates[: len(losses) - 1]), tuple(losses[1:]), self.ended)


def look(setting: Setting, ask: Ask, follow: Follow) -> RangeTestRun:
    """Run the command with its rate driven; a run shorter than the sweep is swept once more.

    Ctrl-C ends the run; what is known by then is returned.

    Raises:
        UsageError: the rates make no curve, or there is no such optimizer.
        NotReachedError: no step was seen, and what was seen instead.
        TrialFailedError: hotlap could not start in the process, or the program failed before
            anything could be seen.
    """
    run, failure = _run(setting, ask, follow)
    steps = len(run.losses) - 1
    short = run.ended == RAN_OUT and not failure
    if not short or steps < FEWEST:
        return RangeTestRun(
            run.sweep(), tuple(run.optimizers), ask, whole_run=False, failure=failure
        )
    again = replace(ask, steps=steps)
    run, failure = _run(setting, again, follow)
    return RangeTestRun(run.sweep(), tuple(run.optimizers), again, whole_run=True, failure=failure)


def _run(setting: Setting, ask: Ask, follow: Follow) -> tuple[_Run, str]:
    rates = ask.rates()
    options = asdict(RangeTestOptions(rates, ask.optimizer))
    run = _Run(rates, follow, Reach(ask.patience, setting.output, setting.scratch))
    setting = replace(setting, mode=Mode.LR, options=options)
    try:
        code = run_foreground(setting, run.see, run.reach.leaves)
    except KeyboardInterrupt:
        if not run.losses:
            raise
        run.ended = INTERRUPTED
        return run, ""
    if run.unknown:
        hint = "hotlap sees losses at Tensor.backward, and this script calls something else"
        raise HotlapError("the optimizer stepped, but no loss was seen", hint)
    if run.ended == RAN_OUT and not run.losses:
        raise _nothing(run, ask, code, setting)
    return run, _failed(run, code, setting)


def _nothing(run: _Run, ask: Ask, code: int, setting: Setting) -> HotlapError:
    if run.optimizers and not code:
        names = ", ".join(f"{i} {name}" for i, name in enumerate(run.optimizers, 1))
        hint = f"in the order of their first steps: {names}"
        return UsageError(f"--optimizer {ask.optimizer}: the script stepped fewer", hint)
    return run.reach.failure(code)


def _failed(run: _Run, code: int, setting: Setting) -> str:
    """The words of a failure; one that came with the loss above its start is the divergence."""
    if run.ended != RAN_OUT or not code:
        return ""
    if _wild(run.losses):
        run.ended = DIVERGED
        return ""
    run.ended = FAILED
    return last_words(setting.output) or f"the program ended with exit code {code}"


def _wild(losses: list[float]) -> bool:
    """Whether the last loss is beyond where the first ones were by more than all losses span."""
    if len(losses) <= FEWEST or not math.isfinite(losses[-1]):
        return len(losses) > FEWEST
    top = max(losses[:FEWEST])
    return losses[-1] > top + (top - min(losses))


def failed(found: RangeTestRun, setting: Setting) -> TrialFailedError:
    """The error to end with when the program failed."""
    hint = refusal_hint(setting.output, setting.scratch) or f"its output is in {setting.output}"
    return TrialFailedError(f"the program failed: {found.failure}", hint)
