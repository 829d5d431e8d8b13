"""Functions that build models, for the tests of `hotlap plan module:function`."""

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from hotlap.parallel.dryrun.gpt import Gpt
from hotlap.parallel.dryrun.sizes import Sizes

SMALL = Sizes(4, 64, 4, 4, 256, 100, 32, gated=False, bias=True, positions=True, tied=True)
LLAMA_8B = Sizes(
    32, 4096, 32, 8, 14336, 128256, 8192, gated=True, bias=False, positions=False, tied=False
)


def gpt():
    return Gpt(SMALL)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(n_layer=3, n_embd=64, n_head=4, vocab_size=100, n_positions=32, use_cache=False)
    )


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=3,
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        vocab_size=100,
        max_position_embeddings=32,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def perceptron():
    model = nn.Sequential(nn.Linear(32, 64), *(Residual() for _ in range(5)), nn.Linear(64, 10))
    return model, (torch.zeros(1, 32),)


def images():
    block = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    return nn.Sequential(block, nn.Flatten(), nn.Linear(8 * 16 * 16, 10)), (
        torch.zeros(1, 3, 16, 16),
    )


def without_inputs():
    return nn.Linear(3, 3)


def wrong_inputs():
    return nn.Linear(3, 3), (torch.zeros(1, 4),)


def fails():
    raise KeyError("no such layer")


def ends():
    raise SystemExit(3)


def no_module():
    return 3


not_a_function = 7


def _policy(ctx, op, *args, **kwargs):
    """Torchtitan's selective recomputation: keep every second product, and attention."""
    saved = {
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
        torch.ops._c10d_functional.reduce_scatter_tensor.default,
        torch.ops.aten.max.default,
    }
    products = "recomputed" if ctx.is_recompute else "first"
    if op is torch.ops.aten.mm.default:
        COUNTS[products] += 1
    second = op is torch.ops.aten.mm.default and COUNTS[products] % 2 == 0
    keep = op in saved or (op is torch.ops.aten.mm.default and not second)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


COUNTS = {"recomputed": 0, "first": 0}


def _contexts():
    COUNTS.update(recomputed=0, first=0)
    return create_selective_checkpoint_contexts(_policy)


class Selective(nn.Module):
    """A block that keeps some of its results and computes the others again."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False, context_fn=_contexts)


def torchtitan_8b():
    model = Gpt(LLAMA_8B)
    for name, block in model.layers.items():
        model.layers[name] = Selective(block)
    return model


def cnn():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return model, (torch.zeros(1, 3, 32, 32),)


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=256
    )
    return ViTForImageClassification(config), (torch.zeros(1, 3, 224, 224),)


def gpt2_with_inputs():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=3, n_embd=64, n_head=4, vocab_size=100, n_positions=64, use_cache=False
    )
    return GPT2LMHeadModel(config), (torch.zeros(1, 48, dtype=torch.int64),)
