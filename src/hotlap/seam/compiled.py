"""torch.compile on the root's call."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary

import torch
from torch.nn import Module

from hotlap.common.nested import mapped
from hotlap.core.needs import CUDA
from hotlap.seam.moves import Context
from hotlap.seam.patch import assigned
from hotlap.seam.roots import CallRoot, Order, has_parameters

After = Callable[[object], object]

_live: WeakKeyDictionary[Module, dict[str, CallRoot]] = WeakKeyDictionary()
"""What was compiled in a live program, by mode: once, however often it is switched on and off."""


@contextmanager
def compiled(context: Context) -> Iterator[None]:
    """Compile models in the chosen `mode`."""
    with _compiling(context, context.values["mode"]):
        yield


@contextmanager
def graphed(context: Context) -> Iterator[None]:
    """Compile models into CUDA graphs; outputs are copied out of the graph's own memory."""

    def own(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone() if tensor.is_cuda else tensor

    def copied(outputs: object) -> object:
        return mapped(outputs, own)

    with _compiling(context, "reduce-overhead", copied, on_cuda=True):
        yield


@contextmanager
def _compiling(
    context: Context, mode: str, after: After | None = None, *, on_cuda: bool = False
) -> Iterator[None]:
    with ExitStack() as undo:

        def maker(root: Module, inner: CallRoot) -> CallRoot | None:
            if not has_parameters(root):
                return None
            if on_cuda and not any(parameter.is_cuda for parameter in root.parameters()):
                context.inert(CUDA.reason)
                return None
            if _is_compiled(root):
                context.inert("the model is already compiled")
                return None
            _keep_random_numbers(undo)
            known = _live.setdefault(root, {}) if context.live else {}
            if mode not in known:
                known[mode] = torch.compile(_traceable(root, inner), mode=mode)
            return _told(known[mode], context, after)

        context.seams.roots.add(Order.COMPILE, maker, context.failed, traced=True)
        yield


def _traceable(root: Module, inner: CallRoot) -> CallRoot:
    """Dynamo traces the `forward` that `_call_impl` calls, but none that torch.nn itself defines.

    A Sequential would silently run uncompiled; called from a function of ours, it is traced.
    """
    if not type(root).forward.__module__.startswith("torch.nn."):
        return inner

    def whole(root: Module, *args: object, **kwargs: object) -> object:
        return inner(root, *args, **kwargs)

    return whole


def _told(fast: CallRoot, context: Context, after: After | None) -> CallRoot:
    """Say whether it held, once a call has come back."""
    from torch._dynamo.utils import counters

    def call(root: Module, *args: object, **kwargs: object) -> object:
        outputs = fast(root, *args, **kwargs)
        if counters["stats"]["unique_graphs"]:
            context.held(type(root).__name__)
        else:
            context.inert("torch.compile found nothing that it could compile")
        return outputs if after is None else after(outputs)

    return call


def _is_compiled(root: Module) -> bool:
    kinds = (torch._dynamo.OptimizedModule,)
    slots = [module._compiled_call_impl for module in root.modules()]
    others = [slot for slot in slots if slot is not None and not hasattr(slot, "hotlap_root")]
    return bool(others) or any(isinstance(module, kinds) for module in root.modules())


def _keep_random_numbers(undo: ExitStack) -> None:
    """Let dropout draw what it would draw uncompiled, so that losses can be compared."""
    import torch._inductor.config as inductor

    if not inductor.fallback_random:
        undo.enter_context(assigned(inductor, "fallback_random", True))
