"""DistributedDataParallel: gradients reduced over the ranks in 16 bits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

from hotlap.seam.moves import Context
from hotlap.seam.patch import load
from hotlap.seam.roots import CallRoot, Order

Hook = Callable[..., torch.futures.Future[torch.Tensor]]
"""Called with a state or process group, and a bucket of gradients."""


def one_cap(arguments: dict[str, object]) -> bool:
    """Whether no list of bucket sizes is given, which stands in for the one size."""
    return arguments.get("bucket_cap_mb_list") is None


@contextmanager
def compressed(context: Context) -> Iterator[None]:
    """Send the gradients of DDP models in the chosen `dtype`, unless they have a hook of their own.

    A hook stays with its model; once this context is left it reduces in full precision.
    """
    on = [True]
    hook = _while(on, load("hotlap.parallel.hooks:narrowed")(_dtype(context)))

    def maker(root: Module, _: CallRoot) -> CallRoot | None:
        for model in parallel_models(root):
            if why := _unfit(model):
                context.inert(why)
            else:
                model.register_comm_hook(model.process_group, hook)
                context.held(type(model.module).__name__)
        return None

    context.seams.roots.add(Order.GRADIENTS, maker, context.failed)
    try:
        yield
    finally:
        on.clear()


def parallel_models(root: Module) -> list[DistributedDataParallel]:
    """The DDP models at and below a root."""
    return [part for part in root.modules() if isinstance(part, DistributedDataParallel)]


def _dtype(context: Context) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, context.values["dtype"])
    return dtype


def _unfit(model: DistributedDataParallel) -> str:
    """Why a model's gradients cannot be sent in 16 bits; empty if they can."""
    if model._comm_hooks or getattr(model, "mixed_precision", None) is not None:
        return "the script has a communication hook of its own"
    if all(p.dtype != torch.float32 for p in model.parameters()):
        return "the gradients are not float32"
    return ""


def _while(on: list[bool], hook: Hook) -> Hook:
    """The hook while `on` is not empty; afterwards torch's plain all-reduce."""
    from torch.distributed import GradBucket, ProcessGroup  # type: ignore[attr-defined]
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    # torch reads these annotations: names in quotes would not do
    def either(group: ProcessGroup, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        return (hook if on else allreduce_hook)(group, bucket)

    return either
