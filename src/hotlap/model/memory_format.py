"""Reshapes that keep images channels last, with views where the memory allows them.

In the channels-last format a tensor of shape (N, C, H, W) lies in memory as (N, H, W, C). The usual
`x.flatten(2).transpose(1, 2)` and `x.view(n, groups, ...)` then copy, or hand on a tensor in the
default format, which the next convolution has to transpose.
"""

import torch
from torch import Tensor


def is_channels_last(images: Tensor) -> bool:
    """Whether a 4-D tensor lies channels last in memory, and not in the default format."""
    last = images.is_contiguous(memory_format=torch.channels_last)
    return images.dim() == 4 and last and not images.is_contiguous()


def tokens_from_images(images: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, H * W, C), row by row; a contiguous view of a channels-last tensor.

    Raises:
        ValueError: not four dimensions.
    """
    _four(images)
    return images.permute(0, 2, 3, 1).flatten(1, 2)


def images_from_tokens(tokens: Tensor, height: int, width: int) -> Tensor:
    """(N, H * W, C) -> (N, C, H, W), channels last, a view of contiguous tokens.

    Raises:
        ValueError: the number of tokens is not `height * width`.
    """
    if tokens.dim() != 3 or tokens.shape[1] != height * width:
        raise ValueError(
            f"tokens of shape {tuple(tokens.shape)} are no images of {height} x {width} pixels; "
            f"the shape must be (N, {height * width}, C)"
        )
    return tokens.reshape(len(tokens), height, width, -1).permute(0, 3, 1, 2)


def channel_shuffle(images: Tensor, groups: int) -> Tensor:
    """Interleave the channels of `groups` groups (ShuffleNet), in the tensor's memory format.

    Output channel i * groups + g is input channel g * (C / groups) + i, as in
    `torch.nn.functional.channel_shuffle`, which returns the default format.

    Raises:
        ValueError: not four dimensions, or the channels do not come in so many groups.
    """
    _four(images)
    count, channels, height, width = images.shape
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels do not divide into {groups} groups")
    last = is_channels_last(images)
    if last:
        tokens = images.permute(0, 2, 3, 1).view(count, height, width, groups, -1)
        return tokens.transpose(3, 4).reshape(count, height, width, -1).permute(0, 3, 1, 2)
    return images.reshape(count, groups, -1, height, width).transpose(1, 2).flatten(1, 2)


def _four(images: Tensor) -> None:
    if images.dim() != 4:
        raise ValueError(f"images have four dimensions (N, C, H, W), not {tuple(images.shape)}")
