"""The shape of a transformer: what memory, FLOPs and communication follow from."""

from dataclasses import dataclass

from hotlap.core.errors import UsageError


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer.

    `kv_heads`: key and value heads (0: as many as heads). `ffn`: width of the feed-forward layer
    (0: four times hidden). `gated`: a third feed-forward matrix (SwiGLU). `bias`: linear layers
    and norms have one. `positions`: learned positions. `tied`: the head shares the embedding.
    `head_dim`: width of a head (0: hidden over heads). `layer_rest`, `head_rest`: parameters of a
    layer that are no matrices, and of the final norm and the head's bias (-1: as `bias` says);
    `beside`: others outside the layers.
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
    head_dim: int = 0
    layer_rest: int = -1
    head_rest: int = -1
    beside: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no transformer.

        Raises:
            UsageError: a size below 1, or heads that do not divide the hidden size.
        """
        for name in ("layers", "hidden", "heads", "vocabulary", "sequence"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.hidden % self.heads and not self.head_dim:
            raise UsageError(f"{self.heads} heads do not divide a hidden size of {self.hidden}")

    @property
    def kv_width(self) -> int:
        """Columns of the key projection."""
        return (self.kv_heads or self.heads) * self.head_width

    @property
    def head_width(self) -> int:
        """Columns of one head."""
        return self.head_dim or self.hidden // self.heads

    @property
    def query_width(self) -> int:
        """Columns of the query projection."""
        return self.heads * self.head_width

    @property
    def ffn_width(self) -> int:
        """Columns of the first feed-forward matrix."""
        return self.ffn or 4 * self.hidden

    @property
    def unit(self) -> str:
        """What a step's speed is counted in."""
        return "tokens"

    @property
    def whole(self) -> str:
        """Why it can only be copied and sharded, not cut up or recomputed; empty: it can."""
        return ""

    @property
    def split_by_tensor(self) -> dict[str, int]:
        """What tensor ranks share, each evenly."""
        return {
            "the heads": self.heads,
            "the key and value heads": self.kv_heads or self.heads,
            "the feed-forward width": self.ffn_width,
            "the sequence": self.sequence,
            "the vocabulary": self.vocabulary,
        }

    @property
    def layer_matrices(self) -> int:
        """Weights of one layer's matrices."""
        attention = self.hidden * (2 * self.query_width + 2 * self.kv_width)
        return attention + self.hidden * self.ffn_width * (3 if self.gated else 2)

    @property
    def layer_parameters(self) -> int:
        """All parameters of one layer: matrices, biases, two norms."""
        if self.layer_rest >= 0:
            return self.layer_matrices + self.layer_rest
        biases = self.query_width + 2 * self.kv_width + self.ffn_width + 2 * self.hidden
        norms = 2 * self.hidden * (2 if self.bias else 1)
        return self.layer_matrices + norms + (biases if self.bias else 0)

    @property
    def embedding_parameters(self) -> int:
        """Token embedding, learned positions, and what else is outside of layers and head."""
        rows = self.vocabulary + (self.sequence if self.positions else 0)
        return self.hidden * rows + self.beside

    @property
    def head_parameters(self) -> int:
        """Final norm, and the output matrix where it is not the embedding."""
        own = 0 if self.tied else self.vocabulary * self.hidden
        norm = self.hidden * (2 if self.bias else 1)
        return own + (self.head_rest if self.head_rest >= 0 else norm)

    @property
    def parameters(self) -> int:
        """All of them."""
        return (
            self.layers * self.layer_parameters + self.embedding_parameters + self.head_parameters
        )

    def layer_flops(self, rows: int) -> float:
        """Forward FLOPs of a layer over so many sequences."""
        return 2.0 * rows * self.sequence * self.layer_matrices + self.attention_flops(rows)

    def attention_flops(self, rows: int) -> float:
        """The two products of the attention core, without the causal half."""
        return 4.0 * rows * self.sequence**2 * self.query_width

    def last_flops(self, rows: int) -> float:
        """A layer's last product."""
        return 2.0 * rows * self.sequence * self.hidden * self.ffn_width

    def head_flops(self, rows: int) -> float:
        """The product with the vocabulary."""
        return 2.0 * rows * self.sequence * self.hidden * self.vocabulary

    def message(self, rows: int) -> float:
        """Numbers that a layer hands on."""
        return float(rows * self.sequence * self.hidden)

    def logits(self, rows: int) -> float:
        """Numbers that the head gives."""
        return float(rows * self.sequence * self.vocabulary)

    def block_bytes(self, rows: int, ranks: int, number: int) -> float:
        """What a layer keeps on each of so many tensor ranks, with numbers of so many bytes."""
        tokens, h = rows * self.sequence, self.hidden
        feed = (4 if self.gated else 2) * self.ffn_width
        heads = 2 * self.query_width + 2 * self.kv_width
        width = 2 * h / ranks + 2 * h + (heads + feed) / ranks
        scales = 4 * tokens * self.heads / ranks  # one number a token and head, of the softmax
        return number * tokens * width + scales

    def working_bytes(self, rows: int, ranks: int, number: int) -> float:
        """Gradients on their way through one layer."""
        width = 2 * self.hidden + 2 * self.ffn_width / ranks
        return rows * self.sequence * width * number


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
