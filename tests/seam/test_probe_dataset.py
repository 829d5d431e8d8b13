"""The dataset that feeds the training is looked at once the steps are timed, and packed aside."""

import os
import random

import numpy as np
import pytest
import torch
from PIL import Image
from probing_help import line_of, probed
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from data.images import folder
from hotlap.common.processes import children
from hotlap.data.errors import MissingPackageError
from hotlap.seam.probe import dataset as looked
from hotlap.seam.probe.dataset import opened

SIDE = 24


class Photos(Dataset):
    def __init__(self, paths, vary=False, twice=False):
        self.paths, self.vary, self.twice = paths, vary, twice

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        if self.twice:
            Image.open(self.paths[index - 1]).load()
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.BILINEAR))
        if self.vary and random.random() < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy(pixels.transpose(2, 0, 1) / np.float32(255)), int(
            path.parent.name[-1]
        )


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("photos"), classes=2, each=16, height=60, width=80)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(looked, "SECONDS", 0.05)
    monkeypatch.setattr(
        "hotlap.seam.probe.dataset_report.LEAST", 0.0
    )  # however busy the machine is


def trained(loader, scratch, *, dataset=True, part="dataset"):
    """Train on a loader under the probe; return what was told of its dataset."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 2))
    with probed(steps=6, dataset=dataset) as session:
        object.__setattr__(session.spec, "scratch", str(scratch))
        optimizer = None
        while "profile" not in session.kinds():
            for x, y in loader:
                loss = nn.functional.cross_entropy(model(x.float()), y)
                optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return session.profile[part]


def test_files_are_named_and_read_by_turns_from_a_packed_copy(paths, tmp_path):
    data = Photos(paths)
    found = trained(DataLoader(data, batch_size=8, shuffle=True), tmp_path)
    assert found["place"] == line_of(Photos, "def __getitem__")
    assert (found["length"], found["batch_size"], found["shuffle"]) == (32, 8, True)
    assert (found["shape"], found["dtype"], found["draws"]) == ([3, SIDE, SIDE], "float32", False)
    taken = found["taken"]
    assert taken["files"] == [str(paths[index]) for index in taken["ids"]]
    assert taken["labels"] == [index // 16 for index in taken["ids"]]
    packed = found["packed"]
    assert (packed["profile"], packed["resize"]) == ("raw", [SIDE, SIDE])
    assert not packed["simpler"]
    assert packed["scaled"]
    assert packed["samples"] == len(taken["ids"]) >= looked.FEWEST
    assert packed["bytes"] == 3 * SIDE * SIDE
    assert all(own > 0 and copy > 0 for own, copy in packed["pairs"])
    assert list(tmp_path.iterdir()) == []


class Normalised(Photos):
    """Scales pixels by numbers that only its own code has."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return (image - 0.485) / 0.229, label


def test_a_scale_of_the_datasets_own_is_not_taken_for_plain_pixels(paths, tmp_path):
    found = trained(DataLoader(Normalised(paths), batch_size=8), tmp_path)
    assert not found["packed"]["scaled"]


def test_samples_that_vary_are_packed_larger_than_they_are_cut(paths, tmp_path):
    found = trained(DataLoader(Photos(paths, vary=True), batch_size=8), tmp_path)
    assert found["draws"]
    assert not found["shuffle"]
    assert (found["packed"]["profile"], found["packed"]["resize"]) == ("jpeg256", 27)
    steps = [name for name, _ in found["packed"]["transforms"]]
    assert steps == ["RandomResizedCrop", "RandomHorizontalFlip", "Normalize"]
    assert found["packed"]["simpler"]  # what its own code draws is not known


def test_a_part_of_a_dataset_is_seen_as_one(paths, tmp_path):
    found = trained(DataLoader(Subset(Photos(paths), range(2, 30)), batch_size=7), tmp_path)
    assert (found["part"], found["length"], found["kind"]) == (True, 28, "Photos")
    assert found["packed"]["samples"]


class Stream(IterableDataset):
    def __init__(self, paths):
        self.data = Photos(paths)

    def __iter__(self):
        return (self.data[index] for index in range(len(self.data)))


class Turned(Photos):
    """Holds something that no resize gives."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image.flip(1), label


class Failing(Photos):
    """Works in the loop and nowhere else."""

    def __getitem__(self, index):
        if torch.get_num_threads() == 1:
            print("looked at")
            raise RuntimeError("not here")
        return super().__getitem__(index)


def never_compared(monkeypatch):
    def fails(*_, **__):
        raise AssertionError("packed although there is nothing to compare")

    monkeypatch.setattr("hotlap.seam.probe.dataset_report.compared", fails)


def test_other_datasets_are_left_alone(paths, tmp_path, monkeypatch):
    never_compared(monkeypatch)
    rows = TensorDataset(torch.randn(64, 3, SIDE, SIDE), torch.randint(0, 2, (64,)))
    others = (Photos(paths, twice=True), Stream(paths), Photos(paths[:8]), Turned(paths))
    for data in (rows, *others):
        found = trained(DataLoader(data, batch_size=4), tmp_path)
        assert found is None or found["packed"] is None
        assert found is None or not found["failed"]


def test_a_dataset_that_fails_here_costs_no_profile(paths, tmp_path, monkeypatch, capsys):
    never_compared(monkeypatch)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = trained(DataLoader(Failing(paths), batch_size=4), tmp_path)
        assert "not here" in found["why"]
        assert torch.get_num_threads() == 2
        assert "looked at" not in capsys.readouterr().out
    finally:
        torch.set_num_threads(before)


def test_nobody_looks_unasked_or_where_nothing_waits(paths, tmp_path, monkeypatch):
    never_compared(monkeypatch)
    loader = DataLoader(Photos(paths), batch_size=8)
    assert trained(loader, tmp_path, dataset=False) is None
    monkeypatch.setattr("hotlap.seam.probe.dataset_report.LEAST", 1.1)
    assert trained(loader, tmp_path) is None


def test_a_copy_that_cannot_be_made_is_told(paths, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr("hotlap.seam.probe.packed._packed", full)
    found = trained(DataLoader(Photos(paths), batch_size=8), tmp_path)
    assert found["failed"] == "no space left"
    assert list(tmp_path.iterdir()) == []


def test_what_workers_hold_and_need_is_told(paths, tmp_path, monkeypatch):
    never_compared(monkeypatch)
    monkeypatch.setattr("hotlap.seam.probe.dataset_report.LEAST", 1.1)
    data = Photos(paths)
    data.names = [f"{number}.jpg" for number in range(20_000)]
    loader = DataLoader(data, batch_size=8, num_workers=1, persistent_workers=True)
    others = len(children(os.getpid()))  # a resource tracker, say, that a test before has started
    found = trained(loader, tmp_path, part="resources")
    assert len(found["workers"]) == others + 1
    assert all(size > 0 for series in found["workers"] for _, size in series)
    assert [entry["path"] for entry in found["objects"]] == ["names"]
    assert found["shm"]["batches"] == 3
    assert found["shm"]["batch"] == pytest.approx(8 * 3 * SIDE * SIDE * 4, rel=0.1)
    assert found["disk"] >= 0
    assert found["kept"] >= 0


def test_a_package_that_is_missing_is_told(paths, tmp_path, monkeypatch):
    def missing(*_, **__):
        raise MissingPackageError("this needs pillow, which is not installed")

    monkeypatch.setattr(looked, "fitted", missing)
    found = trained(DataLoader(Photos(paths), batch_size=8), tmp_path)
    assert found["failed"] == "this needs pillow, which is not installed"
    assert found is None or found["packed"] is None


def test_the_programs_random_numbers_stay_as_they_were(paths, tmp_path):
    loader = DataLoader(Photos(paths, vary=True), batch_size=8)
    random.seed(5)
    torch.manual_seed(5)
    before = random.getstate(), torch.get_rng_state()
    looked.seen(loader)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_files_are_heard_of_while_asked_for(paths, tmp_path):
    with opened() as files:
        paths[0].read_bytes()
        (tmp_path / "new").write_bytes(b"x")
    paths[1].read_bytes()
    assert [path for path in files if path.endswith(".jpg")] == [str(paths[0])]
    assert str(tmp_path / "new") not in files


def test_readers_that_open_files_themselves_are_heard_of(paths):
    cv2 = pytest.importorskip("cv2")
    original = cv2.imread
    with opened() as files:
        assert cv2.imread(str(paths[2])).shape == (60, 80, 3)
    assert files[-1] == str(paths[2])
    assert cv2.imread is original
