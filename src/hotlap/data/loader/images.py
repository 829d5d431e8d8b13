"""Read encoded images from a store, and decode them."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from hotlap.data.decode import Decoder
from hotlap.data.decode.scratch import Scratch
from hotlap.data.errors import SampleError
from hotlap.data.extras import need
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.loader.stores import Read, fields_of, instead, shown
from hotlap.data.order import Draws
from hotlap.data.store import Store
from hotlap.data.transforms.base import Geometry


@dataclass(frozen=True)
class Images:
    """Single images of a store: how each is decoded, brought to its size, and replaced when bad."""

    store: Store
    fields: tuple[str, ...]
    geometry: tuple[Geometry, ...]
    decoder: Decoder
    seed: int
    replace_bad: bool
    scratch: Scratch = field(default_factory=Scratch)

    def pick(self, index: int, read: Read) -> tuple[Any, int, str]:
        """Return (what was read, the sample it is of, why another was replaced by it)."""
        return instead(index, self.seed, len(self.store), self.replace_bad, read)

    def image(self, index: int, draws: Draws) -> tuple[Any, int, str]:
        """Decode one sample: (image, the sample it is of, why another was replaced by it)."""
        return self.pick(index, lambda other: self.decoded(other, self.store.payload(other), draws))

    def decoded(self, index: int, data: bytes, draws: Draws) -> Any:
        """Return uint8 (height, width, 3), until the thread's next image; `draws` are of one."""
        try:
            pixels = self.decoder(data, "it", self.scratch)
        except SampleError as error:
            why = str(error).removeprefix("it ")
            raise SampleError(
                f"sample {index} ({self.store.name(index)}) of {self.store.path} {why}"
            ) from None
        return self.sized(torch.from_numpy(pixels).permute(2, 0, 1), draws).numpy()

    def sized(self, image: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Apply the geometry to (3, height, width); return (height, width, 3)."""
        for step in self.geometry:
            image = step.image(image, draws)
        return image.permute(1, 2, 0)

    def put(self, batch: Any, place: int, image: Any, index: int) -> None:
        """Write an image into a batch of its shape.

        Raises:
            SampleError: it is of another shape.

        """
        if image.shape != batch.shape[1:]:
            raise SampleError(
                f"sample {index} ({self.store.name(index)}) is {image.shape[0]} x "
                f"{image.shape[1]}, those before it {batch.shape[1]} x {batch.shape[2]}: give a "
                "transform that ends in one size, such as RandomResizedCrop(224) or "
                "Resize((224, 224))"
            )
        batch[place] = image

    def fields_of(self, step: Step, ids: list[int], space: Space) -> list[torch.Tensor]:
        """Return the fields of the samples that a step was given in the end."""
        given = replace(step, ids=need("numpy").array(ids))
        return fields_of(self.store, self.fields, given, space)


class ImageReader:
    """Encoded images: decoded, brought to one size, and written into the batch."""

    fills = threads = True
    light = changes = False

    def __init__(self, images: Images) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images.store)

    def identity(self) -> str:
        """Return the store's digest."""
        return self.images.store.digest

    def state(self) -> Any:
        """Return nothing: a store does not change."""
        return None

    def ahead(self, step: Step) -> None:
        """Let the kernel read ahead."""
        self.images.store.advise(step.ids)

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Decode a batch."""
        draws = Draws(self.images.seed, step.epoch, step.draw_ids)
        ids, replaced, batch = list(step.ids.tolist()), [], None
        for place, index in enumerate(ids):
            image, ids[place], why = self.images.image(index, draws.one(place))
            replaced += [(index, why)] if why else []
            if batch is None:
                batch = space.take((len(ids), *image.shape), "u1")
            self.images.put(batch, place, image, index)
        fields = self.images.fields_of(step, ids, space)
        return Fetched((torch.from_numpy(batch), *fields), tuple(replaced))

    def present(self, value: Any) -> Any:
        """Images as (samples, channels, height, width), channels last in memory."""
        return shown(value)
