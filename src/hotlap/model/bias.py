"""No bias in a layer whose output only a batch normalisation reads.

The normalisation subtracts each channel's mean, and with it the bias: in training it has no effect
at all, in evaluation it is part of `running_mean`. So the bias moves into `running_mean`
(mean - bias), and the function stays the same up to rounding.
"""

from functools import partial

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from hotlap.model.chains import Chain, chains


def drop_bias_before_norm(model: nn.Module) -> list[str]:
    """Remove, in place, every bias that a batch normalisation takes away again.

    Call it before the optimizer is made. Checkpoints saved with the bias still load: a hook folds
    the bias into `running_mean` as they are read. Layers used twice, with hooks of their own, or
    with another reader of their output keep their bias.

    Returns:
        The names of the layers that lost their bias.
    """
    modules = dict(model.named_modules())
    changed = []
    for pair in chains(model):
        layer, norm = modules[pair.first], modules[pair.second]
        weighted = isinstance(layer, _ConvNd | nn.Linear) and layer.bias is not None
        if not (weighted and isinstance(norm, _BatchNorm)):
            continue
        if norm.running_mean is not None:
            norm.running_mean -= layer.bias.detach().to(norm.running_mean.dtype)
        layer.register_parameter("bias", None)
        hook = partial(_fold_loaded, pair)
        model.register_load_state_dict_pre_hook(hook)  # type: ignore[no-untyped-call]
        changed.append(pair.first)
    return changed


def _fold_loaded(
    pair: Chain, module: nn.Module, state_dict: dict[str, torch.Tensor], prefix: str, *_: object
) -> None:
    """A state dict with the bias becomes one without it; the caller's own is left as it is.

    `load_state_dict` hands its hooks a copy of the mapping, so keys may go and tensors must stay.
    """
    bias = state_dict.pop(f"{prefix}{pair.first}.bias", None)
    mean = f"{prefix}{pair.second}.running_mean"
    if isinstance(bias, torch.Tensor) and mean in state_dict:
        kept = state_dict[mean]
        state_dict[mean] = kept - bias.to(kept.device, kept.dtype)
