"""Changes to a model: same function in less time, or a smaller model of the same quality.

Parts for a plain PyTorch program, each usable alone.
"""

from typing import TYPE_CHECKING

from hotlap.common.lazy import lazy

if TYPE_CHECKING:
    from hotlap.model.bias import drop_bias_before_norm as drop_bias_before_norm
    from hotlap.model.distil import attention_loss as attention_loss
    from hotlap.model.distil import cache_teacher as cache_teacher
    from hotlap.model.distil import distillation_loss as distillation_loss
    from hotlap.model.distil import distilled as distilled
    from hotlap.model.distil import hidden_state_loss as hidden_state_loss
    from hotlap.model.fuse import fuse_conv_norm as fuse_conv_norm
    from hotlap.model.layers import broken_guidelines as broken_guidelines
    from hotlap.model.layers import layer_costs as layer_costs
    from hotlap.model.memory_format import channel_shuffle as channel_shuffle
    from hotlap.model.memory_format import images_from_tokens as images_from_tokens
    from hotlap.model.memory_format import tokens_from_images as tokens_from_images
    from hotlap.model.padding import pad_hidden as pad_hidden
    from hotlap.model.padding import pad_vocabulary as pad_vocabulary
    from hotlap.model.pruning import prune as prune
    from hotlap.model.pruning import pruning_schedule as pruning_schedule
    from hotlap.model.quantization import convert_qat as convert_qat
    from hotlap.model.quantization import finish_sparsity as finish_sparsity
    from hotlap.model.quantization import prepare_qat as prepare_qat
    from hotlap.model.quantization import quantize as quantize
    from hotlap.model.quantization import sparsify as sparsify
    from hotlap.model.rebuild import load_shrunk as load_shrunk

_WHERE = {
    "attention_loss": ".distil",
    "broken_guidelines": ".layers",
    "cache_teacher": ".distil",
    "channel_shuffle": ".memory_format",
    "convert_qat": ".quantization",
    "distillation_loss": ".distil",
    "distilled": ".distil",
    "drop_bias_before_norm": ".bias",
    "finish_sparsity": ".quantization",
    "fuse_conv_norm": ".fuse",
    "hidden_state_loss": ".distil",
    "images_from_tokens": ".memory_format",
    "layer_costs": ".layers",
    "load_shrunk": ".rebuild",
    "pad_hidden": ".padding",
    "pad_vocabulary": ".padding",
    "prepare_qat": ".quantization",
    "prune": ".pruning",
    "pruning_schedule": ".pruning",
    "quantize": ".quantization",
    "sparsify": ".quantization",
    "tokens_from_images": ".memory_format",
}
__all__ = list(_WHERE)
__getattr__ = lazy(__name__, _WHERE)
