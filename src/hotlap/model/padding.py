"""Sizes padded to a multiple of 8 or 64, so that matrix kernels run on whole tiles.

The function of the model stays the same: padded rows and columns are zero, get no gradient, and
the logits of padded vocabulary entries are masked. Checkpoints keep the original shapes: they are
padded as they are loaded and cut as they are saved.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from hotlap.model.chains import chains

MASKED_LOGIT = -3e4
"""Finite in float16, and its exponential is exactly zero beside any logit of use."""

Cuts = dict[str, tuple[int, int]]
"""Parameter name: the dimension that was padded, and its size before."""


class MaskedLinear(nn.Linear):
    """A linear layer whose outputs from `valid` on are `MASKED_LOGIT`, or cut off with `cut`."""

    def __init__(self, layer: nn.Linear, valid: int, *, cut: bool) -> None:
        super().__init__(1, 1, bias=False, device="meta")
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self.valid, self.cut = valid, cut
        mask = torch.zeros_like(layer.weight[:, 0]).detach()
        mask[valid:] = MASKED_LOGIT
        self.register_buffer("mask", mask, persistent=False)
        self.mask: Tensor

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - nn.Linear's own name
        """(..., in_features) -> (..., out_features), or (..., valid) with `cut`."""
        if self.cut:
            return functional.linear(input, self.weight, self.bias)[..., : self.valid]
        bias = self.mask if self.bias is None else self.bias + self.mask
        return functional.linear(input, self.weight, bias)


def pad_vocabulary(
    model: nn.Module, vocabulary: int, *, multiple: int = 64, logits: str = "masked"
) -> list[str]:
    """Pad, in place, every embedding and linear layer of `vocabulary` rows to a multiple.

    Call it before the optimizer is made. Weights that are tied stay tied.

    Args:
        model: any module with embeddings (`num_embeddings`) and output layers (`out_features`) of
            that size.
        vocabulary: the number of entries before padding.
        multiple: 64 suits A100 and newer, 8 older tensor cores.
        logits: "masked" keeps the padded width, with `MASKED_LOGIT` there; cross-entropy, its
            gradient and sampling are unchanged. "cut" returns logits of the original width, as a
            view; needed for label smoothing, which averages over all classes.

    Returns:
        The names of the layers that were padded; none if the size is a multiple already.

    Raises:
        ValueError: no layer has that many rows, or `logits` or `multiple` is unknown.
    """
    if logits not in {"masked", "cut"}:
        raise ValueError(f"logits is {logits!r}; it must be 'masked' or 'cut'")
    target = _rounded(vocabulary, multiple)
    layers = {name: m for name, m in model.named_modules() if _rows(m) == vocabulary}
    if not layers:
        raise ValueError(f"no embedding or linear layer has {vocabulary} rows")
    if target == vocabulary:
        return []
    padded: dict[int, nn.Parameter] = {}
    cuts: Cuts = {}
    for name, layer in layers.items():
        for kind, _ in layer.named_parameters(recurse=False):
            cuts[f"{name}.{kind}" if name else kind] = (0, vocabulary)
            _pad(layer, kind, 0, target, padded)
        if isinstance(layer, nn.Linear):
            layer.out_features = target
            model.set_submodule(name, MaskedLinear(layer, vocabulary, cut=logits == "cut"))
        else:
            layer.__dict__["num_embeddings"] = target
    _keep_shapes(model, cuts)
    return list(layers)


def pad_hidden(model: nn.Module, *, multiple: int = 64) -> list[tuple[str, str]]:
    """Pad, in place, the width between two linear layers to a multiple, with zeros.

    Only where element-wise operators with f(0) = 0 (ReLU, GELU, SiLU, tanh, dropout) stand between
    the two: there the padded units are zero, get no gradient, and stay zero in training.
    Call it before the optimizer is made.

    Returns:
        The names of the pairs of layers that were padded.
    """
    changed, cuts = [], Cuts()
    for pair in chains(model, through=True):
        first, second = model.get_submodule(pair.first), model.get_submodule(pair.second)
        if type(first) is not nn.Linear or type(second) is not nn.Linear:
            continue
        before, target = first.out_features, _rounded(first.out_features, multiple)
        if target == before:
            continue
        _pad(first, "weight", 0, target, {})
        _pad(first, "bias", 0, target, {})
        _pad(second, "weight", 1, target, {})
        first.out_features = second.in_features = target
        cuts[f"{pair.first}.weight"] = (0, before)
        if first.bias is not None:
            cuts[f"{pair.first}.bias"] = (0, before)
        cuts[f"{pair.second}.weight"] = (1, before)
        changed.append((pair.first, pair.second))
    _keep_shapes(model, cuts)
    return changed


def _rounded(size: int, multiple: int) -> int:
    if multiple < 1:
        raise ValueError(f"multiple is {multiple}; it must be at least 1")
    return -(-size // multiple) * multiple


def _rows(module: nn.Module) -> int:
    if type(module) is nn.Embedding:
        return module.num_embeddings
    return module.out_features if type(module) is nn.Linear else -1


def _pad(
    layer: nn.Module, name: str, dim: int, target: int, padded: dict[int, nn.Parameter]
) -> None:
    """Replace a parameter by one with zeros behind; one that is shared, by the same everywhere."""
    old = getattr(layer, name, None)
    if old is None:
        return
    if id(old) not in padded:
        new = nn.Parameter(_with_zeros(old.detach(), dim, target), old.requires_grad)
        padded[id(old)] = new
        padded[id(new)] = new
    setattr(layer, name, padded[id(old)])


def _with_zeros(tensor: Tensor, dim: int, target: int) -> Tensor:
    shape = list(tensor.shape)
    shape[dim] = target - shape[dim]
    return torch.cat([tensor, tensor.new_zeros(shape)], dim)


def _keep_shapes(model: nn.Module, cuts: Cuts) -> None:
    padding, cutting = partial(_pad_loaded, cuts), partial(_cut_saved, cuts)
    model.register_load_state_dict_pre_hook(padding)  # type: ignore[no-untyped-call]
    model.register_state_dict_post_hook(cutting)  # type: ignore[no-untyped-call]


def _pad_loaded(cuts: Cuts, module: nn.Module, state_dict: dict[str, object], prefix: str,
                *_: object) -> None:  # fmt: skip
    for name, (dim, before) in cuts.items():
        tensor = state_dict.get(prefix + name)
        if isinstance(tensor, Tensor) and tensor.shape[dim] == before:
            target = module.get_parameter(name).shape[dim]
            state_dict[prefix + name] = _with_zeros(tensor, dim, target)


def _cut_saved(cuts: Cuts, module: nn.Module, state_dict: dict[str, Tensor], prefix: str,
               *_: object) -> None:  # fmt: skip
    for name, (dim, before) in cuts.items():
        if prefix + name in state_dict:
            state_dict[prefix + name] = state_dict[prefix + name].narrow(dim, 0, before)
