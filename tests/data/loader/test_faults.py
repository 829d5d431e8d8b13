import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from data.loader.making import Dataset, jpeg_store, plain, raw_store
from hotlap.data import Loader, Store
from hotlap.data.errors import LoaderError, SampleError, StoreError
from hotlap.data.loader.memory import Ring
from hotlap.data.transforms import Resize


class Bad(Dataset):
    def __init__(self, bad, count=40):
        super().__init__(count)
        self.bad = set(bad)
        self.samples = [(f"/data/{i}.jpg", 0) for i in range(count)]

    def __getitem__(self, index):
        if index in self.bad:
            raise OSError("broken data stream")
        return torch.tensor(index)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_sample_of_a_dataset_is_named_after_the_good_ones(workers):
    got = []
    with pytest.raises(
        SampleError,
        match=r"sample 13 \(/data/13.jpg\) of Bad cannot be read: OSError: broken[\s\S]*test_fau",
    ):
        got.extend(batch.tolist() for batch in Loader(Bad([13]), 4, workers=workers))
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_bad_samples_are_replaced_alike_by_all_workers():
    got = []
    for workers in (0, 2):
        loader = Loader(Bad([13, 20]), 4, workers=workers, on_error="replace", max_error_rate=0.05)
        got.append([batch.tolist() for batch in loader])
        assert sorted(loader.replaced) == [13, 20]
        assert "OSError: broken" in loader.replaced[13]
    assert got[0] == got[1]
    with pytest.raises(SampleError, match=r"3 of 40 .* more than max_error_rate \(0.05\)"):
        list(Loader(Bad([3, 13, 20]), 4, on_error="replace", max_error_rate=0.05, workers=0))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_altered_store_is_reported_and_never_replaced(tmp_path, workers):
    store = jpeg_store(tmp_path)
    path = store.path / "shard-00001.bin"
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    loader = Loader(
        Store(store.path), 4, transform=Resize((8, 8)), workers=workers, on_error="replace"
    )
    with pytest.raises(StoreError, match=r"sample 11 \(a/011.jpg\) .* was altered after packing"):
        list(loader)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_image_in_a_store_is_named(tmp_path, workers):
    from hotlap.data import Decoder

    store = jpeg_store(tmp_path)
    how = {"transform": Resize((8, 8)), "workers": workers, "decoder": Decoder(max_pixels=2376)}
    with pytest.raises(SampleError, match=r"sample 13 \(a/013.jpg\) of .* has 56 x 43 pixels"):
        list(Loader(store, 4, **how))
    loader = Loader(store, 4, on_error="replace", max_error_rate=0.5, **how)
    assert sum(len(labels) for _, labels in loader) == 22
    assert 13 in loader.replaced


class Sleepy(Dataset):
    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.tensor(index)


def children():
    me = os.getpid()
    return {int(p) for p in open(f"/proc/{me}/task/{me}/children").read().split()}


def in_shm():
    return {path.name for path in Path("/dev/shm").iterdir()}


def test_a_killed_process_is_reported_with_its_signal():
    before = children()
    rows = iter(Loader(Sleepy(400), 4, workers=2))
    next(rows)
    os.kill((children() - before).pop(), signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(LoaderError, match=r"a loader process \(pid \d+\) was killed by SIGKILL"):
        list(rows)
    assert time.monotonic() - start < 5
    assert children() <= before


def test_want_of_memory_is_named(monkeypatch):
    import itertools

    counts = itertools.count()
    monkeypatch.setattr("hotlap.data.exit_reason.kills_so_far", lambda: next(counts))
    monkeypatch.setattr("hotlap.data.loader.forked.kills_so_far", lambda: -1)
    before = children()
    rows = iter(Loader(Sleepy(400), 4, workers=2))
    next(rows)
    os.kill((children() - before).pop(), signal.SIGKILL)
    with pytest.raises(LoaderError, match="killed by the kernel: out of memory"):
        list(rows)


def test_a_process_that_exits_is_reported():
    class Exits(Dataset):
        def __getitem__(self, index):
            if index == 9:
                os._exit(7)
            return index

    with pytest.raises(LoaderError, match="ended with exit code 7"):
        list(Loader(Exits(), 4, workers=2))


def test_a_pass_that_is_left_early_leaves_no_process(tmp_path):
    before = children()
    for _ in Loader(Sleepy(400), 4, workers=2):
        break
    store = jpeg_store(tmp_path)
    loader = Loader(store, 2, transform=Resize((8, 8)), workers=2)
    for _ in loader:
        raise_here = True
        break
    assert raise_here
    assert children() <= before
    assert sum(len(labels) for _, labels in loader) == 22
    del loader
    assert children() <= before


def test_ctrl_c_leaves_nothing(tmp_path):
    """A script in a loop over two loader processes, interrupted as a terminal would."""
    code = (
        "import sys, time\n"
        "sys.path.insert(0, 'tests')\n"
        "from data.loader.test_faults import Sleepy\n"
        "from hotlap.data import Loader\n"
        "for batch in Loader(Sleepy(4000), 4, workers=2):\n"
        "    print('batch', flush=True)\n"
    )
    shm = in_shm()
    script = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    script.stdout.readline()
    os.killpg(script.pid, signal.SIGINT)
    _, err = script.communicate(timeout=20)
    assert b"KeyboardInterrupt" in err
    assert _group_is_empty(script.pid)
    assert {name for name in in_shm() - shm if "hotlap" in name} == set()


def test_a_killed_script_leaves_no_process():
    code = (
        "import sys\n"
        "sys.path.insert(0, 'tests')\n"
        "from data.loader.test_faults import Sleepy\n"
        "from hotlap.data import Loader\n"
        "for batch in Loader(Sleepy(4000), 40, workers=2):\n"
        "    print('batch', flush=True)\n"
    )
    script = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                              start_new_session=True)  # fmt: skip
    script.stdout.readline()
    script.kill()
    script.wait()
    script.stdout.close()
    deadline = time.monotonic() + 5
    while not _group_is_empty(script.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _group_is_empty(script.pid)


def _group_is_empty(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_nothing_is_put_into_dev_shm(tmp_path):
    _, store = raw_store(tmp_path)
    before = in_shm()
    for _ in Loader(store, 4, workers=2):
        new = {name for name in in_shm() - before if "torch" not in name}
        assert not {name for name in new if "hotlap" in name}


def test_a_ring_without_room_is_a_clear_error():
    with pytest.raises(LoaderError, match=r"no memory for the loader's ring of 4 .* fewer workers"):
        Ring(4, 1 << 45)


def test_memory_does_not_grow(tmp_path):
    _, store = raw_store(tmp_path, 300)
    loader = Loader(store, 16, shuffle=True)
    for _ in range(3):
        list(loader)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        for _ in loader:
            pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2048


def test_a_deadline_of_another_thread_is_no_matter():
    """A loader may be used from a thread that is not the main one."""
    got = []
    thread = threading.Thread(
        target=lambda: got.extend(plain(b["id"]) for b in Loader(Dataset(), 4, workers=2))
    )
    thread.start()
    thread.join(30)
    assert len(got) == 8


def test_errors_survive_the_way_between_processes():
    for kind in (SampleError, StoreError, LoaderError):
        assert str(pickle.loads(pickle.dumps(kind("a message")))) == "a message"
