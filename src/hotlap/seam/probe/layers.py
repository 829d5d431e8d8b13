"""What each layer of the model costs: floating-point operations, memory accesses, time.

Operations are counted in one step, through a dispatch mode that credits each one to the innermost
module that is running; time is taken in the next two, where only the modules are hooked.
"""

import time
import weakref
from typing import Any

import torch
from torch import nn

from hotlap.model.layers import WEIGHTED, note_reader, own_parameters, weighted_shape
from hotlap.model.operators import Count, Row
from hotlap.seam.probe.diagnosis import Diagnosis
from hotlap.seam.probe.sights import guarded, names_of

MOST = 400


class Layers(Diagnosis):
    """Counts in its first step, takes the time in the others."""

    name = "layers"
    lasts = 3

    def begin(self) -> None:
        """Hook every module; count what it does."""
        roots = self.rec.session.roots.found
        made = self.rec.made
        self._rows = {
            layer: Row(
                name or "(root)", type(layer).__name__, made.get(layer, ""), own_parameters(layer)
            )
            for layer, name in names_of(roots).items()
            if not isinstance(layer, torch.jit.ScriptModule)
        }
        self._stack: list[list[Any]] = []
        self._inputs: dict[int, tuple[weakref.ref[object], list[nn.Module]]] = {}
        self._timed = False
        self.enter(Count(self.running))
        self._handles = [
            handle
            for layer in self._rows
            for handle in (
                layer.register_forward_pre_hook(guarded(self._before)),
                layer.register_forward_hook(guarded(self._after), always_call=True),
            )
        ]

    def between(self) -> None:
        """The first step is over: from now on time is taken."""
        if not self._timed:
            self.leave()
            self._timed = True
        self._stack.clear()

    def end(self) -> None:
        """Take the hooks out."""
        self.leave()
        for handle in self._handles:
            handle.remove()
        for _, layers in self._inputs.values():
            for layer in layers:
                self._rows[layer].shares_input = len(layers)
        self._inputs = {}
        rows = [row for row in self._rows.values() if row.calls]
        rows.sort(key=lambda row: (row.seconds, row.flops), reverse=True)
        for row in rows:
            row.seconds /= self.lasts - 1
        self.value = {"rows": [vars(row) for row in rows[:MOST]], "left_out": len(rows[MOST:])}

    def running(self) -> Row | None:
        """The innermost module's row; None outside of a forward pass."""
        return self._rows[self._stack[-1][0]] if self._stack and not _recomputing() else None

    def _before(self, layer: nn.Module, args: tuple[object, ...]) -> None:
        if _recomputing():
            return
        tensor = args[0] if args else None
        if not self._timed and isinstance(layer, WEIGHTED) and isinstance(tensor, torch.Tensor):
            note_reader(self._inputs, layer, tensor)
        self._stack.append([layer, _now(), 0.0])

    def _after(self, layer: nn.Module, _: object, made: object) -> None:
        if _recomputing() or not any(entry[0] is layer for entry in self._stack):
            return
        while self._stack:
            running, began, inside = self._stack.pop()
            spent = _now() - began
            if self._stack:
                self._stack[-1][2] += spent
            row = self._rows[running]
            if self._timed:
                row.seconds += spent - inside
            else:
                row.calls += 1
                row.shape = weighted_shape(running, made)
            if running is layer:
                return


def _recomputing() -> bool:
    """Whether this is a checkpointed part's second forward pass."""
    return bool(torch._C._current_graph_task_id() != -1)


def _now() -> float:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return time.perf_counter()
