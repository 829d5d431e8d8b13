"""`backward(retain_graph=True)` where nothing goes backward through the graph again."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source import kinds as kind
from hotlap.source.called import constructed
from hotlap.source.checks.context import (
    argument,
    body_of,
    is_constant,
    place,
    reached,
    within,
)
from hotlap.source.flow import Definition
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import method, receiver, text

_BACKWARD = ("backward", "manual_backward")
_AGAIN = ("torch.autograd.", "torch.func.")
_ENDS = kind.NO_GRAPH | kind.LEAVES
_KNOWN = ("torch.nn.", "torchvision.", "timm.", "transformers.")
# Libraries whose results hold no graph.
_PLAIN = ("numpy.", "pandas.", "random.", "math.", "time.", "os.", "pathlib.", "argparse.", "json.",
          "sklearn.", "torchvision.", "torch.utils.data.", "PIL.", "datasets.")  # fmt: skip
_LEAF = frozenset({"torch.device", "torch.load", "torch.nn.Parameter", "range", "len", "open",
                   *(f"torch.{name}" for name in kind.CREATED)})  # fmt: skip


def graph_retained(source: Source, _: Technique) -> Iterator[Spread]:
    """`loss.backward(retain_graph=True)` at each step, the only backward through its graph.

    A hint where the file does not tell whether part of the graph is older than the step.
    """
    for call in (one for name in _BACKWARD for one in source.tree.methods.get(name, [])):
        body = source.loops.step_of(call)
        if body is None or not retains(call) or _gone_through_again(source, call):
            continue
        if not any(method(node) == "step" for node in reached(source, _step(source, call))):
            continue  # gradients are looked at, as in a saliency map
        older = _older_graph(source, call, next(source.tree.loops(call), body))
        if older is not True and not _stateful(source):
            yield Spread(call, call, hint=older is None or not _model_is_known(source))


def retains(call: ast.Call) -> bool:
    """Whether a backward pass keeps its graph, and makes none of its own."""
    if argument(call, "create_graph", -1) is not None:
        return False
    return is_constant(argument(call, "retain_graph", 1), True)


def _step(source: Source, call: ast.Call) -> ast.AST:
    return source.loops.training_step(call) or body_of(source, call)


def _gone_through_again(source: Source, call: ast.Call) -> bool:
    """Whether the step, or what follows it in its function, takes gradients at another place."""
    loops = set(source.tree.loops(call))
    later = (
        node
        for node in within(source, body_of(source, call))
        if place(node) > place(call) and set(source.tree.loops(node)) <= loops
    )
    return any(
        node is not call and _goes_backward(source, node) and not _exclusive(source, node, call)
        for node in (*reached(source, _step(source, call)), *later)
    )


def _goes_backward(source: Source, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    dotted = source.names.of(node.func)
    named = dotted.startswith(_AGAIN) and not dotted.endswith(("_grad", "Variable", "anomaly"))
    return method(node) in {*_BACKWARD, "grad"} or named or node in source.script.handed_losses


def _exclusive(source: Source, one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes lie in the two branches of one `if`."""
    blocks = set(source.tree.blocks(other))
    return any(
        isinstance(holder, ast.If) and (holder, "orelse" if field == "body" else "body") in blocks
        for holder, field in source.tree.blocks(one)
    )


def _older_graph(source: Source, call: ast.Call, body: ast.AST) -> bool | None:
    """Whether a loss is computed from a graph that is older than a round of a loop.

    None: from something older of which the file does not tell.
    """
    unsure, seen = False, set[Definition]()
    waiting: list[ast.AST] = [*(call.args[:1] or [receiver(call) or call])]
    while waiting:
        for variable in _inputs(waiting.pop()):
            for made in source.values.flow.reaching(variable):
                if _has_no_graph(source, made):
                    continue
                given = isinstance(made.target, ast.arg)
                inside = not given and source.tree.inside(made.target, body)
                if _carried(source, made, variable, body) if inside else kind.GRAPH in made.kinds:
                    return True
                if inside and made not in seen:
                    waiting += _parts(source, made)
                unsure = unsure or not inside
                seen.add(made)
    return None if unsure else False


def _inputs(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """The variables that an expression has a graph from: not those behind `detach()`."""
    if method(node) in _ENDS:
        return
    if isinstance(node, ast.Name | ast.Attribute):
        yield node
        if text(node).startswith("self."):
            return
    for child in ast.iter_child_nodes(node):
        yield from _inputs(child)


def _parts(source: Source, made: Definition) -> list[ast.AST]:
    """What a definition is computed from; of `total += loss` also what it was before."""
    added = isinstance(source.tree.parent(made.target), ast.AugAssign)
    parts = (made.value, made.source, made.target if added else None)
    return [part for part in parts if part is not None]


def _carried(
    source: Source, made: Definition, variable: ast.Name | ast.Attribute, body: ast.AST
) -> bool:
    """Whether a definition reaches a variable in the next round of the loop, and only then."""
    if made.at <= place(variable):
        return False
    around = set(source.tree.loops(variable)) & set(source.tree.above(made.target))
    return not any(loop is not body and source.tree.inside(loop, body) for loop in around)


def _has_no_graph(source: Source, made: Definition) -> bool:
    if made.kinds & {*kind.OBJECTS, kind.HOST, kind.ARRAY, kind.ARRAYS}:
        return kind.GRAPH not in made.kinds
    if isinstance(made.value, ast.Call):
        dotted = source.names.of(made.value.func)
        plain = dotted.startswith(_PLAIN) or dotted in _LEAF
        return plain or method(made.value) in {"parse_args", "parse_known_args"}
    return made.value is not None and not any(
        isinstance(node, ast.Name | ast.Attribute | ast.Call) for node in ast.walk(made.value)
    )


def _stateful(source: Source) -> bool:
    """Whether a model of the file keeps what it computes for its next call: `self.hidden = h`."""
    for stored in source.tree.every(ast.Attribute):
        made = source.values.flow.of_target.get(stored)
        owner, function = source.tree.class_of(stored), source.tree.function(stored)
        if made is None or owner is None or function is None or function.name == "__init__":
            continue
        computed = made.kinds & {kind.TENSOR, kind.GRAPH} and not _has_no_graph(source, made)
        if computed and source.values.class_kind(owner) == kind.MODEL:
            return True
    return False


def _model_is_known(source: Source) -> bool:
    """Whether the file makes the model, of a class of its own or of a library."""
    return any(
        source.values.local_class(call.func) is not None
        or source.names.of(call.func).startswith(_KNOWN)
        for call in source.tree.calls
        if constructed(source.values, source.names.of(call.func), call) == kind.MODEL
    )
