"""Who owns the bytes that are alive, as storages come, change size and go."""

import weakref
from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

OWNERS = ("parameters", "gathered", "gradients", "optimizer", "activations")


class Ledger:
    """Bytes of the storages alive by owner, now and when there were most.

    A storage is nobody's, `activations`, until `own` says otherwise. Fake storages count like real
    ones. What FSDP frees and takes again by resizing counts as it is (`gathered` weights).

    Attributes:
        now: bytes by owner.
        peak: most bytes at once since the last `restart`.
        at_peak: bytes by owner then.
    """

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.peak = 0
        self.at_peak: dict[str, int] = {}
        self._total = 0
        self._known: dict[int, tuple[int, str]] = {}
        self._watches: dict[int, weakref.ref[object]] = {}

    def restart(self) -> None:
        """Forget the peak, not what is alive."""
        self.peak, self.at_peak = self._total, dict(self.now)

    def see(self, tensor: Tensor) -> None:
        """Take in the memory behind a tensor that is no wrapper."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._known:
            self._watches[key] = weakref.ref(storage, lambda _: self._drop(key))
            self._put(key, storage.nbytes(), "activations")

    def own(self, tensors: Iterable[Tensor], owner: str) -> None:
        """Say whose these are."""
        for tensor in tensors:
            local = unwrapped(tensor)
            self.see(local)
            key = local.untyped_storage()._cdata
            self._put(key, self._known[key][0], owner)

    def resized(self, storage: torch.UntypedStorage, size: int) -> None:
        """A storage was given another size: FSDP gathers weights into it, or lets them go."""
        key = storage._cdata
        if key in self._known:
            self._put(key, size, "gathered")

    def _put(self, key: int, size: int, owner: str) -> None:
        before, whose = self._known.get(key, (0, owner))
        self._known[key] = (size, owner)
        self.now[whose] -= before
        self.now[owner] += size
        self._total += size - before
        if self._total > self.peak:
            self.peak, self.at_peak = self._total, dict(self.now)

    def _drop(self, key: int) -> None:
        self._watches.pop(key, None)
        size, owner = self._known.pop(key, (0, "activations"))
        self.now[owner] -= size
        self._total -= size


def unwrapped(tensor: Tensor) -> Tensor:
    """The local tensor within DTensors and results that are still on their way."""
    while (inner := _inside(tensor)) is not None:
        tensor = inner
    return tensor


def _inside(tensor: object) -> Tensor | None:
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor

    if isinstance(tensor, DTensor):
        return tensor._local_tensor
    return tensor.elem if isinstance(tensor, AsyncCollectiveTensor) else None
