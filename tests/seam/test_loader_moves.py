import numpy as np
import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset


class Data(Dataset):
    def __init__(self, noisy=False):
        self.reads = 0
        self.noisy = noisy

    def __len__(self):
        return 20

    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is None:
            count.append(index)
        noise = np.random.rand() if self.noisy else 0.0
        return torch.full((2,), index + noise), index


count = []


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))


def epochs(loader, n=2):
    return [[(x.tolist(), y.tolist()) for x, y in loader] for _ in range(n)]


def shuffled(**kwargs):
    torch.manual_seed(5)
    return DataLoader(Data(**kwargs), batch_size=4, shuffle=True)


def test_workers_give_the_same_batches():
    plain = epochs(shuffled())
    with on("loader_workers", num_workers=2) as seams:
        loader = shuffled()
        assert loader.num_workers == 2
        assert epochs(loader) == plain
    assert "loader_workers" in seams.holds
    assert DataLoader(Data()).num_workers == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataLoader(Stream()),
        lambda: DataLoader(Data(), num_workers=1),
        lambda: DataLoader(Data(), 4, False, None, None, 3),
    ],
)
def test_workers_leave_alone(make):
    plain = make().num_workers
    with on("loader_workers", num_workers=2) as seams:
        assert make().num_workers == plain
    assert not seams.holds


def test_workers_replace_an_explicit_zero():
    with on("loader_workers", num_workers=2):
        assert DataLoader(Data(), num_workers=0).num_workers == 2


def test_persistent_workers_see_the_workers_of_the_technique_they_join():
    plain = epochs(shuffled(), 3)
    for names in (
        ("loader_workers", "persistent_workers", "prefetch_factor"),
        ("prefetch_factor", "persistent_workers", "loader_workers"),
    ):
        with on(*names, num_workers=2, prefetch_factor=4) as seams:
            loader = shuffled()
            assert (loader.num_workers, loader.persistent_workers) == (2, True)
            assert loader.prefetch_factor == 4
            ours = epochs(loader, 3)
            assert ours[0] == plain[0]
            for mine, theirs in zip(ours, plain, strict=True):  # later shuffles differ
                assert sorted(i for _, b in mine for i in b) == sorted(
                    i for _, b in theirs for i in b
                )
            del loader
        assert set(seams.holds) == set(names)


def test_fewer_workers_leave_serial_loaders_serial():
    with on("fewer_workers", num_workers=1) as seams:
        assert DataLoader(Data(), num_workers=4, prefetch_factor=3).num_workers == 1
        assert not DataLoader(Data()).num_workers
        assert not DataLoader(Data(), num_workers=0).num_workers
    assert set(seams.holds) == {"fewer_workers"}


def test_persistence_and_prefetch_need_workers():
    with on("persistent_workers", "prefetch_factor", prefetch_factor=4) as seams:
        assert not DataLoader(Data()).persistent_workers
        assert DataLoader(Data(), num_workers=1).persistent_workers
        assert DataLoader(Data(), num_workers=1, prefetch_factor=9).prefetch_factor == 9
    assert set(seams.holds) == {"persistent_workers", "prefetch_factor"}


def test_pinning_needs_a_device():
    with on("pinned_memory") as seams:
        assert DataLoader(Data()).pin_memory == torch.cuda.is_available()
    assert bool(seams.holds) == torch.cuda.is_available()


def test_cached_samples_are_exact_and_read_once():
    plain = epochs(shuffled(), 3)
    with on("cached_dataset") as seams:
        loader = shuffled()
        dataset = loader.dataset
        first = epochs(loader, 1)
        count.clear()
        rest = epochs(loader, 2)
        assert first + rest == plain
        assert len(count) <= 8  # a few are read again to see whether they changed
        assert loader.dataset is dataset
        assert type(dataset) is Data
    assert seams.holds == {"cached_dataset": ["Data"]}
    assert not seams.inerts


def test_random_samples_are_not_cached():
    def run():
        np.random.seed(1)
        return epochs(shuffled(noisy=True), 3)

    plain = run()
    with on("cached_dataset") as seams:
        assert run() == plain
    assert "random numbers" in seams.inerts["cached_dataset"]
    assert not seams.holds


def test_worker_processes_are_not_cached():
    with on("cached_dataset") as seams:
        assert len(list(DataLoader(TensorDataset(torch.ones(4)), num_workers=1))) == 4
    assert not seams.holds
