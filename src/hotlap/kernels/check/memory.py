"""Watch the memory of an operator: guard pages behind its inputs, canaries around its outputs."""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

PADDING = 1024
"""Elements before and behind each new tensor."""
CANARY = 77.0
_ALLOCATORS = {
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_strided.default,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.new_empty.default,
    torch.ops.aten.new_empty_strided.default,
    torch.ops.aten.zeros.default,
    torch.ops.aten.zeros_like.default,
    torch.ops.aten.new_zeros.default,
}


class Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """New tensors lie between canaries, and `empty` ones hold `poison`."""

    def __init__(self, poison: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._poison = poison
        self._bases: list[tuple[Tensor, int]] = []

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Let everything through but allocations."""
        out = func(*args, **(kwargs or {}))
        if func not in _ALLOCATORS or not isinstance(out, Tensor) or not out.numel():
            return out
        if not out.is_floating_point() or out.layout != torch.strided:
            return out
        if "empty" in func.name():  # type: ignore[no-untyped-call]
            out.fill_(self._poison)
        size = 1 + sum((n - 1) * s for n, s in zip(out.shape, out.stride(), strict=True))
        base = torch.full((size + 2 * PADDING,), CANARY, dtype=out.dtype, device=out.device)
        self._bases.append((base, size))
        return base.as_strided(out.shape, out.stride(), PADDING).copy_(out)

    def overrun(self) -> bool:
        """Whether something wrote beside a tensor."""
        return any(
            bool((base[:PADDING] != CANARY).any() or (base[PADDING + size :] != CANARY).any())
            for base, size in self._bases
        )


@contextmanager
def guarded(tensor: Tensor, *, behind: bool) -> Iterator[Tensor]:
    """A copy of a CPU tensor that ends (or begins) at a page that cannot be touched.

    Reading or writing past it ends the process with SIGSEGV.
    """
    page = mmap.PAGESIZE
    room = -(-max(tensor.nbytes, 1) // page) * page
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    total = room + 2 * page
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    begin = libc.mmap(None, total, mmap.PROT_READ | mmap.PROT_WRITE, anonymous, -1, 0)
    if begin in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"mmap of {total} bytes failed: errno {ctypes.get_errno()}")
    try:
        libc.mprotect(begin, page, 0)
        libc.mprotect(begin + page + room, page, 0)
        at = begin + page + (room - tensor.nbytes if behind else 0)
        memory = (ctypes.c_char * tensor.nbytes).from_address(at)
        copy = torch.frombuffer(memory, dtype=tensor.dtype).view(tensor.shape)
        copy.copy_(tensor)
        yield copy
    finally:
        libc.munmap(begin, total)
