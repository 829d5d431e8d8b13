"""What the modules that the script calls are like, and how many samples a call was given."""

from collections.abc import Iterable

import torch
from torch.nn import Module

CONVOLUTIONS = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
SEQUENCES = (torch.nn.RNNBase, torch.nn.MultiheadAttention)
"""Layers with `batch_first`: (time, batch, features) unless it is set."""


def first_tensor(values: Iterable[object], depth: int = 2) -> torch.Tensor | None:
    """The first tensor with a batch dimension among arguments, looking into containers."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.dim():
                return value
        elif depth and isinstance(value, (list, tuple, dict)):
            inner = value.values() if isinstance(value, dict) else value
            found = first_tensor(inner, depth - 1)
            if found is not None:
                return found
    return None


def batch_of(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[int, int]:
    """Rows (length of the first dimension) and tokens a call was given.

    Tokens only where the input is integer and 2-D; neither under `vmap`, where a call sees one
    sample of many.
    """
    tensor = args[0] if args else None
    if not isinstance(tensor, torch.Tensor) or not tensor.dim():
        tensor = first_tensor((*args, *kwargs.values()))
        if tensor is None:
            return 0, 0
    if torch._C._functorch.is_batchedtensor(tensor):
        return 0, 0
    tokens = tensor.dim() == 2 and not tensor.is_floating_point() and not tensor.is_complex()
    return tensor.shape[0], tensor.numel() if tokens else 0


def takes_sequence_first(root: Module) -> bool:
    """Whether a layer of the model takes (time, batch, features).

    The first dimension of what such a model is called with may be time: only a loader that yields
    its batches shows how many samples they hold.
    """
    return any(not layer.batch_first for layer in root.modules() if isinstance(layer, SEQUENCES))


def model_facts(root: Module, tensor: torch.Tensor | None) -> dict[str, object]:
    """Facts about a model and the input of its first training call."""
    kinds = {p.dtype for p in root.parameters()}
    convolutions = [m for m in root.modules() if isinstance(m, CONVOLUTIONS)]
    # not by attribute: a parametrisation such as spectral_norm computes it anew, with other results
    weights = [w for m in convolutions if (w := m._parameters.get("weight")) is not None]
    images = tensor is not None and tensor.dim() == 4
    return {
        "model": True,
        "cuda": any(p.is_cuda for p in root.parameters()),
        "conv4d": bool(convolutions) and images,
        "channels_last_on": any(map(_channels_last, weights)) or _channels_last(tensor),
        "recurrent": any(isinstance(layer, torch.nn.RNNBase) for layer in root.modules()),
        "linear_layers": any(type(layer) is torch.nn.Linear for layer in root.modules()),
        "float32_model": torch.float32 in kinds,
        "float64_model": torch.float64 in kinds,
        "float64_input": tensor is not None and tensor.dtype == torch.float64,
        "data_parallel": isinstance(root, torch.nn.DataParallel),
        "compiled": is_compiled(root),
        "dtype": _main_dtype(root),
    }


def _channels_last(tensor: torch.Tensor | None) -> bool:
    """Whether a 4-D tensor lies in channels-last order and not in the default one as well."""
    return (
        tensor is not None
        and tensor.dim() == 4
        and tensor.is_contiguous(memory_format=torch.channels_last)
        and not tensor.is_contiguous()
    )


def _main_dtype(root: Module) -> str:
    """The dtype that most parameters have, as torch writes it without its prefix."""
    sizes: dict[torch.dtype, int] = {}
    for parameter in root.parameters():
        sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.numel()
    main = max(sizes, key=lambda kind: sizes[kind], default=torch.float32)
    return str(main).removeprefix("torch.")


def is_compiled(root: Module) -> bool:
    """Whether torch.compile made this module, or its call."""
    if hasattr(root, "_orig_mod") or hasattr(root, "_torchdynamo_orig_callable"):
        return True
    slot = root.__dict__.get("_compiled_call_impl")
    return slot is not None and not getattr(slot, "hotlap_root", False)


def anything_compiled() -> bool:
    """Whether Dynamo compiled anything in this process so far."""
    import sys

    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo and dynamo.counters["stats"].get("unique_graphs"))


def autocast_dtype(device: str) -> str:
    """The dtype autocast uses on `device` at the moment; empty when it is off."""
    if not torch.is_autocast_enabled(device):
        return ""
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
