"""Feeding a training loop: parts for a plain PyTorch script, each usable alone."""

from typing import TYPE_CHECKING

from hotlap.common.lazy import lazy

if TYPE_CHECKING:
    from hotlap.data.cached import CachedDataset as CachedDataset
    from hotlap.data.decode import Decoder as Decoder
    from hotlap.data.decode.device import DeviceDecoder as DeviceDecoder
    from hotlap.data.loader import Loader as Loader
    from hotlap.data.prefetch import DevicePrefetcher as DevicePrefetcher
    from hotlap.data.store import Store as Store
    from hotlap.data.tokens import TokenWindows as TokenWindows

_WHERE = {
    "CachedDataset": ".cached",
    "Decoder": ".decode",
    "DeviceDecoder": ".decode.device",
    "DevicePrefetcher": ".prefetch",
    "Loader": ".loader",
    "Store": ".store",
    "TokenWindows": ".tokens",
}
__all__ = [  # noqa: PLE0604,RUF100
    "CachedDataset",
    "Decoder",
    "DeviceDecoder",
    "DevicePrefetcher",
    "Loader",
    "Store",
    "TokenWindows",
]
__getattr__ = lazy(__name__, _WHERE)
