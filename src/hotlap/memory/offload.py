"""Activations that wait for backward in pinned host memory."""

import torch
from torch import Tensor

Packed = Tensor | tuple[torch.device, Tensor]
"""A tensor that stayed, or where it was and its copy on the host."""


def offloaded(least: int = 1 << 20) -> torch.autograd.graph.saved_tensors_hooks:
    """Context for the forward pass: what it saves on a CUDA device waits on the host.

    Tensors below `least` bytes and leaves (parameters, inputs) stay. Copies are queued on the
    stream of the kernels, so that nothing is waited for on the host; the link to the device sets
    the pace. On a CPU device nothing is moved.
    """

    def pack(tensor: Tensor) -> Packed:
        if not tensor.is_cuda or tensor.is_leaf or tensor.nbytes < least:
            return tensor
        host = torch.empty_like(tensor, device="cpu", pin_memory=True)
        return tensor.device, host.copy_(tensor, non_blocking=True)

    def unpack(packed: Packed) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        device, host = packed
        return host.to(device, non_blocking=True)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
