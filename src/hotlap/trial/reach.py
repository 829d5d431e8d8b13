"""How far hotlap got into a command: for the message when no training step was seen."""

import time
from pathlib import Path

from hotlap.core.errors import HotlapError, NotReachedError, TrialFailedError
from hotlap.trial.channel import Message
from hotlap.trial.isolation.refusals import refusal_hint
from hotlap.trial.last_words import advice, last_words

STEPS = {"step", "block", "profile"}


class OtherStepsError(HotlapError):
    """The command is to be started again, since what its steps are has been seen now."""

    def __init__(self, *, inference: bool) -> None:
        super().__init__("the program computes gradients after all" if not inference else "no step")
        self.inference = inference


class Reach:
    """Remembers which kinds of messages came, and when to lose patience (seconds).

    `output` is where the program's words are kept, if they are; `scratch` takes its trials' writes.
    """

    def __init__(
        self, patience: float, output: Path | None = None, scratch: Path | None = None
    ) -> None:
        self.patience = patience
        self._output = output
        self._scratch = scratch
        self._seen: set[str] = set()
        self._deadline = time.monotonic() + patience

    def see(self, message: Message | None) -> None:
        """Take a message in; None is a tick of the clock.

        Raises:
            NotReachedError: patience is over and no step was seen.
            TrialFailedError: hotlap could not start inside the process.
        """
        if message is not None:
            self._seen.add(message.type)
            if message.type == "trains":
                raise OtherStepsError(inference=False)
            if message.type == "broken":
                raise TrialFailedError(f"a technique could not start: {message.fields['error']}")
        if not self._seen & STEPS and time.monotonic() > self._deadline:
            raise self.not_reached(f"within {self.patience:.0f} s")

    def failure(self, code: int) -> HotlapError:
        """Why a program that has ended gave nothing to time."""
        if code:
            words = last_words(self._output) or f"it ended with exit code {code}"
            hint = refusal_hint(self._output, self._scratch) or advice(self._output)
            return TrialFailedError(words, hint or self._where())
        if "calls" in self._seen and "backward" not in self._seen:
            return OtherStepsError(inference=True)
        return self.not_reached("before the program ended")

    def _where(self) -> str:
        return f"its output is in {self._output}" if self._output is not None else ""

    def not_reached(self, when: str) -> NotReachedError:
        """What was seen instead of a step."""
        if "hello" not in self._seen:
            what = "no Python process with torch was seen"
            hint = (
                "does the script import torch? `python -S` keeps hotlap out; without the overlay "
                "tier `python -I`, `-E` and cleared environments do as well"
            )
        elif "backward" not in self._seen:
            what = "torch was imported, but no backward pass was seen"
            hint = "is this the training command? --patience gives it more time"
        else:
            what = "a backward pass was seen, but no step of a torch optimizer"
            hint = (
                "steps of torch.optim.Optimizer are counted, or backward passes where there is no "
                "optimizer; --patience gives it more time"
            )
        hint = advice(self._output) or hint
        return NotReachedError(f"no training step {when}: {what}", hint)
