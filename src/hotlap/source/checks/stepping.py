"""How optimizers are made and asked."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, meaning
from hotlap.source.constants import UNKNOWN, constant
from hotlap.source.module import Source

_FUSED = ("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD", "torch.optim.Adagrad")
_CHOSEN = ("foreach", "fused", "capturable", "differentiable")


def gradients_zeroed(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`zero_grad(set_to_none=False)`."""
    for call in source.tree.methods.get("zero_grad", []):
        given = argument(call, "set_to_none", 0)
        if given is not None and constant(source, given) is False:
            yield call


def foreach_off(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`foreach=False`, to an optimizer or to gradient clipping."""
    for call in source.tree.calls:
        dotted = source.names.of(call.func)
        if dotted.startswith(("torch.optim.", "torch.nn.utils.")):
            given = source.arguments(call) or {}
            fused = constant(source, given.get("fused"))
            if constant(source, given.get("foreach")) is False and fused in (None, False):
                yield call


def unfused_optimizer(source: Source, _: Technique) -> Iterator[ast.AST]:
    """An optimizer that has a fused form and says nothing about it."""
    for call in source.calls(*_FUSED):
        given = source.arguments(call)
        if given is None or sparse(source):
            continue
        chosen = {name: constant(source, given.get(name)) for name in _CHOSEN}
        if chosen["fused"] in (None, False) and all(
            chosen[name] in (None, False) and (name != "foreach" or chosen[name] is None)
            for name in _CHOSEN
        ):
            yield call


def adam_with_decay(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.optim.Adam` with a weight decay that is not 0."""
    for call in source.calls("torch.optim.Adam"):
        given = source.arguments(call)
        if given is None or constant(source, given.get("decoupled_weight_decay")) is True:
            continue
        decays = [given.get("weight_decay"), *_of_groups(source, call)]
        if any(_decays(source, decay) for decay in decays):
            yield call


def _decays(source: Source, node: ast.expr | None) -> bool:
    value = constant(source, node)
    return value is not UNKNOWN and isinstance(value, int | float) and value > 0


def _of_groups(source: Source, call: ast.Call) -> Iterator[ast.expr]:
    """The decays written into parameter groups."""
    given = argument(call, "params", 0)
    groups = meaning(source, given) if given is not None else None
    for group in groups.elts if isinstance(groups, ast.List) else []:
        if isinstance(group, ast.Dict):
            for key, value in zip(group.keys, group.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "weight_decay":
                    yield value


def sparse(source: Source) -> bool:
    """Whether gradients may be sparse, which no fused optimizer takes."""
    return source.project.has("sparse") or any(
        entry.arg == "sparse" and constant(source, entry.value) is True
        for entry in source.tree.every(ast.keyword)
    )
