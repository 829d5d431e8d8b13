"""Facts about the script's loaders."""

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split

from hotlap.seam.probe.facts import loader_facts

TENSORS = TensorDataset(torch.arange(8.0))


class Decoded(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor(index)


class Augmented(TensorDataset):
    def __getitem__(self, index):
        return super().__getitem__(index)[0].flip(0)


@pytest.mark.parametrize(
    "dataset",
    [TENSORS, Subset(TENSORS, [1, 2]), random_split(TENSORS, [4, 4])[0], [1, 2, 3],
     ConcatDataset([TENSORS, Subset(TENSORS, [0])])],
)  # fmt: skip
def test_in_memory(dataset):
    assert loader_facts([DataLoader(dataset)])["in_memory"]


@pytest.mark.parametrize(
    "dataset",
    [Decoded(), Augmented(torch.ones(8, 2)), Subset(Decoded(), [1]),
     ConcatDataset([TENSORS, Decoded()])],
)  # fmt: skip
def test_not_in_memory(dataset):
    assert not loader_facts([DataLoader(dataset)])["in_memory"]
    assert not loader_facts([DataLoader(TENSORS), DataLoader(dataset)])["in_memory"]


def test_nothing_is_known_of_no_loader():
    assert not loader_facts([])["in_memory"]
