"""Number formats of a training run, and what each keeps."""

from enum import StrEnum
from typing import NamedTuple


class Bytes(NamedTuple):
    """Bytes a number: of weights at rest (and moments), in the passes, of gradients as reduced."""

    rest: int
    passes: int
    reduced: int


class Precision(StrEnum):
    """`mixed`: float32 weights and moments, bfloat16 in the passes. The others: one format."""

    MIXED = "mixed"
    BF16 = "bf16"
    FP32 = "fp32"

    @property
    def bytes(self) -> Bytes:
        """Bytes a number."""
        return _BYTES[self]

    @property
    def dtype(self) -> str:
        """Torch's name of the format at rest."""
        return "bfloat16" if self is Precision.BF16 else "float32"


_BYTES = {
    Precision.MIXED: Bytes(4, 2, 4),
    Precision.BF16: Bytes(2, 2, 2),
    Precision.FP32: Bytes(4, 4, 4),
}
