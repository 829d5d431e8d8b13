"""Decode on the device that batches go to; the CPU does what is left."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch

from hotlap.common.extras import need
from hotlap.data.decode import pil
from hotlap.data.decode.decoder import Decoder
from hotlap.data.decode.nvjpeg import nvjpeg
from hotlap.data.errors import SampleError

_START, _END = b"\xff\xd8\xff", b"\xff\xd9"
_SEQUENTIAL = {0xC0, 0xC1}
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE = {0x01, *range(0xD0, 0xDA)}
_ADOBE = 0xEE


def plain_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height) of a plain JPEG, and None of everything else.

    Plain is what every decoder takes, those in hardware included: sequential, Huffman-coded, 8 bits
    a component, grey or YCbCr, and with an end. Progressive files are not: nvJPEG decodes them one
    by one, half of it on the CPU.
    """
    if not data.startswith(_START) or data.rfind(_END) < len(data) // 2:
        return None
    at = 2
    while True:
        while data[at : at + 2] == b"\xff\xff":  # fill bytes
            at += 1
        if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] in _ALONE:
            return None
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 2 + length]
        if _is_rgb(marker, body):
            return None
        if marker in _FRAMES:
            return _size(body) if marker in _SEQUENTIAL else None
        at += 2 + length


def _is_rgb(marker: int, body: bytes) -> bool:
    """Whether Adobe's marker says that colours were not transformed."""
    return marker == _ADOBE and body.startswith(b"Adobe") and body[11:12] == b"\x00"


def _size(frame: bytes) -> tuple[int, int] | None:
    """Read a frame header (ITU-T T.81, B.2.2): precision, height, width, components."""
    if len(frame) < 6 or frame[0] != 8 or frame[5] not in {1, 3} or frame[6::3] == b"RGB":
        return None
    height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
    return (width, height) if width and height else None


Jpegs = Callable[[list[torch.Tensor], torch.device], Sequence[torch.Tensor]]


@dataclass(frozen=True)
class DeviceDecoder:
    """Lets a `Loader` decode plain JPEGs on its device, in batches.

    Plain are sequential JPEGs of 8 bits, grey or YCbCr. All else (other formats, progressive, CMYK,
    files cut short) is decoded by `cpu` in the processes that read, and so is, in the process that
    trains, what `jpegs` refuses: errors, replacements and counts are those of `cpu`.

    nvJPEG's pixels are not PIL's: torchvision's own tests hold their mean difference below 2 of
    255; single pixels beside edges of colour may differ more, as chroma is enlarged otherwise. The
    resize on a device is within 1 of PIL's. Damage inside a JPEG may go unnoticed.

    Args:
        cpu: its `exif` and `max_pixels` hold for every image.
        jpegs: called with the bytes of plain JPEGs (uint8 tensors of one dimension, on the CPU) and
            the device; returns for each its pixels there, uint8 (3, height, width), RGB, not turned
            by EXIF; raises RuntimeError when it refuses one of them. By default nvJPEG, which
            torchvision brings.
    """

    cpu: Decoder = field(default_factory=Decoder)
    jpegs: Jpegs | None = None

    def ready(self, device: torch.device | None) -> Jpegs:
        """Return what decodes on `device`.

        Raises:
            ValueError: nvJPEG is to decode, and the device is no CUDA device.
            MissingPackageError: CUDA or torchvision is not there, or torchvision does not load.
        """
        return self.jpegs or nvjpeg(device)

    def claims(self, data: bytes) -> int:
        """Return how a JPEG for the device is to be turned (EXIF, 1 to 8); 0: for the CPU."""
        size = plain_size(data)
        if size is None or size[0] * size[1] > self.cpu.max_pixels:
            return 0
        if not self.cpu.exif:
            return 1
        try:
            found = pil.orientation(data)
        except SampleError:
            return 0
        return found if found in range(1, 9) else 0


def turned(image: torch.Tensor, orientation: int) -> torch.Tensor:
    """Turn (channels, height, width) as an EXIF orientation says."""
    if orientation == 1:
        return image
    if orientation >= 5:
        image = image.transpose(1, 2)
    flips = pil.FLIPS.get(orientation, (False, False))
    return image.flip([axis for axis, flip in enumerate(flips, 1) if flip])


@cache
def specimen() -> torch.Tensor:
    """Return the bytes of a JPEG that every decoder takes, as a uint8 tensor."""
    buffer = io.BytesIO()
    need("PIL.Image").new("RGB", (64, 64), (90, 140, 40)).save(buffer, "JPEG")
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
