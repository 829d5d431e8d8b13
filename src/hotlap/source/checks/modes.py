"""The mode a model is in while it is evaluated, and afterwards."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.called import constructed
from hotlap.source.checks.context import (
    body_of,
    callers,
    calls_within,
    is_constant,
    name_of,
    place,
    reached,
)
from hotlap.source.checks.evaluating import (
    STEPS,
    evaluations,
    over_loader,
    unused_graphs,
)
from hotlap.source.found import Spread
from hotlap.source.kinds import MODEL
from hotlap.source.module import Source
from hotlap.source.tree import Loop, given, method, receiver, text

# Layers of torch that work differently in evaluation.
_MODAL = re.compile(r"Dropout|BatchNorm|InstanceNorm|Transformer|dropout=")


def eval_mode_missing(source: Source, _: Technique) -> Iterator[Spread]:
    """An evaluation of a model that is trained in this file, in train mode."""
    if not any(region.backward for region in source.script.steps):
        return
    modal = _modal(source)
    if modal is False:
        return
    for call in evaluations(source):
        if not over_loader(source, call) or not _defined(source, call.func):
            continue
        evaluates = source.loops.without_grad(call) or call in unused_graphs(source)
        if evaluates and _trained(source, call):
            function = source.tree.function(call)
            if not _mode_is_set(source, call) and not (function and function.name in STEPS):
                yield Spread(call, call, hint=modal is None)


def train_mode_lost(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`eval()` in the loop over epochs, and no `train()` that would end it."""
    for loop in _epoch_loops(source):
        inside = list(reached(source, loop))
        calls = [node for node in inside if isinstance(node, ast.Call)]
        if any(_trains(source, call) for call in calls):
            continue
        trained = _called_in_steps(source, set(inside))
        if any(_handed_away(source, call, trained) for call in calls):
            continue
        for call in calls:
            owner = receiver(call)
            if (
                method(call) == "eval"
                and owner is not None
                and not call.args
                and (
                    text(owner) in trained
                    or (
                        source.tree.function(call) not in (None, source.tree.function(loop))
                        and source.values.are(owner, MODEL)
                        and _passed(source, call, trained)
                    )
                )
            ):
                yield call


def _modal(source: Source) -> bool | None:
    """Whether a model that the file makes works differently in evaluation; None: not known."""
    told = [_modal_class(source, call) for call in source.tree.calls if _makes_model(source, call)]
    if not told:
        return None if source.project.alone or source.project.has("modal") else False
    return True if any(told) else (None if None in told else False)


def _makes_model(source: Source, call: ast.Call) -> bool:
    """Whether a call constructs a model: not one of a layer within a class, nor a wrapper."""
    dotted = source.names.of(call.func)
    wraps = dotted.startswith(("torch.compile", "torch.jit", "torch.nn.parallel", "torch.nn.Data"))
    inner = source.tree.class_of(call) is not None and dotted.startswith("torch.nn.")
    return not (wraps or inner) and constructed(source.values, dotted, call) == MODEL


def _modal_class(source: Source, call: ast.Call) -> bool | None:
    dotted = source.names.of(call.func) or text(call.func)
    if dotted.startswith("torch."):
        return bool(_MODAL.search(ast.unparse(call)))
    if dotted.startswith(("torchvision.", "timm.", "transformers.")):
        return True
    return source.project.modal(dotted)


def _defined(source: Source, node: ast.expr) -> bool:
    """Whether the file says where a name comes from; a fragment's names come from nowhere."""
    if not isinstance(node, ast.Name):
        return True
    return bool(source.values.flow.reaching(node)) or source.names.of(node) != node.id


def _trained(source: Source, call: ast.Call) -> bool:
    """Whether a model of this name is called where the file trains."""
    names = _called_in_steps(source, None)
    return text(call.func) in names or not isinstance(body_of(source, call), ast.Module)


def _mode_is_set(source: Source, call: ast.Call) -> bool:
    """`eval()` or `train()` in the function, in one that calls it, or nobody calls it here."""
    seen: set[ast.AST] = set()
    waiting: list[tuple[ast.AST, tuple[int, int]]] = [(call, place(call))]
    while waiting:
        node, before = waiting.pop()
        scope = body_of(source, node)
        if scope in seen:
            continue
        seen.add(scope)
        if _sets_mode(source, scope, before):
            return True
        if _steps_before(source, scope, before):
            return False
        if not isinstance(scope, ast.Module):
            called = callers(source, scope)
            if not called:
                return True
            waiting += [(caller, place(caller)) for caller in called]
    return False


def _sets_mode(source: Source, scope: ast.AST, before: tuple[int, int]) -> bool:
    """A mode set above a place; one above a step loop was meant for that loop."""
    start = max((place(loop) for loop in _step_loops(source, scope, before)), default=(0, 0))
    return any(
        method(call) in {"eval", "train"} and len(call.args) <= 1 and start < place(call) < before
        for call in calls_within(source, scope)
    )


def _steps_before(source: Source, scope: ast.AST, before: tuple[int, int]) -> bool:
    return bool(_step_loops(source, scope, before))


def _step_loops(source: Source, scope: ast.AST, before: tuple[int, int]) -> list[Loop]:
    """The step loops of a function or module that start above a place."""
    loops = [region.loop for region in source.script.steps if region.loop is not None]
    return [loop for loop in loops if body_of(source, loop) is scope and place(loop) < before]


def _epoch_loops(source: Source) -> Iterator[Loop]:
    """Loops that hold a step loop, by themselves or through a function they call."""
    steps = {region.loop or region.body for region in source.script.steps if region.backward}
    loops: list[Loop] = [*source.tree.every(ast.For), *source.tree.every(ast.While)]
    for loop in loops:
        if loop not in steps and any(node in steps for node in reached(source, loop)):
            yield loop


def _called_in_steps(source: Source, among: set[ast.AST] | None) -> set[str]:
    """The names under which models are called in step regions."""
    found: set[str] = set()
    for region in source.script.steps:
        if region.backward is None or (among is not None and region.backward not in among):
            continue
        for node in (*ast.walk(region.loop or region.body), *ast.walk(region.body)):
            if isinstance(node, ast.Call) and source.values.are(node.func, MODEL):
                found.add(text(node.func))
    return found - {""}


def _trains(source: Source, call: ast.Call) -> bool:
    """`model.train()`, and not a method of the file that happens to be called so."""
    if method(call) != "train" or (call.args and is_constant(call.args[0], False)):
        return method(call) in {"apply", "train_mode"}
    return source.values.local(call) is None


def _handed_away(source: Source, call: ast.Call, models: set[str]) -> bool:
    """Whether a model goes to a function of another file, which may set its mode."""
    given = [*call.args, *(entry.value for entry in call.keywords)]
    if source.values.local(call) is not None or source.names.of(call.func).startswith("torch."):
        return False
    if source.values.are(call.func, MODEL):
        return False
    return any(text(one) in models and text(one) != "" for one in given)


def _passed(source: Source, call: ast.Call, trained: set[str]) -> bool:
    """Whether the parameter that is put into eval mode is a trained model at some call."""
    function = source.tree.function(call)
    name = name_of(receiver(call))
    if function is None:
        return False
    passed = (given(caller, function).get(name) for caller in callers(source, function))
    return any(value is not None and text(value) in trained for value in passed)
