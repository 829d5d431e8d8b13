"""DataLoader's keywords, samplers of torch's and of one's own, and generators of a dataset."""

import functools
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)
from torch.utils.data.distributed import DistributedSampler

import hotlap.data
from data.loader.making import Dataset, jpeg_store, plain, raw_store
from hotlap.data import Loader, Store
from hotlap.data.transforms import RandomResizedCrop

_MODULE_RNG = np.random.default_rng(5)


class Numbers:
    def __init__(self, count=24):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index


def test_a_program_that_ends_says_nothing(tmp_path):
    """Also where the loader outlives the modules that it would need for its own end."""
    jpeg_store(tmp_path)
    script = (
        "import codecs, sys\n"
        "sys.path.insert(0, 'tests')\n"
        "from hotlap.data import Loader, Store\n"
        "from hotlap.data.transforms import Resize\n"
        "from data.loader.making import Dataset\n"
        "loader = Loader(Dataset(), 4, workers=2)\n"
        f"images = Loader({str(tmp_path / 'jpeg')!r}, 4, transform=Resize((8, 8)), workers=2)\n"
        "for epoch in range(3):\n"
        "    for batch in loader:\n        pass\n"
        "    for batch in images:\n        pass\n"
        "codecs.kept = loader, images\n"
    )
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_nothing_of_the_data_half_has_a_finalizer_of_the_old_kind():
    """`__del__` may run when the modules that it needs are gone; `weakref.finalize` runs before."""
    sources = Path(hotlap.data.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "def __del__" in path.read_text()] == []


class Own(Dataset):
    """Draws from generators of its own, of every kind and in every place."""

    def __init__(self, count=16):
        super().__init__(count)
        self.rng = np.random.default_rng(3)
        self.legacy = np.random.RandomState(3)
        self.parts = {"python": random.Random(3), "torch": torch.Generator()}
        closed = np.random.default_rng(7)
        self.transforms = [
            functools.partial(_shift, rng=random.Random(1)),
            lambda x: x * closed.random(),
        ]

    def __getitem__(self, index):
        value = self.rng.random() + self.legacy.rand() + self.parts["python"].random()
        value += float(torch.rand((), generator=self.parts["torch"], dtype=torch.float64))
        for transform in self.transforms:
            value = transform(value)
        return {"id": index, "value": value + _MODULE_RNG.random()}


def _shift(value, rng):
    return value + rng.random()


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_datasets_own_generators_give_the_same_in_any_number_of_workers(wrapped):
    data = Subset(Own(), range(12)) if wrapped else Own()
    own = data.dataset if wrapped else data
    before = str(own.rng.bit_generator.state), own.parts["python"].getstate()
    got = []
    for workers in (0, 1, 3):
        loader = Loader(data, 4, shuffle=True, workers=workers)
        got.append([plain(batch) for _ in range(2) for batch in loader])
    assert got[0] == got[1] == got[2]
    values = [value for batch in got[0] for value in batch["value"][2]]
    assert len(set(values)) == len(values), "each sample of each epoch has draws of its own"
    assert before == (str(own.rng.bit_generator.state), own.parts["python"].getstate())


def test_a_generator_that_cannot_be_seeded_is_named():
    data = Dataset()
    data.rng = random.SystemRandom()
    with pytest.warns(UserWarning, match=r"Dataset\.rng draws from the operating system"):
        Loader(data)


def test_workers_persist_between_epochs_unless_the_dataset_changes():
    class Who(Dataset):
        def __getitem__(self, index):
            import os

            return torch.tensor([os.getpid(), self.scale])

    def who(loader):
        return {int(pid) for batch in loader for pid in batch[:, 0]}

    data = Who()
    data.rng = np.random.default_rng()
    loader = Loader(data, 4, workers=2)
    list(loader)  # the first batch is read by a trial process
    first = who(loader)
    assert first == who(loader)
    assert len(first) == 2
    data.scale = 2.0
    changed = list(loader)
    assert all((batch[:, 1] == 2).all() for batch in changed)
    anew = Loader(data, 4, workers=2, persistent_workers=False)
    assert not who(anew) & who(anew)


def ids(loader):
    return [batch.tolist() for batch in loader]


def flat(batches):
    return [number for batch in batches for number in batch]


def test_a_sequential_sampler_gives_dataloaders_batches():
    data = Numbers()
    wanted = ids(DataLoader(data, 5, sampler=SequentialSampler(data), drop_last=True))
    loader = Loader(data, 5, sampler=SequentialSampler(data), drop_last=True)
    assert ids(loader) == wanted
    assert len(loader) == len(wanted)


@pytest.mark.parametrize(
    "made",
    [
        RandomSampler,
        lambda d: RandomSampler(d, replacement=True, num_samples=30),
        lambda d: SubsetRandomSampler(range(3, 17)),
        lambda d: WeightedRandomSampler([1.0] * 12 + [0.1] * 12, 24),
        lambda d: WeightedRandomSampler([1.0] * 24, 24, generator=torch.Generator().manual_seed(4)),
    ],
)
def test_random_samplers_are_functions_of_seed_and_epoch(made):
    data = Numbers()
    loaders = [Loader(data, 5, sampler=made(data), workers=workers, seed=3) for workers in (0, 2)]
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = [ids(loaders[0]) for _ in range(3)]
    assert torch.equal(before, torch.get_rng_state())
    assert first == [ids(loaders[1]) for _ in range(3)]
    assert first[0] != first[1]
    assert ids(Loader(data, 5, sampler=made(data), seed=4)) != first[0]


def test_a_samplers_own_generator_decides_too():
    def order(seed):
        generator = torch.Generator().manual_seed(seed)
        return ids(Loader(Numbers(), 4, sampler=RandomSampler(Numbers(), generator=generator)))

    assert order(1) == order(1) != order(2)


def test_a_weighted_sampler_draws_by_its_weights():
    weights = np.linspace(0.1, 2, 24)
    sampler = WeightedRandomSampler(weights, 4800)
    seen = np.bincount(np.concatenate(ids(Loader(Numbers(), 50, sampler=sampler))), minlength=24)
    expected = 4800 * weights / weights.sum()
    assert np.abs(seen - expected).max() < 5 * np.sqrt(expected.max())


def test_a_sample_that_is_drawn_twice_is_augmented_in_two_ways(tmp_path):
    _, store = raw_store(tmp_path)
    for data, value in ((Own(), lambda b: b["value"]), (store, lambda b: b[0].flatten(1).sum(1))):
        transform = RandomResizedCrop(4, scale=(0.2, 0.9)) if data is store else None
        loader = Loader(data, 3, sampler=[5] * 9, transform=transform, workers=0)
        drawn = [x for batch in loader for x in value(batch).tolist()]
        assert len(set(drawn)) > 6
        again = Loader(data, 3, sampler=[5], transform=transform, workers=0)
        plain_one = Loader(
            data, 3, transform=transform, workers=0, fields=[] if data is store else None
        )
        del plain_one
        assert value(next(iter(again))).tolist()[0] == drawn[0]


def test_a_sampler_is_resumed_in_the_middle_of_an_epoch():
    data = Numbers()

    def made():
        sampler = WeightedRandomSampler([1.0 + i for i in range(24)], 24)
        return Loader(data, 4, sampler=sampler, seed=2)

    loader = made()
    whole = [ids(loader) for _ in range(3)]
    loader = made()
    list(loader)
    for number, _ in enumerate(loader, 1):
        if number == 2:
            break
    later = made()
    later.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert ids(later) == whole[1][2:]
    assert ids(later) == whole[2]


class Counting(Sampler):
    """A sampler of one's own whose order depends on what it has done before."""

    def __init__(self, count):
        self.count, self.turns = count, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        self.turns += 1
        return iter([(i * 5 + self.turns) % self.count for i in range(self.count)])

    def state_dict(self):
        return {"turns": self.turns}

    def load_state_dict(self, state):
        self.turns = state["turns"]


def test_a_sampler_with_a_state_of_its_own_is_resumed_by_it():
    loader = Loader(Numbers(), 4, sampler=Counting(24))
    whole = [ids(loader) for _ in range(3)]
    loader = Loader(Numbers(), 4, sampler=Counting(24))
    list(loader)
    next(iter(loader))
    later = Loader(Numbers(), 4, sampler=Counting(24))
    later.load_state_dict(loader.state_dict())
    assert ids(later) == whole[1][1:]
    assert ids(later) == whole[2]


def test_batch_samplers_make_the_batches():
    data = Numbers()
    batches = [[3, 1], [5], [7, 7, 2, 0]]
    assert ids(Loader(data, batch_sampler=batches, workers=0)) == batches
    sampler = BatchSampler(RandomSampler(data), 5, drop_last=False)
    loader = Loader(data, batch_sampler=sampler, workers=2)
    first, second = ids(loader), ids(loader)
    assert sorted(flat(first)) == list(range(24))
    assert first != second
    assert [len(batch) for batch in first] == [5, 5, 5, 5, 4] == [len(b) for b in second]
    loader = Loader(data, batch_sampler=sampler)
    next(iter(loader))
    later = Loader(data, batch_sampler=sampler)
    later.load_state_dict(loader.state_dict())
    assert ids(later) == first[1:]


def test_ranks_share_a_plain_sampler_and_leave_a_distributed_one_alone():
    data = Numbers()
    whole = ids(Loader(data, 24, sampler=RandomSampler(data)))[0]
    shares = [
        ids(Loader(data, 6, sampler=RandomSampler(data), rank=rank, world_size=2))
        for rank in (0, 1)
    ]
    assert sorted(flat(shares[0] + shares[1])) == list(range(24))
    assert shares[0][0] + shares[1][0] == whole[:12]
    mine = DistributedSampler(data, num_replicas=2, rank=1, shuffle=True, seed=4)
    first = ids(Loader(data, 6, sampler=mine))
    mine.set_epoch(0)
    assert flat(first) == list(mine)
    dealt = [ids(Loader(data, batch_sampler=[[0], [1], [2]], rank=r, world_size=2)) for r in (0, 1)]
    assert dealt == [[[0], [2]], [[1], [0]]]


def test_every_keyword_of_dataloader_is_obeyed_or_refused_with_what_to_do():
    data = Numbers()
    wanted = ids(DataLoader(data, 5))
    for how in (
        {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True},
        {"num_workers": 0, "pin_memory": True, "timeout": 0, "in_order": True},
        {"num_workers": 2, "multiprocessing_context": "fork", "pin_memory_device": ""},
        {"collate_fn": torch.tensor, "generator": torch.Generator()},
    ):
        assert ids(Loader(data, 5, **how)) == wanted
    for how, says in [
        ({"timeout": 5}, "a worker that dies is reported at once"),
        ({"multiprocessing_context": "spawn"}, "workers are always forked"),
        ({"in_order": False}, "batches always come in order"),
        ({"pin_memory_device": "cuda"}, "give device="),
        ({"batch_size": None}, "always makes batches"),
        ({"num_workers": 1, "workers": 2}, "two names of one thing"),
        ({"seed": 1, "generator": torch.Generator()}, "give one of them"),
        ({"sampler": iter([1])}, "has no length"),
        ({"colour": "red"}, "no keyword 'colour'"),
    ]:
        with pytest.raises(TypeError, match=says):
            Loader(data, **how)
    for how, says in [
        ({"sampler": [1], "shuffle": True}, "exclude one another"),
        ({"batch_sampler": [[1]], "batch_size": 4}, "excludes batch_size"),
    ]:
        with pytest.raises(ValueError, match=says):
            Loader(data, **how)
    with pytest.raises(TypeError, match="given as batch_sampler"):
        list(Loader(data, sampler=[[1, 2], [3, 4]]))
    with pytest.raises(IndexError, match="the dataset has samples 0 to 23"):
        list(Loader(data, sampler=[3, 24]))
    with pytest.warns(DeprecationWarning, match="bad= is called on_error= now"):
        Loader(data, bad="replace")
    known = set(DataLoader.__init__.__annotations__)
    mine = set(Loader.__init__.__annotations__)
    assert known - mine <= {
        "dataset", "timeout", "multiprocessing_context", "in_order", "pin_memory_device", "return",
    }  # fmt: skip


def test_a_generators_seed_is_the_order():
    def order(**how):
        return ids(Loader(Numbers(), 4, shuffle=True, **how))

    assert order(generator=torch.Generator().manual_seed(7)) == order(seed=7) != order(seed=8)


def test_workers_are_introduced_to_torch():
    class Asks(Numbers):
        def __getitem__(self, index):
            info = get_worker_info()
            return torch.tensor([info.id, info.num_workers, self.base])

    def set_base(number):
        get_worker_info().dataset.base = number * 10

    loader = Loader(Asks(), 4, num_workers=2, worker_init_fn=set_base)
    list(loader)
    got = torch.cat(list(loader)).unique(dim=0)
    assert got.tolist() == [[0, 2, 0], [1, 2, 10]]

    def fails(number):
        raise ValueError("no such file")

    with pytest.raises(RuntimeError, match=r"worker_init_fn\(0\): ValueError: no such file"):
        list(Loader(Numbers(), 4, num_workers=1, worker_init_fn=fails))


def test_collating_in_a_worker_takes_no_shared_memory_of_torch():
    """`default_collate` would put each batch into /dev/shm where it finds a worker."""

    class Shares(Numbers):
        def __getitem__(self, index):
            return torch.zeros(4)

    def collate(samples):
        return torch.tensor(torch.utils.data.default_collate(samples).is_shared())

    assert not any(Loader(Shares(), 4, num_workers=1, collate_fn=collate))


def test_a_store_takes_samplers_too(tmp_path):
    _, store = raw_store(tmp_path)
    loader = Loader(Store(store.path), 4, sampler=SubsetRandomSampler(range(10, 20)))
    labels = torch.cat([label for _, label in loader])
    assert sorted(labels.tolist()) == list(range(10, 20))
