"""What the loader's processes do with memory that they free."""

import pytest
from torch.utils.data import Dataset

from hotlap.common import heap
from hotlap.data import Loader
from hotlap.data.loader.worker import KEPT_BYTES


class Kept(Dataset[int]):
    """Gives how much freed memory the process keeps."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return heap.heap_kept()


@pytest.mark.skipif(not heap.available(), reason="this C library has no thresholds")
@pytest.mark.parametrize(("before", "expected"), [(0, KEPT_BYTES), (2**30, 2**30)])
def test_a_process_keeps_what_it_frees(monkeypatch, before, expected):
    monkeypatch.setattr(heap, "_kept", before)  # what the program itself asked for is left alone
    assert next(iter(Loader(Kept(), 4, num_workers=1))).tolist() == [expected] * 4
    assert heap.heap_kept() == before
