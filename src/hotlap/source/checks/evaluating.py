"""Evaluations, and whether they record gradients that nobody uses."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import (
    body_of,
    callers,
    goes_backward,
    in_comprehension,
    in_test,
    is_constant,
    methods_within,
    name_of,
    place,
    takes_gradients,
    within,
)
from hotlap.source.module import Source
from hotlap.source.tree import method, receiver, text
from hotlap.source.values import LOADER, MODEL

_EVALUATES = re.compile(r"(?:^|_)(?:eval|evaluate|evaluation|valid|validate|validation|test|val|"
                        r"infer|inference|predict)(?:_|$)")  # fmt: skip
_NO_GRAD = re.compile(r"grad|infer", re.IGNORECASE)
_MODES = frozenset({"eval", "train", "parameters", "state_dict", "to", "cuda"})
STEPS = frozenset({"validation_step", "test_step", "predict_step", "prediction_step"})


def eval_with_grad(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A forward in an evaluation that records gradients which nobody uses."""
    for call in evaluations(source):
        if _judged(source, call) and not _maybe_off(source, call):
            yield call


def evaluations(source: Source) -> Iterator[ast.Call]:
    """Calls of a model for each batch of something, in code that never goes backward."""
    for call in source.tree.calls:
        if not source.values.are(call.func, MODEL) or method(call) in _MODES:
            continue
        function = source.tree.function(call)
        if function is not None and function.name in {"forward", "__call__", "training_step"}:
            continue
        loop = _data_loop(source, call)
        if loop is None or in_test(source, call):
            continue
        if not _wants_gradients(source, call, loop):
            yield call


def _wants_gradients(source: Source, call: ast.Call, loop: ast.AST) -> bool:
    """Whether the loop goes backward, or its function does outside of loops of its own."""
    if goes_backward(source, loop):
        return True
    function, around = source.tree.function(call), set(source.tree.loops(call))
    for node in within(source, function) if function is not None else []:
        local = source.values.local(node) if isinstance(node, ast.Call) else None
        takes = takes_gradients(source, node) or (
            local is not None and goes_backward(source, local)
        )
        if takes and not set(source.tree.loops(node)) - around:
            return True
    return False


def _data_loop(source: Source, call: ast.Call) -> ast.AST | None:
    """The loop or comprehension over data around a call, or around the call of its function."""
    comprehension = in_comprehension(source, call)
    if comprehension is not None:
        return comprehension
    loop = next(source.tree.loops(call), None)
    if loop is not None:
        return loop
    function = source.tree.function(call)
    for caller in callers(source, function) if function is not None else []:
        outer = next(source.tree.loops(caller), None)
        if outer is not None and not goes_backward(source, outer):
            return outer
    return None


def _judged(source: Source, call: ast.Call) -> bool:
    """Whether an evaluation is meant: after `eval()`, or by the name of its function."""
    last = _last_mode(source, call)
    if last:
        return last == "eval"
    function = source.tree.function(call)
    return (
        function is not None
        and bool(_EVALUATES.search(function.name))
        and (function.name not in STEPS and over_loader(source, call))
    )


def over_loader(source: Source, call: ast.Call) -> bool:
    """Whether the loop around a call goes over a DataLoader."""
    loop = _data_loop(source, call)
    heads = (
        [loop.iter]
        if isinstance(loop, ast.For | ast.AsyncFor)
        else [part.iter for part in getattr(loop, "generators", [])]
    )
    inner = [node for head in heads for node in ast.walk(head)]
    return any(source.values.are(node, LOADER) for node in inner)


def _last_mode(source: Source, call: ast.Call) -> str:
    """The mode that was last set on the called model, above the call in its function."""
    scope = body_of(source, call)
    modes = methods_within(source, scope, "eval") + methods_within(source, scope, "train")
    for other in sorted(modes, key=place, reverse=True):
        if place(other) < place(call) and name_of(receiver(other)) == text(call.func):
            off = method(other) == "train" and other.args and is_constant(other.args[0], False)
            return "eval" if off else method(other)
    return ""


def _maybe_off(source: Source, call: ast.Call) -> bool:
    """Gradients are off around a call, or something around it may switch them off."""
    function = source.tree.function(call)
    if source.loops.without_grad(call):
        return True
    if function is not None and source.project.guarded(function.name):
        return True
    for around in source.tree.above(call):
        if isinstance(around, ast.With | ast.AsyncWith) and any(
            _NO_GRAD.search(_spelled(source, item.context_expr)) for item in around.items
        ):
            return True
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
            return any(_NO_GRAD.search(ast.unparse(d)) for d in around.decorator_list)
    return False


def _spelled(source: Source, node: ast.expr) -> str:
    """A context manager as written, with the definitions of its name."""
    inner = node.func if isinstance(node, ast.Call) else node
    found = [ast.unparse(node)]
    if isinstance(inner, ast.Name):
        values = (d.value for d in source.values.flow.reaching(inner))
        found += [ast.unparse(value) for value in values if value is not None]
    return " ".join(found)
