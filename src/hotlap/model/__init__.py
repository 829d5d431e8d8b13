"""Changes to a model: same function in less time, or a smaller model of the same quality.

Parts for a plain PyTorch program, each usable alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.model.bias import drop_bias_before_norm as drop_bias_before_norm
    from hotlap.model.fuse import fuse_conv_norm as fuse_conv_norm
    from hotlap.model.layers import broken_guidelines as broken_guidelines
    from hotlap.model.layers import layer_costs as layer_costs
    from hotlap.model.memory_format import channel_shuffle as channel_shuffle
    from hotlap.model.memory_format import images_from_tokens as images_from_tokens
    from hotlap.model.memory_format import tokens_from_images as tokens_from_images
    from hotlap.model.padding import pad_hidden as pad_hidden
    from hotlap.model.padding import pad_vocabulary as pad_vocabulary

_WHERE = {
    "broken_guidelines": "layers",
    "channel_shuffle": "memory_format",
    "drop_bias_before_norm": "bias",
    "fuse_conv_norm": "fuse",
    "images_from_tokens": "memory_format",
    "layer_costs": "layers",
    "pad_hidden": "padding",
    "pad_vocabulary": "padding",
    "tokens_from_images": "memory_format",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """Import a part when it is first asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
