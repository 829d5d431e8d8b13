"""Optimizers for large batches, parameter groups, schedules, and the learning-rate range test.

Parts for a plain PyTorch loop, each usable alone.
"""

from typing import TYPE_CHECKING

from hotlap.common.lazy import lazy

if TYPE_CHECKING:
    from hotlap.optim.factory import create_optimizer as create_optimizer
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
    "LAMB": ".lamb",
    "LARS": ".lars",
    "NVLAMB": ".lamb",
    "Sweep": ".sweep",
    "constant": ".schedules",
    "cosine": ".schedules",
    "linear": ".schedules",
    "lr_range_test": ".range_test",
    "create_optimizer": ".factory",
    "muon_pair": ".muon",
    "no_decay_groups": ".groups",
    "polynomial": ".schedules",
    "scale_lr": ".scaling",
}
__all__ = [  # noqa: PLE0604,RUF100
    "LAMB",
    "LARS",
    "NVLAMB",
    "Sweep",
    "constant",
    "cosine",
    "create_optimizer",
    "linear",
    "lr_range_test",
    "muon_pair",
    "no_decay_groups",
    "polynomial",
    "scale_lr",
]
__getattr__ = lazy(__name__, _WHERE, {"make": "create_optimizer"})
