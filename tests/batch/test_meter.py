"""The child's side: which loaders change, which samples and seconds count."""

import time
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

from hotlap.core.protocol import BatchOptions
from hotlap.seam.batch_meter import Meter

DATA = [(torch.zeros(2), 1)] * 10


def made(**orders: Any) -> Meter:
    return Meter(BatchOptions(**orders))


def train(meter: Meter, loader: Any, optimizer: Any) -> list[int]:
    sizes = []
    for x, _ in loader:
        sizes.append(len(x))
        meter.step(optimizer)
    return sizes


@pytest.fixture
def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)


def rooted(meter: Meter, module: Any) -> Any:
    """The module's call as the meter counts it."""
    return partial(meter.root(module, type(module).forward), module)


def test_only_the_chosen_loaders_change_however_they_are_told(optimizer: Any) -> None:
    meter = made(loaders=[0, 1, 2, 4], size=5)
    with meter.watching(lambda: None):
        loaders = [
            DataLoader(DATA, 2),
            DataLoader(DATA, batch_size=2),
            DataLoader(DATA),
            DataLoader(DATA, batch_size=2),
            DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 2, False)),
            DataLoader(DATA, batch_size=None),
        ]
        first = [next(iter(loader)) for loader in loaders]
    assert [len(x) if x.dim() > 1 else 0 for x, _ in first] == [5, 5, 5, 2, 2, 0]
    told = meter.take().loaders
    assert [loader.batch_size for loader in told] == [2, 2, 1, 2, None, None]
    assert [loader.sampler for loader in told] == [False] * 4 + [True, False]
    assert len(next(iter(DataLoader(DATA, 2)))[0]) == 2  # all is as it was


def test_a_loader_made_anew_for_each_epoch_is_one(optimizer: Any) -> None:
    meter, others = made(loaders=[0], size=5), DATA[:6]
    with meter.watching(lambda: None):
        sizes = [
            [len(x) for x, _ in DataLoader(data, 2)] for data in (DATA, others, DATA, list(DATA))
        ]
    assert sizes == [[5, 5], [2, 2, 2], [5, 5], [5, 5]]
    assert len(next(iter(DataLoader(DATA, 2)))[0]) == 2


def test_a_dataset_may_have_no_length_to_give() -> None:
    class Endless(IterableDataset[torch.Tensor]):
        def __iter__(self) -> Any:
            return iter([torch.zeros(2)] * 4)

        def __len__(self) -> int:
            raise NotImplementedError

    meter = made(loaders=[0], size=4)
    with meter.watching(lambda: None):
        assert [len(x) for x in DataLoader(Endless(), 2)] == [4]


def test_a_loader_around_anothers_batches_is_traced_back(optimizer: Any) -> None:
    class Wrapped:
        def __init__(self, inner: Any) -> None:
            self.batch_sampler = inner

        def __iter__(self) -> Any:
            return iter(self.batch_sampler)

    meter = made()
    with meter.watching(lambda: None):
        DataLoader(DATA, 3)
        first = DataLoader(DATA, 2)
        DataLoader(DATA, batch_sampler=first.batch_sampler)
        DataLoader(DATA, batch_sampler=Wrapped(first.batch_sampler))
    assert [loader.around for loader in meter.take().loaders] == [[], [], [1], [1, 2]]


def test_samples_count_as_they_are_drawn(optimizer: Any) -> None:
    meter = made(loaders=[0], size=4)
    with meter.watching(lambda: None):
        loader, held_out = DataLoader(DATA, 2), DataLoader(DATA[:3], 3)
        assert train(meter, loader, optimizer) == [4, 4, 2]
        next(iter(held_out))
        assert train(meter, loader, optimizer) == [4, 4, 2]
    found = meter.take()
    assert found.samples == 20
    assert [loader.feeds for loader in found.loaders] == [True, False]
    assert (found.optimizer, found.lr) == ("SGD", 0.5)
    assert meter.take().samples == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_time_steps_of_a_sequence_first_batch_are_no_samples(optimizer: Any, workers: int) -> None:
    def sequence_first(samples: Any) -> Any:
        return torch.zeros(7, len(samples), 5), torch.zeros(len(samples))

    meter = made(loaders=[0], size=4)
    with meter.watching(lambda: None):
        train(meter, DataLoader(DATA, 2, collate_fn=sequence_first, num_workers=workers), optimizer)
    assert meter.take().samples == 10


def test_elements_of_the_models_input_count_in_training_alone(optimizer: Any) -> None:
    meter, model, criterion = made(), nn.Linear(3, 1), nn.MSELoss()
    call, judge = rooted(meter, model), rooted(meter, criterion)
    for _ in range(2):
        judge(call(input=torch.zeros(5, 3)), torch.zeros(5, 1))
    with torch.no_grad():
        call(torch.zeros(50, 3))
    assert meter.take().elements == 0
    meter.step(optimizer)
    assert meter.take().elements == 30


def test_micro_batches_of_a_step(optimizer: Any) -> None:
    meter = made()
    with meter.watching(lambda: None):
        for index, _ in enumerate(DataLoader(DATA, 2)):
            if index % 2:
                meter.step(optimizer)
    found = meter.take()
    assert found.micro_batches == 2
    assert found.samples == 8


def test_evaluation_and_saving_stand_apart(optimizer: Any, tmp_path: Any) -> None:
    meter = made()
    model = nn.Linear(2, 1)
    call = rooted(meter, model)
    with meter.watching(lambda: None):
        loader, held_out = DataLoader(DATA, 2), DataLoader(DATA, 2)
        train(meter, loader, optimizer)
        assert meter.take().paused == 0.0
        for _ in held_out:  # another loader: not training
            time.sleep(0.01)
        train(meter, loader, optimizer)
        assert meter.take().paused > 0.04
        model.eval()
        call(torch.zeros(2))
        time.sleep(0.02)
        model.train()
        call(torch.zeros(2))
        meter.step(optimizer)
        assert meter.take().paused > 0.015
        torch.save({}, tmp_path / "a.pt")
        assert meter.take().paused > 0


def test_a_model_that_trains_in_evaluation_mode_is_timed(optimizer: Any) -> None:
    meter = made()
    model = nn.Linear(2, 1).eval()
    call = rooted(meter, model)
    with meter.watching(lambda: None):
        for x, _ in DataLoader(DATA, 2):
            call(x)
            time.sleep(0.01)
            meter.step(optimizer)
    assert meter.take().paused < 0.01
