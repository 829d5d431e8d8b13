import random

import numpy as np
import pytest
from PIL import Image

from data.images import encoded, photo
from hotlap.data.decode.device import plain_size

PHOTO = photo(3, 97, 131)
WHOLE = encoded(PHOTO)
END = b"\xff\xd9"


@pytest.mark.parametrize(
    "data",
    [
        WHOLE,
        encoded(PHOTO, subsampling=0),
        encoded(PHOTO, subsampling=1),
        encoded(PHOTO, optimize=True, restart_marker_rows=1),
        encoded(PHOTO, mode="L"),
        encoded(PHOTO, comment=b"\xff\xc2" * 40),
        encoded(PHOTO, icc_profile=bytes(range(256)) * 600),  # in several segments
        WHOLE + WHOLE[: len(WHOLE) // 2],  # a camera's preview behind it
        WHOLE[:2] + b"\xff\xff\xff" + WHOLE[2:],  # fill bytes
    ],
)
def test_plain_jpegs_give_their_size(data):
    assert plain_size(data) == (131, 97)


def _frame(marker, precision=8, components=3, ids=b"\x01\x02\x03"):
    """WHOLE with another frame header."""
    at = WHOLE.index(b"\xff\xc0")
    length = int.from_bytes(WHOLE[at + 2 : at + 4], "big")
    body = bytearray(WHOLE[at + 4 : at + 2 + length])
    body[0], body[5] = precision, components
    body[6::3] = ids
    return WHOLE[:at] + bytes([0xFF, marker]) + WHOLE[at + 2 : at + 4] + body + WHOLE[at + 19 :]


def _adobe(transform):
    segment = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00" + bytes([transform])
    return WHOLE[:2] + segment + WHOLE[2:]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xd9",
        encoded(PHOTO, "PNG"),
        encoded(PHOTO, "WEBP"),
        encoded(PHOTO, progressive=True),
        encoded(PHOTO, mode="CMYK"),
        WHOLE[:-400],  # cut short
        WHOLE[:40] + END,
        WHOLE[:4] + b"\xff\xff" + END,
        _frame(0xC1, precision=12),
        _frame(0xC3),  # lossless
        _frame(0xC9),  # arithmetic coding
        _frame(0xC0, components=2),
        _frame(0xC0, ids=b"RGB"),
        _adobe(0),
    ],
)
def test_all_else_is_left_to_the_cpu(data):
    assert plain_size(data) is None


def test_the_made_up_headers_would_be_plain_otherwise():
    assert (
        plain_size(_frame(0xC0)) == plain_size(_frame(0xC1)) == plain_size(_adobe(1)) == (131, 97)
    )


def test_no_height_in_the_frame_is_left_to_the_cpu():
    at = WHOLE.index(b"\xff\xc0") + 5
    assert plain_size(WHOLE[:at] + b"\x00\x00" + WHOLE[at + 2 :]) is None


def test_sizes_are_pils():
    rng = random.Random(1)
    for seed in range(20):
        height, width = rng.randint(1, 300), rng.randint(1, 300)
        pixels = np.full((height, width, 3), seed, np.uint8)
        assert plain_size(encoded(pixels)) == Image.fromarray(pixels).size


def test_damage_never_raises():
    rng = random.Random(2)
    for _ in range(3000):
        data = bytearray(WHOLE[: rng.randint(0, 700)] + END)
        for _ in range(rng.randint(0, 8)):
            data[rng.randrange(len(data))] = rng.choice((0, 0xFF, 0xD8, rng.randrange(256)))
        size = plain_size(bytes(data))
        assert size is None or min(size) > 0
