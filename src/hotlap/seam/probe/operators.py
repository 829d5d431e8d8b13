"""Which of torch's functions that a technique replaces are called in a step, and what for."""

import time
from collections.abc import Callable, Container
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from hotlap.core.move import Swap
from hotlap.core.registry import techniques
from hotlap.core.technique import Technique
from hotlap.seam.moves import lacking
from hotlap.seam.patch import load, replaced, resolve
from hotlap.seam.probe.diagnosis import Diagnosis

LARGE_LOGITS_BYTES = 1 << 20
"""Smaller logits stay in a core's own cache, where copies of them cost next to nothing."""
ASKED = 64
"""Calls that are judged of each technique; with more it counts as one that changes something."""
ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
)
"""Functions whose time and memory grow with the square of the length."""
UNCHANGED = "it would leave every call of this script as it is"


class Operators(Diagnosis):
    """Replaces the functions for one step.

    `value` is a dictionary: `called` are the facts that hold, `attends` whether one of `ATTENTION`
    was called, `unchanged` says of techniques why
    they would change nothing, `seconds` what the calls took, where the CPU's clock can say so.
    """

    name = "operators"

    def begin(self) -> None:
        """Watch the functions."""
        self._called: set[str] = set()
        self._changing: set[str] = set()
        self._asked: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._attends = False
        self._replaced = ExitStack()
        for target in ATTENTION:
            self._replaced.enter_context(replaced(*resolve(target), self._attention))
        for technique in techniques().values():
            for move in swaps_of(technique):
                for target in move.targets:
                    watch = partial(self._watch, technique, move.serves)
                    self._replaced.enter_context(replaced(*resolve(target), watch))

    def end(self) -> None:
        """Put them back."""
        self._replaced.close()
        self.value = {
            "called": self._called,
            "attends": self._attends,
            "unchanged": dict.fromkeys(self._asked.keys() - self._changing, UNCHANGED),
            "seconds": {} if _on_device() else self._seconds,
        }

    def _attention(self, original: Callable[..., object]) -> object:
        def call(*args: object, **kwargs: object) -> object:
            self._attends = True
            return original(*args, **kwargs)

        return call

    def _watch(self, technique: Technique, serves: str, original: Callable[..., object]) -> object:
        called = {need.fact for need in technique.needs if need.fact.startswith("calls_")}

        def call(*args: object, **kwargs: object) -> object:
            if technique.id not in self._changing:
                self._judge(technique.id, serves, args, kwargs)
            if not called <= self._called:
                small = "calls_cross_entropy" in called and not large(args, kwargs)
                self._called.update(() if small else called)
            begin = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                spent = time.perf_counter() - begin
                self._seconds[technique.id] = self._seconds.get(technique.id, 0.0) + spent

        return call

    def _judge(
        self, name: str, serves: str, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """Ask whether the replacement would serve this call; where that fails, it may."""
        self._asked[name] = self._asked.get(name, 0) + 1
        try:
            with _disable_current_modes():  # the modes of other diagnoses of the step
                served = self._asked[name] > ASKED or load(serves)(*args, **kwargs)
        except Exception:
            served = True
        if served:
            self._changing.add(name)


def _on_device() -> bool:
    """Whether kernels may run after their call has returned."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def large(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether the logits that a cross-entropy is given are."""
    logits = args[0] if args else kwargs.get("input")
    return isinstance(logits, torch.Tensor) and logits.nbytes >= LARGE_LOGITS_BYTES


def swaps_of(technique: Technique) -> list[Swap]:
    """A technique's swaps, if that is all there is to it and each says which calls it serves."""
    swaps = [move for move in technique.moves if isinstance(move, Swap) and move.serves]
    return swaps if len(swaps) == len(technique.moves) else []


def replaced_functions() -> dict[str, tuple[str, ...]]:
    """By fact: the functions that techniques replace where the fact holds (a `calls_*` need)."""
    return {
        need.fact: tuple(target for move in swaps_of(technique) for target in move.targets)
        for technique in techniques().values()
        for need in technique.needs
        if need.fact.startswith("calls_")
    }


def _operator(function: str) -> str:
    """The operator of a function's name, `aten.gelu` of `torch.nn.functional.gelu`."""
    return f"aten.{function.rpartition('.')[2]}"


def facts(seen: dict[str, Any] | None, ran: Container[str] = ()) -> dict[str, object]:
    """A fact for each group of functions, and `attends`: whether there is attention.

    A layer that kept a function before the step calls it unseen: of `ran`, the operators of a step,
    one has its name then. `unchanged` says why techniques would change nothing. Where no step could
    be watched, all functions may be called.
    """
    unchanged = {
        technique.id: why
        for technique in techniques().values()
        for move in technique.moves
        if isinstance(move, Swap) and (why := lacking(move))
    }
    called = {
        fact: seen is None
        or fact in seen["called"]
        or any(_operator(name) in ran for name in names)
        for fact, names in replaced_functions().items()
    }
    called["attends"] = seen is None or bool(seen["attends"])
    return {**called, "unchanged": {**(seen["unchanged"] if seen else {}), **unchanged}}
