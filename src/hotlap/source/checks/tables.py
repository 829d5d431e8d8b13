"""Tables of numbers: rows that are picked by a product, elements that are filled one by one."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import made_by
from hotlap.source.checks.copies import repeated
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import behind, method, receiver

_ONE_HOT = "torch.nn.functional.one_hot"
_PRODUCTS = ("torch.matmul", "torch.mm", "torch.nn.functional.linear")
_LINEAR = "torch.nn.Linear"
_CASTS = frozenset({"float", "to", "type", "double", "half", "cuda", "type_as", "view", "reshape"})
_EMPTY = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "full"))


def one_hot_product(source: Source, _: Technique) -> Iterator[Spread]:
    """`F.one_hot(ids, n).float() @ weight`, by way of a name, as `torch.matmul`, or by `nn.Linear`.

    Its work begins where the vectors are made.
    """
    if b"one_hot" not in source.content:  # else what each call calls would be looked for
        return
    for product in source.tree.nodes:
        left: ast.expr | None = None
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.MatMult):
            left = product.left
        elif isinstance(product, ast.Call) and source.names.of(product.func) in _PRODUCTS:
            left = product.args[0] if product.args else None
        elif isinstance(product, ast.Call) and method(product) in {"matmul", "mm"}:
            left = receiver(product)
        elif isinstance(product, ast.Call) and len(product.args) == 1 and _linear(source, product):
            left = product.args[0]
        if left is not None and (made := _one_hot(source, left)) is not None:
            yield Spread(product, made)


def _linear(source: Source, call: ast.Call) -> bool:
    """Whether what is called is an `nn.Linear`, by a name or an attribute that holds one."""
    made = made_by(source, call.func)
    layers = (isinstance(of, ast.Call) and source.names.of(of.func) == _LINEAR for of in made)
    return bool(made) and all(layers)


def _one_hot(source: Source, node: ast.expr) -> ast.Call | None:
    """The call of `one_hot` that an expression is, cast or not, or that a name alone holds."""
    made = behind(node, _CASTS)
    if isinstance(made, ast.Name):
        values = [one.value for one in source.values.flow.reaching(made)]
        value = values[0] if len(values) == 1 else None
        return _one_hot(source, value) if isinstance(value, ast.Call) else None
    known = isinstance(made, ast.Call) and source.names.of(made.func) == _ONE_HOT
    return made if isinstance(made, ast.Call) and known else None


def filled_by_loop(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`table[i, j] = ...` in a loop within a loop, in what runs at each step."""
    for node in source.tree.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
            continue
        loops = [loop for loop in source.tree.loops(node) if isinstance(loop, ast.For)]
        filled = _by_element(node.targets[0], loops) and _made_here(source, node.targets[0].value)
        outermost = loops[-1] if loops else node
        if filled and repeated(source, outermost):
            yield node


def _by_element(target: ast.Subscript, loops: list[ast.For]) -> bool:
    """Whether the variables of two loops or more are its indices, and no slice is."""
    indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else []
    if any(isinstance(index, ast.Slice) for index in indices):
        return False
    counted = {loop.target.id for loop in loops if isinstance(loop.target, ast.Name)}
    used = {part.id for index in indices for part in ast.walk(index) if isinstance(part, ast.Name)}
    return len(counted & used) > 1


def _made_here(source: Source, node: ast.expr) -> bool:
    """Whether a name holds a new tensor of torch's."""
    if not isinstance(node, ast.Name):
        return False
    made = [one.value for one in source.values.flow.reaching(node)]
    return bool(made) and all(
        isinstance(value, ast.Call) and source.names.of(value.func) in _EMPTY for value in made
    )
