"""The line that a sample costs most at, looked for where workers read the samples."""

import random
import time

import pytest
import torch
from probing_help import line_of
from torch.utils.data import DataLoader, Dataset, IterableDataset

from hotlap.seam.probe.sample_lines import costliest_line

pytestmark = pytest.mark.clock


def slow(value):
    cheap = value * 2
    time.sleep(0.004)
    return cheap


class Slow(Dataset):
    def __len__(self):
        return 30

    def __getitem__(self, index):
        random.random()
        return slow(torch.tensor(float(index)))


class Stream(IterableDataset):
    def __iter__(self):
        for index in range(1000):
            time.sleep(0.003)
            yield torch.tensor(float(index))


class Broken(Slow):
    def __getitem__(self, index):
        raise OSError(index)


def test_the_line_of_the_dataset_is_named_and_random_numbers_stay():
    random.seed(7)
    state = random.getstate()
    assert costliest_line(DataLoader(Slow(), num_workers=1)) == line_of(slow, "time.sleep")
    assert random.getstate() == state
    assert costliest_line(DataLoader(Stream(), num_workers=1)) == line_of(Stream.__iter__, "sleep")


@pytest.mark.parametrize("dataset", [Broken(), torch.utils.data.TensorDataset(torch.ones(9, 1)),
                                     torch.utils.data.Subset(Slow(), [])])  # fmt: skip
def test_where_there_is_none_nothing_is_named(dataset):
    assert costliest_line(DataLoader(dataset, num_workers=1)) == ""
