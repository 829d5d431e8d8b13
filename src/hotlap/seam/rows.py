"""Rows of a tensor that are picked by a tensor of indices."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from hotlap.common.plain import PLAIN
from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced

LEAST_BYTES, LEAST_BYTES_DIFFERENTIATED = 1 << 14, 1 << 18
"""Bytes of the picked rows below which the call costs more than is saved, or the backward pass of
`index_select` takes longer (benchmarks/row_lookups.py)."""


def picks_rows(tensor: torch.Tensor, index: object) -> bool:
    """Whether `tensor[index]` picks rows that `index_select` picks as well, if none is negative.

    On the CPU alone: on a GPU an index that `index_select` does not take is a failed assertion,
    after which the process can compute no more.
    """
    return (
        type(index) is torch.Tensor
        and index.dtype is torch.int64
        and index.dim() > 0
        and type(tensor) in PLAIN
        and tensor.is_cpu
        and tensor.dim() > 1
        and tensor.is_contiguous()
        and index.numel() * _row_bytes(tensor) >= _least_bytes(tensor)
    )


def _row_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() // max(1, tensor.shape[0]) * tensor.element_size()


def _least_bytes(tensor: torch.Tensor) -> int:
    differentiated = tensor.requires_grad and torch.is_grad_enabled()
    return LEAST_BYTES_DIFFERENTIATED if differentiated else LEAST_BYTES


@contextmanager
def index_select(context: Context) -> Iterator[None]:
    """Let `index_select` pick rows; what it refuses, such as a negative index, is left alone."""

    def make(original: Callable[..., torch.Tensor]) -> object:
        def getitem(tensor: torch.Tensor, index: object) -> torch.Tensor:
            if type(index) is torch.Tensor and _eager() and picks_rows(tensor, index):
                with suppress(IndexError, RuntimeError):
                    made = tensor.index_select(0, index.reshape(-1))
                    context.held()
                    return made.view(*index.shape, *tensor.shape[1:]) if index.dim() > 1 else made
            return original(tensor, index)

        return getitem

    with replaced(torch.Tensor, "__getitem__", make):
        yield


def _eager() -> bool:
    """Whether operators run one by one: nothing compiles or transforms them."""
    stack = torch._C._functorch.peek_interpreter_stack()
    return stack is None and not torch.compiler.is_compiling()
