"""`loader_reuse`: the same samples from workers that outlive their loader, never stale ones."""

import gc
import os
import random

import numpy as np
import psutil
import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, get_worker_info

from hotlap.seam.fingerprint import MOST_BYTES, difference, fingerprint


class Noisy(Dataset):
    """Each sample shows its worker's process, its index and draws from three generators."""

    scale = 1.0

    def __init__(self, offset=0.0):
        self.offset = offset
        self.table = [("a", 1), ("b", 2)]

    def __len__(self):
        return 24

    def __getitem__(self, index):
        noise = (random.random(), np.random.rand(), torch.rand(()).item())
        return os.getpid(), index + self.offset, sum(noise), get_worker_info().seed


class Lazy(Noisy):
    def __init__(self):
        super().__init__()
        self.file = None

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(__file__)  # noqa: SIM115
        return super().__getitem__(index)


class Counting(Noisy):
    def __init__(self):
        super().__init__()
        self.reads = 0

    def __getitem__(self, index):
        self.reads += 1
        pid, value, *rest = super().__getitem__(index)
        return pid, value + self.reads, *rest


class OwnGenerator(Noisy):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(1)

    def __getitem__(self, index):
        pid, value, *rest = super().__getitem__(index)
        return pid, value + self.rng.random(), *rest


def listed(batch):
    return batch


def seed_worker(worker_id):
    np.random.seed(torch.initial_seed() % 2**32)


def epoch(dataset, stop=None, **kwargs):
    """One epoch of a new loader: worker ids, and all else that the samples show."""
    kwargs = {"num_workers": 2, "shuffle": True, "collate_fn": listed, **kwargs}
    loader = DataLoader(dataset, 4, **kwargs)
    seen = []
    for count, batch in enumerate(loader):
        seen += batch
        if count == stop:
            break
    return {sample[0] for sample in seen}, [sample[1:] for sample in seen]


def epochs(dataset, n=3, between=lambda dataset, number: None, **kwargs):
    torch.manual_seed(7)
    found = []
    for number in range(n):
        found.append(epoch(dataset, **kwargs))
        between(dataset, number)
    return [pids for pids, _ in found], [s for _, s in found] + [torch.rand(2).tolist()]


@pytest.mark.parametrize("make", [Noisy, Lazy])
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"shuffle": False},
        {"worker_init_fn": seed_worker},
        {"stop": 1},
        {"in_order": False, "num_workers": 1},
        {"persistent_workers": True},
        {"collate_fn": lambda batch: batch[::-1]},
    ],
    ids=lambda kwargs: next(iter(kwargs), "plain"),
)
def test_samples_order_and_generators_are_the_same(make, kwargs):
    pids, plain = epochs(make(), **kwargs)
    assert not pids[0] & pids[1]
    with on("loader_reuse") as seams:
        pids, ours = epochs(make(), **kwargs)
    assert ours == plain
    assert pids[0] | pids[1] | pids[2] <= pids[0] | pids[1]
    assert pids[1] & pids[0]
    assert seams.holds["loader_reuse"] == [make.__name__]


def test_a_given_generator_is_drawn_from_alike():
    def run():
        generator = torch.Generator().manual_seed(3)
        dataset = Noisy()
        found = [
            epoch(dataset, shuffle=None, sampler=RandomSampler(dataset), generator=generator)[1]
            for _ in range(3)
        ]
        return found, generator.get_state().tolist()

    torch.manual_seed(1)
    plain = run()
    with on("loader_reuse"):
        torch.manual_seed(1)
        assert run() == plain


def moved(dataset, number):
    dataset.offset += 100


def deeper(dataset, number):
    dataset.table[0] = ("a", number + 5)


def of_class(dataset, number):
    type(dataset).scale = number + 2.0


@pytest.mark.parametrize("change", [moved, deeper, of_class])
def test_a_changed_dataset_gets_new_workers(change, monkeypatch):
    monkeypatch.setattr(Noisy, "scale", 1.0)
    _, plain = epochs(Noisy(), between=change)
    monkeypatch.setattr(Noisy, "scale", 1.0)
    with on("loader_reuse") as seams:
        pids, ours = epochs(Noisy(), between=change)
    assert ours == plain
    assert not pids[0] & pids[1]
    assert not seams.holds


@pytest.mark.parametrize("make", [Counting, OwnGenerator])
def test_a_dataset_that_changes_in_its_workers_gets_new_ones(make):
    _, plain = epochs(make())
    with on("loader_reuse") as seams:
        _, ours = epochs(make())
    assert ours == plain
    assert not seams.holds
    assert "in the workers" in seams.inerts["loader_reuse"]


factor = [1]


def by_global(batch):
    return [(*sample[:1], sample[1] * factor[0], *sample[2:]) for sample in batch]


def test_a_changed_global_of_the_collate_function_is_seen():
    def change(dataset, number):
        factor[0] = number + 2

    factor[0] = 1
    _, plain = epochs(Noisy(), between=change, collate_fn=by_global)
    with on("loader_reuse"):
        factor[0] = 1
        _, ours = epochs(Noisy(), between=change, collate_fn=by_global)
    assert ours == plain


def test_two_iterators_at_once_do_not_share_workers():
    dataset = Noisy()
    with on("loader_reuse"):
        epoch(dataset)
        first = iter(DataLoader(dataset, 4, num_workers=2, collate_fn=listed))
        second = iter(DataLoader(dataset, 4, num_workers=2, collate_fn=listed))
        pairs = [(a, b) for a, b in zip(first, second, strict=True)]
    assert all(a[0][0] != b[0][0] for a, b in pairs)
    assert [s[1] for a, _ in pairs for s in a] == list(range(24))


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(os.getpid(), 1)] * 8)


@pytest.mark.parametrize(
    ("dataset", "kwargs"), [(Stream(), {"shuffle": None}), ([(0, 1)] * 8, {"num_workers": 0})]
)
def test_left_alone(dataset, kwargs):
    with on("loader_reuse") as seams:
        epochs(dataset, **kwargs)
    assert not seams.holds
    assert not seams.inerts


def test_a_dead_worker_is_not_taken_over():
    dataset = Noisy()
    with on("loader_reuse"):
        pids, _ = epoch(dataset)
        for pid in pids:
            psutil.Process(pid).kill()
        later, samples = epoch(dataset)
    assert not pids & later
    assert len(samples) == 24


def test_no_worker_outlives_its_dataset_nor_the_technique():
    with on("loader_reuse"):
        dataset = Noisy()
        first, _ = epoch(dataset)
        del dataset
        gc.collect()
        assert not any(map(psutil.pid_exists, first))
        dataset = Noisy()
        second, _ = epoch(dataset)
        assert all(map(psutil.pid_exists, second))
    assert not any(map(psutil.pid_exists, second))


class Held:
    pass


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: np.zeros(9), lambda a: a.__setitem__(3, 1)),
        (lambda: torch.zeros(9), lambda a: a.numpy().__setitem__(3, 1)),
        (lambda: torch.zeros(9)[::2], lambda a: a.add_(1)),
        (lambda: {"a": [1, [2]]}, lambda a: a["a"][1].append(3)),
        (lambda: {1, 2}, lambda a: a.add(3)),
        (lambda: np.array([[1], None], dtype=object), lambda a: a[0].append(1)),
        (lambda: random.Random(1), lambda a: a.random()),
        (torch.Generator, lambda a: torch.rand(1, generator=a)),
        (lambda: np.random.RandomState(1), lambda a: a.rand()),
        (Held, lambda a: setattr(a, "rng", np.random.default_rng())),
        (Held, lambda a: setattr(a, "part", Held())),
        (lambda: bytearray(b"ab"), lambda a: a.append(3)),
    ],
)
def test_a_change_shows_in_the_fingerprint(make, change):
    value = Held()
    value.inside = [make()]
    before = fingerprint(value)
    assert not difference(before, fingerprint(value))
    change(value.inside[0])
    assert difference(before, fingerprint(value))


def test_too_much_to_read_is_refused(monkeypatch):
    dataset = Noisy()
    dataset.array = np.zeros(64, dtype=np.uint8)
    monkeypatch.setattr("hotlap.seam.fingerprint.MOST_BYTES", 63)
    assert MOST_BYTES > 64
    with on("loader_reuse") as seams:
        pids, _ = epochs(dataset)
    assert not pids[0] & pids[1]
    assert "array is too large" in seams.inerts["loader_reuse"]
