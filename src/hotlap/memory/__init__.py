"""Where a training step's memory goes, and what makes it fit; each part usable alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.common.heap import heap_kept as heap_kept
    from hotlap.common.heap import keep_heap as keep_heap
    from hotlap.memory.fitting import fit as fit
    from hotlap.memory.fragments import Fragmentation as Fragmentation
    from hotlap.memory.fragments import fragmentation as fragmentation
    from hotlap.memory.measuring import Fit as Fit
    from hotlap.memory.meter import Live as Live
    from hotlap.memory.meter import Meter as Meter
    from hotlap.memory.offload import offloaded as offloaded
    from hotlap.memory.saved import Saved as Saved
    from hotlap.memory.saved import saved_by_module as saved_by_module

_WHERE = {
    "Fit": "hotlap.memory.measuring",
    "Fragmentation": "hotlap.memory.fragments",
    "Live": "hotlap.memory.meter",
    "Meter": "hotlap.memory.meter",
    "Saved": "hotlap.memory.saved",
    "fit": "hotlap.memory.fitting",
    "fragmentation": "hotlap.memory.fragments",
    "heap_kept": "hotlap.common.heap",
    "keep_heap": "hotlap.common.heap",
    "offloaded": "hotlap.memory.offload",
    "saved_by_module": "hotlap.memory.saved",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """Import a part when it is first asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
