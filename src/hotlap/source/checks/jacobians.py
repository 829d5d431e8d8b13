"""Derivatives with more rows than are used: whole Jacobians, gradients of each sample."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, is_constant, made_by, reached
from hotlap.source.checks.multiplied import is_only_multiplied
from hotlap.source.module import Source

_PACKAGES = ("torch.func", "functorch")
_JACOBIANS = frozenset(
    f"{package}.{name}" for package in _PACKAGES for name in ("jacrev", "jacfwd", "hessian")
)
_GRADIENTS = frozenset(
    f"{package}.{name}" for package in _PACKAGES for name in ("grad", "grad_and_value")
)
_MADE_AT_ONCE = frozenset(
    {"torch.autograd.functional.jacobian", "torch.autograd.functional.hessian"}
)
_VMAPS = frozenset({"torch.vmap", "torch.func.vmap", "functorch.vmap"})
_AVERAGES = frozenset({"mean", "sum"})
_OVER_PARTS = frozenset({"items", "values"})


def whole_jacobian(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`jacrev(f)(x) @ v`, and what else only multiplies the whole matrix by a vector."""
    for call in source.tree.calls:
        at_once = source.names.of(call.func) in _MADE_AT_ONCE
        made = at_once or _maker(source, call.func, _JACOBIANS) is not None
        if made and is_only_multiplied(source, call):
            yield call


def averaged_gradients(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`vmap(grad(loss), ...)(...)`, of whose results only `.mean(0)` or `.sum(0)` is used.

    Where the loss takes steps of its own by gradients (meta-learning), each sample has parameters
    of its own, and one gradient of the mean costs as much.
    """
    if b"vmap" not in source.content:
        return
    for call in source.tree.calls:
        functions = (made for made in made_by(source, call.func) if isinstance(made, ast.Call))
        if not any(source.names.of(made.func) in _VMAPS for made in functions):
            continue
        gradient = _maker(source, call.func, _GRADIENTS)
        if gradient is not None and not _adapts(source, gradient):
            uses = _uses(source, call)
            if uses and all(_is_averaged(source, use) for use in uses):
                yield call


def _maker(
    source: Source, function: ast.expr, makers: frozenset[str], depth: int = 3
) -> ast.Call | None:
    """The call `jacrev(f)` that a function is, or is the `vmap` of; by way of names too."""
    for made in made_by(source, function) if depth else []:
        if not isinstance(made, ast.Call):
            continue
        name = source.names.of(made.func)
        if name in makers:
            return made
        if name in _VMAPS and made.args:
            found = _maker(source, made.args[0], makers, depth - 1)
            if found is not None:
                return found
    return None


def _adapts(source: Source, gradient: ast.Call) -> bool:
    """Whether the function that is derived computes gradients itself."""
    function = source.values.named(gradient.args[0]) if gradient.args else None
    calls = reached(source, function) if function is not None else ()
    within = (source.names.of(node.func) for node in calls if isinstance(node, ast.Call))
    return any(name in _GRADIENTS or name == "torch.autograd.grad" for name in within)


def _uses(source: Source, call: ast.Call) -> list[ast.expr]:
    """Where the gradients that a call returns are used; the call itself where they have no name."""
    match source.tree.parent(call):
        case ast.Assign(targets=[ast.Name() as name] | [ast.Tuple(elts=[ast.Name() as name, *_])]):
            return list(source.values.flow.uses(name))
        case ast.Assign():
            return []
    return [call]


def _is_averaged(source: Source, node: ast.expr) -> bool:
    """Whether nothing but the mean or the sum over the samples is made of a value."""
    parent = source.tree.parent(node)
    match parent:
        case ast.Subscript(value=owner) if owner is node:
            return _is_averaged(source, parent)
        case ast.Attribute(value=owner, attr=name) if owner is node:
            call = source.tree.parent(parent)
            parts = name in _OVER_PARTS
            return isinstance(call, ast.Call) and (
                _parts_averaged(source, call) if parts else _averages(name, call, 0)
            )
        case ast.Call(args=[ast.Lambda(args=ast.arguments(args=[given])) as each, *_]):
            return _all_averaged(source, each.body, given.arg)  # tree_map
        case ast.Call() if node in parent.args:
            name = source.names.of(parent.func)
            if name in {"zip", "enumerate"}:
                return _parts_averaged(source, parent)
            return name.startswith("torch.") and _averages(name[len("torch.") :], parent, 1)
        case _:
            return _parts_averaged(source, node)


def _averages(name: str, call: ast.Call, position: int) -> bool:
    """Whether a call is a mean or a sum over the first axis."""
    return name in _AVERAGES and is_constant(argument(call, "dim", position), 0)


def _parts_averaged(source: Source, node: ast.expr) -> bool:
    """Whether the last of the names that run over something is averaged each time."""
    around = source.tree.parent(node)
    if isinstance(around, ast.Call):
        return _parts_averaged(source, around)
    if not isinstance(around, ast.For | ast.comprehension):
        return False
    target = around.target
    while isinstance(target, ast.Tuple):
        target = target.elts[-1]
    body = around if isinstance(around, ast.For) else source.tree.parent(around)
    return (
        isinstance(target, ast.Name) and body is not None and _all_averaged(source, body, target.id)
    )


def _all_averaged(source: Source, body: ast.AST, name: str) -> bool:
    """Whether each use of a name in a body is averaged."""
    uses = [
        node
        for node in ast.walk(body)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    return bool(uses) and all(_is_averaged(source, use) for use in uses)
