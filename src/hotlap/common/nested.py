"""Batches, samples and model outputs as nested structures of tensors."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import torch
from torch.distributions import Distribution

OnTensor = Callable[[torch.Tensor], object]


def mapped(value: object, function: OnTensor) -> Any:
    """Return `value` with `function` applied to each tensor in it; the containers keep their types.

    Knows tuples, named tuples, lists, mappings (Hugging Face's `ModelOutput` and `BatchEncoding`
    among them), dataclasses and the distributions of torch. Anything else is handed back as it is,
    and so is every container in which nothing changed.
    """
    if isinstance(value, torch.Tensor):
        return function(value)
    children = dict(_children(value))
    changed = {key: mapped(child, function) for key, child in children.items()}
    if all(changed[key] is child for key, child in children.items()):
        return value
    return _rebuilt(value, changed)


def tensors(value: object) -> Iterator[torch.Tensor]:
    """Yield each tensor in `value`, in the order in which `mapped` meets them."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    for _, child in _children(value):
        yield from tensors(child)


def _children(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, (list, tuple)):
        yield from enumerate(value)
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Distribution) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        yield from vars(value).items() if hasattr(value, "__dict__") else ()


def _rebuilt(value: object, children: dict[Any, Any]) -> object:
    if isinstance(value, tuple):
        items = children.values()
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        fresh = copy.copy(value)
        fresh[:] = list(children.values())
        return fresh
    if isinstance(value, Mapping):
        return _mapping(value, children)
    twin = copy.copy(value)
    for name, child in children.items():
        object.__setattr__(twin, name, child)  # frozen dataclasses too
    return twin


def _mapping(value: Mapping[object, object], children: dict[object, object]) -> object:
    """Copy with the new values; read-only mappings are built from a dict."""
    twin = _shallow(value)
    if not isinstance(twin, MutableMapping):
        return type(value)(children)  # type: ignore[call-arg]
    for key, child in children.items():
        twin[key] = child
    return twin


def _shallow(value: Mapping[object, object]) -> object:
    """Copy a mapping without sharing its store: `copy.copy` of a UserDict copies it too."""
    return value.copy() if type(value) is dict else copy.copy(value)
