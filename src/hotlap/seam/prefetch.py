"""Batches copied to the device ahead of time, once it is known what the script moves there."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from hotlap.common.nested import mapped, tensors
from hotlap.seam.moves import Context
from hotlap.seam.patch import load, replaced
from hotlap.seam.tensor import to_cuda

Loader = DataLoader[object]
Plan = dict[int, torch.device]
Plans = WeakKeyDictionary[Loader, Plan]


@contextmanager
def device_prefetch(context: Context) -> Iterator[None]:
    """Prefetch the batches of every loader whose tensors the script moves to a CUDA device."""
    plans: Plans = WeakKeyDictionary()

    def make(original: Callable[..., Any]) -> object:
        def __iter__(loader: Loader) -> Iterator[object]:  # noqa: N807
            return _Batches(original(loader), loader, plans, context)

        return __iter__

    with replaced(DataLoader, "__iter__", make):
        yield


class _Batches:
    """A loader's iterator: the first batch shows what the script moves, the others come moved."""

    def __init__(
        self, inner: _BaseDataLoaderIter, loader: Loader, plans: Plans, context: Context
    ) -> None:
        self._inner = inner
        self._loader = loader
        self._plans = plans
        self._context = context
        self._watch: _Watch | None = None
        self._ahead: Iterator[object] | None = None

    def __iter__(self) -> "_Batches":
        return self

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name: str) -> object:
        """Hand on what torch's own iterator offers."""
        return getattr(self._inner, name)

    def __next__(self) -> object:
        if self._watch is not None:
            self._learn(self._watch.close())
        if self._ahead is None and self._loader in self._plans:
            self._ahead = self._moved(self._plans[self._loader])
        if self._ahead is not None:
            return next(self._ahead)
        batch = next(self._inner)
        self._watch = _Watch(batch)
        return batch

    def __del__(self) -> None:
        if self.__dict__.get("_watch") is not None:
            self._watch.close()  # type: ignore[union-attr]

    def _learn(self, plan: Plan) -> None:
        self._watch = None
        self._plans[self._loader] = plan
        if plan:
            self._context.held(", ".join(sorted({str(device) for device in plan.values()})))

    def _moved(self, plan: Plan) -> Iterator[object]:
        if not plan:
            return iter(self._inner)
        prefetcher = load("hotlap.data.prefetch:DevicePrefetcher")
        device = next(iter(plan.values()))
        move = _mover(plan)
        return prefetcher(self._inner, device, move=move).ahead(self._inner)  # type: ignore[no-any-return]


def _mover(plan: Plan) -> Callable[[object], object]:
    def move(batch: object) -> object:
        positions = iter(range(1 << 30))

        def one(tensor: torch.Tensor) -> torch.Tensor:
            device = plan.get(next(positions))
            return tensor if device is None else tensor.to(device, non_blocking=True)

        return mapped(batch, one)

    return move


class _Watch:
    """Sees which tensors of one batch go to a CUDA device, until it is closed."""

    def __init__(self, batch: object) -> None:
        self._tensors = list(tensors(batch))
        self._places = {id(tensor): index for index, tensor in enumerate(self._tensors)}
        self._plan: Plan = {}
        self._undo = ExitStack()
        for name in ("to", "cuda"):
            self._undo.enter_context(replaced(torch.Tensor, name, self._watched))

    def close(self) -> Plan:
        self._undo.close()
        return self._plan

    def _watched(self, original: Callable[..., torch.Tensor]) -> object:
        @wraps(original)
        def copy(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
            moved = original(tensor, *args, **kwargs)
            index = self._places.get(id(tensor))
            if index is not None and to_cuda(original, args, kwargs):
                self._plan[index] = moved.device
            return moved

        return copy
