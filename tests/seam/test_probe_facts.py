"""Facts about the script's loaders."""

import os
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split

from hotlap.core.registry import technique
from hotlap.seam.gate import thread_times
from hotlap.seam.probe import facts as probe_facts
from hotlap.seam.probe import loaders as probe_loaders
from hotlap.seam.probe import recorder
from hotlap.seam.probe.facts import contended, idle_groups, optimizer_facts, zero_rate
from hotlap.seam.probe.loaders import Loaders
from hotlap.seam.probe.models import batch_of


def facts(*loaders):
    known = Loaders()
    for loader in loaders:
        known.note(loader, "train.py:1")
    return known.facts(None)


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
    assert facts(DataLoader(dataset))["in_memory"]


@pytest.mark.parametrize(
    "dataset",
    [Decoded(), Augmented(torch.ones(8, 2)), Subset(Decoded(), [1]),
     ConcatDataset([TENSORS, Decoded()])],
)  # fmt: skip
def test_not_in_memory(dataset):
    assert not facts(DataLoader(dataset))["in_memory"]
    assert not facts(DataLoader(TENSORS), DataLoader(dataset))["in_memory"]


class ByEpoch(Decoded):
    def set_epoch(self, epoch):
        self.epoch = epoch


def test_a_dataset_that_an_epoch_changes():
    assert facts(DataLoader(ByEpoch(), num_workers=1))["dataset_by_epoch"]
    assert not facts(DataLoader(Decoded(), num_workers=1))["dataset_by_epoch"]
    shared = type("Shared", (ByEpoch,), {"__module__": "datasets.iterable_dataset"})
    assert not facts(DataLoader(shared(), num_workers=1))["dataset_by_epoch"]


def test_workers_beyond_the_cores_crowd_them():
    cores = len(os.sched_getaffinity(0))
    assert not facts(DataLoader(TENSORS, num_workers=cores))["crowded_workers"]
    assert facts(DataLoader(TENSORS, num_workers=cores + 1))["crowded_workers"]


def test_nothing_is_known_of_no_loader():
    assert not facts()["in_memory"]


def test_a_loader_that_was_used_is_told_of_when_it_is_gone_and_no_other():
    known = Loaders()
    for dataset, used in ((TENSORS, False), (Decoded(), True)):
        loader = DataLoader(dataset, batch_size=3)
        known.note(loader, "train.py:1")
        if used:
            known.use(known.known(loader))
    del loader
    (kind,) = known.kinds
    assert (kind.batch_size, kind.in_memory) == (3, False)


def test_loaders_that_compare_equal_or_have_no_hash_are_told_apart():
    class Odd(DataLoader):
        def __eq__(self, other):
            return True

        __hash__ = None

    one, other = Odd(TENSORS, batch_size=1), Odd(TENSORS, batch_size=2)
    known = Loaders()
    known.note(one, "")
    known.note(other, "")
    assert known.known(one).kind.batch_size == 1
    assert known.known(other).kind.batch_size == 2
    del one
    assert [kind.batch_size for kind in known.kinds] == [2]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("dispatches", [True, False])
def test_batches_that_accelerate_reads_on_rank_0_for_all(monkeypatch, dispatches, world):
    accelerate = pytest.importorskip("accelerate")
    monkeypatch.setattr(probe_loaders, "rank_and_world", lambda: (0, world))
    config = accelerate.DataLoaderConfiguration(dispatch_batches=dispatches)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
    loader = accelerate.data_loader.prepare_data_loader(
        DataLoader(TENSORS), num_processes=1, process_index=0, put_on_device=True,
        device=torch.device("cpu"), dispatch_batches=dispatches,
    )  # fmt: skip
    assert not probe_loaders.dispatched()
    for _ in loader:
        assert probe_loaders.dispatched() is (dispatches and world > 1)
    accelerator.free_memory()


@pytest.mark.parametrize("sparse", [True, False])
def test_sparse_gradients_have_no_fused_optimizer(sparse):
    embedding = torch.nn.Embedding(9, 4, sparse=sparse)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
    embedding(torch.tensor([1, 2])).sum().backward()
    by_gradient = optimizer_facts([optimizer], [])
    optimizer.zero_grad()
    by_layer = optimizer_facts([optimizer], [embedding])
    for found in (by_gradient, by_layer):
        assert found["optimizer_unfused"] is not sparse


def rates(*lrs):
    """An optimizer with a group of 4 parameters for each learning rate."""
    groups = [{"params": [torch.nn.Parameter(torch.ones(4))], "lr": lr} for lr in lrs]
    return torch.optim.Adam(groups)


@pytest.mark.parametrize(
    ("begins", "ends", "part"),
    [
        ((0.0, 0.1), (0.0, 0.1), 0.5),
        ((0, 0.1, 0.1, 0.1), (0, 0.1, 0.1, 0.0), 0.25),
        ((0.0, 0.0), (0.0, 0.1), 0.5),
        ((0.0, 0.0), (0.0, 0.0), 0.0),  # a schedule that begins and ends with 0
        ((0.0, 0.0), (0.1, 0.1), 0.0),  # warm-up
        ((0.1, 0.1), (0.0, 0.1), 0.0),
        ((torch.tensor(0.0), 0.1), (torch.tensor(0.0), 0.1), 0.0),  # to read it waits for a GPU
    ],
)
def test_parameters_whose_learning_rate_stays_zero(begins, ends, part):
    optimizer = rates(*begins)
    idle = idle_groups([optimizer])
    for group, rate in zip(optimizer.param_groups, ends, strict=True):
        group["lr"] = rate
    assert zero_rate([optimizer], idle) == part


def test_frozen_parameters_need_no_learning_rate():
    optimizer = rates(0.0, 0.1)
    optimizer.param_groups[0]["params"][0].requires_grad_(False)
    assert zero_rate([optimizer], idle_groups([optimizer])) == 0.0


@pytest.mark.parametrize("given", [{"foreach": True}, {"lr": torch.tensor(0.1)}, {}])
def test_an_optimizer_that_may_not_be_fused_is_not_called_unfused(given):
    parameters = [torch.nn.Parameter(torch.ones(3))]
    found = optimizer_facts([torch.optim.Adam(parameters, **{"foreach": None, **given})], [])
    assert found["optimizer_unfused"] is not bool(given)


@pytest.mark.parametrize(
    ("waited", "threads", "policy", "cuda", "found"),
    [
        (0.74, 2, "", False, True),
        (0.74, 2, "active", False, True),
        (0.74, 2, "PASSIVE", False, False),
        (0.74, 1, "", False, False),
        (0.74, 2, "", True, False),
        (0.05, 2, "", False, False),
    ],
)
def test_several_threads_that_wait_for_a_core_and_spin_are_contended(
    monkeypatch, waited, threads, policy, cuda, found
):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    assert contended(waited, cuda=cuda)["contended_threads"] is found


@pytest.mark.parametrize(
    ("ran", "waited", "share"),
    [(1.0, 3.0, 0.75), (1.0, 0.0, 0.0), (0.1, 9.0, 0.0), (0.0, 0.0, 0.0)],
)
def test_waits_count_of_threads_that_compute(monkeypatch, ran, waited, share):
    monkeypatch.setattr(recorder, "thread_times", lambda **_: (5 + ran, 7 + waited))
    seen = SimpleNamespace(_timed=None, _pool_began=(5.0, 7.0), clock=lambda: {"cpu": 2.0})
    assert recorder.Recorder.pool_waited(seen) == pytest.approx(share)


def test_the_main_thread_can_be_left_out_of_the_threads_times(tmp_path):
    for thread, words in ((os.getpid(), "4000000000 2000000000 9"), (1, "3000000000 1000000000 9")):
        (tmp_path / str(thread)).mkdir()
        (tmp_path / str(thread) / "schedstat").write_text(words)
    assert thread_times(str(tmp_path)) == (7.0, 3.0)
    assert thread_times(str(tmp_path), main=False) == (3.0, 1.0)


@pytest.mark.parametrize(
    ("threads", "ranks", "found"), [(1, 1, False), (1, 2, True), (2, 2, False), (1, 3, True)]
)
def test_where_no_other_number_of_threads_fits_none_is_to_be_raced(
    monkeypatch, threads, ranks, found
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2} if ranks == 1 else {0, 1})
    monkeypatch.setattr(probe_facts, "rank_and_world", lambda: (0, ranks))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    seen = probe_facts.global_facts()["one_thread_fits"]
    assert seen is found
    missing = technique("cpu_threads").missing({"model": True, "one_thread_fits": seen})
    assert bool(missing) is found


def test_a_call_under_vmap_shows_no_batch():
    seen = []
    torch.vmap(lambda x: seen.append(batch_of((x.unsqueeze(0),), {})) or x)(torch.ones(64, 3))
    assert seen == [(0, 0)]
    assert batch_of((torch.ones(64, 3),), {}) == (64, 0)
