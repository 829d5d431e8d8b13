"""Read encoded images from a store, and decode them into a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar

import torch

from hotlap.common.extras import Array, BoolArray, ByteArray, need
from hotlap.data.decode import Decoder
from hotlap.data.decode.fused import FusedDecoder, library
from hotlap.data.decode.limits import check_pixels
from hotlap.data.decode.scratch import Scratch
from hotlap.data.errors import SampleError
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.loader.stores import Field, Shown, fields_of, instead, shown
from hotlap.data.order import Draws
from hotlap.data.store import Store
from hotlap.data.transforms import Normalize, RandomHorizontalFlip
from hotlap.data.transforms.base import Batched, Geometry
from hotlap.data.transforms.region import Region, Regional

_JPEG = b"\xff\xd8\xff"
T = TypeVar("T")
Pixels = TypeVar("Pixels", torch.Tensor, Array)


@dataclass(frozen=True)
class PerImage:
    """What is done to each image where it is decoded.

    Flip and normalisation are part of it only where `fused` decodes.
    """

    geometry: tuple[Geometry, ...] = ()
    flip: RandomHorizontalFlip | None = None
    normalize: Normalize | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Of the pixels that come out."""
        return self.normalize.dtype if self.normalize else torch.uint8

    @cached_property
    def table(self) -> Array:
        """What each value of a channel becomes: an array (3, 256), its dtype of the same size."""
        if self.normalize is None:
            table: Array = need("numpy").tile(need("numpy").arange(256, dtype="u1"), (3, 1))
            return table
        values = self.normalize.table()
        return values.view(torch.float32 if values.itemsize == 4 else torch.int16).numpy()

    def flips(self, draws: Draws) -> BoolArray:
        """Return which samples are mirrored, bool (samples,)."""
        if self.flip is None:
            flips: BoolArray = need("numpy").zeros(len(draws.ids), bool)
            return flips
        return self.flip.chosen(draws)


def per_image(
    transform: Sequence[Batched], decoder: Decoder, *, on_cpu: bool
) -> tuple[PerImage, tuple[Batched, ...]]:
    """Part transforms into what is done while decoding, and what is done to batches after it.

    Args:
        transform: in order.
        decoder: of the images.
        on_cpu: batches stay on the CPU. Elsewhere pixels travel as uint8, and the device
            normalises.
    """
    rest = list(transform)
    geometry: list[Geometry] = []
    while rest and isinstance(leading := rest[0], Geometry):
        geometry.append(leading)
        del rest[0]
    flip: RandomHorizontalFlip | None = None
    normalize: Normalize | None = None
    while on_cpu and rest and fuses(decoder, geometry):
        first = rest[0]
        if flip is None and isinstance(first, RandomHorizontalFlip):
            flip = first
        elif normalize is None and isinstance(first, Normalize) and first.dtype.itemsize in {2, 4}:
            normalize = first
        else:
            break
        del rest[0]
    return PerImage(tuple(geometry), flip, normalize), tuple(rest)


def fuses(decoder: Decoder, geometry: Sequence[Geometry]) -> bool:
    """Whether JPEGs can be decoded, cropped and resized in one pass."""
    regional = all(isinstance(each, Regional) for each in geometry)
    return regional and decoder.backend == "auto" and library() is not None


class Batch:
    """A batch being filled, whose shape the first image gives.

    Args:
        space: where it lies.
        count: of samples.
        dtype: of its elements, NumPy's.
    """

    def __init__(self, space: Space, count: int, dtype: object) -> None:
        self._space = space
        self._count = count
        self._dtype = dtype
        self.array: Array | None = None

    def room(self, place: int, shape: tuple[int, int], name: Callable[[], str]) -> Array:
        """Return where the image of a sample goes: (height, width, 3).

        Raises:
            SampleError: those before it have another shape.
        """
        if self.array is None:
            self.array = self._space.take((self._count, *shape, 3), self._dtype)
        room: Array = fitting(self.array, shape, name)[place]
        return room


def fitting(batch: Pixels, shape: tuple[int, ...], name: Callable[[], str]) -> Pixels:
    """Return a batch (samples, height, width, 3) whose images have that height and width.

    Raises:
        SampleError: they have others; `name` says which sample it is.
    """
    if tuple(batch.shape[1:3]) != tuple(shape[:2]):
        raise SampleError(
            f"{name()} is {shape[0]} x {shape[1]}, those before it {batch.shape[1]} x "
            f"{batch.shape[2]}: give a transform that ends in one size, such as "
            "RandomResizedCrop(224) or Resize((224, 224))"
        )
    return batch


@dataclass(frozen=True)
class Images:
    """Single images of a store: how each is decoded, brought to its size, and replaced when bad."""

    store: Store
    fields: tuple[str, ...]
    how: PerImage
    decoder: Decoder
    seed: int
    replace_bad: bool
    scratch: Scratch = field(default_factory=Scratch)

    def pick(self, index: int, read: Callable[[int], T]) -> tuple[T, int, str]:
        """Return (what was read, the sample it is of, why another was replaced by it)."""
        return instead(index, self.seed, len(self.store), self.replace_bad, read)

    def image(self, index: int, draws: Draws) -> tuple[ByteArray, int, str]:
        """Decode one sample: (image, the sample it is of, why another was replaced by it)."""
        return self.pick(index, lambda other: self.decoded(other, self.store.payload(other), draws))

    def decoded(self, index: int, data: bytes, draws: Draws) -> ByteArray:
        """Return uint8 (height, width, 3), until the thread's next image; `draws` are of one."""
        pixels = self.named(index, lambda: self.decoder(data, "it", self.scratch))
        sized: ByteArray = self.sized(torch.from_numpy(pixels).permute(2, 0, 1), draws).numpy()
        return sized

    def named(self, index: int, work: Callable[[], T]) -> T:
        """Do work on a sample, which its errors name."""
        try:
            return work()
        except SampleError as error:
            why = str(error).removeprefix("it ")
            raise SampleError(f"{self.sample(index)} of {self.store.path} {why}") from None

    def sample(self, index: int) -> str:
        """Return what errors call a sample."""
        return f"sample {index} ({self.store.name(index)})"

    def sized(self, image: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Apply the geometry to (3, height, width); return (height, width, 3)."""
        for step in self.how.geometry:
            image = step.image(image, draws)
        return image.permute(1, 2, 0)

    def region(self, height: int, width: int, draws: Draws) -> Region | None:
        """Return what the geometry leaves of an image; None where only `sized` can do it."""
        region: Region | None = Region.whole(height, width)
        for step in self.how.geometry:
            if region is not None:
                region = step.region(region, draws)  # type: ignore[attr-defined]
        return region

    def fields_of(self, step: Step, ids: list[int], space: Space) -> list[Field]:
        """Return the fields of the samples that a step was given in the end."""
        given = replace(step, ids=need("numpy").array(ids))
        return fields_of(self.store, self.fields, given, space)


class ImageReader:
    """Encoded images: decoded, brought to one size, and written into the batch.

    JPEGs are decoded, cropped, resized, flipped and normalised in one pass where `fuses` says so;
    other images step by step, to the same numbers that these steps give for the same pixels.
    """

    fills = threads = True
    light = changes = False

    def __init__(self, images: Images) -> None:
        self.images = images
        code = library() if fuses(images.decoder, images.how.geometry) else None
        self._fused = FusedDecoder(code) if code is not None else None

    def __len__(self) -> int:
        return len(self.images.store)

    def identity(self) -> str:
        """Return the store's digest."""
        return self.images.store.digest

    def state(self) -> None:
        """Return nothing: a store does not change."""

    def ahead(self, step: Step) -> None:
        """Let the kernel read ahead."""
        self.images.store.advise(step.ids)

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Decode a batch."""
        draws = Draws(self.images.seed, step.epoch, step.draw_ids)
        how, flips = self.images.how, self.images.how.flips(draws).tolist()
        ids, replaced = list(step.ids.tolist()), []
        batch = Batch(space, len(ids), how.table.dtype)
        for place, index in enumerate(ids):
            one, flip = draws.one(place), flips[place]
            _, ids[place], why = self.images.pick(
                index,
                lambda other: self._write(batch, place, other, one, flip),  # noqa: B023
            )
            replaced += [(index, why)] if why else []
        fields = self.images.fields_of(step, ids, space)
        pixels = torch.from_numpy(batch.array).view(how.dtype)
        return Fetched((pixels, *fields), tuple(replaced))

    def present(self, value: Shown) -> object:
        """Images as (samples, channels, height, width), channels last in memory."""
        return shown(value)

    def _write(self, batch: Batch, place: int, index: int, draws: Draws, flip: bool) -> None:
        """Decode a sample into its place."""
        images = self.images
        name = partial(images.sample, index)  # which costs a look into a file
        data = images.store.payload(index)
        region = images.named(index, lambda: self._region(data, draws))
        if region is not None and self._fused is not None:
            room = batch.room(place, region.shape, name)
            how = region, flip, images.how.table, room, images.decoder
            images.named(index, partial(self._fused.region, *how))
            return
        pixels = images.decoded(index, data, draws)
        room = batch.room(place, pixels.shape[:2], name)
        pixels = pixels[:, ::-1] if flip else pixels
        for channel, values in enumerate(images.how.table):
            room[..., channel] = values[pixels[..., channel]]

    def _region(self, data: bytes, draws: Draws) -> Region | None:
        """Return what is wanted of an image that can be decoded in one pass; None of another."""
        if self._fused is None or not data.startswith(_JPEG):
            return None
        header = self._fused.header(data)
        check_pixels(header.width, header.height, self.images.decoder.max_pixels)
        if not header.plain or self.images.decoder.turns(data):
            return None
        return self.images.region(header.height, header.width, draws)
