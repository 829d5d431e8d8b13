"""The other end of `EncodedReader`: batches are decoded on the device."""

from collections.abc import Iterator
from functools import partial

import torch

from hotlap.common.nested import mapped
from hotlap.data.decode.device import turned
from hotlap.data.decode.together import Together
from hotlap.data.loader.encoded import Encoded
from hotlap.data.loader.images import Images, fitting
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.loader.stores import Field, shown
from hotlap.data.order import Draws


class DeviceDecode:
    """Decodes JPEGs on the device, in batches; what is refused there, on the CPU.

    Args:
        images: how single images are read.
        decode: decodes on the device.
        device: where batches go.
    """

    def __init__(self, images: Images, decode: Together, device: torch.device) -> None:
        self._images = images
        self._decode = decode
        self._device = device

    def __call__(self, step: Step, fetched: Fetched) -> Fetched:
        """Return a batch of `EncodedReader` as images and fields on the device.

        Raises:
            SampleError: a sample cannot be decoded, or is of another size than the others.
            LoaderError: the decoder decodes nothing at all.
        """
        encoded: Encoded = fetched.value
        draws = Draws(self._images.seed, step.epoch, step.draw_ids)
        images = list(self._decoded(encoded, draws))
        replaced = self._complete(images, step, draws, encoded.fields)
        batch = self._batch([image for image in images if image is not None], step)
        fields = mapped(encoded.fields, lambda field: field.to(self._device, non_blocking=True))
        return Fetched(shown((batch, *fields)), (*fetched.replaced, *replaced))

    def _decoded(self, encoded: Encoded, draws: Draws) -> Iterator[torch.Tensor | None]:
        """Yield each image (height, width, 3) on the device, or None where it was refused."""
        lengths = encoded.lengths[encoded.lengths > 0].tolist()
        made = self._decode(torch.split(encoded.data[: sum(lengths)], lengths))
        ready = iter(encoded.pixels)
        for place, turn in enumerate(encoded.turns.tolist()):
            if not turn:
                yield next(ready).to(self._device, non_blocking=True)
            elif (pixels := next(made)) is None:
                yield None
            else:
                yield self._images.sized(turned(pixels, turn), draws.one(place))

    def _complete(
        self,
        images: list[torch.Tensor | None],
        step: Step,
        draws: Draws,
        fields: tuple[Field, ...],
    ) -> list[tuple[int, str]]:
        """Decode on the CPU what was refused; return what was replaced, and why."""
        replaced = []
        for place, index in enumerate(step.ids.tolist()):
            if images[place] is None:
                pixels, sample, why = self._images.image(index, draws.one(place))
                images[place] = torch.from_numpy(pixels).to(self._device, copy=True)
                of_sample = self._images.fields_of(step, [sample], Space())
                for field, one in zip(fields, of_sample, strict=True):
                    field[place] = one[0]
                replaced += [(index, why)] if why else []
        return replaced

    def _batch(self, images: list[torch.Tensor], step: Step) -> torch.Tensor:
        """Return uint8 (samples, height, width, 3) on the device."""
        shape = len(images), *images[0].shape
        batch = torch.empty(shape, dtype=torch.uint8, device=self._device)
        for place, (index, image) in enumerate(zip(step.ids.tolist(), images, strict=True)):
            name = partial(self._images.sample, index)
            fitting(batch, image.shape, name)[place] = image
        return batch
