"""What the live model shows in one step: useless biases, odd sizes, raw inputs, unread rows."""

import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from hotlap.core.protocol import InputStatistics, LayerSeen, ModuleReport
from hotlap.model.layers import WEIGHTED
from hotlap.seam.probe.diagnosis import Diagnosis
from hotlap.seam.probe.models import first_tensor

BATCH_NORMS = nn.modules.batchnorm._BatchNorm
NORMS = (BATCH_NORMS, nn.LayerNorm, nn.GroupNorm, nn.modules.instancenorm._InstanceNorm)
TABLES = (nn.Embedding, nn.EmbeddingBag)
LEAST_UNREAD = 1_000_000
"""Elements of rows that no step looked up, below which a table is small (benchmarks/tables.py)."""
SIZES = ("in_features", "out_features", "in_channels", "out_channels", "num_embeddings")
LARGE = 64
MULTIPLE = 8
MOST = 16
LEAST_OF_BIAS = 1e-5
"""A bias's gradient, over the sum of what it is added up from, below which it is rounding."""
ELEMENTS = 1 << 20
PICTURE = 64
"""Pixels of the smallest pictures (those of scikit-learn's digits)."""


class Sights(Diagnosis):
    """Hooks the layers for one step."""

    name = "modules"

    def begin(self) -> None:
        """Put the hooks in."""
        roots = self.rec.session.roots.found
        self._names = names_of(roots)
        self._made_by: dict[int, tuple[weakref.ref[object], nn.Module]] = {}
        self._biases: dict[nn.Module, nn.Module] = {}
        self._first: InputStatistics | None = None
        self._looked_at_input = False
        self._handles = [
            handle
            for layer in leaves(roots)
            for handle in (
                layer.register_forward_pre_hook(guarded(self._before)),
                layer.register_forward_hook(guarded(self._after)),
            )
        ]

    def end(self) -> None:
        """Take them out; say what was seen."""
        for handle in self._handles:
            handle.remove()
        self._made_by = {}
        self.value = ModuleReport(
            [
                self._seen(layer, norm=self._names.get(norm, ""))
                for layer, norm in list(self._biases.items())[:MOST]
            ],
            [
                self._seen(layer, sizes=sizes)
                for layer in self._names
                if (sizes := odd_sizes(layer))
            ][:MOST],
            self._first,
            *self._unread(),
        )

    def _before(self, layer: nn.Module, args: tuple[object, ...]) -> None:
        tensor = args[0] if args else None
        if not isinstance(tensor, torch.Tensor):
            return
        if not self._looked_at_input and (isinstance(layer, NORMS) or _has_weights(layer)):
            self._looked_at_input = True
            with _disable_current_modes():  # of the other diagnoses, and of the program itself
                self._first = None if isinstance(layer, NORMS) else statistics(tensor)
        known = self._made_by.get(id(tensor))
        if known and known[0]() is tensor and isinstance(layer, BATCH_NORMS):
            hook = guarded(partial(self._differentiated, known[1], layer))
            tensor.register_hook(hook)  # type: ignore[no-untyped-call]

    def _differentiated(self, layer: nn.Module, norm: nn.Module, gradient: torch.Tensor) -> None:
        """The gradient of what goes into a norm: from anything else that reads it as well."""
        with torch.no_grad(), _disable_current_modes():
            if taken_away(gradient):
                self._biases[layer] = norm

    def _after(self, layer: nn.Module, _: object, made: object) -> None:
        if isinstance(layer, WEIGHTED) and layer.bias is not None and first_tensor((made,)) is made:
            self._made_by[id(made)] = (weakref.ref(made), layer)

    def _unread(self) -> tuple[float, str]:
        """The part of all gradients that is zero rows of tables; where the largest is made.

        A table that is read otherwise than by look-ups, as by an output layer, has no such rows.
        """
        trained = {id(p): p for layer in self._names for p in layer.parameters() if p.requires_grad}
        elements = sum(p.numel() for p in trained.values())
        unread = {
            layer: rows * layer.embedding_dim
            for layer in self._names
            if isinstance(layer, TABLES) and (rows := _zero_rows(layer.weight.grad))
        }
        if sum(unread.values()) < LEAST_UNREAD:
            return 0.0, ""
        largest = max(unread, key=lambda layer: unread[layer])
        return sum(unread.values()) / elements, self.rec.made.get(largest, "")

    def _seen(
        self, layer: nn.Module, norm: str = "", sizes: dict[str, int] | None = None
    ) -> LayerSeen:
        name, place = self._names.get(layer, ""), self.rec.made.get(layer, "")
        return LayerSeen(name, type(layer).__name__, place, norm, sizes or {})


def taken_away(gradient: torch.Tensor) -> bool:
    """Whether a bias in front of what has this gradient (N, C, ...) has none itself.

    Its gradient is the sum over all but the channels. Batch normalisation makes that zero, but for
    rounding, unless something else reads its input as well.
    """
    each = gradient.transpose(0, 1).flatten(1).double()
    rounding = torch.finfo(gradient.dtype).eps * 2.0 / math.sqrt(each.shape[1])
    least = max(LEAST_OF_BIAS, rounding) * each.abs().sum()
    return bool(each.sum(1).abs().sum() <= least)


def _zero_rows(gradient: torch.Tensor | None) -> int:
    """The rows of a dense gradient that hold nothing but zeros."""
    if type(gradient) is not torch.Tensor or gradient.layout is not torch.strided:
        return 0
    with torch.no_grad(), _disable_current_modes():
        return len(gradient) - int((gradient != 0).any(1).sum())


def guarded(hook: Callable[..., object]) -> Callable[..., None]:
    """The hook; whatever it meets that is odd, the program goes on."""

    def call(*args: object) -> None:
        with suppress(Exception):
            hook(*args)

    return call


def names_of(roots: Iterable[nn.Module]) -> dict[nn.Module, str]:
    """Every module below the roots with its name."""
    return {layer: name for root in roots for name, layer in root.named_modules()}


def leaves(roots: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Every module without submodules, once."""
    for layer in dict.fromkeys(m for root in roots for m in root.modules()):
        if not isinstance(layer, torch.jit.ScriptModule) and next(layer.children(), None) is None:
            yield layer


def _has_weights(layer: nn.Module) -> bool:
    return next(layer.parameters(recurse=False), None) is not None


def odd_sizes(layer: nn.Module) -> dict[str, int]:
    """Sizes of a layer that are large and no multiple of 8."""
    found = {name: getattr(layer, name, None) for name in SIZES}
    return {
        name: size
        for name, size in found.items()
        if isinstance(size, int) and size > LARGE and size % MULTIPLE
    }


def statistics(tensor: torch.Tensor) -> InputStatistics | None:
    """Smallest and largest value of a batch (N, features or channels, ...), and whether all whole.

    None for integers, for a single sample, and for samples smaller than any picture.
    """
    if not tensor.is_floating_point() or tensor.dim() < 2 or tensor.shape[0] < 2:
        return None
    if tensor[0].numel() < PICTURE:
        return None
    with torch.no_grad():
        some = tensor.detach()[: max(2, ELEMENTS // max(1, tensor[0].numel()))].float()
        whole = bool((some == some.round()).all())
        return InputStatistics(float(some.min()), float(some.max()), whole)
