"""Evaluation without gradients."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.nn import Module

from hotlap.common.nested import mapped, tensors
from hotlap.seam.moves import Context
from hotlap.seam.roots import CallRoot, Order, has_parameters


@contextmanager
def no_grad_eval(context: Context) -> Iterator[None]:
    """Run models in eval mode under no_grad, unless an input asks for its own gradient."""

    def maker(root: Module, inner: CallRoot) -> CallRoot | None:
        if not has_parameters(root):
            return None

        def call(root: Module, *args: object, **kwargs: object) -> object:
            if root.training:
                return inner(root, *args, **kwargs)
            context.waits("")
            if not torch.is_grad_enabled() or _asked_for((*args, *kwargs.values()), tensors):
                return inner(root, *args, **kwargs)
            context.held(type(root).__name__)
            with torch.no_grad():
                return inner(root, *args, **kwargs)

        return call

    context.waits("the run ended before an evaluation ran")
    context.seams.roots.add(Order.GRAD_MODE, maker, context.failed)
    yield


def _asked_for(
    inputs: tuple[object, ...], tensors: Callable[[object], Iterator[torch.Tensor]]
) -> bool:
    """Whether an input asks for its own gradient, or torch.func for that of anything.

    Nearly all inputs are plain tensors.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    for value in inputs:
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                return True
        elif any(tensor.requires_grad for tensor in tensors(value)):
            return True
    return False


@contextmanager
def inference_mode(context: Context) -> Iterator[None]:
    """Run models under inference_mode, unless an input asks for its own gradient.

    Their outputs are copied into ordinary tensors, which the program may write to.
    """

    def maker(root: Module, inner: CallRoot) -> CallRoot | None:
        if not has_parameters(root):
            return None

        def call(root: Module, *args: object, **kwargs: object) -> object:
            if torch.is_inference_mode_enabled():
                context.inert("inference mode is already on")
                return inner(root, *args, **kwargs)
            if _asked_for((*args, *kwargs.values()), tensors):
                return inner(root, *args, **kwargs)
            context.held(type(root).__name__)
            with torch.inference_mode():
                outputs = inner(root, *args, **kwargs)
            return mapped(outputs, torch.clone)

        return call

    context.seams.roots.add(Order.GRAD_MODE, maker, context.failed)
    yield
