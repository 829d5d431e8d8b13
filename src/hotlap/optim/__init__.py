"""Optimizers for large batches, parameter groups, schedules, and the learning-rate range test.

Parts for a plain PyTorch loop, each usable alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.optim.factory import make as make
    from hotlap.optim.groups import no_decay_groups as no_decay_groups
    from hotlap.optim.lamb import LAMB as LAMB
    from hotlap.optim.lamb import NVLAMB as NVLAMB
    from hotlap.optim.lars import LARS as LARS
    from hotlap.optim.muon import muon_pair as muon_pair
    from hotlap.optim.range_test import lr_range_test as lr_range_test
    from hotlap.optim.scaling import scale_lr as scale_lr
    from hotlap.optim.schedules import constant as constant
    from hotlap.optim.schedules import cosine as cosine
    from hotlap.optim.schedules import linear as linear
    from hotlap.optim.schedules import polynomial as polynomial
    from hotlap.optim.sweep import Sweep as Sweep

_WHERE = {
    "LAMB": "lamb",
    "LARS": "lars",
    "NVLAMB": "lamb",
    "Sweep": "sweep",
    "constant": "schedules",
    "cosine": "schedules",
    "linear": "schedules",
    "lr_range_test": "range_test",
    "make": "factory",
    "muon_pair": "muon",
    "no_decay_groups": "groups",
    "polynomial": "schedules",
    "scale_lr": "scaling",
}
__all__ = [  # noqa: PLE0604,RUF100
    "LAMB",
    "LARS",
    "NVLAMB",
    "Sweep",
    "constant",
    "cosine",
    "linear",
    "lr_range_test",
    "make",
    "muon_pair",
    "no_decay_groups",
    "polynomial",
    "scale_lr",
]


def __getattr__(name: str) -> Any:
    """Import a part when it is first asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hotlap.optim.{_WHERE[name]}"), name)
