"""Convolution (or linear layer) and batch normalisation as one layer, for evaluation."""

import copy

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from hotlap.model.chains import chains


def fuse_conv_norm(model: nn.Module) -> nn.Module:
    """A copy of the model, in evaluation mode, with each normalisation folded into its layer.

    In evaluation a batch normalisation is y = a x + b for each channel, with a and b fixed, and so
    part of the weight and bias of the layer before it. What is replaced becomes `nn.Identity`.
    The outputs agree up to rounding. The model itself is left as it is.

    Raises:
        ValueError: the model is in training mode, where the statistics are those of each batch.
    """
    if model.training:
        raise ValueError("the model is in training mode; call model.eval() before fusing it")
    fused = copy.deepcopy(model)
    for first, second in fusible(fused):
        layer, norm = fused.get_submodule(first), fused.get_submodule(second)
        assert isinstance(norm, _BatchNorm)
        if isinstance(layer, _ConvNd):
            transposed = isinstance(layer, _ConvTransposeNd)
            fused.set_submodule(first, fuse_conv_bn_eval(layer, norm, transpose=transposed))
        elif isinstance(layer, nn.Linear):
            fused.set_submodule(first, fuse_linear_bn_eval(layer, norm))
        fused.set_submodule(second, nn.Identity())
    return fused


def fusible(model: nn.Module) -> list[tuple[str, str]]:
    """The layers and the normalisations behind them that may become one, by name."""
    modules = dict(model.named_modules())
    return [
        (pair.first, pair.second)
        for pair in chains(model)
        if isinstance(norm := modules[pair.second], _BatchNorm)
        and norm.running_mean is not None
        and _foldable(modules[pair.first])
    ]


def _foldable(layer: nn.Module) -> bool:
    """A linear layer, or a convolution whose output channels come in one group if transposed."""
    if isinstance(layer, _ConvTransposeNd):
        return layer.groups == 1
    return isinstance(layer, _ConvNd | nn.Linear)
