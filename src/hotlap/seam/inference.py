"""Steps of a program that does not train: the calls of its root modules.

When a program counts as one that does not train:

- at once, at its first root call under `no_grad` or `inference_mode` or in eval mode, if none of
  the user's source files that are loaded mentions training (`TRAINING`);
- after `CALLS` such calls, if it has made no optimizer by then;
- when its end comes without a backward pass: hotlap then starts it again (`inference=True`).

Gradients that are computed afterwards, or an optimizer's step, end it: hotlap then starts it again
as a training (`inference=False`). So an evaluation before the training is never taken for the
program's work.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps

import torch
from torch.nn import Module

from hotlap.seam.participant import Participant
from hotlap.seam.patch import Patch, replaced
from hotlap.seam.steps import optimizer_exists
from hotlap.seam.where import is_users_file

CALLS = 256
TRAINING = re.compile(
    rb"backward\(|\.fit\(|\.train\((?!False)|[tT]rainer\b|autograd\.grad|optim\b|"
    rb"functorch|torch\.func\b"
)
FEWEST = 2
"""Root calls that a program must have made for its end to say that it does not train."""


class InferenceSteps:
    """Whether root calls are the steps of this process.

    `decided`: they are. `on_decision` is called once, when that becomes known.
    """

    def __init__(
        self, session: Participant, on_decision: Callable[[], None] = lambda: None
    ) -> None:
        known = session.spec.options.get("inference")
        self.decided = False
        self._session = session
        self._known = known is True
        self._over = known is False
        self._on_decision = on_decision
        self._calls = 0
        self._mentions_training: bool | None = None
        self._patches: list[Patch] = []
        os.register_at_fork(after_in_child=self._forked)

    def counts(self, root: Module) -> bool:
        """Whether the call of this model that begins now is (a part of) a step."""
        if self._over:
            return False
        self._calls += 1
        if not self.decided and self._decides(root):
            self.decided = True
            self._session.wire.send("inference")
            self._on_decision()
        return self.decided

    def _decides(self, root: Module) -> bool:
        if self._known:
            return True
        if root.training and torch.is_grad_enabled():
            return False
        if self._mentions_training is None:
            self._mentions_training = mentions_training()
        if not self._mentions_training:
            return not optimizer_exists()
        return self._calls >= CALLS and not optimizer_exists()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notice that gradients are computed; at the end say how many calls there were."""
        with ExitStack() as stack:
            for name in ("backward", "grad"):
                patch = stack.enter_context(replaced(torch.autograd, name, self._training))
                self._patches.append(patch)
            yield

    def _training(self, original: Callable[..., object]) -> object:
        @wraps(original)
        def compute(*args: object, **kwargs: object) -> object:
            self.trains()
            return original(*args, **kwargs)

        return compute

    def trains(self) -> None:
        """The program computes gradients: its steps are others."""
        for patch in self._patches:
            patch.take_out()
        self._patches.clear()
        if self._over:
            return
        self._over = True
        if self.decided:
            self.decided = False
            self._session.wire.send("trains")

    def ends(self) -> None:
        """The process ends: say so if it made root calls and did not train."""
        if not (self._over or self.decided) and self._calls >= FEWEST:
            self._session.wire.send("calls", calls=self._calls)

    def _forked(self) -> None:
        """A loader worker: what it calls is part of reading a sample."""
        self._over, self.decided = True, False


def mentions_training() -> bool:
    """Whether a loaded source file of the user's mentions training, or none can be read."""
    main = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    if not is_users_file(main) or not main.endswith(".py"):
        return True  # an installed program: what it does stands in a library
    files = {getattr(module, "__file__", None) or "" for module in tuple(sys.modules.values())}
    for file in {main, *files}:
        if file.endswith(".py") and is_users_file(file):
            with suppress(OSError), open(file, "rb") as source:
                if TRAINING.search(source.read()):
                    return True
    return False
