"""JPEG by nvJPEG, as torchvision brings it."""

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType

import torch

from hotlap.data.errors import MissingPackageError

_WITHOUT = "leave `decoder` out, and the CPU decodes"
_WHERE = "https://pytorch.org/get-started/locally"


def nvjpeg(
    device: torch.device | None,
) -> Callable[[list[torch.Tensor], torch.device], Sequence[torch.Tensor]]:
    """Return torchvision's decoder of many JPEGs at once, for a CUDA device.

    Raises:
        ValueError: it is no CUDA device.
        MissingPackageError: CUDA or torchvision is not there, or torchvision does not load.
    """
    if device is None or device.type != "cuda":
        raise ValueError(
            f"DeviceDecoder decodes by nvJPEG on a CUDA device, but device is {device}: give "
            f"device='cuda', or {_WITHOUT}"
        )
    if not torch.cuda.is_available():
        raise MissingPackageError(
            f"DeviceDecoder needs CUDA, which torch {torch.__version__} does not find: install "
            f"torch and torchvision for CUDA ({_WHERE}), or {_WITHOUT}"
        )
    return _Decode(_torchvision())


def _torchvision() -> ModuleType:
    try:
        return import_module("torchvision.io")
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: built for another torch
        raise MissingPackageError(
            f"DeviceDecoder needs torchvision, which does not load ({error}): install the one "
            f"that belongs to torch {torch.__version__} ({_WHERE}), or {_WITHOUT}"
        ) from error


class _Decode:
    def __init__(self, torchvision_io: ModuleType) -> None:
        self._decode = torchvision_io.decode_jpeg
        self._rgb = torchvision_io.ImageReadMode.RGB

    def __call__(self, encoded: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
        """Decode; the present stream waits for the result.

        nvJPEG writes on a stream of torchvision's, which does not wait for ours, into memory that
        was allocated on ours: kernels that still read what lay there before must be through.
        """
        torch.cuda.current_stream(device).synchronize()
        made: list[torch.Tensor] = self._decode(encoded, mode=self._rgb, device=device)
        return made
