"""Which of torch's functions that a technique replaces are called in a step."""

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from hotlap.seam.patch import replaced
from hotlap.seam.probe.diagnosis import Diagnosis

FUNCTIONS = {
    "calls_gelu": ("gelu",),
    "calls_softmax": ("softmax",),
    "calls_norm": ("layer_norm", "rms_norm"),
    "calls_cross_entropy": ("cross_entropy",),
}
LARGE_LOGITS_BYTES = 1 << 20
"""Smaller logits stay in a core's own cache, where copies of them cost next to nothing."""


class Operators(Diagnosis):
    """Replaces the functions for one step; `value` are the facts that hold."""

    name = "operators"

    def begin(self) -> None:
        """Watch the functions."""
        self._seen: set[str] = set()
        self._replaced = ExitStack()
        for fact, names in FUNCTIONS.items():
            for name in names:
                watch = partial(self._watch, fact)
                self._replaced.enter_context(replaced(torch.nn.functional, name, watch))

    def end(self) -> None:
        """Put them back."""
        self._replaced.close()
        self.value = self._seen

    def _watch(self, fact: str, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> object:
            if fact not in self._seen and (fact != "calls_cross_entropy" or large(args, kwargs)):
                self._seen.add(fact)
            return original(*args, **kwargs)

        return call


def large(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether the logits that a cross-entropy is given are."""
    logits = args[0] if args else kwargs.get("input")
    return isinstance(logits, torch.Tensor) and logits.nbytes >= LARGE_LOGITS_BYTES


def facts(seen: set[str] | None) -> dict[str, bool]:
    """A fact for each group of functions; all hold where no step could be watched."""
    return {fact: seen is None or fact in seen for fact in FUNCTIONS}
