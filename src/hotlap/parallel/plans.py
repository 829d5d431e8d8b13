"""Ready tensor-parallel plans: which layers of a known layout share their columns or rows.

A plan maps names, with `*` for one part of a name, to styles of torch.distributed.tensor.parallel.
What no plan names is replicated. Attention is to find its number of heads from what its matrices
give (`view(batch, time, -1, head_width)`), as a rank computes a share of the heads.
"""

from collections.abc import Callable, Mapping

from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel
from torch.distributed.tensor.parallel.style import ParallelStyle

from hotlap.parallel.fused_columns import FusedColwise
from hotlap.parallel.parallelism import Parallelism
from hotlap.parallel.styles import Conv1DColwise, Conv1DRowwise, Divided, replicated_input

Plan = dict[str, ParallelStyle]


def gpt(parallelism: Parallelism) -> Plan:
    """A pre-norm GPT.

    `tok`, `layers.*` with `norm1`, `attention` of `q` `k` `v` `o`, `norm2`, `mlp` of `up` `down`
    (and `gate`), then `norm`, `head`. Positions (`pos`) and anything else are replicated.
    """
    block: Plan = {
        "attention.q": ColwiseParallel(),
        "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(),
        "mlp.up": ColwiseParallel(),
        "mlp.gate?": ColwiseParallel(),
        **_rows(parallelism, "attention.o", "mlp.down"),
        **_inputs(parallelism, {"attention": "", "mlp": ""}),
        **_norms(parallelism, "norm1", "norm2"),
    }
    return {
        "tok": RowwiseParallel(input_layouts=Replicate()),
        **_each("layers.*", block),
        **_ends(parallelism, first="layers.0", norm="norm", head="head"),
    }


def llama(parallelism: Parallelism) -> Plan:
    """Hugging Face's LlamaForCausalLM, and the models laid out as it is (Mistral, Qwen2)."""
    block: Plan = {
        **{f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
        "mlp.gate_proj": ColwiseParallel(),
        "mlp.up_proj": ColwiseParallel(),
        **_rows(parallelism, "self_attn.o_proj", "mlp.down_proj"),
        **_inputs(parallelism, {"self_attn": "hidden_states", "mlp": ""}),
        **_norms(parallelism, "input_layernorm", "post_attention_layernorm"),
    }
    return {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        **_each("model.layers.*", block),
        **_ends(parallelism, first="model.layers.0", norm="model.norm", head="lm_head"),
    }


def gpt2(parallelism: Parallelism) -> Plan:
    """Hugging Face's GPT2LMHeadModel.

    Raises:
        ValueError: sequence parallelism, which its embedding dropout and tied head do not allow.
    """
    if parallelism.sequence_parallel:
        raise ValueError("the gpt2 plan has no sequence parallelism: leave sequence_parallel off")
    block: Plan = {
        "attn": Divided("split_size", "num_heads"),
        "attn.c_attn": FusedColwise(3),
        "attn.c_proj": Conv1DRowwise(),
        "mlp.c_fc": Conv1DColwise(),
        "mlp.c_proj": Conv1DRowwise(),
    }
    head = _head(parallelism, Replicate())
    return {
        "transformer.wte": RowwiseParallel(input_layouts=Replicate()),
        **_each("transformer.h.*", block),
        "lm_head": head,
    }


def vit(parallelism: Parallelism) -> Plan:
    """A vision transformer as in timm.

    `blocks.*` with `attn` of `qkv` and `proj`, `mlp` of `fc1` and `fc2`.

    Raises:
        ValueError: sequence or loss parallelism: a class token leaves patches that cannot be shared
            evenly, and the head is small.
    """
    if parallelism.sequence_parallel or parallelism.loss_parallel:
        raise ValueError("the vit plan has neither sequence_parallel nor loss_parallel")
    block: Plan = {
        "attn": Divided("num_heads", "attn_dim"),
        "attn.qkv": FusedColwise(3),
        "attn.proj": RowwiseParallel(),
        "mlp.fc1": ColwiseParallel(),
        "mlp.fc2": RowwiseParallel(),
    }
    return _each("blocks.*", block)


PLANS: Mapping[str, Callable[[Parallelism], Plan]] = {
    "gpt": gpt,
    "gpt2": gpt2,
    "llama": llama,
    "vit": vit,
}


def pair(first: str, second: str) -> Plan:
    """A column-parallel layer and a row-parallel one after it: one all-reduce for the two.

    Between them, each rank has its columns of the first one's output.
    """
    return {first: ColwiseParallel(), second: RowwiseParallel()}


def _each(prefix: str, block: Plan) -> Plan:
    return {f"{prefix}.{name}": style for name, style in block.items()}


def _rows(parallelism: Parallelism, *names: str) -> Plan:
    layout = Shard(1) if parallelism.sequence_parallel else Replicate()
    return {name: RowwiseParallel(output_layouts=layout) for name in names}


def _norms(parallelism: Parallelism, *names: str) -> Plan:
    return {name: SequenceParallel() for name in names} if parallelism.sequence_parallel else {}


def _inputs(parallelism: Parallelism, names: Mapping[str, str]) -> Plan:
    layout = Shard(1) if parallelism.sequence_parallel else Replicate()
    return {name: replicated_input(word, layout=layout) for name, word in names.items()}


def _ends(parallelism: Parallelism, *, first: str, norm: str, head: str) -> Plan:
    """Where the sequence is cut up and put together again, and the head."""
    if not parallelism.sequence_parallel:
        return {head: _head(parallelism, Replicate())}
    return {
        f"{first}": replicated_input(desired=Shard(1), local=True),
        norm: SequenceParallel(),
        head: _head(parallelism, Shard(1)),
    }


def _head(parallelism: Parallelism, layout: Placement) -> ColwiseParallel:
    if parallelism.loss_parallel:
        return ColwiseParallel(
            input_layouts=layout, output_layouts=Shard(-1), use_local_output=False
        )
    return ColwiseParallel(input_layouts=layout, output_layouts=Replicate())
