"""Readers write whole batches into pinned memory: what lies outside it is not pinned."""

import numpy as np
import pytest

from data.loader.making import jpeg_store, raw_store
from hotlap.common.nested import tensors
from hotlap.data import Decoder, TokenWindows
from hotlap.data.loader.arguments import reader_of
from hotlap.data.loader.images import PerImage
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.pack import pack
from hotlap.data.pack.sources import source_of
from hotlap.data.transforms import Resize

SIZED = PerImage((Resize((32, 32)),))


def windows(root):
    np.random.default_rng(0).integers(0, 60, 4000).astype("u2").tofile(root / "t.bin")
    source = source_of(root / "t.bin", "tokens", "uint16", 9)
    return TokenWindows(pack(source, root / "s", profile="tokens"), 100, documents=True)


MADE = {
    "rows": lambda root: raw_store(root)[1],
    "images": jpeg_store,
    "documents": windows,
}


@pytest.mark.parametrize("kind", MADE)
def test_all_tensors_of_a_batch_lie_in_the_buffer(tmp_path, kind):
    reader = reader_of(MADE[kind](tmp_path), SIZED, None, Decoder(), None, 0, "raise")
    buffer = np.empty(1 << 16, "u1")
    batch = reader.present(
        reader.fetch(Step(np.arange(3, 11), 0, 8), Space(buffer, pinned=True)).value
    )
    found = list(tensors(batch))
    assert len(found) > 1
    for tensor in found:
        assert 0 <= tensor.data_ptr() - buffer.ctypes.data < buffer.size


def test_a_label_that_is_kept_keeps_no_images(tmp_path):
    reader = reader_of(raw_store(tmp_path)[1], PerImage(), None, Decoder(), None, 0, "raise")
    buffer = np.empty(1 << 16, "u1")
    _, label = reader.fetch(Step(np.arange(3, 11), 0, 8), Space(buffer)).value
    assert not 0 <= label.data_ptr() - buffer.ctypes.data < buffer.size
