"""Liger-Kernel's operators in models of transformers that it knows."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from weakref import ref

import torch
from torch.nn import Module

from hotlap.seam.moves import Context
from hotlap.seam.roots import CallRoot, Order, has_parameters

INSTALL = "liger_kernel is not installed: pip install liger-kernel"
_ABSENT = object()


@contextmanager
def liger(context: Context) -> Iterator[None]:
    """Apply Liger's kernels to each root at its first call; undone on exit."""
    undo: list[Callable[[], None]] = []

    def maker(root: Module, inner: CallRoot) -> CallRoot | None:
        if not has_parameters(root):
            return None
        why = unfit(root)
        if why:
            context.inert(why)
            return None
        undo.append(apply(root))
        context.held(type(root).__name__)
        return inner

    context.seams.roots.add(Order.CHANNELS_LAST, maker, context.failed)
    try:
        yield
    finally:
        for restore in reversed(undo):
            restore()


def unfit(root: Module) -> str:
    """Why Liger does not serve this model; empty if it does."""
    if find_spec("liger_kernel") is None:
        return INSTALL
    if next(root.parameters()).device.type != "cuda":
        return "Liger's kernels are for models on a CUDA device"
    return "" if known(root) else f"Liger-Kernel does not know {type(root).__name__}"


def known(root: Module) -> bool:
    """Whether it is a model of transformers that Liger has kernels for."""
    kind = getattr(getattr(root, "config", None), "model_type", None)
    if kind is None or not type(root).__module__.startswith("transformers."):
        return False
    return kind in _patches().MODEL_TYPE_TO_APPLY_LIGER_FN


def apply(root: Module) -> Callable[[], None]:
    """Patch the model and what its module defines.

    Returns what takes all of that back; it does not keep the model alive.
    """
    home = sys.modules[type(root).__module__]
    owners = [home, torch.nn.functional, *(v for v in vars(home).values() if isinstance(v, type))]
    owners += list(root.modules())
    before = [(owner, dict(vars(owner))) for owner in owners]
    _patches()._apply_liger_kernel_to_instance(model=root)
    changed = [
        (ref(owner), name, attributes.get(name, _ABSENT))
        for owner, attributes in before
        for name, value in vars(owner).items()
        if name not in attributes or attributes[name] is not value
    ]

    def restore() -> None:
        for alive, name, value in changed:
            if (owner := alive()) is None:
                continue
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

    return restore


def _patches() -> ModuleType:
    return importlib.import_module("liger_kernel.transformers.monkey_patch")
