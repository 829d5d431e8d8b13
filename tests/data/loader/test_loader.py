import json
import random

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import IterableDataset, TensorDataset

from data.loader.making import Dataset, jpeg_store, plain, raw_store
from hotlap.data import Loader, Store
from hotlap.data.errors import SampleError, StoreError
from hotlap.data.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, Resize

SIZED = (RandomResizedCrop(16), RandomHorizontalFlip())


def epochs(loader, count=1):
    return [[plain(batch) for batch in loader] for _ in range(count)]


def test_rows_come_in_the_promised_order(tmp_path):
    rows, store = raw_store(tmp_path)
    loader = Loader(store, 8, shuffle=True, seed=3)
    for epoch in range(3):
        images, labels = zip(*[(pair[0].clone(), pair[1]) for pair in loader], strict=True)
        order = torch.cat(labels).numpy()
        assert order.tolist() == loader._plan().order(epoch).tolist()
        got = torch.cat(images).permute(0, 2, 3, 1).numpy()
        assert np.array_equal(got, rows[order])
    assert len(loader) == 7


def test_batches_that_are_kept_stay_as_they_are(tmp_path):
    rows, store = raw_store(tmp_path, 200)
    for workers in (0, 2):
        kept = list(Loader(store, 4, workers=workers))
        got = torch.cat([images for images, _ in kept]).permute(0, 2, 3, 1).numpy()
        assert np.array_equal(got, rows)


def test_memory_is_used_again_when_batches_are_dropped(tmp_path):
    _, store = raw_store(tmp_path, 400)
    for workers in (0, 1):
        places = set()
        for images, labels in Loader(store, 4, workers=workers):
            places.add(images.data_ptr())
            del images, labels
        assert len(places) < 20


def test_images_are_decoded_to_one_size_within_one_of_pil(tmp_path):
    store = jpeg_store(tmp_path)
    images = torch.cat([i for i, _ in Loader(store, 5, transform=Resize((24, 32)))])
    for index, path in enumerate(sorted((tmp_path / "src" / "a").iterdir())):
        wanted = np.asarray(Image.open(path).resize((32, 24), Image.BILINEAR)).astype(int)
        assert np.abs(images[index].permute(1, 2, 0).numpy() - wanted).max() <= 1
    assert images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("kind", ["jpeg", "raw", "dataset"])
def test_nothing_depends_on_the_workers(tmp_path, kind):
    data, transform = Dataset(), None
    if kind == "jpeg":
        data, transform = jpeg_store(tmp_path), SIZED
    if kind == "raw":
        data, transform = raw_store(tmp_path)[1], SIZED
    wanted = None
    for workers in (0, 1, 2, 4, None):
        loader = Loader(data, 4, shuffle=True, seed=9, transform=transform, workers=workers)
        got = epochs(loader, 2)
        loader.close()
        wanted = wanted or got
        assert got == wanted
    assert wanted[0] != wanted[1]


def test_random_transforms_do_not_depend_on_ranks_or_batches(tmp_path):
    store = jpeg_store(tmp_path, 24)
    by_label = {}
    for world, batch in ((1, 6), (2, 3), (4, 2)):
        for rank in range(world):
            loader = Loader(store, batch, shuffle=True, seed=2, transform=SIZED, workers=0,
                            rank=rank, world_size=world, fields=["label"])  # fmt: skip
            order = loader._plan().order(0).tolist()
            for step, (images, _) in zip(loader._plan().steps(0), loader, strict=True):
                for index, image in zip(step.ids.tolist(), images, strict=True):
                    by_label.setdefault(index, []).append(image.clone())
            assert len(order) == 24
    for images in by_label.values():
        assert len(images) == 3
        assert all(torch.equal(image, images[0]) for image in images)


@pytest.mark.parametrize("kind", ["jpeg", "raw", "dataset"])
def test_going_on_is_the_same_as_not_having_stopped(tmp_path, kind):
    """50 random points in all; other worker counts and batch sizes go on from the same place."""
    rng = random.Random(4)
    data, transform = Dataset(26), None
    if kind == "jpeg":
        data, transform = jpeg_store(tmp_path), SIZED
    if kind == "raw":
        data, transform = raw_store(tmp_path)[1], SIZED

    def made(**how):
        return Loader(data, **{"batch_size": 3, "workers": 0} | how, shuffle=True, seed=1,
                      transform=transform)  # fmt: skip

    whole = [batch for epoch in epochs(made(), 3) for batch in epoch]
    for trial in range(17):
        stop = rng.randrange(len(whole))
        state, got = _stopped(made(), stop)
        workers = (0, 0, 0, 0, 1, 2)[trial % 6]
        later = made(workers=workers)
        later.load_state_dict(json.loads(json.dumps(state)))
        while len(got) < len(whole):
            got += [plain(batch) for batch in later]
        assert got == whole


def _stopped(loader, stop):
    got = []
    while len(got) < stop:
        for batch in loader:
            got.append(plain(batch))
            if len(got) == stop:
                break
    return loader.state_dict(), got


def test_going_on_with_other_batches_and_worlds_gives_the_rest(tmp_path):
    _, store = raw_store(tmp_path)
    loader = Loader(store, 6, shuffle=True, seed=8, rank=0, world_size=2)
    order = loader._plan().order(0).tolist()
    for number, _ in enumerate(loader, 1):
        if number == 2:
            break
    state = loader.state_dict()
    assert state["delivered"] == 24
    later = Loader(store, 5, shuffle=True, seed=8)
    later.load_state_dict(state)
    assert torch.cat([labels for _, labels in later]).tolist() == order[24:]
    assert torch.cat([labels for _, labels in later]).tolist() == later._plan().order(1).tolist()


def test_a_state_of_other_data_is_refused(tmp_path):
    _, store = raw_store(tmp_path)
    state = Loader(store, 4).state_dict()
    for loader, says in [
        (Loader(store, 4, seed=1), "saved state has seed 0, this loader 1"),
        (Loader(store, 4, shuffle=True), "has shuffle False"),
        (Loader(Dataset(53), 4), "has data"),
        (Loader(Dataset(5), 4), "has count 53, this loader 5"),
    ]:
        with pytest.raises(ValueError, match=says):
            loader.load_state_dict(state)


def test_a_break_begins_the_next_epoch(tmp_path):
    _, store = raw_store(tmp_path)
    loader = Loader(store, 4, shuffle=True)
    for batch in loader:
        labels = batch[1]
        break
    assert labels.tolist() == loader._plan().order(0)[:4].tolist()
    _, labels = next(iter(loader))
    assert labels.tolist() == loader._plan().order(1)[:4].tolist()


def test_two_passes_at_once_are_refused_not_mixed(tmp_path):
    for workers in (0, 2):
        loader = Loader(Dataset(), 2, workers=workers)
        older = iter(loader)
        next(older)
        newer = iter(loader)
        assert next(newer)["id"].tolist() == [0, 1]
        with pytest.raises(RuntimeError, match="another pass over this loader began"):
            next(older)
        assert [b["id"][0].item() for b in newer] == list(range(2, 31, 2))
        loader.close()


def test_a_dataset_gives_what_a_dataloader_gives():
    data = TensorDataset(torch.randn(20, 3), torch.arange(20))
    ours = [plain(batch) for batch in Loader(data, 6)]
    theirs = [plain(batch) for batch in torch.utils.data.DataLoader(data, 6)]
    assert ours == theirs
    joined = list(Loader(data, 6, collate_fn=len, workers=1))
    assert joined == [6, 6, 6, 2]


def test_the_callers_random_streams_are_left_alone(tmp_path):
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    for workers in (0, 2):
        before = (torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state()))
        list(Loader(Dataset(), 4, workers=workers))
        after = (torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state()))
        assert before == after


def test_changes_to_a_dataset_between_epochs_are_seen():
    data = Dataset(8)
    loader = Loader(data, 8, workers=2)
    (first,) = loader
    data.scale = 0.0
    (second,) = loader
    assert first["x"][3, 0] != 3
    assert second["x"][:, 0].tolist() == list(range(8))


def test_batches_that_outgrow_the_ring_still_come():
    class Growing(Dataset):
        def __getitem__(self, index):
            return torch.full((1 + index * 20_000,), float(index))

    got = list(Loader(Growing(12), 1, workers=2))
    assert [batch.shape[1] for batch in got] == [1 + i * 20_000 for i in range(12)]
    assert all((batch == i).all() for i, batch in enumerate(got))


def test_transforms_of_a_batch_run_after_reading(tmp_path):
    _, store = raw_store(tmp_path)
    normal = Normalize((0.5,) * 3, (0.25,) * 3)
    plain_images = next(iter(Loader(store, 5)))[0].clone()
    images, labels = next(iter(Loader(store, 5, transform=normal)))
    torch.testing.assert_close(images, (plain_images.float() / 255 - 0.5) / 0.25)
    assert labels.dtype is torch.int64
    doubled = next(iter(Loader(store, 5, transform=lambda batch: batch[0].int() * 2)))
    assert torch.equal(doubled, plain_images.int() * 2)
    on_cpu = next(iter(Loader(store, 5, transform=normal, device="cpu")))[0]
    assert torch.equal(on_cpu, images)


def test_bad_arguments_are_named(tmp_path):
    _, store = raw_store(tmp_path)

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    for options, says in [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"workers": -1}, "workers is -1"),
        ({"threads": 0}, "threads is 0"),
        ({"on_error": "hide"}, "on_error is 'hide'"),
        ({"fields": ["age"]}, r"has no field \['age'\], only \['label'\]"),
    ]:
        with pytest.raises(ValueError, match=says):
            Loader(store, **options)
    with pytest.raises(TypeError, match="is no transform of hotlap"):
        Loader(store, transform=[Resize(3), torch.relu])
    with pytest.raises(TypeError, match="Stream has no samples by number"):
        Loader(Stream())
    with pytest.raises(ValueError, match="give rank and world_size together"):
        list(Loader(store, rank=0))
    with pytest.raises(ValueError, match="rank is 2, should be 0 to 1"):
        list(Loader(store, rank=2, world_size=2))
    with pytest.raises(StoreError, match="does not exist"):
        Loader(tmp_path / "none")


def test_images_of_many_sizes_ask_for_a_transform(tmp_path):
    with pytest.raises(SampleError, match=r"sample 1 \(a/001.jpg\) is 41 x 51.*RandomResizedCrop"):
        list(Loader(jpeg_store(tmp_path), 4, workers=0))


def test_the_last_batch_can_be_left_out(tmp_path):
    _, store = raw_store(tmp_path)
    loader = Loader(store, 8, drop_last=True)
    for _ in range(2):
        assert [len(labels) for _, labels in loader] == [8] * 6
    assert loader.state_dict()["epoch"] == 1
    again = Loader(Store(store.path), 8, drop_last=True)
    again.load_state_dict(loader.state_dict())
    assert len(list(again)) == 6
