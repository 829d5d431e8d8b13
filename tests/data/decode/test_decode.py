import io
import random
import threading

import numpy as np
import pytest
from PIL import Image

from data.images import encoded, photo
from hotlap.common import extras
from hotlap.data.decode import Decoder
from hotlap.data.decode import scratch as scratch_module
from hotlap.data.decode.decoder import BACKENDS
from hotlap.data.decode.scratch import Scratch
from hotlap.data.errors import MissingPackageError, SampleError


def reference(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def furthest(one, other):
    assert one.shape == other.shape
    assert one.dtype == np.uint8
    assert one.flags.c_contiguous
    return np.abs(one.astype(int) - other.astype(int)).max()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", [{}, {"progressive": True}, {"subsampling": 2}, {"quality": 30}])
def test_jpegs_have_pils_pixels(backend, how):
    for seed in range(3):
        data = encoded(photo(seed, 97, 131), **how)
        assert furthest(Decoder(backend)(data), reference(data)) <= 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_grey_and_cmyk_become_rgb(backend, mode):
    data = encoded(photo(5), mode=mode)
    assert furthest(Decoder(backend)(data), reference(data)) <= 1


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP", "GIF", "TIFF"])
def test_other_formats_go_through_pil(kind):
    data = encoded(photo(6), kind)
    assert furthest(Decoder()(data), reference(data)) == 0


@pytest.mark.parametrize("mode", ["RGBA", "P", "LA", "1", "L"])
def test_every_mode_becomes_rgb(mode):
    data = encoded(photo(6), "PNG", mode=mode)
    assert furthest(Decoder()(data), reference(data)) == 0


def test_sixteen_bits_are_scaled_not_clipped():
    deep = np.arange(0, 65536, 16, dtype=np.uint16).reshape(64, 64)
    got = Decoder()(encoded(deep, "PNG"))
    assert got.shape == (64, 64, 3)
    assert np.array_equal(got[..., 1], np.rint(deep / 257).astype(np.uint8))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_only_when_asked(backend, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(photo(7, 40, 64), exif=exif)
    assert furthest(Decoder(backend)(data), reference(data)) <= 1
    from PIL import ImageOps

    turned = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert furthest(Decoder(backend, exif=True)(data), turned) <= 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", r"^x\.jpg is empty$"),
        (b"no image at all", r"^x\.jpg is not an image"),
        (b"\xff\xd8\xff", r"^x\.jpg is "),
        (encoded(photo(8))[:900], r"^x\.jpg is (a damaged JPEG|damaged): "),
        (encoded(photo(8))[:-400], r"^x\.jpg is (a damaged JPEG|damaged): "),
        (encoded(photo(8), "PNG")[:-900], r"^x\.jpg is damaged: "),
    ],
)
def test_bad_files_are_named(backend, data, says):
    with pytest.raises(SampleError, match=says):
        Decoder(backend)(data, "x.jpg")


def test_damage_inside_a_jpeg_is_reported_or_harmless_to_its_shape():
    """Strict decoding finds far more than PIL, which finds nearly none."""
    rng = random.Random(9)
    whole = encoded(photo(9, 200, 300), quality=95)
    found = by_pil = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(6):
            data[rng.randrange(700, len(data) - 2)] ^= rng.randrange(1, 256)
        found += _refused("simplejpeg", bytes(data))
        by_pil += _refused("pil", bytes(data))
    assert found > by_pil + 20


def _refused(backend, data):
    try:
        Decoder(backend)(data)
    except SampleError:
        return True
    return False


def test_scratch_is_used_again_and_holds_every_size():
    scratch, rng = Scratch(), random.Random(3)
    places = set()
    for seed in range(12):
        data = encoded(photo(seed, rng.randint(20, 60), rng.randint(20, 60)))
        pixels = Decoder("simplejpeg")(data, "x", scratch)
        assert np.array_equal(pixels, Decoder("simplejpeg")(data))
        places.add(pixels.ctypes.data)
        png = Decoder()(encoded(photo(seed), "PNG"), "x", scratch)
        assert np.array_equal(png, photo(seed))
    assert len(places) < 6
    other = []
    thread = threading.Thread(target=lambda: other.append(scratch.take(5).ctypes.data))
    thread.start()
    thread.join()
    assert other[0] not in {scratch.take(5).ctypes.data}


def test_scratch_does_not_keep_what_is_huge():
    scratch = Scratch()
    small = scratch.take(10)
    assert len(scratch.take(scratch_module.MOST + 1)) == scratch_module.MOST + 1
    assert scratch.take(10).ctypes.data == small.ctypes.data


def test_lenient_decoding_goes_on():
    data = encoded(photo(8))[:-400]
    assert Decoder("simplejpeg", strict=False)(data).shape == (120, 160, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_huge_images_are_refused_by_their_header(backend, kind):
    with pytest.raises(SampleError, match="has 160 x 120 pixels, more than the 19199 allowed"):
        Decoder(backend, max_pixels=19199)(encoded(photo(1), kind))
    assert Decoder(backend, max_pixels=19200)(encoded(photo(1), kind)).shape == (120, 160, 3)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_animated_images_are_refused(kind):
    frames = [Image.fromarray(photo(seed)) for seed in range(3)]
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:])
    with pytest.raises(SampleError, match=r"x is animated \(3 frames\)"):
        Decoder()(buffer.getvalue(), "x")


def test_float_pixels_are_refused():
    with pytest.raises(SampleError, match="float pixels"):
        Decoder()(encoded(np.random.rand(8, 8).astype(np.float32), "TIFF"))


def test_the_first_installed_decoder_is_taken(monkeypatch):
    assert Decoder().chosen() == "simplejpeg"
    absent = {"simplejpeg"}
    monkeypatch.setattr("hotlap.data.decode.decoder.has", lambda name: name not in absent)
    assert Decoder().chosen() == "opencv"
    absent |= {"cv2", "PIL"}
    with pytest.raises(MissingPackageError, match=r"pip install 'hotlap\[data\]'"):
        Decoder().chosen()


def test_unknown_decoders_and_missing_packages_are_named():
    with pytest.raises(ValueError, match="no decoder 'nvjpeg': choose auto or simplejpeg"):
        Decoder("nvjpeg")
    assert not extras.has("a_module_that_is_not")


def test_a_reducing_gap_below_one_is_refused():
    with pytest.raises(ValueError, match=r"reducing_gap is 0.5, should be 1 or more"):
        Decoder(reducing_gap=0.5)
