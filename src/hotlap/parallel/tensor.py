"""Tensor parallelism: a plan put to work on one part of a model."""

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import parallelize_module
from torch.distributed.tensor.parallel.style import ParallelStyle

from hotlap.parallel.fused_columns import distribute
from hotlap.parallel.localised import localise, whole
from hotlap.parallel.parallelism import Parallelism
from hotlap.parallel.splitting import Absent
from hotlap.parallel.tying import tie, tied

Plan = Mapping[str, ParallelStyle]
PlanLike = Plan | Callable[[Parallelism], Plan] | str


def plan_of(asked: PlanLike | None, parallelism: Parallelism) -> Plan:
    """The plan meant by a name (`gpt`, `llama`, `gpt2`, `vit`), a function or a plan itself.

    Raises:
        ValueError: there is none, or no such name.
    """
    from hotlap.parallel.plans import PLANS

    if asked is None:
        raise ValueError(
            "tensor parallelism needs tp_plan=: a name of " + ", ".join(PLANS) + ", or a mapping "
            'from names of layers to styles, such as {"layers.*.mlp.up": ColwiseParallel()}'
        )
    if isinstance(asked, str):
        if asked not in PLANS:
            raise ValueError(f"there is no plan {asked!r}; there are {', '.join(PLANS)}")
        return PLANS[asked](parallelism)
    return asked(parallelism) if callable(asked) else asked


def check(model: nn.Module, plan: Plan) -> None:
    """See that the plan is this model's.

    A name that ends in `?` may be absent.

    Raises:
        ValueError: names in the plan that match nothing.
    """
    names = [name for name, _ in model.named_modules()]
    absent = [
        pattern
        for pattern in plan
        if not pattern.endswith("?") and not any(matches(name, pattern) for name in names)
    ]
    if absent:
        raise ValueError(
            f"the tensor-parallel plan names {', '.join(absent)}, and {type(model).__name__} has no"
            f" such layers; it has {', '.join(names[1:9])}, ..."
        )


def matches(name: str, pattern: str) -> bool:
    """Whether a module's name is meant; `*` does not go past a dot."""
    parts, wanted = name.split("."), pattern.removesuffix("?").split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def shard(part: nn.Module, mesh: DeviceMesh, plan: Plan) -> None:
    """Spread the layers a plan names over the mesh; replicate all other parameters.

    Parameters that were one stay one.

    Raises:
        ValueError: a layer inside a block whose width the ranks cannot share evenly, or one
            parameter of two layers that the plan spreads in two ways.
    """
    together = tied(part)
    for pattern, style in plan.items():
        for name, module in list(part.named_modules()):
            if matches(name, pattern) and not isinstance(module, Absent):
                parallelize_module(module, mesh, style, src_data_rank=None)
                _even(module, name, mesh.size())
    tie(part, together)
    for module in part.modules():
        _replicate(module, mesh)
    tie(part, together)


def _even(module: nn.Module, name: str, ranks: int) -> None:
    """Heads and hidden units of a block must come out even, or code cuts them up wrongly."""
    if not re.search(r"\.\d+\.", name):
        return
    for parameter in module.parameters(recurse=False):
        for placement in getattr(parameter, "placements", ()):
            if isinstance(placement, Shard) and parameter.shape[placement.dim] % ranks:
                raise ValueError(
                    f"{name} is {parameter.shape[placement.dim]} wide, which {ranks} ranks of "
                    "tensor parallelism cannot share evenly"
                )


def _replicate(module: nn.Module, mesh: DeviceMesh) -> None:
    """Make plain parameters replicated DTensors, with which the module computes as before.

    An optimizer or a norm over plain tensors and DTensors at once fails.
    """
    plain = [
        name
        for name, parameter in module._parameters.items()
        if parameter is not None and not isinstance(parameter, DTensor)
    ]
    if plain:
        distribute(module, mesh, {name: Replicate() for name in plain})
        localise(module, dict.fromkeys(plain, whole))
