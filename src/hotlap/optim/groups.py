"""Parameter groups: what weight decay should leave alone."""

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

NORMS: tuple[type[nn.Module], ...] = (
    _NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.LocalResponseNorm,
)


def no_decay_groups(
    model: nn.Module,
    weight_decay: float,
    *,
    skip: Iterable[str] = (),
    embeddings: bool = True,
    **options: object,
) -> list[dict[str, Any]]:
    """Part a model's parameters into two groups: with weight decay, and without.

    Without: biases and other parameters of at most one dimension, all parameters of norm modules
    (torch's own, and any whose class name ends in "Norm"), and those that `skip` names. Frozen
    parameters are left out; one that several modules share is taken once, and is decayed only if
    none of its places says otherwise.

    The group without decay has `layerwise=False` in it, which LARS and LAMB understand (no rate of
    its own) and other optimizers carry along.

    Args:
        model: plain, or under DDP, FSDP2 or tensor parallelism.
        weight_decay: of the first group.
        skip: names of parameters, or ends of names such as "pos_embed".
        embeddings: whether `nn.Embedding` tables decay.
        options: go into both groups, such as `lr`.

    Returns:
        Groups for any optimizer; one that would be empty is left out.

    Raises:
        ValueError: nothing is trainable, or a name in `skip` fits no parameter.
    """
    ends = tuple(skip)
    spared, names = _spared(model, ends, embeddings=embeddings)
    missing = [end for end in ends if not any(_fits(name, (end,)) for name in names)]
    if missing:
        raise ValueError(f"skip: no parameter's name is or ends in {', '.join(map(repr, missing))}")
    decayed: list[nn.Parameter] = []
    left: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (left if id(parameter) in spared else decayed).append(parameter)
    if not decayed and not left:
        raise ValueError("no parameter of the model requires a gradient")
    groups = [
        {"params": decayed, "weight_decay": weight_decay, **options},
        {"params": left, "weight_decay": 0.0, "layerwise": False, **options},
    ]
    return [group for group in groups if group["params"]]


def _spared(
    model: nn.Module, ends: tuple[str, ...], *, embeddings: bool
) -> tuple[set[int], list[str]]:
    """The ids of the parameters that some place wants without decay, and all names."""
    spared: set[int] = set()
    names: list[str] = []
    for prefix, module in model.named_modules(remove_duplicate=False):
        norm = isinstance(module, NORMS) or type(module).__name__.endswith("Norm")
        table = isinstance(module, nn.Embedding | nn.EmbeddingBag) and not embeddings
        for short, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            name = f"{prefix}.{short}" if prefix else short
            names.append(name)
            if norm or table or parameter.dim() <= 1 or _fits(name, ends):
                spared.add(id(parameter))
    return spared, names


def _fits(name: str, ends: tuple[str, ...]) -> bool:
    return any(name == end or name.endswith(f".{end}") for end in ends)
