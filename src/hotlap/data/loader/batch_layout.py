"""A batch of any structure as bytes in a buffer, and a small description of where they lie."""

import pickle
from dataclasses import dataclass

import torch

from hotlap.common.nested import mapped, tensors
from hotlap.data.loader.memory import Space

_NOTHING = torch.empty(0)


@dataclass(frozen=True)
class Leaf:
    """Where one tensor lies in the buffer; outside it, `carried` holds it."""

    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    carried: torch.Tensor | None = None


@dataclass(frozen=True)
class BatchLayout:
    """The structure with empty tensors in it, and a leaf for each of them."""

    skeleton: object
    leaves: tuple[Leaf, ...]

    def opened(self, base: torch.Tensor) -> object:
        """Return the batch as views of `base`, the buffer as a uint8 tensor."""
        leaves = iter([_opened(leaf, base) for leaf in self.leaves])
        return mapped(self.skeleton, lambda _: next(leaves))

    def dumps(self) -> bytes:
        """Pickle it plainly: torch's own way through pipes would open shared memory."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)


def packed(value: object, space: Space) -> BatchLayout:
    """Write the tensors of `value` that are not in the buffer yet into it; describe them all."""
    base = torch.from_numpy(space.memory)
    leaves = tuple(_leaf(tensor, space, base) for tensor in tensors(value))
    return BatchLayout(mapped(value, lambda _: _NOTHING), leaves)


def size_of(value: object) -> int:
    """Bytes that a batch takes in a buffer."""
    return sum(tensor.nbytes + 64 for tensor in tensors(value))


def _leaf(tensor: torch.Tensor, space: Space, base: torch.Tensor) -> Leaf:
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.requires_grad:
        return Leaf(0, tensor.dtype, (), (), tensor)
    offset = tensor.data_ptr() - base.data_ptr()
    if 0 <= offset < base.numel():
        return Leaf(offset, tensor.dtype, tuple(tensor.shape), tensor.stride())
    dense = tensor if _dense(tensor) else tensor.contiguous()
    place = torch.from_numpy(space.take((dense.nbytes,), "u1"))
    offset = place.data_ptr() - base.data_ptr()
    if not 0 <= offset < base.numel():
        return Leaf(0, tensor.dtype, (), (), tensor.clone())
    target = place.view(dense.dtype).as_strided(dense.shape, dense.stride())
    target.copy_(dense)
    return Leaf(offset, dense.dtype, tuple(dense.shape), dense.stride())


def _dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill one stretch of memory, in whatever order of the axes."""
    if tensor.is_conj() or tensor.is_neg():
        return False
    expected = 1
    for stride, side in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if side != 1:
            if stride != expected:
                return False
            expected *= side
    return True


def _opened(leaf: Leaf, base: torch.Tensor) -> torch.Tensor:
    if leaf.carried is not None:
        return leaf.carried
    extent = 1 + sum((n - 1) * s for n, s in zip(leaf.shape, leaf.stride, strict=True))
    size = 0 if 0 in leaf.shape else extent * leaf.dtype.itemsize
    flat = base[leaf.offset : leaf.offset + size].view(leaf.dtype)
    return flat.as_strided(leaf.shape, leaf.stride)
