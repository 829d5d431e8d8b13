"""`torch.no_grad()` over the evaluation: a decorator, or a `with` around its loop."""

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise

from hotlap.source.checks.context import goes_backward
from hotlap.source.checks.evaluating import only_read
from hotlap.source.edits.regions import under
from hotlap.source.patch.draft import Draft
from hotlap.source.patch.imports import spelt
from hotlap.source.tree import FunctionNode, method, names_in, receiver

_OFF = frozenset({"torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled"})


def no_grad_eval(draft: Draft) -> None:
    """Switch gradients off where a model in eval mode is called and nothing goes backward."""
    done: dict[ast.AST, None] = {}
    for call in _evaluated(draft):
        place = _place(draft, call)
        if under(draft, call, _OFF):
            draft.already = True
        elif place is None:
            draft.by_hand(call, "`with torch.no_grad():` around this, if nothing goes backward")
        else:
            done.setdefault(place)
    for run in _runs(draft, done):
        _write(draft, run)
    draft.nothing_here("no evaluation was recognised: put it below `with torch.no_grad():`")


def _runs(draft: Draft, places: Iterable[ast.AST]) -> Iterator[list[ast.AST]]:
    """The places, those together that follow one another in a block."""
    run: list[ast.AST] = []
    for place in places:
        if run and not _follows(draft, run[-1], place):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _follows(draft: Draft, one: ast.AST, other: ast.AST) -> bool:
    """Whether a statement, no function, comes right after another in its block."""
    if isinstance(one, FunctionNode) or not (
        isinstance(one, ast.stmt) and isinstance(other, ast.stmt)
    ):
        return False
    return (one, other) in pairwise(draft.source.tree.siblings(other))


def _evaluated(draft: Draft) -> list[ast.Call]:
    """Calls of something that was put into eval mode before, in the same function."""
    named = (c for c in draft.source.tree.calls if isinstance(c.func, ast.Name | ast.Attribute))
    return [call for call in named if _in_eval_mode(draft, call)]


def _in_eval_mode(draft: Draft, call: ast.Call) -> bool:
    """Whether the mode that a call's object was last put into, here or by each caller, is eval."""
    script, name = draft.script, ast.unparse(call.func)
    mode = script.mode_before(call, lambda owner: ast.unparse(owner) == name)
    if mode:
        loop = next(draft.source.tree.loops(call), None)  # one that trains means something else
        trains = loop is not None and goes_backward(draft.source, loop)
        return mode == "eval" and (not trains or only_read(draft.source, call))
    function = draft.source.tree.function(call)
    if function is None or not script.is_model(call.func):
        return False
    callers = script.origins.callers(function) or []
    return bool(callers) and all(script.mode_before(c, script.is_model) == "eval" for c in callers)


def _place(draft: Draft, call: ast.Call) -> ast.AST | None:
    """The function or the statement to switch gradients off in; None where that is not sure."""
    function = draft.source.tree.function(call)
    if function is not None and not goes_backward(draft.source, function):
        return function if _ends_in_numbers(draft, function) else None
    loops = list(draft.source.tree.loops(call))
    inner = [loop for loop in loops if not goes_backward(draft.source, loop)]
    if inner:
        return inner[-1] if isinstance(inner[-1], ast.For | ast.While) else None
    return draft.source.tree.statement(call) if only_read(draft.source, call) else None


def _ends_in_numbers(draft: Draft, function: FunctionNode) -> bool:
    """Whether nothing that a function returns goes backward in this file; it must be called here.

    A generator keeps its decorator's mode only while it runs, so it is left alone.
    """
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function)):
        return False
    if not _returns(function):
        return True
    calls = draft.script.origins.callers(function)
    return bool(calls) and not any(_flows_back(draft, call) for call in calls or ())


def _returns(function: FunctionNode) -> bool:
    return any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(function))


def _flows_back(draft: Draft, call: ast.Call) -> bool:
    """Whether `.backward()` is called on what a call returns, under any of the names it gets."""
    statement = draft.source.tree.statement(call)
    if goes_backward(draft.source, statement) and not isinstance(
        statement, ast.For | ast.While | ast.If | ast.With
    ):
        return True
    assigns = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
    names = names_in(statement, ast.Store) if assigns else set()
    function = draft.source.tree.function(call) or draft.source.tree.module
    back = [receiver(n) for n in ast.walk(function) if method(n) == "backward"]
    return any(names_in(loss) & names for loss in back)


def _write(draft: Draft, run: list[ast.AST]) -> None:
    code, first, last = f"{spelt(draft, 'torch.no_grad')}()", run[0], run[-1]
    if isinstance(first, ast.stmt) and isinstance(last, ast.stmt):
        if isinstance(first, FunctionNode):
            draft.changes.decorator(first, code)
        else:
            draft.changes.wrap(first, last, f"with {code}")
