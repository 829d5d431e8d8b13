"""The memory of the loader's processes from epoch to epoch."""

from pathlib import Path

import numpy as np
import psutil
import pytest

from data.loader.making import jpeg_store
from hotlap.data import Loader
from hotlap.data.transforms import RandomResizedCrop

EPOCHS = 20


def memory(process):
    """(RSS, PSS) in KiB; PSS without libraries' files, whose share hangs on other programs."""
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
    held = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return held["Rss"], held["Pss_Anon"] + held["Pss_Shmem"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_memory_does_not_grow_from_epoch_to_epoch(tmp_path, workers):
    store = jpeg_store(tmp_path, 200)
    loader = Loader(store, 8, shuffle=True, transform=RandomResizedCrop(64), workers=workers)
    me, seen = psutil.Process(), []
    for _ in range(EPOCHS + 5):
        for _ in loader:
            pass
        seen.append(np.sum([memory(p) for p in [me, *me.children()]], axis=0))
    loader.close()
    after = np.array(seen[5:])  # buffers and arenas have found their size
    slopes = np.polyfit(np.arange(EPOCHS), after, 1)[0]
    assert (slopes < 40).all(), slopes
