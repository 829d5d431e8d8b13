"""The memory of the loader's processes from epoch to epoch."""

import numpy as np
import psutil
import pytest

from data.loader.making import jpeg_store
from hotlap.data import Loader
from hotlap.data.transforms import RandomResizedCrop

WARM, EPOCHS = 15, 20


def memory(process):
    """RSS in KiB. PSS also grows as pages that were shared on forking are written to, up to RSS."""
    return process.memory_info().rss / 1024


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_memory_does_not_grow_from_epoch_to_epoch(tmp_path, workers):
    store = jpeg_store(tmp_path, 200)
    loader = Loader(store, 8, shuffle=True, transform=RandomResizedCrop(64), workers=workers)
    me, seen = psutil.Process(), []
    for _ in range(WARM + EPOCHS):
        for _ in loader:
            pass
        seen.append(sum(memory(process) for process in [me, *me.children()]))
    loader.close()
    after = seen[WARM:]  # buffers and arenas have found their size
    assert np.polyfit(np.arange(EPOCHS), after, 1)[0] < 64
