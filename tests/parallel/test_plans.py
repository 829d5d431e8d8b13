"""The ready plans train as one process does, alone and with FSDP."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from hotlap.parallel import Parallelism, Preparation, parallelize
from parallel import farm
from parallel.vit import ViT


def vit() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    return ViT().double(), torch.randn(4, 3, 8, 8).double(), torch.randint(0, 10, (4,))


def llama() -> tuple[nn.Module, Tensor, Tensor]:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config).double(), *tokens()


def gpt2() -> tuple[nn.Module, Tensor, Tensor]:
    """A vocabulary that 2 ranks cannot share evenly, and one weight for both of its ends."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=33, n_embd=16, n_layer=2, n_head=4, n_positions=16, use_cache=False,
        resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config).double(), *tokens()


def tokens() -> tuple[Tensor, Tensor]:
    return torch.randint(0, 32, (4, 8)), torch.randint(0, 32, (4, 8))


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor, Tensor]]] = {
    "gpt2": gpt2,
    "llama": llama,
    "vit": vit,
}


def train(net: nn.Module, x: Tensor, y: Tensor, context: Any) -> dict[str, Tensor]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        with context():
            out = net(x)
            logits = out if isinstance(out, Tensor) else out.logits
            loss = nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    found: dict[str, Any] = dict(net.named_parameters())
    return {
        name: (p.full_tensor() if isinstance(p, DTensor) else p).detach()
        for name, p in found.items()
    }


def spread(name: str, layout: Parallelism, recompute: bool) -> dict[str, Tensor]:
    model, x, y = MODELS[name]()
    again = {"gpt2": "transformer.h.*", "llama": "model.layers.*", "vit": "blocks.*"}[name]
    done = parallelize(
        model,
        layout,
        tp_plan=name,
        preparation=Preparation(recompute=[again] if recompute else []),
    )
    parts = done.mesh.data_ranks
    mine = [t.chunk(parts)[done.mesh.data_rank] for t in (x, y)]
    return train(done.model, *mine, done.loss_context)


def compare(name: str, names: dict[str, Any], recompute: bool = False) -> None:
    from contextlib import nullcontext

    layout = Parallelism.of(**names)
    wanted = train(*MODELS[name](), nullcontext)
    for found in farm.run(layout.world, spread, name, layout, recompute):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            torch.testing.assert_close(found[key], value, rtol=0, atol=1e-12)


def test_vit() -> None:
    compare("vit", {"tp": 2})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("vit", {"tp": 4}),
        ("vit", {"tp": 2, "shard": 2}),
        ("llama", {"tp": 2}),
        ("llama", {"tp": 2, "sequence": True, "loss_parallel": True}),
        ("llama", {"tp": 2, "sequence": True, "shard": 2}),
        ("gpt2", {"tp": 2}),
        ("gpt2", {"tp": 4}),
        ("gpt2", {"tp": 2, "loss_parallel": True}),
        ("gpt2", {"tp": 2, "shard": 2}),
    ],
)
def test_ready_plans(name: str, names: dict[str, Any]) -> None:
    compare(name, names)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "llama", "gpt2"])
def test_ready_plans_recomputed(name: str) -> None:
    compare(name, {"tp": 2}, recompute=True)


def test_heads_that_cannot_be_shared() -> None:
    farm.run(2, odd_heads)


def odd_heads() -> None:
    with pytest.raises(ValueError, match=r"Attention\.num_heads is 3, which 2 ranks"):
        parallelize(ViT(width=12, heads=3), Parallelism.of(tp=2), tp_plan="vit")
