"""Whole Jacobians and Hessians of which a product is all that is used."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import made_by
from hotlap.source.checks.multiplied import is_only_multiplied
from hotlap.source.module import Source

_MAKERS = frozenset(
    f"{package}.{name}"
    for package in ("torch.func", "functorch")
    for name in ("jacrev", "jacfwd", "hessian")
)
_MADE_AT_ONCE = frozenset(
    {"torch.autograd.functional.jacobian", "torch.autograd.functional.hessian"}
)
_VMAPS = frozenset({"torch.vmap", "torch.func.vmap", "functorch.vmap"})


def whole_jacobian(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`jacrev(f)(x) @ v`, and what else only multiplies the whole matrix by a vector."""
    for call in source.tree.calls:
        at_once = source.names.of(call.func) in _MADE_AT_ONCE
        if (at_once or _makes_one(source, call.func)) and is_only_multiplied(source, call):
            yield call


def _makes_one(source: Source, function: ast.expr, depth: int = 3) -> bool:
    """Whether a function is `jacrev(f)`, its `vmap`, or a name for one."""
    for made in made_by(source, function) if depth else []:
        if not isinstance(made, ast.Call):
            continue
        name = source.names.of(made.func)
        if name in _MAKERS:
            return True
        if name in _VMAPS and made.args and _makes_one(source, made.args[0], depth - 1):
            return True
    return False
