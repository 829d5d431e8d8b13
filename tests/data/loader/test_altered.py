"""A store that was altered: an error, or the right samples, never wrong ones."""

import random

import numpy as np
import pytest

from data.loader.making import jpeg_store, raw_store
from hotlap.data import Loader, Store
from hotlap.data.errors import StoreError
from hotlap.data.transforms import Resize

FLIPS = 200


def _batches(path, **how):
    return [[part.numpy().copy() for part in batch] for batch in Loader(Store(path), 8, **how)]


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_no_flipped_bit_reaches_the_model(tmp_path, kind):
    store = raw_store(tmp_path)[1] if kind == "raw" else jpeg_store(tmp_path)
    how = {"shuffle": True, "workers": 0, "transform": Resize((8, 8)), "on_error": "replace"}
    right = _batches(store.path, **how)
    rng = random.Random(3)
    paths = sorted(path for path in store.path.iterdir() if path.stat().st_size)
    reported = 0
    for trial in range(FLIPS):
        path = paths[trial % len(paths)]
        whole = path.read_bytes()
        at, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        try:
            got = _batches(store.path, **how)
        except StoreError:
            reported += 1
        else:
            assert path.name in {"names.tab", "name_end.tab"}  # which no batch is made of
            assert all(
                np.array_equal(a, b)
                for one, other in zip(got, right, strict=True)
                for a, b in zip(one, other, strict=True)
            )
        path.write_bytes(whole)
    assert reported > FLIPS // 2
