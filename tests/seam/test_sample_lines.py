"""The line that a sample costs most at, looked for where workers read the samples."""

import random
import sys
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


class Parsed(Slow):
    """Rows of numbers in text, of which pure Python makes a picture."""

    text = " ".join(str(number % 255) for number in range(2304))

    def __getitem__(self, index):
        pixels = [int(each) for each in self.text.split(" ")]
        image = torch.tensor(pixels[:48]).view(1, 6, 8).float().div_(255)
        return image.sub_(0.5).div_(0.25)


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


def test_pure_python_is_not_taken_for_the_operator_after_it():
    """An operator lets go of the interpreter's lock, which the thread that looks waits for."""
    expected = line_of(Parsed.__getitem__, "int(each)")
    interval = sys.getswitchinterval()
    assert costliest_line(DataLoader(Parsed(), num_workers=1)) == expected
    assert sys.getswitchinterval() == interval


@pytest.mark.parametrize("dataset", [Broken(), torch.utils.data.TensorDataset(torch.ones(9, 1)),
                                     torch.utils.data.Subset(Slow(), [])])  # fmt: skip
def test_where_there_is_none_nothing_is_named(dataset):
    assert costliest_line(DataLoader(dataset, num_workers=1)) == ""
