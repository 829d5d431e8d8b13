"""What losses are given."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import made_by, meaning
from hotlap.source.kinds import MODEL
from hotlap.source.module import Source
from hotlap.source.tree import behind, method

_LOSS = "torch.nn.CrossEntropyLoss"
_FUNCTION = "torch.nn.functional.cross_entropy"
_SOFTMAX = frozenset({"torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax"})


def softmax_before_cross_entropy(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`cross_entropy(softmax(x), y)`, by a name, by the file's own model or by its last layer."""
    for call in source.tree.calls:
        if call.args and _is_cross_entropy(source, call):
            given = meaning(source, call.args[0])
            if _is_softmax(source, given) or _model_ends_so(source, given):
                yield call


def _is_cross_entropy(source: Source, call: ast.Call) -> bool:
    if source.names.of(call.func) == _FUNCTION:
        return True
    made = made_by(source, call.func)
    return bool(made) and all(_called(source, one) == _LOSS for one in made)


def _called(source: Source, node: ast.AST) -> str:
    """The dotted name of what an expression calls; empty for any other expression."""
    return source.names.of(node.func) if isinstance(node, ast.Call) else ""


def _is_softmax(source: Source, node: ast.expr) -> bool:
    plain = method(node) == "softmax" and not _called(source, node).startswith("torch.")
    layer = isinstance(node, ast.Call) and any(
        _called(source, made) == "torch.nn.Softmax" for made in made_by(source, node.func)
    )
    return plain or layer or _called(source, node) in _SOFTMAX


def _model_ends_so(source: Source, node: ast.expr) -> bool:
    """Whether an expression calls a model of the file whose every output is a softmax."""
    made = made_by(source, node.func) if isinstance(node, ast.Call) else []
    return bool(made) and all(_ends_so(source, one) for one in made)


def _ends_so(source: Source, made: ast.expr) -> bool:
    made = behind(made, {"to", "cuda", "train"})
    if not isinstance(made, ast.Call):
        return False
    if source.names.of(made.func) == "torch.nn.Sequential" and made.args:
        return _called(source, made.args[-1]) == "torch.nn.Softmax"
    owner = source.values.local_class(made.func)
    if owner is None or source.values.class_kind(owner) != MODEL:
        return False
    forward = source.values.functions.get((owner, "forward"))
    given = [
        node.value
        for node in source.tree.every(ast.Return)
        if forward is not None and source.tree.function(node) is forward
    ]
    return bool(given) and all(
        one is not None and _is_softmax(source, meaning(source, one)) for one in given
    )
