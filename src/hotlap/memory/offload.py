"""Activations that wait for backward in pinned host memory."""

from typing import Any

import torch
from torch import Tensor


def offloaded(least: int = 1 << 20) -> torch.autograd.graph.saved_tensors_hooks:
    """Context for the forward pass: what it saves on a CUDA device waits on the host.

    Tensors below `least` bytes and leaves (parameters, inputs) stay. Copies are queued on the
    stream of the kernels, so that nothing is waited for on the host; the link to the device sets
    the pace. On a CPU device nothing is moved.
    """

    def pack(tensor: Tensor) -> object:
        if not tensor.is_cuda or tensor.is_leaf or tensor.nbytes < least:
            return tensor
        host = torch.empty_like(tensor, device="cpu", pin_memory=True)
        return tensor.device, host.copy_(tensor, non_blocking=True)

    def unpack(packed: Any) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        device, host = packed
        back: Tensor = host.to(device, non_blocking=True)
        return back

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
