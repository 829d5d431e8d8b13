"""As many samples as ImageNet has: what opening holds in memory, and that all are there."""

import tracemalloc

import numpy as np
import pytest

from hotlap.data import Loader, Store
from hotlap.data.store.publish import partial_of, publish
from hotlap.data.store.shard import ShardWriter

SHARDS = 8


def tiny(target, count):
    """Rows of 8 bytes that say which sample they are, named as ImageNet's files."""
    folder = partial_of(target)
    folder.mkdir()
    rows = np.arange(count).view("u1").reshape(count, 8)
    for shard in range(SHARDS):
        with ShardWriter(folder, shard) as writer:
            for index in range(shard * count // SHARDS, (shard + 1) * count // SHARDS):
                writer.add(
                    rows[index], f"n01440764/n01440764_{index}.JPEG", {"label": index % 1000}
                )
    publish(target, SHARDS, "raw")


@pytest.mark.parametrize(
    "count", [60_000, pytest.param(1_280_000, marks=pytest.mark.slow)], ids=["short", "ImageNet"]
)
def test_opening_keeps_arrays_only_and_every_sample_is_found(tmp_path, count):
    tiny(tmp_path / "s", count)
    tracemalloc.start()
    try:
        store = Store(tmp_path / "s")
        loader = Loader(store, 256, shuffle=True, workers=0)
        rows, labels = next(iter(loader))
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 80 * count + 1_000_000
    assert most < 160 * count + 1_000_000
    ids = rows.numpy().reshape(256, 8).view("i8")[:, 0]
    assert ids.tolist() == loader._plan().order(0)[:256].tolist()
    assert labels.tolist() == (ids % 1000).tolist()
    for index in (0, count // SHARDS, count - 1):
        assert store.name(index) == f"n01440764/n01440764_{index}.JPEG"
        assert int.from_bytes(store.payload(index), "little") == index
