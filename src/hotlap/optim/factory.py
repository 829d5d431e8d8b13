"""Optimizers by name, with weight decay where it belongs."""

import inspect
from collections.abc import Callable
from importlib import import_module

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from hotlap.optim.groups import no_decay_groups
from hotlap.optim.lamb import LAMB, NVLAMB
from hotlap.optim.lars import LARS

Build = Callable[..., Optimizer]
FUSED = ("cpu", "cuda", "mps", "xpu")


def create_optimizer(
    name: str, model: nn.Module, *, lr: float, weight_decay: float = 0.01, **options: object
) -> Optimizer:
    """Build an optimizer for a model, without weight decay on biases and norms.

    Args:
        name: `sgd`, `adam`, `adamw`, `lars`, `lamb`, `nvlamb`, or, with the package `schedulefree`
            installed, `schedulefree_adamw` and `schedulefree_sgd`.
        model: its trainable parameters are taken.
        lr: learning rate.
        weight_decay: of the weights.
        options: the optimizer's own. `sgd`, `adam` and `adamw` are fused where torch can.

    Muon takes two optimizers: see `hotlap.optim.muon_pair`. A schedule-free optimizer needs
    `optimizer.train()` and `optimizer.eval()` beside the model's, and no schedule.

    Raises:
        ValueError: no such optimizer, or an option out of range.
        RuntimeError: `schedulefree` is not installed.
    """
    build = _build(name)
    groups = no_decay_groups(model, weight_decay)
    if "fused" in inspect.signature(build).parameters and "foreach" not in options:
        devices = {parameter.device.type for group in groups for parameter in group["params"]}
        options.setdefault("fused", devices <= set(FUSED))
    return build(groups, lr=lr, **options)


def _build(name: str) -> Build:
    builds: dict[str, Build] = {
        "sgd": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "lars": LARS,
        "lamb": LAMB,
        "nvlamb": NVLAMB,
    }
    free = {"schedulefree_adamw": "AdamWScheduleFree", "schedulefree_sgd": "SGDScheduleFree"}
    if name in free:
        return _schedule_free(free[name])
    if name not in builds:
        hint = "muon_pair makes Muon's two" if name == "muon" else ", ".join([*builds, *free])
        raise ValueError(f"there is no optimizer {name!r} to make; there are: {hint}")
    return builds[name]


def _schedule_free(kind: str) -> Build:
    try:
        package = import_module("schedulefree")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"{kind} comes from the package schedulefree, which is not installed;"
            " `pip install schedulefree`"
        ) from None
    build: Build = getattr(package, kind)
    return build
