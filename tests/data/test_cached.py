import pickle
import random
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from hotlap.common.nested import mapped, tensors
from hotlap.common.samples import equal, twin
from hotlap.data import CachedDataset, DevicePrefetcher


class Squares:
    def __init__(self, draw=None):
        self.reads = []
        self.draw = draw
        self.rng = np.random.default_rng(3)
        self.twist = random.Random(3)
        self.torch = torch.Generator().manual_seed(3)
        self.scale = 1.0

    def __len__(self):
        return 100

    def __getitem__(self, index):
        self.reads.append(index)
        extra = self.draw(self) if self.draw else 0.0
        return torch.full((3,), float(index) ** 2 * self.scale + extra), {"label": index}


def read(dataset, indices):
    return [dataset[i][0][0].item() for i in indices]


def test_a_sample_is_read_once_and_checked_first():
    data = Squares()
    cached = CachedDataset(data, ram_limit=2**20)
    assert read(cached, range(10)) == [i**2 for i in range(10)]
    assert data.reads.count(0) == 2  # checked
    assert data.reads.count(9) == 1
    data.reads.clear()
    assert read(cached, range(10)) == [i**2 for i in range(10)]
    assert data.reads == []
    assert cached.kept == 10
    assert not cached.refused


DRAWS = {
    "python": lambda _: random.random(),
    "numpy": lambda _: np.random.rand(),
    "torch": lambda _: torch.rand(()).item(),
    "own numpy": lambda data: data.rng.random(),
    "own python": lambda data: data.twist.random(),
    "own torch": lambda data: torch.rand((), generator=data.torch).item(),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_random_samples_are_refused_and_the_streams_left_as_a_plain_run_leaves_them(draw):
    def run(wrap):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        data = wrap(Squares(draw))
        figures = read(data, [*range(8), *range(8)])
        return [*figures, random.random(), np.random.rand()], data

    plain, _ = run(lambda data: data)
    seen, cached = run(lambda data: CachedDataset(data, ram_limit=2**20))
    assert seen == plain
    assert "random numbers" in cached.refused
    assert cached.kept == 0


def test_a_late_draw_is_noticed():
    data = Squares(lambda data: random.random() if len(data.reads) > 30 else 0.0)
    cached = CachedDataset(data, ram_limit=2**20)
    read(cached, range(60))
    assert "random numbers" in cached.refused


def test_samples_that_differ_by_other_means_are_refused():
    data = Squares(lambda data: len(data.reads))
    told = []
    cached = CachedDataset(data, ram_limit=2**20, told=told.append)
    read(cached, range(4))
    assert told == [cached.refused] == ["two reads of the same sample differ"]


def test_a_caller_may_change_what_it_got():
    cached = CachedDataset(Squares(), ram_limit=2**20)
    for _ in range(3):
        sample, labels = cached[5]
        assert sample.tolist() == [25.0] * 3
        assert labels == {"label": 5}
        sample.zero_()
        labels["label"] = None


def test_it_keeps_within_its_limit():
    cached = CachedDataset(Squares(), ram_limit=5000)
    assert read(cached, range(50)) == [i**2 for i in range(50)]
    assert 0 < cached.kept < 50
    assert cached.bytes <= 5000
    assert not cached.refused


def test_whole_or_nothing():
    cached = CachedDataset(Squares(), ram_limit=5000, whole=True)
    cached[0]
    assert "GiB" in cached.refused


def test_a_changed_setting_empties_it():
    data = Squares()
    cached = CachedDataset(data, ram_limit=2**20)
    read(cached, range(5))
    data.scale = 2.0
    cached.renew()
    assert read(cached, range(5)) == [2 * i**2 for i in range(5)]
    data.scale = 3.0
    cached.renew()
    assert read(cached, range(5)) == [3 * i**2 for i in range(5)]
    assert "changes between epochs" in cached.refused


def test_a_sample_changed_in_place_is_noticed():
    class Held:
        def __init__(self):
            self.data = np.arange(200.0)

        def __len__(self):
            return 200

        def __getitem__(self, index):
            return self.data[index : index + 1].copy()

    data = Held()
    cached = CachedDataset(data, ram_limit=2**20)
    assert cached[7][0] == 7
    data.data *= 2
    cached.renew()
    assert cached[7][0] == 14
    assert "has changed" in cached.refused


@pytest.mark.parametrize(("epoch", "later"), [(1500.0, [1, 1, 1]), (550.0, [0, 1, 0])])
def test_later_epochs_compare_one_sample_if_that_is_a_small_part_of_them(monkeypatch, epoch, later):
    now = 0.0
    monkeypatch.setattr("hotlap.data.cached.perf_counter", lambda: now)

    class Slow(Squares):
        def __getitem__(self, index):
            nonlocal now
            now += 1.0
            return super().__getitem__(index)

    data = Slow()
    cached = CachedDataset(data, ram_limit=2**20)
    again = []
    for _ in range(8):
        before = len(data.reads)
        read(cached, range(10))
        again.append(len(data.reads) - before)
        now += epoch
        cached.renew()
    assert again[1:] == [4, 4, 1, 1, *later]


def test_getitems_passes_through():
    class Batched(Squares):
        def __getitems__(self, indices):
            self.asked = list(indices)
            return [self[i] for i in indices]

    data = Batched()
    cached = CachedDataset(data, ram_limit=2**20)
    assert [s[0][0].item() for s in cached.__getitems__([1, 2])] == [1.0, 4.0]
    assert [s[0][0].item() for s in cached.__getitems__([2, 3, 1])] == [4.0, 9.0, 1.0]
    assert data.asked == [3]


def test_getitems_that_makes_whole_batches_is_left_alone():
    class Whole(Squares):
        def __getitems__(self, indices):
            return torch.tensor(indices)

    cached = CachedDataset(Whole(), ram_limit=2**20)
    assert cached.__getitems__([1, 2]).tolist() == [1, 2]
    assert "__getitems__" in cached.refused


@pytest.mark.parametrize("index", [np.int64(3), torch.tensor(3), 3])
def test_indices_of_any_kind(index):
    data = Squares()
    cached = CachedDataset(data, ram_limit=2**20)
    cached[3]
    data.reads.clear()
    cached[index]
    assert data.reads == []


def test_slices_pass_through():
    cached = CachedDataset([1, 2, 3], ram_limit=2**20)
    assert cached[0:2] == [1, 2]
    assert cached.kept == 0


def test_iterable_datasets_are_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    with pytest.raises(TypeError, match="IterableDataset"):
        CachedDataset(Stream())


def test_it_works_in_workers_and_hands_on_attributes():
    cached = CachedDataset(Squares(), ram_limit=2**20)
    assert cached.scale == 1.0
    cached[1]
    again = pickle.loads(pickle.dumps(CachedDataset([1, 2, 3])))
    assert again[1] == 2
    batches = list(DataLoader(cached, batch_size=50, num_workers=1))
    assert batches[1][0][0, 0].item() == 2500.0


def test_samples_are_compared_bit_by_bit():
    nan = torch.tensor([float("nan"), -0.0])
    assert equal(nan, nan.clone())
    assert not equal(torch.tensor(0.0), torch.tensor(-0.0))
    assert not equal(torch.zeros(2), torch.zeros(2, dtype=torch.float64))
    assert equal({"a": [np.float32(1), None]}, {"a": [np.float32(1), None]})
    assert not equal(np.zeros(2), np.zeros(3))
    assert equal(twin(nan), nan)


Pair = namedtuple("Pair", "a b")


@dataclass
class Out:
    loss: torch.Tensor
    rest: list


class ModelOutput(OrderedDict):
    pass


def test_nested_structures_keep_their_types():
    value = Pair(torch.ones(1), [ModelOutput(x=torch.ones(1)), UserDict(y=torch.ones(1))])
    out = mapped((value, Out(torch.ones(1), [None, "s"])), lambda t: t + 1)
    assert [type(out), type(out[0]), type(out[0].b[0])] == [tuple, Pair, ModelOutput]
    assert type(out[0].b[1]) is UserDict
    assert [t.item() for t in tensors(out)] == [2.0] * 4
    assert [t.item() for t in tensors(value)] == [1.0] * 3  # the old one is as it was


def test_what_does_not_change_is_the_same_object():
    value = {"a": [torch.ones(1)], "b": "text"}
    assert mapped(value, lambda t: t) is value


def test_hugging_face_outputs_keep_attribute_and_key():
    outputs = pytest.importorskip("transformers.modeling_outputs")
    out = outputs.BaseModelOutput(last_hidden_state=torch.ones(2, dtype=torch.bfloat16))
    wide = mapped(out, lambda t: t.float())
    assert type(wide) is type(out)
    assert wide.last_hidden_state.dtype == wide["last_hidden_state"].dtype == torch.float32


def test_the_prefetcher_passes_through_on_the_cpu():
    batches = [torch.ones(2), torch.zeros(2)]
    prefetcher = DevicePrefetcher(batches, "cpu", transform=lambda t: t + 1)
    assert len(prefetcher) == 2
    assert [b.tolist() for b in prefetcher] == [[2.0, 2.0], [1.0, 1.0]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_prefetcher_copies_ahead():
    batches = [{"x": torch.full((1000,), float(i)).pin_memory()} for i in range(5)]
    for i, batch in enumerate(DevicePrefetcher(batches, "cuda")):
        assert batch["x"].is_cuda
        assert batch["x"].sum().item() == 1000.0 * i
