"""Hugging Face configs: the planner's parameters are those of the model that transformers builds.

The values are the published ones of one model a family; what equals the default of its config's
class is left out, as `save_pretrained` leaves it out. Depth does not matter and is cut to two.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.plan.families import FAMILIES
from hotlap.plan.reading import hugging_face, read_shape


def sizes(hidden: int, heads: int, ffn: int, vocabulary: int, **others: Any) -> dict[str, Any]:
    return {
        "hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": ffn,
        "vocab_size": vocabulary, "num_hidden_layers": 2, "max_position_embeddings": 2048, **others,
    }  # fmt: skip


PUBLISHED = {
    "bloom": {"hidden_size": 1024, "n_layer": 2, "n_head": 16, "vocab_size": 250880,
              "seq_length": 2048},
    "codegen": {"n_embd": 1024, "n_layer": 2, "n_head": 16, "vocab_size": 51200,
                "n_positions": 2048, "rotary_dim": 32},
    "cohere": sizes(8192, 64, 22528, 256000, num_key_value_heads=64),
    "gemma": sizes(3072, 16, 24576, 256000, num_key_value_heads=16),
    "gemma2": sizes(2304, 8, 9216, 256000, num_key_value_heads=4),
    "gemma3_text": sizes(1152, 4, 6912, 262144, num_key_value_heads=1),
    "glm": sizes(4096, 32, 13696, 151552, num_key_value_heads=2, attention_bias=True),
    "glm4": sizes(4096, 32, 13696, 151552, num_key_value_heads=2, attention_bias=True),
    "gpt2": {"n_embd": 768, "n_layer": 2, "n_head": 12, "vocab_size": 50257, "n_positions": 1024},
    "gpt_bigcode": {"n_embd": 2048, "n_layer": 2, "n_head": 16, "vocab_size": 49280,
                    "n_positions": 2048, "n_inner": 8192},
    "gpt_neo": {"hidden_size": 768, "num_layers": 2, "num_heads": 12, "vocab_size": 50257,
                "max_position_embeddings": 2048, "attention_types": [[["global", "local"], 1]]},
    "gpt_neox": sizes(512, 8, 2048, 50304),
    "gptj": {"n_embd": 4096, "n_layer": 2, "n_head": 16, "vocab_size": 50400, "n_positions": 2048,
             "rotary_dim": 64},
    "granite": sizes(2048, 32, 8192, 49155, num_key_value_heads=8, tie_word_embeddings=True),
    "helium": sizes(2560, 20, 7040, 48000, num_key_value_heads=20),
    "llama": sizes(2048, 32, 8192, 128256, num_key_value_heads=8, tie_word_embeddings=True),
    "mistral": sizes(5120, 32, 14336, 131072, num_key_value_heads=8, head_dim=128),
    "mpt": {"d_model": 4096, "n_layers": 2, "n_heads": 32, "vocab_size": 50432,
            "max_seq_len": 2048},
    "nemotron": sizes(3072, 24, 9216, 256000, num_key_value_heads=8, head_dim=128),
    "olmo": sizes(2048, 16, 8192, 50304, num_key_value_heads=16, tie_word_embeddings=True),
    "olmo2": sizes(4096, 32, 11008, 100352, num_key_value_heads=32),
    "opt": {"hidden_size": 768, "num_attention_heads": 12, "ffn_dim": 3072, "vocab_size": 50272,
            "num_hidden_layers": 2, "max_position_embeddings": 2048, "word_embed_proj_dim": 768},
    "phi": sizes(2560, 32, 10240, 51200),
    "phi3": sizes(3072, 32, 8192, 32064, num_key_value_heads=32),
    "qwen2": sizes(896, 14, 4864, 151936, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": sizes(1024, 16, 3072, 151936, num_key_value_heads=8, tie_word_embeddings=True),
    "smollm3": sizes(2048, 16, 11008, 128256, num_key_value_heads=4),
    "stablelm": sizes(2560, 32, 6912, 50304, num_key_value_heads=32),
    "starcoder2": sizes(3072, 24, 12288, 49152, num_key_value_heads=2),
}  # fmt: skip


def test_every_family_is_compared() -> None:
    assert PUBLISHED.keys() == FAMILIES.keys()
    assert len(FAMILIES) >= 20


@pytest.mark.parametrize("kind", sorted(PUBLISHED))
def test_parameters_are_those_of_transformers(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, **PUBLISHED[kind])
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    shape = hugging_face({"model_type": kind, **PUBLISHED[kind]}, kind)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert shape.parameters == hugging_face(config.to_dict(), kind).parameters


@pytest.mark.parametrize(
    ("kind", "layers", "others", "published"),
    [
        ("qwen3", 28, {"max_position_embeddings": 40960}, 596_049_920),  # Qwen3-0.6B
        ("mistral", 40, {"max_position_embeddings": 1024000}, 12_247_782_400),  # Mistral-Nemo
        ("gemma", 28, {"max_position_embeddings": 8192}, 8_537_680_896),  # Gemma-7B
    ],
)
def test_whole_models_have_their_published_size(
    kind: str, layers: int, others: dict[str, Any], published: int, tmp_path: Path
) -> None:
    values = {"model_type": kind, **PUBLISHED[kind], **others, "num_hidden_layers": layers}
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert read_shape(str(tmp_path)).parameters == published
