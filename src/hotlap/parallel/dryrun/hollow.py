"""Fake memory for parameters that were built on the meta device."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode


class Hollow(TorchFunctionMode):
    """Lets `Module.to_empty` make fake tensors.

    A device mesh cannot be made, nor a model sharded, in a world of fake tensors; so that only
    this one step of `hotlap.parallel.parallelize` is taken there.
    """

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()
        self._fake = fake

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is not torch.empty_like:
            return func(*args, **(kwargs or {}))
        with self._fake:
            return func(*args, **(kwargs or {}))
