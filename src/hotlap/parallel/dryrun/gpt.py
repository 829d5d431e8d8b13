"""A decoder-only transformer of any size, and of a part of its layers: what a dry run runs.

Pre-norm blocks, attention by the fused kernel, no dropout; GPT-2's feed-forward layer and norms or
Llama's. Rotary positions are left out: they hold nothing for the backward pass when fused.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn import functional as F  # noqa: N812

from hotlap.parallel.dryrun.sizes import Sizes


class Gpt(nn.Module):
    """The whole model; named as the `gpt` plan of tensor parallelism expects.

    `forward` maps token ids (micro-batch, sequence) to logits; on a stage of a pipeline, from which
    `tok` or `head` have been dropped, from or to hidden states (micro-batch, sequence, hidden).
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tok = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.pos = nn.Embedding(sizes.sequence, sizes.hidden) if sizes.positions else None
        self.layers = nn.ModuleDict({str(i): Block(sizes) for i in range(sizes.layers)})
        self.norm = _norm(sizes)
        self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
        if sizes.tied:
            self.head.weight = self.tok.weight

    def forward(self, x: Tensor) -> Tensor:
        """Token ids or hidden states to hidden states or logits."""
        if _here(self.tok):
            x = self.tok(x)
        if self.pos is not None and _here(self.pos):
            x = x + self.pos(torch.arange(x.shape[1], device=x.device)[None])
        for layer in self.layers.values():
            x = layer(x)
        return self.head(self.norm(x)) if _here(self.head) else x


def _here(layer: nn.Module) -> bool:
    return next(layer.parameters(), None) is not None


class Block(nn.Module):
    """Attention and feed-forward layer, each with a norm before and a residual around it."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.norm1, self.norm2 = _norm(sizes), _norm(sizes)
        self.attention = Attention(sizes)
        self.mlp = FeedForward(sizes)

    def forward(self, x: Tensor) -> Tensor:
        """(micro-batch, sequence, hidden) to the same."""
        x = x + self.attention(self.norm1(x))
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class Attention(nn.Module):
    """Causal, by the fused kernel; under tensor parallelism each rank has its share of heads."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.head_dim = sizes.head_dim or sizes.hidden // sizes.heads
        keys, queries = (n * self.head_dim for n in (sizes.kv_heads, sizes.heads))
        self.q = nn.Linear(sizes.hidden, queries, bias=sizes.bias)
        self.k = nn.Linear(sizes.hidden, keys, bias=sizes.bias)
        self.v = nn.Linear(sizes.hidden, keys, bias=sizes.bias)
        self.o = nn.Linear(queries, sizes.hidden, bias=sizes.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(micro-batch, sequence, hidden) to the same; under tensor ranks, of this rank's heads."""
        q, k, v = (self._heads(project(x)) for project in (self.q, self.k, self.v))
        grouped = q.shape[1] != k.shape[1]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        out: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)


class FeedForward(nn.Module):
    """Two matrices around a GELU, or three around a gated SiLU."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.up = nn.Linear(sizes.hidden, sizes.ffn, bias=sizes.bias)
        self.gate = nn.Linear(sizes.hidden, sizes.ffn, bias=False) if sizes.gated else None
        self.down = nn.Linear(sizes.ffn, sizes.hidden, bias=sizes.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(micro-batch, sequence, hidden) to the same."""
        up = self.up(x)
        out: Tensor = self.down(F.gelu(up) if self.gate is None else F.silu(self.gate(x)) * up)
        return out


def _norm(sizes: Sizes) -> nn.Module:
    return nn.LayerNorm(sizes.hidden) if sizes.bias else RmsNorm(sizes.hidden)


class RmsNorm(nn.Module):
    """Keeps for the backward pass what the fused CUDA kernel keeps: its input, a number a token."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Scale each token to a mean square of one."""
        out: Tensor = _Rms.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return out


class _Rms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor) -> Tensor:
        scale = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    def backward(ctx: BackwardCFunction, *grads: Tensor) -> tuple[Tensor, Tensor]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors
        x, weight, scale = saved
        normed = x * scale
        mixed = grads[0] * weight
        share = (mixed * normed).mean(-1, keepdim=True)
        leading = tuple(range(x.dim() - 1))
        return (mixed - normed * share) * scale, (grads[0] * normed).sum(leading)
