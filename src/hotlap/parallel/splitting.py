"""A model cut into the stages of a pipeline, each with the names its layers have in the whole."""

import copy
from collections.abc import Sequence

from torch import Tensor, nn

Names = Sequence[str]
_CHAINS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


class Absent(nn.Module):
    """Stands where a layer is on another stage, and hands its first input on."""

    def forward(self, x: Tensor, *_: object, **__: object) -> Tensor:
        """Return the stage's activations as they came."""
        if not (isinstance(x, Tensor) and x.is_floating_point()):
            raise RuntimeError(
                "a layer that is on another pipeline stage was called with something else than this"
                " stage's activations. Its forward is to chain its layers, x = layer(x); embeddings"
                " that are added up belong into one module of their own"
            )
        return x


def stage_names(model: nn.Module, number: int) -> list[list[str]]:
    """Share a model's repeated layers out evenly, in order.

    What stands before them goes to the first stage, what stands after them to the last. Modules
    that have buffers only, such as rotary embeddings, are kept on every stage.

    Raises:
        ValueError: no layers that repeat side by side, or fewer than stages.
    """
    container = _container(model)
    blocks = [
        f"{container}{name}"
        for name, _ in model.get_submodule(container.removesuffix(".")).named_children()
    ]
    if len(blocks) < number:
        raise ValueError(f"{len(blocks)} layers cannot make {number} stages")
    before, after = _around(model, container)
    size, more = divmod(len(blocks), number)
    stages, at = [], 0
    for index in range(number):
        end = at + size + (index < more)
        stages.append(blocks[at:end])
        at = end
    stages[0] = before + stages[0]
    stages[-1] = stages[-1] + after
    return stages


def part(model: nn.Module, names: Names, others: Names) -> nn.Module:
    """The model with the layers in `names`, and without those in `others`.

    Layers are shared with `model`, not copied; the modules above them are copied without their
    parameters. In a ModuleDict the others are dropped; elsewhere `Absent` stands for them, so that
    names and indices stay.
    """
    kept = set(names)
    return _copy(model, "", kept, set(others) - kept)


def check(model: nn.Module, stages: Sequence[Names]) -> None:
    """See that every parameter is on exactly one stage.

    Raises:
        ValueError: a name the model has not, a parameter that no stage or several have.
    """
    known = {name for name, _ in model.named_modules()} | dict(model.named_parameters()).keys()
    for name in (name for stage in stages for name in stage):
        if name not in known:
            raise ValueError(f"no layer is called {name!r}, which stages= names")
    owners: dict[Tensor, tuple[int, str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        for index in _owners(name, stages):
            first, other = owners.setdefault(parameter, (index, name))
            if first != index:
                raise ValueError(_shared(name, index, other, first))
        if parameter not in owners:
            raise ValueError(
                f"{name} is on no stage: name it, or the module it is in, in one entry of stages="
            )


def _shared(name: str, index: int, other: str, first: int) -> str:
    if name == other:
        return f"{name} is on stages {first} and {index}, and would be trained twice"
    return (
        f"{other} on stage {first} and {name} on stage {index} are one parameter; a pipeline cannot"
        " tie them: put both on one stage, or untie them"
    )


def _owners(name: str, stages: Sequence[Names]) -> list[int]:
    return [
        index
        for index, stage in enumerate(stages)
        if any(name == given or name.startswith(f"{given}.") for given in stage)
    ]


def _copy(module: nn.Module, prefix: str, kept: set[str], dropped: set[str]) -> nn.Module:
    """Copy what stands above the layers; hand on what is kept whole."""
    inside = [name for name in kept | dropped if name.startswith(prefix)]
    if not inside:
        return module
    new = copy.copy(module)
    new._modules, new._buffers = dict(module._modules), dict(module._buffers)
    new._parameters = {
        name: value if f"{prefix}{name}" in kept else None
        for name, value in module._parameters.items()
    }
    for name, child in module._modules.items():
        if child is not None:
            _place(new, name, child, f"{prefix}{name}", kept, dropped)
    return new


def _place(
    above: nn.Module, name: str, child: nn.Module, full: str, kept: set[str], dropped: set[str]
) -> None:
    if full in kept:
        return
    if full not in dropped:
        above._modules[name] = _copy(child, f"{full}.", kept, dropped)
    elif isinstance(above, nn.ModuleDict):
        del above._modules[name]
    else:
        above._modules[name] = Absent()


def _container(model: nn.Module) -> str:
    """The name, with a dot, of what holds the model's repeated layers."""
    from hotlap.common.recomputing import repeated

    first = next(iter(repeated(model)), None)
    for name, module in model.named_modules():
        if isinstance(module, _CHAINS) and any(child is first for child in module.children()):
            return f"{name}." if name else ""
    raise ValueError(
        f"{type(model).__name__} has no list of layers of one kind to cut up: name each stage's "
        'layers with stages=[["embed", "layers.0"], ["layers.1", "head"]]'
    )


def _around(model: nn.Module, container: str) -> tuple[list[str], list[str]]:
    """What is beside the layers on the way down to them: before, and after."""
    before: list[str] = []
    after: list[str] = []
    path = container.removesuffix(".")
    while path:
        above, _, own = path.rpartition(".")
        children = model.get_submodule(above).named_children()
        siblings = [name for name, child in children if not _constant(child)]
        at = siblings.index(own)
        prefix = f"{above}." if above else ""
        before = [f"{prefix}{name}" for name in siblings[:at]] + before
        after = after + [f"{prefix}{name}" for name in siblings[at + 1 :]]
        path = above
    return before, after


def _constant(module: nn.Module) -> bool:
    """Whether it has nothing to train but something it computes with, as rotary embeddings have."""
    has = next(module.parameters(), None) is not None
    return not has and next(module.buffers(), None) is not None
