"""Which of torch's functions that a technique replaces are called in a step."""

from contextlib import ExitStack
from functools import partial
from pkgutil import resolve_name
from typing import Any

import torch

from hotlap.core.move import Swap
from hotlap.core.registry import techniques
from hotlap.seam.patch import replaced
from hotlap.seam.probe.diagnosis import Diagnosis

LARGE_LOGITS_BYTES = 1 << 20
"""Smaller logits stay in a core's own cache, where copies of them cost next to nothing."""


class Operators(Diagnosis):
    """Replaces the functions for one step; `value` are the facts that hold."""

    name = "operators"

    def begin(self) -> None:
        """Watch the functions."""
        self._seen: set[str] = set()
        self._replaced = ExitStack()
        for fact, targets in replaced_functions().items():
            for target in targets:
                owner, _, name = target.rpartition(".")
                watch = partial(self._watch, fact)
                self._replaced.enter_context(replaced(resolve_name(owner), name, watch))

    def end(self) -> None:
        """Put them back."""
        self._replaced.close()
        self.value = self._seen

    def _watch(self, fact: str, original: Any) -> object:
        def call(*args: Any, **kwargs: Any) -> object:
            if fact not in self._seen and (fact != "calls_cross_entropy" or large(args, kwargs)):
                self._seen.add(fact)
            return original(*args, **kwargs)

        return call


def large(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether the logits that a cross-entropy is given are."""
    logits = args[0] if args else kwargs.get("input")
    return isinstance(logits, torch.Tensor) and logits.nbytes >= LARGE_LOGITS_BYTES


def replaced_functions() -> dict[str, tuple[str, ...]]:
    """By fact: the functions that techniques replace where the fact holds (a `calls_*` need)."""
    return {
        need.fact: tuple(
            target for move in technique.moves if isinstance(move, Swap) for target in move.targets
        )
        for technique in techniques().values()
        for need in technique.needs
        if need.fact.startswith("calls_")
    }


def facts(seen: set[str] | None) -> dict[str, bool]:
    """A fact for each group of functions; all hold where no step could be watched."""
    return {fact: seen is None or fact in seen for fact in replaced_functions()}
