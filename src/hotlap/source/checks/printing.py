"""Tensors of the device turned into text in the step."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.syncing import of_device, perhaps
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import method, receiver, text

_LOGGED = frozenset(
    {"info", "warning", "warn", "error", "critical", "set_postfix", "set_description", "write",
     "add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_figure",
     "log_metric", "log_metrics", "set_postfix_str", "add_text"}
)  # fmt: skip
_TRACKERS = frozenset({"wandb.log", "mlflow.log_metric", "mlflow.log_metrics", "print"})
_RUNS = frozenset({"run", "wandb", "accelerator", "wandb_run", "tracker"})


def tensor_printed(source: Source, _: Technique) -> Iterator[Spread]:
    """`print(loss)`, an f-string of a tensor, `writer.add_scalar(..., loss)`."""
    if not source.loops.any_steps:
        return
    found = [*_logging(source), *_formatted(source)]
    nodes = (node for node in dict.fromkeys(found) if source.loops.in_step(node))
    yield from perhaps(source, nodes)


def _logging(source: Source) -> Iterator[ast.AST]:
    for call in source.tree.calls:
        given = [*call.args, *(entry.value for entry in call.keywords)]
        if given and _is_log(source, call) and any(_shows(source, value) for value in given):
            yield call


def _is_log(source: Source, call: ast.Call) -> bool:
    if source.names.of(call.func) in _TRACKERS or method(call) in _LOGGED:
        return True
    return method(call) == "log" and text(receiver(call) or call) in _RUNS


def _shows(source: Source, value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return any(_shows(source, entry) for entry in value.values)
    if isinstance(value, ast.Starred):
        return False
    return of_device(source, value)


def _formatted(source: Source) -> Iterator[ast.AST]:
    """The call or the string that formats a tensor: f-string, `%`, `.format`."""
    for value in source.tree.every(ast.FormattedValue):
        if of_device(source, value.value):
            yield _whole(source, value)
    for operation in source.tree.every(ast.BinOp):
        literal = isinstance(operation.left, ast.Constant) and isinstance(operation.left.value, str)
        if literal and isinstance(operation.op, ast.Mod):
            right = operation.right
            shown = right.elts if isinstance(right, ast.Tuple) else [right]
            if any(of_device(source, one) for one in shown):
                yield _whole(source, operation)
    for call in source.tree.methods.get("format", []):
        if isinstance(receiver(call), ast.Constant) and any(
            of_device(source, value) for value in (*call.args, *(k.value for k in call.keywords))
        ):
            yield _whole(source, call)


def _whole(source: Source, node: ast.AST) -> ast.AST:
    """The call that the text is passed to, if there is one."""
    for above in source.tree.above(node):
        if isinstance(above, ast.Call) and _is_log(source, above):
            return above
        if isinstance(above, ast.stmt):
            break
    parent = source.tree.parent(node)
    return parent if isinstance(parent, ast.JoinedStr) else node
