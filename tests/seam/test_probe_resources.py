"""Memory of workers, disk reads, and what a dataset holds."""

import mmap
import multiprocessing
import os
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.seam.probe import dataset_report, resources
from hotlap.seam.probe.resources import Resources

pytestmark = pytest.mark.clock

MIB = 1 << 20


def growing(pipe):
    held = []
    while pipe.recv():
        held.append(bytearray(os.urandom(4 * MIB)))
        pipe.send(len(held))


def test_the_private_memory_of_a_child_is_followed():
    mine, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=growing, args=(theirs,), daemon=True)
    child.start()
    try:
        seen = Resources()
        for _ in range(3):
            seen.look()
            mine.send(True)
            mine.recv()
        found = seen.result()
    finally:
        child.kill()
        child.join()
    series = max(found.workers, key=lambda one: one[-1][1] - one[0][1])
    assert len(series) == 4
    # A block is made of another, and a forked child copies the pages of its parent that it touches.
    assert 11 * MIB <= series[-1][1] - series[0][1] <= 36 * MIB
    assert [when for when, _ in series] == sorted(when for when, _ in series)


def test_a_child_that_shares_its_pages_has_next_to_none_of_its_own():
    held = bytearray(os.urandom(64 * MIB))
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(9,), daemon=True)
    child.start()
    try:
        deadline = time.monotonic() + 5
        while not resources.private(child.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert 0 < resources.private(child.pid) < len(held) // 2
    finally:
        child.kill()
        child.join()


def computing():
    while True:
        pass


def test_what_children_compute_is_counted_from_the_first_look_on():
    seen = Resources()
    seen.look()
    child = multiprocessing.get_context("fork").Process(target=computing, daemon=True)
    child.start()
    try:
        begin, own = time.monotonic(), time.process_time()
        while resources.computed(child.pid) < 0.5 and time.monotonic() < begin + 20:
            time.sleep(0.05)
        seen.steps_over()
        spent, own = resources.computed(child.pid), time.process_time() - own
        found = seen.result()
    finally:
        child.kill()
        child.join()
    assert found.computed_by_workers == pytest.approx(spent / (spent + own), abs=0.1)
    assert 0.0 <= found.core_wait <= 1.0


def test_what_is_not_there_counts_nothing():
    assert resources.private(2**22 + 1) == 0
    assert resources.disk(2**22 + 1) == (0, 0)
    assert resources.computed(2**22 + 1) == 0
    assert Resources().result().disk == 0.0


def test_bytes_read_are_counted(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(8 * MIB))
    seen = Resources()
    seen.look()
    path.read_bytes()
    assert seen.result().read > 0


class Held:
    def __init__(self, **values):
        vars(self).update(values)


def test_long_lists_of_python_objects_are_named_with_their_size():
    names = [(f"folder/{number:08d}.jpg", number % 10) for number in range(20_000)]
    (found,) = dataset_report.objects(Held(samples=names, short=names[:9]))
    assert (found.path, found.kind, found.length) == ("samples", "list", 20_000)
    assert 100 * 20_000 < found.bytes < 250 * 20_000


@pytest.mark.parametrize(
    "value",
    [np.zeros(50_000), torch.zeros(50_000), list(range(99)), [torch.zeros(2)] * 20_000, "x" * 99],
    ids=["array", "tensor", "short list", "list of tensors", "string"],
)  # fmt: skip
def test_what_is_not_copied_object_by_object_is_left_alone(value):
    assert dataset_report.objects(Held(value=value)) == []


def test_large_files_that_are_open_or_mapped_are_named(tmp_path):
    for name, size in (("mapped.npy", 3 * MIB), ("open.h5", 2 * MIB), ("small", 99)):
        (tmp_path / name).write_bytes(bytes(size))
    mapped = np.memmap(tmp_path / "mapped.npy", np.uint8, "r")
    with open(tmp_path / "open.h5", "rb"), open(tmp_path / "small", "rb"):
        found = dataset_report.open_files()
    assert len(mapped)
    assert {str(tmp_path / "mapped.npy"), str(tmp_path / "open.h5")} <= set(found)
    assert str(tmp_path / "small") not in found
    assert not [path for path in found if ".so" in path]


def test_page_faults_of_fresh_memory_are_counted():
    def fresh():
        for _ in range(4):
            np.ones(9 * MIB, np.uint8)  # larger than what malloc keeps at first

    found = resources.faults_of(fresh, 4)
    assert 0 <= found["share"] <= 1
    assert found["faults"] >= 0
    quiet = resources.faults_of(lambda: sum(range(200_000)), 1)
    assert quiet["faults"] < 200
    assert resources.fault_seconds() > 0


def test_shared_memory_that_a_loader_may_need():
    data = TensorDataset(torch.zeros(9, 4))
    loader = DataLoader(data, batch_size=3, num_workers=2, prefetch_factor=6)
    found = dataset_report.shared_memory(loader, 1000)
    assert (found.needed, found.batches) == (13_000, 13)
    assert 0 <= found.free <= found.size


def test_memory_that_malloc_keeps_is_not_negative():
    assert dataset_report.kept() >= 0


def fresh_pages(count):
    with mmap.mmap(-1, count * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1


def test_page_faults_are_counted_in_the_later_half_of_the_steps():
    seen = Resources()
    for pages in (50_000, 0, 0, 5_000):
        fresh_pages(pages or 1)
        seen._count_faults()
    begin = seen._faults[1][0]
    fresh_pages(5_000)
    seen.steps_over()
    end = seen._faults[-1][0]
    fresh_pages(50_000)
    assert seen.fault_rate() * (end - begin) == pytest.approx(10_000, rel=0.1)


def test_a_thread_counts_page_faults_while_steps_are_timed(monkeypatch):
    monkeypatch.setattr(resources, "TICK", 0.01)
    seen = Resources()
    with seen.watching():
        end = time.monotonic() + 5
        while len(seen._faults) < 5 and time.monotonic() < end:
            time.sleep(0.01)
    assert len(seen._faults) >= 5
    assert len(seen._looks) == 1
