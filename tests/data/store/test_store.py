import errno
import json
import pickle
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from hotlap.data.errors import PackError, StoreError
from hotlap.data.store import Store, files, manifest, record_index
from hotlap.data.store.publish import partial_of, publish
from hotlap.data.store.shard import ShardWriter, load


def written(target, payloads, shards=3, profile="jpeg", **more):
    folder = partial_of(target)
    folder.mkdir()
    cuts = np.linspace(0, len(payloads), shards + 1).astype(int).tolist()
    for index in range(shards):
        with ShardWriter(folder, index) as writer:
            for i in range(cuts[index], cuts[index + 1]):
                writer.add(payloads[i], f"src/ü{i}.jpg", {"label": i % 7, "box": [i, i + 0.5]})
    publish(target, shards, profile, classes=("a", "b"), settings={"seed": 3}, **more)
    return Store(target)


def blobs(seed, count=40):
    rng = random.Random(seed)
    return [rng.randbytes(rng.randint(0, 300)) for _ in range(count)]


def test_payloads_fields_and_names_come_back(tmp_path):
    payloads = blobs(1)
    store = written(tmp_path / "s", payloads)
    assert [store.payload(i) for i in range(len(store))] == payloads
    assert store.fields["label"].tolist() == [i % 7 for i in range(40)]
    assert store.fields["box"][5].tolist() == [5, 5.5]
    assert [store.name(i) for i in (0, 13, 39)] == ["src/ü0.jpg", "src/ü13.jpg", "src/ü39.jpg"]
    assert store.classes == ("a", "b")
    assert store.manifest.settings == {"seed": 3}
    assert store.verify() == []
    assert not list((tmp_path / "s").glob("*.side.npz"))


def test_rows_come_back_in_any_order(tmp_path):
    rows = np.random.default_rng(2).integers(0, 256, (30, 4, 5, 3), dtype=np.uint8)
    store = written(tmp_path / "s", list(rows), shards=4, profile="raw")
    assert store.row == manifest.Row("|u1", (4, 5, 3))
    ids = np.random.default_rng(3).integers(0, 30, 50)
    out = np.empty((50, 60), np.uint8)
    store.rows_into(ids, out)
    assert np.array_equal(out.reshape(50, 4, 5, 3), rows[ids])


def test_rows_of_other_types_keep_them(tmp_path):
    rows = np.random.default_rng(2).normal(size=(6, 3)).astype(">f4")
    store = written(tmp_path / "s", list(rows), profile="raw")
    out = np.empty((6, 12), np.uint8)
    store.rows_into(range(6), out)
    assert store.row.dtype == "<f4"
    assert np.array_equal(out.view("<f4"), rows)


def test_rows_that_differ_are_refused(tmp_path):
    rows = [np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8)]
    with pytest.raises(PackError, match=r"rows must be alike; for images give --resize"):
        written(tmp_path / "s", rows, shards=1)
    with pytest.raises(PackError, match=r"rows must be alike"):
        written(tmp_path / "t", rows, shards=2)


def test_a_pickled_store_reads_the_same(tmp_path):
    payloads = blobs(4)
    store = pickle.loads(pickle.dumps(written(tmp_path / "s", payloads)))
    assert store.payload(17) == payloads[17]


@pytest.mark.parametrize("index", [-1, 40])
def test_an_index_outside_is_an_error(tmp_path, index):
    with pytest.raises(IndexError, match="samples 0 to 39"):
        written(tmp_path / "s", blobs(5)).payload(index)


def test_no_byte_flip_delivers_a_wrong_sample(tmp_path):
    payloads = blobs(6)
    whole = tmp_path / "s"
    written(whole, payloads)
    rng = random.Random(7)
    paths = sorted(path for path in whole.iterdir() if path.stat().st_size)
    reported = 0
    for trial in range(200):
        bad = tmp_path / f"bad{trial}"
        shutil.copytree(whole, bad)
        path = bad / rng.choice(paths).name
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        reported += not _delivers(bad, payloads)
        shutil.rmtree(bad)
    assert reported > 150  # flips in the names alone do not touch samples


def _delivers(folder, payloads):
    """Whether every sample is right; False when an error is raised instead."""
    try:
        store = Store(folder)
        got = [store.payload(i) for i in range(len(store))]
    except StoreError:
        return False
    assert got == payloads
    assert store.fields["label"].tolist() == [i % 7 for i in range(40)]
    return True


def test_an_altered_row_is_found_on_its_first_read(tmp_path):
    rows = np.random.default_rng(2).integers(0, 256, (8, 64), dtype=np.uint8)
    written(tmp_path / "s", list(rows), shards=1, profile="raw")
    path = tmp_path / "s" / "shard-00000.bin"
    data = bytearray(path.read_bytes())
    data[64 * 5 + 3] ^= 4
    path.write_bytes(data)
    store = Store(tmp_path / "s")
    out = np.empty((2, 64), np.uint8)
    store.rows_into([1, 4], out)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"sample 5 \(src/ü5.jpg\) .* was altered"):
            store.rows_into([4, 5], out)
    assert len(store.verify()) == 1


def test_a_shard_cut_while_open_is_an_error(tmp_path):
    rows = np.random.default_rng(2).integers(0, 256, (8, 64), dtype=np.uint8)
    store = written(tmp_path / "s", list(rows), shards=1, profile="raw")
    path = tmp_path / "s" / "shard-00000.bin"
    with path.open("r+b") as file:
        file.truncate(64 * 6)
    with pytest.raises(StoreError, match=r"sample 7 .* is cut short"):
        store.rows_into([7], np.empty((1, 64), np.uint8))
    with pytest.raises(StoreError, match="has 384 bytes, packed were 512"):
        Store(tmp_path / "s")


def test_hints_are_given_only_for_what_is_not_in_memory(tmp_path, monkeypatch):
    given = []
    store = written(tmp_path / "s", [bytes(5000)] * 30 + [b""])
    monkeypatch.setattr(record_index.os, "posix_fadvise", lambda *call: given.append(call))
    store.advise(range(31))
    assert given == []
    monkeypatch.setattr(record_index.os, "preadv", _would_wait)
    store.advise([4, 30, 19])
    shards = [Path(f"/proc/self/fd/{handle}").readlink().name for handle, *_ in given]
    assert shards == [f"shard-0000{index}.bin" for index in (0, 2, 1)]
    assert [call[1:3] for call in given] == [(20_000, 5000), (50_000, 0), (45_000, 5000)]


def _would_wait(*_):
    raise BlockingIOError


def _edit(folder, change):
    path = folder / manifest.NAME
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(version=2), "has store version 2, this hotlap reads 1"),
        (lambda d: d.update(count=39), "was altered after packing"),
        (lambda d: d.update(format="zip"), "is not a hotlap store"),
    ],
)
def test_a_manifest_of_another_kind_says_so(tmp_path, change, says):
    written(tmp_path / "s", blobs(8))
    _edit(tmp_path / "s", change)
    with pytest.raises(StoreError, match=says):
        Store(tmp_path / "s")


def test_missing_and_unfinished_stores_say_so(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        Store(tmp_path / "none")
    (tmp_path / "half.partial").mkdir()
    with pytest.raises(StoreError, match="not packed to its end: the same `hotlap pack`"):
        Store(tmp_path / "half")
    with pytest.raises(StoreError, match="is half packed"):
        Store(tmp_path / "half.partial")
    with pytest.raises(StoreError, match="is not a hotlap store"):
        Store(tmp_path)
    written(tmp_path / "s", blobs(9))
    (tmp_path / "s" / "shard-00001.bin").unlink()
    with pytest.raises(StoreError, match="is missing"):
        Store(tmp_path / "s")


def test_a_store_that_exists_is_not_overwritten(tmp_path):
    payloads = blobs(10)
    written(tmp_path / "s", payloads)
    with pytest.raises(PackError, match="exists: remove it"):
        written(tmp_path / "s", blobs(11))
    assert Store(tmp_path / "s").payload(3) == payloads[3]


def test_an_error_inside_a_shard_leaves_none(tmp_path):
    with pytest.raises(ZeroDivisionError), ShardWriter(tmp_path, 0) as writer:
        writer.add(b"x", "a", {})
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    assert load(tmp_path, 0) is None


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with (
        pytest.raises(PackError, match=r"no space left on the disk .* free some"),
        ShardWriter(tmp_path, 0) as writer,
    ):
        writer.add(b"x", "a", {})


def test_fields_must_be_alike_and_numbers(tmp_path):
    with pytest.raises(PackError, match=r"has the fields \['b'\]"), ShardWriter(tmp_path, 0) as w:
        w.add(b"", "one", {"a": 1})
        w.add(b"", "two", {"b": 1})
    with pytest.raises(PackError, match="fields are numbers"), ShardWriter(tmp_path, 0) as w:
        w.add(b"", "one", {"a": "text"})
