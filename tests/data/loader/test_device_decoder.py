"""Decoding on the device, through the whole loader; the device is the CPU here."""

import json
import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from PIL import Image

from data.images import encoded, photo
from data.loader.making import Dataset, Turbo, mixed_store, plain, raw_store
from hotlap.data import Decoder, DeviceDecoder, Loader
from hotlap.data.decode import together
from hotlap.data.errors import LoaderError, MissingPackageError, SampleError
from hotlap.data.transforms import MixUp, Normalize, RandomHorizontalFlip, RandomResizedCrop, Resize
from hotlap.data.transforms.geometry import resized

NORMAL = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
AUGMENTED = (RandomResizedCrop(24), RandomHorizontalFlip())
MIXED = (*AUGMENTED, NORMAL, MixUp(24))


def loader(store, jpegs=None, cpu=None, **how):
    """A loader that decodes on the device when `jpegs` is given."""
    cpu = cpu or Decoder("simplejpeg")  # step by step, like the device
    decoder = cpu if jpegs is None else DeviceDecoder(cpu, jpegs)
    how = {"batch_size": 5, "shuffle": True, "seed": 3, "workers": 0, "transform": AUGMENTED} | how
    return Loader(store, decoder=decoder, **how)


def same(one, other):
    """Pixels of equal decoders are equal, wherever they were decoded."""
    assert one[0].stride() == other[0].stride()
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])


def agree(one, other, epochs=2):
    for _ in range(epochs):
        for a, b in zip(one, other, strict=True):
            same(a, b)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return mixed_store(tmp_path_factory.mktemp("store"))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("exif", [False, True])
@pytest.mark.parametrize("transform", [AUGMENTED, MIXED, (Resize((20, 28)), NORMAL)])
def test_batches_are_those_of_the_cpu(store, workers, exif, transform):
    how = {"cpu": Decoder("simplejpeg", exif=exif), "transform": transform}
    jpegs = Turbo()
    on_device = loader(store, jpegs, workers=workers, device="cpu", **how)
    agree(on_device, loader(store, **how))
    on_device.close()
    sent = {data for call in jpegs.calls for data in call}
    assert sent == {store.payload(i) for i in range(24) if i % 8 in {0, 1, 2, 7}}
    assert max(map(len, jpegs.calls)) > 1


def test_what_the_device_refuses_is_decoded_on_the_cpu(store):
    refused = {store.payload(i) for i in (0, 7, 9, 16)}
    jpegs = Turbo(refused)
    one = loader(store, jpegs, transform=MIXED)
    agree(one, loader(store, transform=MIXED))
    assert one.replaced == {}
    assert [data for call in jpegs.calls for data in call if len(call) == 1 and data in refused]


def test_other_fields_and_no_fields(store):
    for fields in ([], ["label", "label"]):
        one, other = loader(store, Turbo(), fields=fields), loader(store, fields=fields)
        assert [plain(batch) for batch in one] == [plain(batch) for batch in other]


def test_groups_keep_large_batches_from_filling_the_device(store, monkeypatch):
    monkeypatch.setattr(together, "AT_ONCE", 2 * len(store.payload(0)))
    jpegs = Turbo()
    agree(loader(store, jpegs, batch_size=24), loader(store, batch_size=24), epochs=1)
    assert 3 < len(jpegs.calls) < 12


def test_batches_that_outgrow_the_slots_still_come(tmp_path):
    small, large = encoded(photo(0, 8, 8)), encoded(photo(1, 400, 500), quality=98)
    bad = {f"bad{i}": large if i == 22 else small for i in range(24)}
    store = mixed_store(tmp_path, **bad)
    for workers in (0, 2):
        one = loader(store, Turbo(), batch_size=2, shuffle=False, workers=workers)
        agree(one, loader(store, batch_size=2, shuffle=False), epochs=1)
        one.close()


def test_pixels_of_a_decoder_that_enlarges_chroma_plainly(store):
    """As nvJPEG does by default: within the mean that torchvision's tests allow."""
    how = {"transform": Resize((40, 48)), "batch_size": 24, "shuffle": False}
    rough = next(iter(loader(store, Turbo(fastupsample=True, fastdct=True), **how)))[0]
    exact = next(iter(loader(store, **how)))[0]
    assert 0 < (rough.double() - exact.double()).abs().mean() < 2


def test_the_resize_of_a_gpu_is_within_one_of_pils():
    """There uint8 is resized as float and rounded; the same is done on the CPU here."""
    for seed in range(4):
        pixels = photo(seed, 97, 131)
        image = torch.from_numpy(pixels).permute(2, 0, 1)[None].float()
        made = resized(image, 40, 56).round().clamp(0, 255)[0].permute(1, 2, 0)
        wanted = np.asarray(Image.fromarray(pixels).resize((56, 40), Image.BILINEAR))
        assert np.abs(made.numpy() - wanted.astype(float)).max() <= 1


def hurt(data):
    """Damage inside that a strict decoder reports and a lenient one does not."""
    rng = random.Random(5)
    while True:
        bad = bytearray(data)
        bad[rng.randrange(len(data) // 2, len(data) - 2)] ^= rng.randrange(1, 256)
        try:
            Decoder()(bytes(bad))
        except SampleError:
            Decoder(strict=False)(bytes(bad))
            return bytes(bad)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """Sample 8 is cut short, which its reader sees; 16 is damaged, which the device sees."""
    whole = [encoded(photo(i, 60, 70)) for i in (8, 16)]
    bad = {"bad8": whole[0][:-300], "bad16": hurt(whole[1])}
    return mixed_store(tmp_path_factory.mktemp("faulty"), strict=False, **bad)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("index", [8, 16])
def test_bad_files_are_named_alike(faulty, workers, index):
    said, got = [], []
    for jpegs in (Turbo(), None):
        how = {"batch_size": 4, "shuffle": False, "transform": Resize((9, 9))}
        one = loader(faulty, jpegs, workers=workers, **how)
        state = one.state_dict() | {"delivered": index - 4}
        one.load_state_dict(state)
        labels = []
        with pytest.raises(SampleError) as error:
            labels.extend(batch[1].tolist() for batch in one)
        said.append(str(error.value))
        got.append(labels)
        assert one.state_dict()["delivered"] == index
    assert said[0] == said[1]
    assert f"sample {index} (c{index:03d}/x.jpg) of" in said[0]
    assert got[0] == got[1] == [list(range(index - 4, index))]


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_files_are_replaced_alike(faulty, workers):
    how = {"on_error": "replace", "max_error_rate": 0.5, "transform": MIXED}
    one, other = loader(faulty, Turbo(), workers=workers, **how), loader(faulty, **how)
    agree(one, other)
    assert one.replaced == other.replaced
    assert sorted(one.replaced) == [8, 16]
    one.close()
    with pytest.raises(SampleError, match="2 of 24 samples are bad, more than max_error_rate"):
        list(loader(faulty, Turbo(), workers=workers, **how | {"max_error_rate": 0.05}))


def test_too_large_images_are_refused_on_both_ways(store):
    for jpegs in (Turbo(), None):
        one = loader(store, jpegs, Decoder("simplejpeg", max_pixels=2150), shuffle=False)
        with pytest.raises(SampleError, match=r"sample 2 .* has 52 x 42 pixels, more than the 21"):
            list(one)


def test_going_on_is_the_same_as_not_having_stopped(store):
    """At random points, with other workers and batch sizes, and from one way to the other."""
    rng = random.Random(6)
    whole = {}
    for images, labels in loader(store, Turbo()):
        whole |= dict(zip(labels.tolist(), images.clone(), strict=True))
    for trial in range(8):
        first = loader(store, Turbo(), batch_size=rng.randint(1, 7))
        batches, stop = iter(first), rng.randint(1, 3)
        got = [next(batches) for _ in range(stop)]
        state = json.loads(json.dumps(first.state_dict()))
        how = {"batch_size": rng.randint(1, 7), "workers": (0, 0, 1, 2)[trial % 4]}
        later = loader(store, Turbo() if trial % 3 else None, **how)
        later.load_state_dict(state)
        rest = list(later)
        order = torch.cat([labels for _, labels in got + rest])
        assert order.tolist() == first._plan().order(0).tolist()
        for images, labels in got + rest:
            for image, label in zip(images, labels.tolist(), strict=True):
                assert torch.equal(image, whole[label])
        later.close()


def test_batches_that_are_kept_stay_as_they_are(store):
    other = loader(store, batch_size=2)
    wanted = [(images.clone(), labels.clone()) for _ in range(2) for images, labels in other]
    for workers in (0, 2):
        one = loader(store, Turbo(), batch_size=2, workers=workers)
        kept = [*one, *one]
        one.close()
        for a, b in zip(kept, wanted, strict=True):
            same(a, b)


class Stream:
    """A CUDA stream as far as the stage uses one, and an event of it."""

    def __init__(self, *_):
        self.recorded = False

    def record(self):
        self.recorded = True

    def query(self):
        return self.recorded

    def wait_stream(self, other):
        assert isinstance(other, Stream)

    def synchronize(self):
        pass


@pytest.mark.parametrize("workers", [0, 2])
def test_decoding_one_batch_ahead_changes_neither_batches_nor_state(store, monkeypatch, workers):
    """The stage takes its way for CUDA, on the CPU."""
    for name in ("Stream", "Event", "current_stream"):
        monkeypatch.setattr(f"torch.cuda.{name}", Stream)
    monkeypatch.setattr("torch.cuda.stream", nullcontext)
    jpegs = Turbo()
    one, other = loader(store, jpegs, workers=workers), loader(store)
    one._stage._device = torch.device("cuda")
    for _ in range(2):
        for number, (a, b) in enumerate(zip(one, other, strict=True), 1):
            same(a, b)
            assert one.state_dict() == other.state_dict()
            assert number in {len(jpegs.calls) - 1, len(other)}
        jpegs.calls.clear()
    one.close()


def test_images_of_many_sizes_ask_for_a_transform(store):
    for jpegs in (Turbo(), None):
        with pytest.raises(SampleError, match=r"sample 1 .* is 41 x 51, those before it 40 x 50"):
            list(loader(store, jpegs, transform=None, shuffle=False))


def test_a_decoder_that_decodes_nothing_is_reported(store):
    def broken(jpegs, device):
        raise RuntimeError("decode_jpegs_cuda: torchvision not compiled with nvJPEG support")

    with pytest.raises(LoaderError, match=r"nothing on cpu, not even .* nvJPEG support; leave"):
        list(loader(store, broken))


def test_a_decoder_that_loses_images_is_reported(store):
    with pytest.raises(ValueError, match=r"made \d images of \d: it must"):
        list(loader(store, lambda jpegs, device: Turbo()(jpegs, device)[1:]))


def test_a_batch_that_is_wholly_refused_is_decoded_on_the_cpu(store):
    refused = {store.payload(i) for i in range(24)}
    agree(loader(store, Turbo(refused)), loader(store), epochs=1)


def test_where_there_is_no_nvjpeg_that_is_said(store, tmp_path, monkeypatch):
    for device in (None, "cpu"):
        with pytest.raises(ValueError, match=r"on a CUDA device, but device is .*leave `decoder` "):
            Loader(store, decoder=DeviceDecoder(), device=device)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(MissingPackageError, match=r"needs CUDA, which torch .* does not find: ins"):
        Loader(store, decoder=DeviceDecoder(), device="cuda")
    for data in (Dataset(), raw_store(tmp_path)[1]):
        with pytest.raises(TypeError, match="is for stores of encoded images"):
            Loader(data, decoder=DeviceDecoder(jpegs=Turbo()))


def test_images_do_not_lie_in_the_memory_of_the_next_one(store):
    """The CPU decoder's pixels stay only until its next image."""
    one = next(iter(loader(store, Turbo({store.payload(i) for i in range(24)}), batch_size=24)))
    assert len({image.numpy().tobytes() for image in one[0]}) == 24
    assert np.unique(one[1]).tolist() == list(range(24))


@pytest.mark.gpu
@pytest.mark.parametrize("workers", [0, 2])
def test_on_a_gpu_batches_are_near_those_of_the_cpu(tmp_path, workers):
    pytest.importorskip("torchvision.io")
    store = mixed_store(tmp_path)
    for transform in (AUGMENTED, Resize((40, 48))):
        how = {"transform": transform, "device": "cuda", "workers": workers, "batch_size": 7}
        one, other = Loader(store, decoder=DeviceDecoder(), **how), Loader(store, **how)
        for _ in range(3):
            for (images, labels), (wanted, others) in zip(one, other, strict=True):
                assert images.is_cuda
                assert images.stride() == wanted.stride()
                assert torch.equal(labels, others)
                far = (images.float() - wanted.float()).abs().mean(dim=(1, 2, 3))
                assert far.max() < 3  # 2.2 on an H200: chroma is scaled up in another way
        one.close()
        other.close()


@pytest.mark.gpu
def test_on_a_gpu_bad_files_are_replaced_alike(faulty):
    pytest.importorskip("torchvision.io")
    how = {"on_error": "replace", "max_error_rate": 0.5, "transform": AUGMENTED, "device": "cuda"}
    one = Loader(faulty, 4, decoder=DeviceDecoder(), **how)
    other = Loader(faulty, 4, **how)
    for (_, labels), (_, others) in zip(one, other, strict=True):
        differing = (labels != others).nonzero().flatten().tolist()
        assert {int(labels[place]) for place in differing} <= {16}  # nvJPEG may not notice
    assert 8 in one.replaced


@pytest.mark.gpu
def test_on_a_gpu_memory_is_not_used_again_too_early(tmp_path):
    """Kept batches, and kernels that lag behind, while the decoder goes on."""
    pytest.importorskip("torchvision.io")
    store = mixed_store(tmp_path)
    how = {"transform": Resize((160, 160)), "batch_size": 6, "device": "cuda", "workers": 0}
    wanted = [images.cpu() for images, _ in Loader(store, decoder=DeviceDecoder(), **how)]
    one, busy = Loader(store, decoder=DeviceDecoder(), **how), torch.ones(4096, 4096, device="cuda")
    for _ in range(10):
        sums = []
        for images, _ in one:
            busy = (busy @ busy).clamp(0, 1)
            sums.append(images.clone())
            del images
        for image, exact in zip(sums, wanted, strict=True):
            assert torch.equal(image.cpu(), exact)
