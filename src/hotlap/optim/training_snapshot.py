"""Putting a model, an optimizer, generators and a loader back exactly as they were."""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from hotlap.common.randomness import Streams

PLAIN = (int, float, str, bytes, bool, type(None))
PARTS = ("sampler", "batch_sampler", "dataset")
T = TypeVar("T", bound=Tensor | None)


@runtime_checkable
class HasState(Protocol):
    """What can be put back by its own state."""

    def state_dict(self) -> object:
        """Return its state."""

    def load_state_dict(self, state: object, /) -> object:
        """Put a state back."""


@contextmanager
def restored(model: nn.Module, optimizer: Optimizer, loader: object) -> Iterator[None]:
    """On leaving, put back bitwise what training inside has changed.

    Parameters, buffers (those that are not saved as well), gradients, training flags; the
    optimizer's state and groups; torch's, Python's and NumPy's generators and those the loader
    holds; the plain attributes of the loader, its sampler and data set, and what their `state_dict`
    gives. Tensors keep their identity.
    """
    undo = [
        *(_module(module) for module in model.modules()),
        _optimizer(optimizer),
        _loader(loader),
        _randomness(loader),  # last: what comes before may draw
    ]
    with ExitStack() as stack:
        for each in reversed(undo):
            stack.enter_context(each)
        yield


@contextmanager
def _module(module: nn.Module) -> Iterator[None]:
    training = module.training
    own = [(name, p) for name, p in module._parameters.items() if p is not None]
    parameters = [(name, p, _kept(p), p.grad, _kept(p.grad)) for name, p in own]
    buffers = [(name, buffer, _kept(buffer)) for name, buffer in module._buffers.items()]
    extra = _extra(module)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter, value, grad, slope in parameters:
                module._parameters[name] = _put(parameter, value)
                parameter.grad = _put(grad, slope)
            for name, buffer, value in buffers:
                module._buffers[name] = _put(buffer, value)
        if extra is not None:
            module.set_extra_state(extra)
        module.training = training


def _extra(module: nn.Module) -> object:
    if type(module).get_extra_state is nn.Module.get_extra_state:
        return None
    return copy.deepcopy(module.get_extra_state())


def _kept(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()


def _put(tensor: T, value: Tensor | None) -> T:
    """Write a kept value into the tensor it is of."""
    if tensor is not None and value is not None:
        tensor.detach().copy_(value)
    return tensor


@contextmanager
def _optimizer(optimizer: Optimizer) -> Iterator[None]:
    held = {id(p): p for group in optimizer.param_groups for p in group["params"]}
    state = copy.deepcopy(dict(optimizer.state), dict(held))
    groups = [
        {k: copy.deepcopy(v) for k, v in group.items() if k not in ("params", "lr")}
        for group in optimizer.param_groups
    ]
    rates = [(rate := group.get("lr"), float(rate or 0.0)) for group in optimizer.param_groups]
    try:
        yield
    finally:
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, options, (rate, value) in zip(
            optimizer.param_groups, groups, rates, strict=True
        ):
            for name in set(group) - set(options) - {"params", "lr"}:
                del group[name]
            group.update(options)
            if isinstance(rate, Tensor):
                rate.fill_(value)
            group["lr"] = rate


@contextmanager
def _loader(loader: object) -> Iterator[None]:
    found = (loader, *(getattr(loader, name, None) for name in PARTS))
    parts = [part for part in found if part is not None]
    states = [
        (part, copy.deepcopy(part.state_dict())) for part in parts if isinstance(part, HasState)
    ]
    plain = [(part, _plain(part)) for part in parts if hasattr(part, "__dict__")]
    try:
        yield
    finally:
        for part, attributes in plain:
            vars(part).update(attributes)
        for part, state in states:
            part.load_state_dict(state)


def _plain(part: object) -> dict[str, object]:
    return {name: value for name, value in vars(part).items() if isinstance(value, PLAIN)}


@contextmanager
def _randomness(loader: object) -> Iterator[None]:
    streams = Streams(loader)
    state = streams.state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        streams.restore(state)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
