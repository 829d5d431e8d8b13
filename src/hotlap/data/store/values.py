"""Values of variable length: text, JSON, bytes, arrays; as bytes and back."""

import io
import json
from collections.abc import Mapping
from typing import Any

from hotlap.common.extras import need
from hotlap.data.errors import SampleError

KINDS = ("text", "json", "bytes", "array")
ABSENT = -1
"""Length that stands for a value that is None."""


def encode(kind: str, value: Any) -> bytes | None:
    """Return the bytes of a value; None for None.

    Arrays are kept as .npy (NumPy's own format: dtype, shape, then the numbers).

    Raises:
        SampleError: the value is not of that kind.
    """
    if value is None:
        return None
    try:
        if kind == "text":
            return str.encode(value)
        if kind == "json":
            return json.dumps(value, ensure_ascii=False, default=_plain).encode()
        if kind == "bytes":
            return bytes(memoryview(value))
        buffer = io.BytesIO()
        need("numpy").save(buffer, need("numpy").asarray(value), allow_pickle=False)
        return buffer.getvalue()
    except (TypeError, ValueError) as error:
        raise SampleError(f"a {type(value).__name__} is no {kind} ({error})") from None


def decode(kind: str, data: bytes) -> object:
    """Return the value that `encode` was given."""
    if kind == "text":
        return data.decode()
    if kind == "json":
        return json.loads(data)
    if kind == "bytes":
        return data
    return need("numpy").load(io.BytesIO(data), allow_pickle=False)


def joined(columns: Mapping[str, str], values: Mapping[str, object]) -> tuple[bytes, list[int]]:
    """Return the values of one sample end to end, and the length of each (`ABSENT` for None)."""
    parts = []
    for name, kind in columns.items():
        try:
            parts.append(encode(kind, values.get(name)))
        except SampleError as error:
            raise SampleError(f"its field {name}: {error}") from None
    lengths = [ABSENT if part is None else len(part) for part in parts]
    return b"".join(part for part in parts if part), lengths


def _plain(value: object) -> object:
    """Turn NumPy's scalars and arrays into what JSON knows."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no equivalent in JSON")
