"""Feeding a training loop: parts for a plain PyTorch script, each usable alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.data.cached import CachedDataset as CachedDataset
    from hotlap.data.prefetch import DevicePrefetcher as DevicePrefetcher

_WHERE = {
    "CachedDataset": "hotlap.data.cached",
    "DevicePrefetcher": "hotlap.data.prefetch",
}
__all__ = ["CachedDataset", "DevicePrefetcher"]  # noqa: PLE0604,RUF100


def __getattr__(name: str) -> Any:
    """Import a part when it is first asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
