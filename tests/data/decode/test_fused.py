"""JPEGs decoded, cropped, resized, flipped and normalised in one pass, against PIL step by step."""

import ctypes
import io
import random
import subprocess
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from data.images import encoded, photo
from hotlap.common import compiled
from hotlap.data.decode import Decoder, fused
from hotlap.data.errors import SampleError
from hotlap.data.transforms import Normalize
from hotlap.data.transforms.region import Region

IDENTITY = np.tile(np.arange(256, dtype="u1"), (3, 1))
KINDS = [
    {"subsampling": "4:2:0"},
    {"subsampling": "4:2:2"},
    {"subsampling": "4:4:4"},
    {"progressive": True},
    {"quality": 30},
    {"mode": "L"},
    {"restart_marker_rows": 1},
]
pytestmark = pytest.mark.skipif(fused.library() is None, reason="no compiler or no libjpeg-turbo")


@pytest.fixture(scope="module")
def decoder():
    return fused.FusedDecoder(fused.library())


def decoded(decoder, data, region, flip=False, table=IDENTITY, **how):
    decoder.header(data)
    out = np.full((*region.shape, 3), 7, table.dtype)
    decoder.region(region, flip, table, out, Decoder(**how))
    return out


def by_pil(data, region):
    top, left, height, width = region.box
    image = (
        Image.open(io.BytesIO(data)).convert("RGB").crop((left, top, left + width, top + height))
    )
    pixels = np.asarray(image.resize(region.size[::-1], Image.BILINEAR))
    top, left, height, width = region.window
    return pixels[top : top + height, left : left + width]


def some_region(rng, height, width, most=80):
    h, w = rng.randint(1, height), rng.randint(1, width)
    size = rng.randint(1, most), rng.randint(1, most)
    whole = Region.whole(height, width).cropped(
        rng.randint(0, height - h), rng.randint(0, width - w), h, w
    )
    region = whole.resized(*size)
    kept = rng.randint(1, size[0]), rng.randint(1, size[1])
    return region.cropped(
        rng.randint(0, size[0] - kept[0]), rng.randint(0, size[1] - kept[1]), *kept
    )


@pytest.mark.parametrize("how", KINDS)
def test_any_region_is_pils_to_within_one(decoder, how):
    rng = random.Random()
    seed = rng.randrange(1 << 30)
    rng.seed(seed)
    gaps = []
    for number in range(40):
        height, width = rng.randint(1, 200), rng.randint(1, 200)
        data = encoded(photo(number, height, width), **how)
        region = some_region(rng, height, width)
        gap = np.abs(decoded(decoder, data, region).astype(int) - by_pil(data, region))
        assert gap.max() <= 1, (seed, number, region)
        gaps.append(gap.mean())
    assert np.mean(gaps) < 0.3, seed


def test_large_images_and_strong_reductions(decoder):
    data = encoded(photo(3, 1100, 1500))
    for size in [(1, 1), (7, 2), (224, 224), (1099, 1499), (1700, 1600)]:
        region = Region.whole(1100, 1500).resized(*size)
        assert np.abs(decoded(decoder, data, region).astype(int) - by_pil(data, region)).max() <= 1


def test_a_reducing_gap_stays_close(decoder):
    """Also for boxes whose corners lie between the pixels that are decoded."""
    rng, photograph = random.Random(6), photo(3, 1000, 1400)
    for subsampling in ("4:2:0", "4:4:4"):
        data = encoded(photograph, subsampling=subsampling)
        for _ in range(4):
            height, width = rng.randint(500, 990), rng.randint(500, 1390)
            box = rng.randint(0, 1000 - height), rng.randint(0, 1400 - width), height, width
            region = Region.whole(1000, 1400).cropped(*box).resized(60, 50)
            exact = decoded(decoder, data, region).astype(int)
            for gap, most, mean in ((1.0, 50, 5), (2.0, 24, 1.3), (3.0, 18, 1.0)):
                gaps = np.abs(decoded(decoder, data, region, reducing_gap=gap) - exact)
                assert gaps.max() <= most
                assert gaps.mean() <= mean
            large = region.cropped(0, 0, 60, 50)
            assert np.array_equal(decoded(decoder, data, large, reducing_gap=20.0), exact)


@pytest.mark.parametrize(
    ("gap", "shrink"), [(None, 1), (1.0, 8), (1.5, 4), (2.0, 4), (3.0, 2), (5.0, 1)]
)
def test_images_are_decoded_no_smaller_than_the_gap_allows(gap, shrink):
    region = Region.whole(800, 1000).cropped(0, 0, 800, 900).resized(100, 100)
    assert fused.shrink_of(region, gap) == shrink


def test_flip_and_table_change_nothing_else(decoder):
    rng, data = random.Random(4), encoded(photo(2, 90, 130))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        normalize = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), dtype)
        region = some_region(rng, 90, 130)
        plain = decoded(decoder, data, region)
        wanted, _ = normalize.batch(torch.from_numpy(plain).permute(2, 0, 1)[None], None, None)
        carrier = torch.float32 if dtype is torch.float32 else torch.int16
        table = normalize.table().view(carrier).numpy()
        for flip in (False, True):
            got = torch.from_numpy(decoded(decoder, data, region, flip, table)).view(dtype)
            assert torch.equal(got.permute(2, 0, 1)[None], wanted.flip(-1) if flip else wanted)


def test_every_instruction_set_gives_the_same_numbers(decoder, tmp_path):
    """The plain loops, which other processors run, against the one that this machine chose."""
    target = tmp_path / "plain.so"
    command = ["cc", *compiled.SHARED, "-DPLAIN", str(fused.SOURCE), "-o", str(target)]
    subprocess.run(command, check=True)
    plain = fused.FusedDecoder(fused.bound(ctypes.CDLL(str(target))))
    rng = random.Random()
    seed = rng.randrange(1 << 30)
    rng.seed(seed)
    for number in range(30):
        height, width = rng.randint(1, 300), rng.randint(1, 300)
        data, region = encoded(photo(number, height, width)), some_region(rng, height, width, 200)
        one, other = decoded(decoder, data, region), decoded(plain, data, region)
        assert np.array_equal(one, other), (seed, number)


@pytest.mark.parametrize("path", list(fused.turbo_paths()))
def test_every_libjpeg_turbo_that_is_found_gives_pils_pixels(path, tmp_path):
    target = tmp_path / "own.so"
    subprocess.run(["cc", *compiled.SHARED, str(fused.SOURCE), "-o", str(target)], check=True)
    code = fused.bound(ctypes.CDLL(str(target)), [path])
    if code is None:
        pytest.skip(f"{path} is not a libjpeg-turbo of ABI 6.2")
    own, rng = fused.FusedDecoder(code), random.Random(8)
    for number, how in enumerate(KINDS * 4):
        data = encoded(photo(number, 90, 140), **how)
        region = some_region(rng, 90, 140)
        assert np.abs(decoded(own, data, region).astype(int) - by_pil(data, region)).max() <= 1


def test_headers_say_what_can_be_decoded(decoder):
    assert decoder.header(encoded(photo(1, 40, 60))) == (60, 40, True)
    assert decoder.header(encoded(photo(1, 40, 60), mode="L")) == (60, 40, True)
    assert decoder.header(encoded(photo(1, 40, 60), mode="CMYK")) == (60, 40, False)


def test_damage_is_named_and_the_next_image_is_whole(decoder):
    good = encoded(photo(5, 120, 160))
    whole = Region.whole(120, 160)
    wanted = decoded(decoder, good, whole)
    for data, says in [
        (b"\xff\xd8\xff", "damaged JPEG"),
        (good[:300], "damaged JPEG"),
        (good[:-200], "cut short"),
    ]:
        with pytest.raises(SampleError, match=says):
            decoded(decoder, data, whole)
        assert np.array_equal(decoded(decoder, good, whole), wanted)


def test_a_whole_image_is_refused_when_strict_decoding_refuses_it(decoder):
    rng, whole = random.Random(11), Region.whole(120, 160)
    good = encoded(photo(5, 120, 160), quality=95)
    refused = 0
    for _ in range(60):
        data = bytearray(good)
        for _ in range(4):
            data[rng.randrange(700, len(data) - 2)] ^= rng.randrange(1, 256)
        wanted = refuses(Decoder("simplejpeg"), bytes(data))
        assert refuses(lambda data: decoded(decoder, data, whole), bytes(data)) == wanted
        lenient = refuses(lambda data: decoded(decoder, data, whole, strict=False), bytes(data))
        assert lenient <= refuses(Decoder("simplejpeg", strict=False), bytes(data))
        refused += wanted
    assert 20 < refused < 60


def refuses(decode, data):
    try:
        decode(data)
    except SampleError:
        return True
    return False


def test_damage_never_crashes(decoder):
    rng = random.Random()
    seed = rng.randrange(1 << 30)
    rng.seed(seed)
    for number in range(300):
        data = bytearray(encoded(photo(number, 60, 90), **KINDS[number % len(KINDS)]))
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(2, len(data))] = rng.randrange(256)
        try:
            header = decoder.header(bytes(data))
            region = some_region(rng, min(header.height, 4096), min(header.width, 4096))
            decoded(decoder, bytes(data), region, strict=False)
        except SampleError:
            continue


def test_threads_do_not_share_buffers(decoder):
    jobs = []
    for number in range(8):
        data = encoded(photo(number, 100 + number, 150))
        region = Region.whole(100 + number, 150).resized(60, 50)
        jobs.append((data, region, decoded(decoder, data, region)))
    wrong = []

    def work(job):
        data, region, wanted = job
        made = [decoded(decoder, data, region) for _ in range(30)]
        wrong.extend(region for each in made if not np.array_equal(each, wanted))

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
