"""The shape of a transformer: what memory, FLOPs and communication follow from."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hotlap.core.errors import UsageError


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer.

    `kv_heads`: key and value heads (0: as many as heads). `ffn`: width of the feed-forward layer
    (0: four times hidden). `gated`: a third feed-forward matrix (SwiGLU). `bias`: linear layers
    and norms have one. `positions`: learned positions. `tied`: the head shares the embedding.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    kv_heads: int = 0
    ffn: int = 0
    gated: bool = False
    bias: bool = True
    positions: bool = True
    tied: bool = True

    def __post_init__(self) -> None:
        """Refuse what is no transformer.

        Raises:
            UsageError: a size below 1, or heads that do not divide the hidden size.
        """
        for name in ("layers", "hidden", "heads", "vocabulary", "sequence"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.hidden % self.heads:
            raise UsageError(f"{self.heads} heads do not divide a hidden size of {self.hidden}")

    @property
    def kv_width(self) -> int:
        """Columns of the key projection."""
        return (self.kv_heads or self.heads) * (self.hidden // self.heads)

    @property
    def ffn_width(self) -> int:
        """Columns of the first feed-forward matrix."""
        return self.ffn or 4 * self.hidden

    @property
    def layer_matrices(self) -> int:
        """Weights of one layer's matrices."""
        attention = self.hidden * (2 * self.hidden + 2 * self.kv_width)
        return attention + self.hidden * self.ffn_width * (3 if self.gated else 2)

    @property
    def layer_parameters(self) -> int:
        """All parameters of one layer: matrices, biases, two norms."""
        biases = 2 * self.hidden + 2 * self.kv_width + self.ffn_width + self.hidden
        norms = 2 * self.hidden * (2 if self.bias else 1)
        return self.layer_matrices + norms + (biases if self.bias else 0)

    @property
    def embedding_parameters(self) -> int:
        """Token embedding, and learned positions."""
        return self.hidden * (self.vocabulary + (self.sequence if self.positions else 0))

    @property
    def head_parameters(self) -> int:
        """Final norm, and the output matrix where it is not the embedding."""
        own = 0 if self.tied else self.vocabulary * self.hidden
        return own + self.hidden * (2 if self.bias else 1)

    @property
    def parameters(self) -> int:
        """All of them."""
        return (
            self.layers * self.layer_parameters + self.embedding_parameters + self.head_parameters
        )


KNOWN = {
    "gpt2": Shape(12, 768, 12, 50257, 1024),
    "gpt3-175b": Shape(96, 12288, 96, 51200, 2048),
    "gpt-145b": Shape(80, 12288, 96, 51200, 2048),
    "gpt-530b": Shape(105, 20480, 128, 51200, 2048),
    "gpt-1t": Shape(128, 25600, 160, 51200, 2048),
    "llama3-8b": Shape(32, 4096, 32, 128256, 8192, 8, 14336, gated=True, bias=False,
                       positions=False, tied=False),
    "llama3-70b": Shape(80, 8192, 64, 128256, 8192, 8, 28672, gated=True, bias=False,
                        positions=False, tied=False),
}  # fmt: skip

_LLAMA = {
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "intermediate_size": "ffn",
    "vocab_size": "vocabulary",
    "max_position_embeddings": "sequence",
    "tie_word_embeddings": "tied",
}
_GPT2 = {
    "n_layer": "layers",
    "n_embd": "hidden",
    "n_head": "heads",
    "n_inner": "ffn",
    "vocab_size": "vocabulary",
    "n_positions": "sequence",
}
_PLAIN = {"llama", "mistral", "qwen2", "qwen3", "gemma", "phi3"}


def read_shape(name: str) -> Shape:
    """A known model's name, a Hugging Face `config.json`, or a TOML file with `Shape`'s fields.

    Raises:
        UsageError: neither a known name nor a readable file, or a field is missing or unknown.
    """
    if name in KNOWN:
        return KNOWN[name]
    path = Path(name)
    if not path.is_file():
        known = ", ".join(KNOWN)
        raise UsageError(f"{name!r} is no model that is known, and no file", f"known: {known}")
    try:
        if path.suffix == ".toml":
            return _own(tomllib.loads(path.read_text("utf-8")), path)
        return _hugging_face(json.loads(path.read_text("utf-8")), path)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _own(table: Mapping[str, Any], path: Path) -> Shape:
    known = {field.name for field in fields(Shape)}
    if unknown := sorted(set(table) - known):
        raise UsageError(f"{path} has {unknown[0]!r}", f"known: {', '.join(sorted(known))}")
    return _made(dict(table), path)


def _hugging_face(config: Mapping[str, Any], path: Path) -> Shape:
    kind = config.get("model_type", "")
    if kind == "gpt2":
        return _made(_renamed(config, _GPT2), path)
    if kind in _PLAIN:
        given = _renamed(config, _LLAMA)
        given = {"tied": False, **given, "gated": True, "bias": False, "positions": False}
        return _made(given, path)
    raise UsageError(
        f"{path} is of the type {kind!r}, which is not known here",
        "write layers, hidden, heads, vocabulary, sequence into a .toml file",
    )


def _renamed(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        ours: config[theirs] for theirs, ours in names.items() if config.get(theirs) is not None
    }


def _made(given: dict[str, Any], path: Path) -> Shape:
    try:
        return Shape(**given)
    except TypeError as error:
        raise UsageError(f"{path}: {str(error).replace('Shape.__init__() ', '')}") from None
