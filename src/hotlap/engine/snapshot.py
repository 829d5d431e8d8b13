"""A copy of a state on the host, taken without stopping the device."""

import copy
from typing import Any

import torch
from torch import Tensor


class Snapshot:
    """Copies a nested state at once, in the order of the stream; `ready` waits for the copies.

    Tensors of a CUDA device are copied into pinned memory: the copies are queued behind what has
    been computed and before what will be, so that neither side waits.
    """

    def __init__(self, state: object) -> None:
        self._event: torch.cuda.Event | None = None
        self._known: dict[int, Tensor] = {}
        self._state = self._copied(state)
        self._known.clear()
        if self._event is not None:
            self._event.record()

    def ready(self) -> Any:
        """The copy, once all of it has arrived. Called from any thread."""
        if self._event is not None:
            self._event.synchronize()
        return self._state

    def _copied(self, value: object) -> object:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            twin = copy.copy(value)  # an OrderedDict, a Counter stay what they are
            twin.update((key, self._copied(entry)) for key, entry in value.items())
            return twin
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(self._copied(entry) for entry in value)
        return copy.deepcopy(value)

    def _tensor(self, tensor: Tensor) -> Tensor:
        """Copy one tensor; one that comes again (tied weights) is copied once."""
        if id(tensor) not in self._known:
            self._known[id(tensor)] = self._fresh(tensor.detach())
        return self._known[id(tensor)]

    def _fresh(self, tensor: Tensor) -> Tensor:
        if not tensor.is_cuda:
            return tensor.clone()
        self._event = self._event or torch.cuda.Event()  # type: ignore[no-untyped-call]
        host = torch.empty_like(tensor, device="cpu", pin_memory=True)
        return host.copy_(tensor, non_blocking=True)
