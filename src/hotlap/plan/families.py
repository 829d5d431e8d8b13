"""Hugging Face's families of decoder-only transformers: what their configs are called and mean.

A `config.json` leaves out what equals the default of its class, so that the defaults stand here.
`tests/plan/test_families.py` compares every family with the parameters that transformers counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hotlap.plan.shape import Shape

Config = Mapping[str, object]
Given = bool | str  # or the name of the config's field that says so

_SIZES = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "ffn": "intermediate_size", "vocabulary": "vocab_size",
    "sequence": "max_position_embeddings", "head_dim": "head_dim", "tied": "tie_word_embeddings",
}  # fmt: skip
_GPT2 = {
    "layers": "n_layer", "hidden": "n_embd", "heads": "n_head", "ffn": "n_inner",
    "vocabulary": "vocab_size", "sequence": "n_positions", "tied": "tie_word_embeddings",
}  # fmt: skip
_BLOOM = {**_GPT2, "hidden": "hidden_size", "sequence": "seq_length"}
_NEO = {**_SIZES, "layers": "num_layers", "heads": "num_heads"}
_MPT = {
    "layers": "n_layers", "hidden": "d_model", "heads": "n_heads", "vocabulary": "vocab_size",
    "sequence": "max_seq_len", "tied": "tie_word_embeddings",
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """How a family's layers are built; `names`: our fields and what its config calls them.

    `defaults`: of the config's class, by our names. Biases: of query, key and value (`qkv_bias`),
    of attention's output, of the feed-forward layer, of the head. `norms`: a layer's norms of the
    hidden size; `norm_size`: parameters of a norm for each of its channels. `head_norms`: norms of
    queries and keys, of one head's width each or of all heads'. `offset`: rows of the table of
    positions beyond the sequence. `word_norm`: a norm behind the embedding.
    """

    names: Mapping[str, str] = field(default_factory=lambda: _SIZES)
    defaults: Mapping[str, object] = field(default_factory=dict)
    gated: bool = True
    qkv_bias: Given = False
    out_bias: Given = False
    ffn_bias: Given = False
    head_bias: bool = False
    norms: int = 2
    norm_size: int = 1
    head_norms: str = ""
    positions: bool = False
    offset: int = 0
    word_norm: bool = False

    def shape(self, config: Config, sizes: Mapping[str, Any]) -> Shape:
        """The shape from sizes by our names; a config says which biases there are."""
        kind = {"gated": self.gated, "positions": self.positions, "bias": self.norm_size == 2}
        plain = Shape(**sizes, **kind)
        query, keys, hidden = plain.query_width, plain.kv_width, plain.hidden
        layer = self.norms * self.norm_size * hidden
        layer += (query + 2 * keys) * _on(self.qkv_bias, config)
        layer += hidden * _on(self.out_bias, config)
        ups = 2 if self.gated else 1
        layer += (ups * plain.ffn_width + hidden) * _on(self.ffn_bias, config)
        layer += {"": 0, "head": 2 * plain.head_width, "all": query + keys}[self.head_norms]
        head = self.norm_size * hidden if self.norms else 0
        head += plain.vocabulary if self.head_bias else 0
        words = self.norm_size * hidden if self.word_norm else 0
        return replace(
            plain,
            layer_rest=-1 if layer == plain.layer_parameters - plain.layer_matrices else layer,
            head_rest=-1 if head == self.norm_size * hidden else head,
            beside=words + self.offset * hidden,
        )


def _on(given: Given, config: Config) -> bool:
    return bool(config.get(given, False)) if isinstance(given, str) else given


_UNTIED: Mapping[str, object] = {"tied": False}
_LLAMA = Family(
    defaults=_UNTIED, qkv_bias="attention_bias", out_bias="attention_bias", ffn_bias="mlp_bias"
)
_GEMMA = {"tied": True, "head_dim": 256}
_LAYER_NORM: Mapping[str, Any] = {"gated": False, "norm_size": 2}
_BIASED: Mapping[str, Any] = {
    **_LAYER_NORM, "qkv_bias": True, "out_bias": True, "ffn_bias": True
}  # fmt: skip

FAMILIES: Mapping[str, Family] = {
    "bloom": Family(names=_BLOOM, word_norm=True, **_BIASED),
    "codegen": Family(names=_GPT2, defaults=_UNTIED, ffn_bias=True, head_bias=True, norms=1,
                      **_LAYER_NORM),
    "cohere": Family(norms=1),
    "gemma": Family(defaults=_GEMMA, qkv_bias="attention_bias", out_bias="attention_bias"),
    "gemma2": Family(defaults=_GEMMA, norms=4, qkv_bias="attention_bias",
                     out_bias="attention_bias"),
    "gemma3_text": Family(defaults=_GEMMA, norms=4, head_norms="head", qkv_bias="attention_bias",
                          out_bias="attention_bias"),
    "glm": Family(defaults={"tied": False, "head_dim": 128}, qkv_bias="attention_bias"),
    "glm4": Family(defaults={"tied": False, "head_dim": 128}, qkv_bias="attention_bias", norms=4),
    "gpt2": Family(names=_GPT2, positions=True, **_BIASED),
    "gpt_bigcode": Family(names=_GPT2, positions=True, defaults={"kv_heads": 1}, **_BIASED),
    "gpt_neo": Family(names=_NEO, positions=True, out_bias=True, ffn_bias=True, **_LAYER_NORM),
    "gpt_neox": Family(defaults=_UNTIED, **_BIASED),
    "gptj": Family(names=_GPT2, defaults=_UNTIED, ffn_bias=True, head_bias=True, norms=1,
                   **_LAYER_NORM),
    "granite": _LLAMA,
    "helium": Family(defaults={"tied": False, "head_dim": 128}, qkv_bias="attention_bias",
                     out_bias=False, ffn_bias="mlp_bias"),
    "llama": _LLAMA,
    "mistral": Family(defaults=_UNTIED),
    "mpt": Family(names=_MPT, gated=False),
    "nemotron": Family(defaults=_UNTIED, qkv_bias="attention_bias", out_bias="attention_bias",
                       ffn_bias="mlp_bias", **_LAYER_NORM),
    "olmo": Family(defaults=_UNTIED, norms=0, qkv_bias="attention_bias",
                   out_bias="attention_bias"),
    "olmo2": Family(defaults=_UNTIED, head_norms="all", qkv_bias="attention_bias",
                    out_bias="attention_bias"),
    "opt": Family(names={**_SIZES, "ffn": "ffn_dim"}, positions=True, offset=2, **_BIASED),
    "phi": Family(defaults=_UNTIED, head_bias=True, norms=1, **_BIASED),
    "phi3": Family(defaults=_UNTIED),
    "qwen2": Family(defaults=_UNTIED, qkv_bias=True),
    "qwen3": Family(defaults={"tied": False, "head_dim": 128}, head_norms="head",
                    qkv_bias="attention_bias", out_bias="attention_bias"),
    "smollm3": Family(qkv_bias="attention_bias", out_bias="attention_bias", ffn_bias="mlp_bias"),
    "stablelm": Family(defaults=_UNTIED, qkv_bias="use_qkv_bias", norm_size=2),
    "starcoder2": Family(**_BIASED),
}  # fmt: skip
