"""Feeding a training loop: parts for a plain PyTorch script, each usable alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.data.cached import CachedDataset as CachedDataset
    from hotlap.data.decode import Decoder as Decoder
    from hotlap.data.decode.device import DeviceDecoder as DeviceDecoder
    from hotlap.data.loader import Loader as Loader
    from hotlap.data.prefetch import DevicePrefetcher as DevicePrefetcher
    from hotlap.data.store import Store as Store
    from hotlap.data.tokens import TokenWindows as TokenWindows

_WHERE = {
    "CachedDataset": "hotlap.data.cached",
    "Decoder": "hotlap.data.decode",
    "DeviceDecoder": "hotlap.data.decode.device",
    "DevicePrefetcher": "hotlap.data.prefetch",
    "Loader": "hotlap.data.loader",
    "Store": "hotlap.data.store",
    "TokenWindows": "hotlap.data.tokens",
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


def __getattr__(name: str) -> Any:
    """Import a part when it is first asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
