import errno
import fcntl
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

from data.images import encoded, folder, photo
from hotlap.data.decode import Decoder
from hotlap.data.errors import PackError, StoreError
from hotlap.data.order import permutation
from hotlap.data.pack import pack
from hotlap.data.pack.sources import Arrays
from hotlap.data.store import Store, files


def payloads(store):
    return [store.payload(i) for i in range(len(store))]


def test_the_store_does_not_depend_on_the_workers(tmp_path):
    folder(tmp_path / "src")
    stores = [
        pack(tmp_path / "src", tmp_path / f"s{w}", workers=w, shards=5, shuffle=True, seed=3)
        for w in (1, 2, 3)
    ]
    assert stores[0].digest == stores[1].digest == stores[2].digest
    order = permutation(12, 3, 0).tolist()
    plain = payloads(pack(tmp_path / "src", tmp_path / "plain"))
    assert payloads(stores[0]) == [plain[i] for i in order]


def test_jpeg256_shrinks_what_is_larger_and_keeps_the_rest(tmp_path):
    root = tmp_path / "src"
    root.mkdir()
    (root / "a.jpg").write_bytes(encoded(photo(1, 400, 600)))
    (root / "b.jpg").write_bytes(encoded(photo(2, 100, 120)))
    (root / "c.png").write_bytes(encoded(photo(3, 100, 120), "PNG"))
    store = pack(root, tmp_path / "s", profile="jpeg256")
    assert Decoder()(store.payload(0)).shape == (256, 384, 3)
    wanted = np.asarray(Image.fromarray(photo(1, 400, 600)).resize((384, 256), Image.BILINEAR))
    assert np.abs(Decoder()(store.payload(0)).astype(int) - wanted).mean() < 6
    assert store.payload(1) == (root / "b.jpg").read_bytes()
    assert store.payload(2).startswith(b"\xff\xd8\xff")


@pytest.mark.parametrize(("resize", "shape"), [(64, (64, 64)), ((48, 80), (48, 80))])
def test_raw_rows_are_pils_pixels(tmp_path, resize, shape):
    paths = folder(tmp_path / "src", height=120, width=161)
    store = pack(tmp_path / "src", tmp_path / "s", profile="raw", resize=resize, workers=2)
    assert store.row.shape == (*shape, 3)
    for index, path in enumerate(paths):
        image = Image.open(path).convert("RGB")
        if resize == 64:
            image = image.resize((int(64 * 161 / 120), 64), Image.BILINEAR)
            left = round((image.width - 64) / 2)
            image = image.crop((left, 0, left + 64, 64))
        else:
            image = image.resize((80, 48), Image.BILINEAR)
        got = np.frombuffer(store.payload(index), np.uint8).reshape(*shape, 3)
        assert np.abs(got.astype(int) - np.asarray(image)).max() <= 1


def test_raw_images_of_different_size_ask_for_resize(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(photo(1, 20, 30), "PNG"))
    (tmp_path / "b.png").write_bytes(encoded(photo(1, 20, 31), "PNG"))
    with pytest.raises(PackError, match="for images give --resize"):
        pack(tmp_path, tmp_path.parent / "s", profile="raw")


def spoilt(tmp_path, bad):
    paths = folder(tmp_path / "src", each=20)
    for index in bad:
        paths[index].write_bytes(paths[index].read_bytes()[:500])
    return paths


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_sample_is_named(tmp_path, workers):
    spoilt(tmp_path, [25])
    with pytest.raises(PackError, match=r"^class1/005.jpg: is a damaged JPEG: .*--on-error skip"):
        pack(tmp_path / "src", tmp_path / "s", workers=workers, shards=4)
    with pytest.raises(StoreError, match="not packed to its end"):
        Store(tmp_path / "s")


@pytest.mark.parametrize("workers", [1, 3])
def test_bad_samples_are_skipped_and_listed(tmp_path, workers):
    paths = spoilt(tmp_path, [3, 25])
    options = {"workers": workers, "shards": 4, "on_error": "skip", "max_error_rate": 0.05}
    store = pack(tmp_path / "src", tmp_path / "s", **options)
    kept = [path.read_bytes() for i, path in enumerate(paths) if i not in {3, 25}]
    assert payloads(store) == kept
    assert [name for name, _ in store.manifest.skipped] == ["class0/003.jpg", "class1/005.jpg"]


def test_bad_samples_are_replaced_by_the_same_others(tmp_path):
    paths = spoilt(tmp_path, [3])
    stores = [
        pack(
            tmp_path / "src",
            tmp_path / f"s{w}",
            on_error="replace",
            max_error_rate=0.1,
            workers=w,
            shards=3,
        )
        for w in (1, 2)
    ]
    assert payloads(stores[0]) == payloads(stores[1])
    assert stores[0].payload(3) in [path.read_bytes() for path in paths]
    assert len(stores[0]) == 40


@pytest.mark.parametrize("workers", [1, 2])
def test_too_many_bad_samples_end_the_packing(tmp_path, workers):
    spoilt(tmp_path, [1, 2, 30])
    with pytest.raises(PackError, match="3 of 40 samples are bad, more than a share"):
        pack(tmp_path / "src", tmp_path / "s", workers=workers, shards=1 + workers, on_error="skip",
             max_error_rate=0.05)  # fmt: skip


class InterruptError(Exception):
    pass


def test_an_interrupted_packing_goes_on_where_it_stopped(tmp_path):
    folder(tmp_path / "src", each=20)
    options = {"shards": 8, "shuffle": True, "workers": 1}

    def stop(state):
        if state.done == 23:
            raise InterruptError

    with pytest.raises(InterruptError):
        pack(tmp_path / "src", tmp_path / "s", progress=stop, **options)
    states = []
    store = pack(tmp_path / "src", tmp_path / "s", progress=states.append, **options)
    assert states[-1].resumed == 20
    assert states[-1].done == 40
    assert store.digest == pack(tmp_path / "src", tmp_path / "whole", **options).digest
    assert not (tmp_path / "s.partial").exists()


def test_other_settings_do_not_resume(tmp_path):
    paths = folder(tmp_path / "src")
    options = {"workers": 1, "shards": 4}
    for _ in range(2):
        stopped(tmp_path, 4, **options)
    with pytest.raises(PackError, match="holds 1 shards packed with other settings"):
        pack(tmp_path / "src", tmp_path / "s", shuffle=True, **options)
    with pytest.raises(PackError, match="packed with other number of shards"):
        pack(tmp_path / "src", tmp_path / "s", workers=1, shards=3)
    paths[0].write_bytes(paths[1].read_bytes())
    with pytest.raises(PackError, match="packed with other source"):
        pack(tmp_path / "src", tmp_path / "s", **options)


def stopped(tmp_path, after, **options):
    """Pack and be interrupted after so many samples."""

    def stop(state):
        if state.done >= after:
            raise InterruptError

    with pytest.raises(InterruptError):
        pack(tmp_path / "src", tmp_path / "s", progress=stop, **options)


def test_before_a_shard_is_finished_other_settings_begin_anew(tmp_path):
    folder(tmp_path / "src")
    stopped(tmp_path, 1, workers=1, shards=4)
    (tmp_path / "s.partial" / "shard-00003.bin").write_bytes(b"left")
    store = pack(tmp_path / "src", tmp_path / "s", shuffle=True, shards=2)
    assert store.digest == pack(tmp_path / "src", tmp_path / "t", shuffle=True, shards=2).digest
    assert {path.name for path in store.path.iterdir()} == {
        path.name for path in (tmp_path / "t").iterdir()
    }


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_after_a_bad_sample_the_packing_goes_on_as_the_error_says(tmp_path, policy):
    paths = folder(tmp_path / "src")
    paths[7].write_bytes(b"no image")
    options = {"workers": 1, "shards": 4, "max_error_rate": 0.1}
    with pytest.raises(PackError, match="--on-error skip"):
        pack(tmp_path / "src", tmp_path / "s", **options)
    states = []
    options["on_error"] = policy
    store = pack(tmp_path / "src", tmp_path / "s", progress=states.append, **options)
    assert states[-1].resumed == 6
    assert store.digest == pack(tmp_path / "src", tmp_path / "t", **options).digest


def test_finished_shards_do_not_become_strict_afterwards(tmp_path):
    paths = folder(tmp_path / "src")
    paths[1].write_bytes(b"no image")
    options = {"workers": 1, "shards": 4, "max_error_rate": 0.1}
    stopped(tmp_path, 5, on_error="skip", **options)
    with pytest.raises(PackError, match="other policy for bad samples"):
        pack(tmp_path / "src", tmp_path / "s", on_error="raise", **options)


class Slow(Arrays):
    def read(self, index):
        time.sleep(0.05)
        return super().read(index)


def children():
    me = os.getpid()
    return [int(p) for p in open(f"/proc/{me}/task/{me}/children").read().split()]


def test_a_killed_process_is_reported_within_seconds(tmp_path):
    before = set(children())
    source = Slow({"x": np.zeros((400, 3), "u1")})

    def kill():
        while not (mine := set(children()) - before):
            time.sleep(0.02)
        time.sleep(0.2)
        os.kill(mine.pop(), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    start = time.monotonic()
    with pytest.raises(PackError, match=r"a packing process was killed .*same command again"):
        pack(source, tmp_path / "s", profile="raw", workers=2, shards=4)
    killer.join()
    assert time.monotonic() - start < 5
    assert set(children()) <= before


def test_ctrl_c_leaves_no_process(tmp_path):
    before = set(children())
    source = Slow({"x": np.zeros((400, 3), "u1")})

    def interrupt(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(source, tmp_path / "s", profile="raw", workers=2, shards=400, progress=interrupt)
    assert set(children()) <= before


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_a_clear_error_and_no_store(tmp_path, monkeypatch, workers):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(PackError, match=r"no space left on the disk .* the same command"):
        pack(Arrays({"x": np.zeros((9, 3))}), tmp_path / "s", profile="raw", workers=workers,
             shards=3)  # fmt: skip
    monkeypatch.undo()
    with pytest.raises(StoreError, match="not packed to its end"):
        Store(tmp_path / "s")
    assert len(pack(Arrays({"x": np.zeros((9, 3))}), tmp_path / "s", profile="raw", shards=3)) == 9


def test_two_packings_into_one_place_are_refused(tmp_path):
    (tmp_path / "s.partial").mkdir()
    handle = os.open(tmp_path / "s.partial", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(PackError, match="another packing writes to"):
        pack(Arrays({"x": np.zeros((9, 3))}), tmp_path / "s", profile="raw")
    os.close(handle)


def test_settings_and_sources_must_fit(tmp_path):
    for options, says in [
        ({"profile": "zip"}, "profile is 'zip', should be one of auto, jpeg, jpeg256"),
        ({"on_error": "hide"}, "on_error is 'hide'"),
        ({"shards": 0}, "shards is 0, should be 1 to 512"),
        ({"quality": 101}, "quality is 101"),
        ({"max_error_rate": 2}, "max_error_rate is 2"),
        ({"resize": 0}, "resize is 0"),
        ({"profile": "tokens"}, "the source is a tensors: profile tokens does not fit"),
    ]:
        with pytest.raises(PackError, match=says):
            pack(Arrays({"x": np.zeros((9, 3))}), tmp_path / "s", **options)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(PackError, match="exists: remove it"):
        pack(Arrays({"x": np.zeros((9, 3))}), tmp_path / "full", profile="raw")


def test_torch_threads_of_the_caller_stay_as_they_were(tmp_path):
    before = torch.get_num_threads()
    pack(Arrays({"x": np.zeros((9, 3))}), tmp_path / "s", profile="raw", workers=2, shards=2)
    assert torch.get_num_threads() == before
