"""The two protocol buffer messages that data sets are kept in, read without the library.

Wire format: https://protobuf.dev/programming-guides/encoding. `tf.train.Example`: TensorFlow's
`core/example/example.proto` and `feature.proto`. `Datum`: Caffe's `caffe.proto`.
"""

import struct
from collections.abc import Iterator
from typing import Any

from hotlap.common.extras import Array, need

Feature = list[bytes] | Array


def fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of a message: an int, or a memoryview of bytes.

    Raises:
        ValueError: it is no message.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire, -1)
        if size < 0 or at + size > len(data) or not number:
            raise ValueError("is no protocol buffer message")
        yield number, data[at : at + size]
        at += size


def example(data: bytes) -> dict[str, Feature]:
    """Return the features of a `tf.train.Example`: lists of bytes, or arrays of numbers."""
    found: dict[str, Feature] = {}
    for number, features in fields(memoryview(data)):
        if number == 1:
            for _, entry in fields(features):
                parts = dict(fields(entry))
                found[bytes(parts[1]).decode()] = _feature(parts.get(2, memoryview(b"")))
    return found


def datum(data: bytes) -> dict[str, object] | None:
    """Return image and label of Caffe's `Datum`; None of anything else."""
    numpy = need("numpy")
    try:
        parts = dict(fields(memoryview(data)))
        label = _signed(parts.get(5, 0))
        if parts.get(7):
            return {"image": bytes(parts[4]), "label": label}
        shape = parts[1], parts[2], parts[3]
        pixels = numpy.frombuffer(parts[4], "u1").reshape(shape)
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return {"image": numpy.ascontiguousarray(pixels.transpose(1, 2, 0)), "label": label}


def _feature(data: memoryview) -> Feature:
    numpy = need("numpy")
    for number, values in fields(data):
        if number == 1:
            return [bytes(value) for _, value in fields(values)]
        if number == 2:
            floats = b"".join(bytes(value) for _, value in fields(values))
            array: Array = numpy.frombuffer(floats, "<f4")
            return array
        integers: list[int] = []
        for _, value in fields(values):
            integers += [value] if isinstance(value, int) else _packed(value)
        numbers: Array = numpy.array([_signed(value) for value in integers], "i8")
        return numbers
    return []


def _packed(data: memoryview) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        found.append(value)
    return found


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("is no protocol buffer message")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _signed(value: int) -> int:
    number: int = struct.unpack("<q", struct.pack("<Q", value & ((1 << 64) - 1)))[0]
    return number
