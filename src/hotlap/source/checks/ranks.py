"""What several ranks do at each step and each epoch."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.accumulating import accumulations
from hotlap.source.checks.context import in_test, is_constant
from hotlap.source.constants import constant
from hotlap.source.module import Source
from hotlap.source.passed import slot
from hotlap.source.tree import Loop, keyword, names_in, text

DDP = "torch.nn.parallel.DistributedDataParallel"
SAMPLER = "torch.utils.data.DistributedSampler"
_AS_VIEW, _SEARCH, _SHUFFLE = "gradient_as_bucket_view", "find_unused_parameters", "shuffle"


def gradients_beside_buckets(source: Source, _: Technique) -> Iterator[ast.AST]:
    """DDP without `gradient_as_bucket_view`."""
    for call in source.calls(DDP):
        given = source.arguments(call)
        if given is not None and constant(source, given.get(_AS_VIEW)) in (None, False):
            yield call


def gradients_reduced_by_hand(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`for p in model.parameters(): dist.all_reduce(p.grad)`, over all ranks."""
    for call in source.calls("torch.distributed.all_reduce"):
        of = call.args[0] if call.args else keyword(call, "tensor")
        among = any(
            isinstance(loop, ast.For) and _is_gradient(of, names_in(loop.target))
            for loop in source.tree.loops(call)
        )
        plain = not (keyword(call, "group") or keyword(call, "async_op"))
        if among and plain and not in_test(source, call):
            yield call


def _is_gradient(node: ast.expr | None, names: set[str]) -> bool:
    """`p.grad` or `p.grad.data` of one of some names."""
    match node:
        case ast.Attribute(value=inner, attr="data"):
            return _is_gradient(inner, names)
        case ast.Attribute(value=ast.Name(id=name), attr="grad"):
            return name in names
    return False


def unused_parameters_searched(source: Source, _: Technique) -> Iterator[ast.AST]:
    """DDP with `find_unused_parameters=True`."""
    for call in source.calls(DDP):
        given = source.arguments(call)
        if given is not None and is_constant(given.get(_SEARCH), True):
            yield call


def synced_accumulation(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A backward pass for each micro-batch of a DDP model that is in no `no_sync()`."""
    if source.tree.methods.get("no_sync") or _mentions(source, "require_backward_grad_sync"):
        return
    here = bool(source.calls(DDP))
    for found in accumulations(source):
        if here or _of_ranks(source, found.loop):
            yield found.backward


def _of_ranks(source: Source, loop: Loop) -> bool:
    """Whether another file wraps what the loop was given."""
    if source.project.has("no_sync"):
        return False
    used = (node for node in ast.walk(loop) if isinstance(node, ast.Name | ast.Attribute))
    return any(source.project.wrapped(slot(source.tree, node)) for node in used)


def static_graph_unsynced(source: Source, _: Technique) -> Iterator[ast.AST]:
    """DDP with `static_graph=True` in a file that uses `no_sync()`."""
    if not source.tree.methods.get("no_sync"):
        return
    for call in source.calls(DDP):
        given = source.arguments(call)
        if given is not None and is_constant(given.get("static_graph"), True):
            yield call


def sampler_epoch_unset(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A shuffling DistributedSampler, epochs, and nobody who calls `set_epoch`."""
    if _mentions(source, "set_epoch"):
        return
    for call in source.calls(SAMPLER):
        given = source.arguments(call)
        if given is None or in_test(source, call) or len(call.args) > 3:
            continue
        if constant(source, given.get(_SHUFFLE)) is not False and _in_epochs(source, call):
            yield call


def _mentions(source: Source, name: str) -> bool:
    return any(node.attr == name for node in source.tree.every(ast.Attribute))


def _in_epochs(source: Source, call: ast.Call) -> bool:
    """Whether a training loop over the sampler's loader is run in a loop over epochs."""
    loops = [r.loop for r in source.script.steps if isinstance(r.loop, ast.For)]
    return any(source.loops.in_epoch(loop) and _runs_over(source, loop, call) for loop in loops)


def _runs_over(source: Source, loop: ast.For, call: ast.Call) -> bool:
    """Whether a loop's data come from a loader that was given the sampler."""
    statement = source.tree.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {text(target) for target in targets} - {""}
    makers = {
        text(target)
        for node in source.tree.every(ast.Assign)
        if isinstance(node.value, ast.Call) and _given(node.value, call, names)
        for target in node.targets
    } - {""}
    heads = {text(n) for n in ast.walk(loop.iter) if isinstance(n, ast.Name | ast.Attribute)}
    return bool(makers & heads)


def _given(loader: ast.Call, call: ast.Call, names: set[str]) -> bool:
    passed = [k.value for k in loader.keywords if k.arg == "sampler"]
    return any(value is call or text(value) in names for value in passed)
