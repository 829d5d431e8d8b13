"""Read batches whose JPEGs stay encoded: the device decodes them."""

from dataclasses import dataclass

import torch

from hotlap.common.extras import need
from hotlap.data.decode.device import DeviceDecoder
from hotlap.data.loader.images import ImageReader, Images
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.loader.stores import Field
from hotlap.data.order import Draws

SPREAD = 4.0
Piece = tuple[bytes, int, torch.Tensor | None]


@dataclass(frozen=True)
class Encoded:
    """A batch on its way to the device.

    `data`: the JPEGs end to end, uint8 (bytes,); what lies behind the last means nothing.
    `lengths`: bytes of each sample in it, int64 (samples,); 0 where the CPU decoded the sample.
    `turns`: how each is to be turned (EXIF), int64 (samples,).
    `pixels`: of each sample that the CPU decoded, uint8 (height, width, 3).
    `fields`: of the samples.
    """

    data: torch.Tensor
    lengths: torch.Tensor
    turns: torch.Tensor
    pixels: tuple[torch.Tensor, ...]
    fields: tuple[Field, ...]


class EncodedReader(ImageReader):
    """Hands plain JPEGs on as they are, and decodes the other images."""

    def __init__(self, images: Images, decoder: DeviceDecoder) -> None:
        super().__init__(images)
        self._decoder = decoder
        lengths = images.store.table("length")
        self._mean = float(lengths.mean()) if len(lengths) else 0.0
        self._spread = float(lengths.std()) if len(lengths) else 0.0

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Gather a batch."""
        draws = Draws(self.images.seed, step.epoch, step.draw_ids)
        ids, replaced = list(step.ids.tolist()), []
        jpegs, turns, pixels = [], [], list[torch.Tensor]()
        for place, index in enumerate(ids):
            (jpeg, turn, image), ids[place], why = self._piece(index, draws.one(place), space)
            replaced += [(index, why)] if why else []
            jpegs.append(jpeg)
            turns.append(turn)
            pixels += [] if image is None else [image]
        data = self._joined(jpegs, space)
        lengths = torch.tensor([len(jpeg) for jpeg in jpegs])
        fields = tuple(self.images.fields_of(step, ids, space))
        value = Encoded(data, lengths, torch.tensor(turns), tuple(pixels), fields)
        return Fetched(value, tuple(replaced))

    def present(self, value: object) -> object:
        """Leave it as it is: `DeviceDecode` does the rest."""
        return value

    def _piece(self, index: int, draws: Draws, space: Space) -> tuple[Piece, int, str]:
        """Return (bytes, how to turn them, pixels), the sample, and why it stands for another."""

        def read(other: int) -> Piece:
            data = self.images.store.payload(other)
            if turn := self._decoder.claims(data):
                return data, turn, None
            image = self.images.decoded(other, data, draws)
            kept = space.take(image.shape, "u1")
            kept[...] = image
            return b"", 0, torch.from_numpy(kept)

        return self.images.pick(index, read)

    def _joined(self, jpegs: list[bytes], space: Space) -> torch.Tensor:
        """Lay them end to end, in a room that nearly every batch of as many samples fits into.

        The loader's slots are as large as the first batch, and are pinned; what does not fit goes
        another way.
        """
        room = int(self._mean * len(jpegs) + SPREAD * self._spread * len(jpegs) ** 0.5)
        joined = b"".join(jpegs)
        data = space.take((max(len(joined), room),), "u1")
        data[: len(joined)] = need("numpy").frombuffer(joined, "u1")
        return torch.from_numpy(data)
