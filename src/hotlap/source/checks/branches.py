"""Layers of one kind that read the same input, one after another."""

import ast
from collections import Counter
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.samples import forwards
from hotlap.source.module import Source
from hotlap.source.tree import method, names_in, receiver, text

_LISTS = frozenset({"torch.nn.ModuleList", "list"})
_WEIGHTED = frozenset(
    f"torch.nn.{name}"
    for name in ("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "Embedding", "Sequential",
                 "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "MultiheadAttention", "LayerNorm",
                 "TransformerEncoderLayer", "TransformerDecoderLayer", "TransformerEncoder")
)  # fmt: skip


def layers_one_by_one(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`[head(x) for head in self.heads]` in a model whose `self.heads` are made alike."""
    for function in forwards(source):
        owner = source.tree.class_of(function)
        named = _made_alike(source, owner) if owner is not None else ()
        alike = {name for name in named if name.startswith("self.")}
        for node in ast.walk(function) if alike else ():
            if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
                part = node.generators[0]
                if not part.ifs and any(_calls(part.iter, part.target, node.elt, alike)):
                    yield node
            elif isinstance(node, ast.For) and _body(node, alike):
                yield node


def _made_alike(source: Source, owner: ast.ClassDef) -> Iterator[str]:
    """The attributes that hold layers which are all made by the same call: `self.heads`."""
    appends = [c for c in ast.walk(owner) if isinstance(c, ast.Call) and method(c) == "append"]
    lists = Counter(text(of) for call in appends if (of := receiver(call)) is not None)
    for node in ast.walk(owner):
        if isinstance(node, ast.Assign):
            made = _written_out(source, node.value)
            if made and _same_layer(source, made.elt, [part.target for part in made.generators]):
                yield from map(text, node.targets)
        elif isinstance(node, ast.For):
            for call in (call for part in node.body for call in appends if _is(part, call)):
                alike = call.args and _same_layer(source, call.args[0], [node.target])
                name = text(of) if (of := receiver(call)) is not None else ""
                if alike and lists[name] == 1:
                    yield name


def _is(statement: ast.stmt, call: ast.Call) -> bool:
    return isinstance(statement, ast.Expr) and statement.value is call


def _written_out(source: Source, made: ast.expr) -> ast.ListComp | ast.GeneratorExp | None:
    """The comprehension that a list of layers is made by, in `nn.ModuleList(...)` or as it is."""
    if isinstance(made, ast.Call) and source.names.of(made.func) in _LISTS and len(made.args) == 1:
        made = made.args[0]
    return made if isinstance(made, ast.ListComp | ast.GeneratorExp) else None


def _same_layer(source: Source, made: ast.expr, counted: list[ast.expr]) -> bool:
    """Whether a loop makes the same kind of layer each time, and one that has weights."""
    if not isinstance(made, ast.Call):
        return False
    dotted = source.names.of(made.func)
    weighted = dotted in _WEIGHTED or not dotted.startswith("torch.nn.")
    return weighted and not set().union(*map(names_in, counted)) & names_in(made)


def _calls(head: ast.expr, target: ast.expr, part: ast.AST, alike: set[str]) -> Iterator[ast.Call]:
    """The calls of each of the layers that a loop runs over, with what is no part of the loop."""
    counted = names_in(target)
    for call in ast.walk(part):
        if not isinstance(call, ast.Call):
            continue
        given = [*call.args, *(word.value for word in call.keywords)]
        if not given or any(counted & names_in(one) for one in given):
            continue
        match call.func:
            case ast.Name(id=name) if name in counted and _runs_over(head) in alike:
                yield call
            case ast.Subscript(value=layers, slice=ast.Name(id=name)) if (
                name in counted and text(layers) in alike
            ):
                yield call


def _runs_over(head: ast.expr) -> str:
    """`self.heads`, also of `enumerate(self.heads)`."""
    match head:
        case ast.Call(func=ast.Name(id="enumerate"), args=[layers, *_]):
            return text(layers)
    return text(head)


def _body(loop: ast.For, alike: set[str]) -> bool:
    """Whether all of a loop's statements run, and none of them changes what the layers read."""
    inside = [node for part in loop.body for node in ast.walk(part)]
    if any(isinstance(node, ast.If | ast.Return | ast.Break | ast.Continue) for node in inside):
        return False
    changed = {name for node in inside for name in _changed(node)}
    return any(
        not changed & set().union(*map(names_in, (*call.args, *call.keywords)))
        for part in loop.body
        for call in _calls(loop.iter, loop.target, part, alike)
    )


def _changed(node: ast.AST) -> set[str]:
    """The names that a node gives another value, or whose object it may change."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return names_in(node.func.value)
    stored = isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
    return names_in(node) if stored else set()
