"""Rows that are in memory are copied out of mapped shards; nothing that becomes of a file kills."""

import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from data.store.test_store import written
from hotlap.data.errors import StoreError
from hotlap.data.store import Store, gather, mapped


@pytest.fixture
def compiled():
    """The copy is compiled here."""
    if shutil.which("cc") is None or gather.library() is None:
        pytest.skip("nothing can be compiled here")


compiles = pytest.mark.usefixtures("compiled")


def rows_of(folder, count=60, size=5000, shards=3, seed=0):
    """A store of random rows, and the rows."""
    rows = np.random.default_rng(seed).integers(0, 256, (count, size), dtype=np.uint8)
    return written(folder, list(rows), shards=shards, profile="raw"), rows


def copied(store, ids, out):
    """Whether rows are copied; the kernel may have dropped pages, and is then made to read them."""
    for _ in range(5):
        if store._mapped.copy(ids, out):
            return True
        for path in store.path.glob("*.bin"):
            path.read_bytes()
    return False


@compiles
@pytest.mark.parametrize("size", [1, 63, 64, 5000, 100_001])
@pytest.mark.parametrize("offset", [0, 1, 16, 40])
@pytest.mark.parametrize("large", [0, 1 << 40])
def test_rows_of_any_size_come_whole_wherever_they_go(tmp_path, monkeypatch, size, offset, large):
    monkeypatch.setattr(gather, "LARGE", large)
    store, rows = rows_of(tmp_path / "s", 30, size, seed=size + offset)
    ids = np.random.default_rng(offset).integers(0, 30, 40)
    memory = np.full(40 * size + offset + 64, 7, np.uint8)
    out = memory[offset : offset + 40 * size].reshape(40, size)
    assert copied(store, ids, out)
    assert np.array_equal(out, rows[ids])
    assert (memory[:offset] == 7).all()
    assert (memory[offset + 40 * size :] == 7).all()


@compiles
def test_of_many_shards_each_is_looked_at(tmp_path):
    store, rows = rows_of(tmp_path / "s", 200, 64, shards=100)
    out = np.empty((200, 64), np.uint8)
    assert copied(store, range(200), out)
    assert np.array_equal(out, rows)
    with (tmp_path / "s" / "shard-00090.bin").open("ab") as file:
        file.truncate(127)
    assert not store._mapped.copy(range(200), out)
    assert copied(store, range(100), out[:100])


@compiles
def test_the_first_read_is_still_checked(tmp_path):
    written_store, _ = rows_of(tmp_path / "s", shards=1)
    path = tmp_path / "s" / "shard-00000.bin"
    data = bytearray(path.read_bytes())
    data[5000 * 9 + 3] ^= 1
    path.write_bytes(data)
    store = Store(written_store.path)
    with pytest.raises(StoreError, match=r"sample 9 .* was altered"):
        store.rows_into([8, 9], np.empty((2, 5000), np.uint8))


def test_without_a_compiler_rows_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "library", lambda: None)
    store, rows = rows_of(tmp_path / "s")
    out = np.empty((3, 5000), np.uint8)
    assert not store._mapped.copy([1, 50, 30], out)
    store.rows_into([1, 50, 30], out)
    assert np.array_equal(out, rows[[1, 50, 30]])


@compiles
def test_rows_that_are_not_in_memory_are_read(tmp_path, monkeypatch):
    store, rows = rows_of(tmp_path / "s")
    out = np.empty((3, 5000), np.uint8)
    monkeypatch.setattr(gather.Maps, "gather", lambda *_: False)
    assert not store._mapped.copy([1, 50, 2], out)
    store.rows_into([1, 50, 2], out)
    assert np.array_equal(out, rows[[1, 50, 2]])


@compiles
@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.empty((4, 5000), np.uint8), ValueError),
        (np.empty((3, 4999), np.uint8), StoreError),
        (np.empty((3, 5001), np.uint8), StoreError),
        (np.frombuffer(bytes(15_000), np.uint8).reshape(3, 5000), ValueError),
        (np.empty((3, 5000, 1), np.uint8)[:2], ValueError),
    ],
    ids=["more rows", "narrow", "wide", "read-only", "fewer rows"],
)
def test_an_array_that_does_not_fit_is_an_error(tmp_path, out, error):
    store, _ = rows_of(tmp_path / "s")
    store.rows_into(range(60), np.empty((60, 5000), np.uint8))
    with pytest.raises(error):
        store.rows_into([1, 59, 30], out)


@compiles
def test_an_array_with_gaps_is_filled_all_the_same(tmp_path):
    store, rows = rows_of(tmp_path / "s")
    memory = np.zeros((3, 10_000), np.uint8)
    store.rows_into([1, 59, 30], memory[:, :5000])
    assert np.array_equal(memory[:, :5000], rows[[1, 59, 30]])
    assert not memory[:, 5000:].any()


@compiles
def test_where_no_more_can_be_mapped_rows_are_read(tmp_path, monkeypatch):
    store, rows = rows_of(tmp_path / "s")
    monkeypatch.setattr(mapped, "Maps", _too_many)
    out = np.empty((2, 5000), np.uint8)
    store.rows_into([1, 50], out)
    assert np.array_equal(out, rows[[1, 50]])


def _too_many(*_):
    raise OSError(24, "too many open files")


@compiles
def test_a_map_takes_no_descriptor(tmp_path):
    store, _ = rows_of(tmp_path / "s", 200, 64, shards=100)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert copied(store, range(200), np.empty((200, 64), np.uint8))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 100


@compiles
@pytest.mark.parametrize("index", [-1, 60])
def test_an_index_outside_is_an_error(tmp_path, index):
    store, _ = rows_of(tmp_path / "s")
    out = np.empty((60, 5000), np.uint8)
    for _ in range(2):
        store.rows_into(range(60), out)
        with pytest.raises(IndexError, match="samples 0 to 59"):
            store.rows_into([3, index], out[:2])


@compiles
def test_of_a_large_store_only_so_much_stays_mapped(tmp_path, monkeypatch):
    """Small rows far apart: the kernel maps what lies around each."""
    monkeypatch.setattr(mapped, "MOST", 4 << 20)
    store, rows = rows_of(tmp_path / "s", 20_000, 1500, shards=1)
    ids = np.random.default_rng(0).permutation(20_000).reshape(-1, 50)
    out = np.empty((50, 1500), np.uint8)
    before, most = mapped._counted(), 0
    for some in ids:
        assert copied(store, some, out)
        assert np.array_equal(out, rows[some])
        most = max(most, mapped._counted() - before)
    assert most < 30 << 20
    assert mapped._counted() - before < 28 << 20, "it was let go of at least once"


@compiles
def test_threads_may_share_it(tmp_path):
    store, rows = rows_of(tmp_path / "s", 200, 4096, shards=8)
    wrong = []

    def read(seed):
        rng, out = np.random.default_rng(seed), np.empty((32, 4096), np.uint8)
        for _ in range(200):
            ids = rng.integers(0, 200, 32)
            store.rows_into(ids, out)
            if not np.array_equal(out, rows[ids]):
                wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@compiles
@pytest.mark.parametrize("end", [4096 * 3, 4096 * 3 + 100])
def test_a_shard_cut_short_after_it_was_mapped_is_an_error(tmp_path, end):
    """In a process of its own, since it would be killed; at a page's end, and within a page."""
    rows_of(tmp_path / "s", 8, 4096, shards=1)
    found = _ran(tmp_path, f"""
store.rows_into(range(8), out)
os.truncate({str(tmp_path / "s" / "shard-00000.bin")!r}, {end})
try:
    store.rows_into([4, 3, 2, 1, 0, 0, 0, 0], out)
except StoreError as error:
    print(error)
""")  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    assert "is cut short: pack again" in found.stdout


@compiles
def test_a_bus_error_of_others_still_ends_the_process(tmp_path):
    rows_of(tmp_path / "s", 8, 4096, shards=1)
    (tmp_path / "other").write_bytes(bytes(4096))
    found = _ran(tmp_path, f"""
store.rows_into(range(8), out)
other = np.memmap({str(tmp_path / "other")!r}, np.uint8)
os.truncate({str(tmp_path / "other")!r}, 0)
print(other[0])
""")  # fmt: skip
    assert found.returncode == -signal.SIGBUS


@compiles
def test_so_it_does_when_threads_loaded_the_copy_all_at_once(tmp_path):
    rows_of(tmp_path / "s", 8, 4096, shards=1)
    (tmp_path / "other").write_bytes(bytes(4096))
    found = _ran(tmp_path, f"""
import threading
gate = threading.Barrier(4)
def first():
    gate.wait()
    store.rows_into(range(8), np.empty((8, 4096), np.uint8))
threads = [threading.Thread(target=first) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
other = np.memmap({str(tmp_path / "other")!r}, np.uint8)
os.truncate({str(tmp_path / "other")!r}, 0)
print(other[0])
""")  # fmt: skip
    assert found.returncode == -signal.SIGBUS


@compiles
@pytest.mark.parametrize("how", ["os.kill(os.getpid(), signal.SIGBUS)", "signal.raise_signal(7)"])
def test_a_bus_error_that_is_sent_ends_the_process(tmp_path, how):
    rows_of(tmp_path / "s", 8, 4096, shards=1)
    found = _ran(tmp_path, f"import signal; store.rows_into(range(8), out); {how}; print('on')")
    assert (found.returncode, found.stdout) == (-signal.SIGBUS, "")


@compiles
def test_in_a_thread_that_blocks_the_signal_rows_are_read(tmp_path):
    rows_of(tmp_path / "s", 8, 4096, shards=1)
    found = _ran(tmp_path, f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
store.rows_into(range(8), out)
os.truncate({str(tmp_path / "s" / "shard-00000.bin")!r}, 4096)
try:
    store.rows_into([4, 3, 2, 1, 0, 0, 0, 0], out)
except StoreError as error:
    print(error)
""")  # fmt: skip
    assert "is cut short: pack again" in found.stdout


@compiles
def test_where_others_watch_for_bus_errors_rows_are_read(tmp_path):
    rows_of(tmp_path / "s", 8, 4096, shards=1)
    found = _ran(tmp_path, """
assert store._mapped.copy(range(8), out)
import faulthandler
faulthandler.enable()
assert not store._mapped.copy(range(8), out)
store.rows_into(range(8), out)
print("read")
""")  # fmt: skip
    assert (found.stdout, found.returncode) == ("read\n", 0)


def _ran(tmp_path, body):
    """What became of a process that runs these lines with a store of 8 rows."""
    lines = f"""
import os
import numpy as np
from hotlap.data.errors import StoreError
from hotlap.data.store import Store
store, out = Store({str(tmp_path / "s")!r}), np.empty((8, 4096), np.uint8)
{body}"""
    command = [sys.executable, "-c", lines]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
