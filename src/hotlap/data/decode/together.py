"""Decode many JPEGs at once on a device, though some of them be bad."""

from collections.abc import Iterable, Iterator

import torch

from hotlap.data.decode.device import Jpegs, specimen
from hotlap.data.errors import LoaderError

AT_ONCE = 32 << 20  # bytes of JPEGs: some ten times as many of pixels


class Together:
    """Hands JPEGs to a decoder that refuses all of them for the sake of one.

    Args:
        jpegs: decodes (see `DeviceDecoder`).
        device: where pixels go.
    """

    def __init__(self, jpegs: Jpegs, device: torch.device) -> None:
        self._jpegs = jpegs
        self._device = device

    def __call__(self, jpegs: Iterable[torch.Tensor]) -> Iterator[torch.Tensor | None]:
        """Yield the pixels of each, or None where it was refused.

        No more of them are decoded at once than `AT_ONCE`, so that large photographs do not fill
        the device.

        Raises:
            LoaderError: the decoder decodes nothing at all.
            ValueError: it does not return as many images as it was given.
        """
        group: list[torch.Tensor] = []
        size = 0
        for jpeg in jpegs:
            if group and size + len(jpeg) > AT_ONCE:
                yield from self._group(group)
                group, size = [], 0
            group.append(jpeg)
            size += len(jpeg)
        if group:
            yield from self._group(group)

    def _group(self, jpegs: list[torch.Tensor]) -> list[torch.Tensor | None]:
        made = self._halves(jpegs)
        if all(pixels is None for pixels in made):
            self._must_work()
        return made

    def _halves(self, jpegs: list[torch.Tensor]) -> list[torch.Tensor | None]:
        """Decode all; where one of them is refused, each half."""
        try:
            return self._all(jpegs)
        except RuntimeError:
            if len(jpegs) == 1:
                return [None]
        half = len(jpegs) // 2
        return self._halves(jpegs[:half]) + self._halves(jpegs[half:])

    def _all(self, jpegs: list[torch.Tensor]) -> list[torch.Tensor | None]:
        made: list[torch.Tensor | None] = list(self._jpegs(jpegs, self._device))
        if len(made) != len(jpegs):
            raise ValueError(
                f"`jpegs` of the DeviceDecoder made {len(made)} images of {len(jpegs)}: it must "
                "return one for each, or raise RuntimeError"
            )
        return made

    def _must_work(self) -> None:
        """Tell a decoder that is broken from images that are."""
        try:
            self._jpegs([specimen()], self._device)
        except RuntimeError as error:
            raise LoaderError(
                f"DeviceDecoder decodes nothing on {self._device}, not even a sound JPEG: {error}; "
                "leave `decoder` out, and the CPU decodes"
            ) from error
