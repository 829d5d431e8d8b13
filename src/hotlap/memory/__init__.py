"""Where a training step's memory goes, and what makes it fit; each part usable alone."""

from typing import TYPE_CHECKING

from hotlap.common.lazy import lazy

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
    "Fit": ".measuring",
    "Fragmentation": ".fragments",
    "Live": ".meter",
    "Meter": ".meter",
    "Saved": ".saved",
    "fit": ".fitting",
    "fragmentation": ".fragments",
    "heap_kept": "hotlap.common.heap",
    "keep_heap": "hotlap.common.heap",
    "offloaded": ".offload",
    "saved_by_module": ".saved",
}
__all__ = list(_WHERE)
__getattr__ = lazy(__name__, _WHERE)
