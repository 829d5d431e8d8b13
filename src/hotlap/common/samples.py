"""Samples of any make: their size, a copy of them, whether two are equal."""

import copy
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from hotlap.common.extras import Array

if TYPE_CHECKING:
    from PIL.Image import Image

_CONSTANT = (int, float, complex, bool, str, bytes, type(None))


def size(sample: object) -> int:
    """Bytes that a sample takes, to within some dozens of bytes an object."""
    if isinstance(sample, torch.Tensor):
        return sample.nbytes + 200
    if isinstance(sample, (list, tuple)):
        return sys.getsizeof(sample) + sum(size(item) for item in sample)
    if isinstance(sample, dict):
        return sys.getsizeof(sample) + sum(size(k) + size(v) for k, v in sample.items())
    if _is_image(sample):
        return int(sample.width * sample.height * len(sample.getbands())) + 500
    own = sys.getsizeof(sample)
    return own + getattr(sample, "nbytes", 0) + _attributes(sample)


def _attributes(sample: object) -> int:
    if isinstance(sample, _CONSTANT) or _is_array(sample) or not hasattr(sample, "__dict__"):
        return 0
    return size(vars(sample))


def twin(sample: Any) -> object:
    """Return a copy that shares no memory that can be written to."""
    kind = type(sample)
    if kind in _CONSTANT:
        return sample
    if kind is torch.Tensor:
        return sample.detach().clone() if not sample.requires_grad else copy.deepcopy(sample)
    if kind is tuple or kind is list:
        return kind([twin(item) for item in sample])
    if kind is dict:
        return {key: twin(item) for key, item in sample.items()}
    return copy.deepcopy(sample)


def equal(one: Any, other: Any) -> bool:
    """Whether two samples are the same, bit by bit where they hold numbers."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return _same_leaf(one, other)


def _same_leaf(one: object, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return _same_tensor(one, other)
    if isinstance(one, float):
        return repr(one) == repr(other)  # NaN is itself, 0.0 is not -0.0
    if _is_array(one):
        return _same_array(one, other)
    return _same_object(one, other)


def _same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    if (one.dtype, one.shape, one.device) != (other.dtype, other.shape, other.device):
        return False
    if one.layout is not torch.strided or one.is_quantized:
        return torch.equal(one, other)
    return torch.equal(_bits(one), _bits(other))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)


def _same_array(one: Array, other: Array) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.hasobject:
        return all(map(equal, one.ravel().tolist(), other.ravel().tolist()))
    return bool(one.tobytes() == other.tobytes())


def _same_object(one: object, other: Any) -> bool:
    if _is_image(one):
        return bool(one.mode == other.mode and one.tobytes() == other.tobytes())
    if type(one).__eq__ is object.__eq__ and hasattr(one, "__dict__"):
        return equal(vars(one), vars(other))
    try:
        return bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False


def _is_array(value: object) -> TypeGuard[Array]:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _is_image(value: object) -> TypeGuard["Image"]:
    return hasattr(value, "getbands") and hasattr(value, "tobytes")
