"""Python loops over the samples of a batch in a model's forward."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import (
    argument,
    calls_within,
    is_constant,
    made_by,
    meaning,
    place,
)
from hotlap.source.kinds import MODEL, SEVERAL, TENSOR
from hotlap.source.module import Source
from hotlap.source.tree import method, names_in, receiver, text

_TENSOR_ONLY = frozenset(
    ["size", "dim", "view", "reshape", "unsqueeze", "permute", "flatten", "device", "shape", "ndim"]
)
# What people call a batch, and not a list of feature maps.
_BATCHES = frozenset({"x", "batch", "input", "data"})
# Modules that return one tensor.
_PLAIN = frozenset(
    f"torch.nn.{name}"
    for name in ("Linear", "Embedding", "LayerNorm", "ReLU", "GELU", "Dropout", "Sequential",
                 "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "Flatten")
)  # fmt: skip
# What gives each sample another number of results.
_RAGGED = frozenset({"nonzero", "unique", "masked_select", "split", "nms", "linear_sum_assignment",
                     "item", "tolist", "numpy", "cpu", "sort", "multinomial", "topk", "randperm",
                     "randint"})  # fmt: skip


def loop_over_samples(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Loops in which each sample goes alone through the same operations."""
    for function in forwards(source):
        for node in ast.walk(function):
            if isinstance(node, ast.For):
                if _over_samples(source, node.iter, node.target, node.body) and _alike(
                    source, node.body, node.target, node
                ):
                    yield node
            elif isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
                part = node.generators[0]
                alike = not part.ifs and _alike(source, [node.elt], part.target, node)
                if alike and _over_samples(source, part.iter, part.target, [node.elt]):
                    yield node


def forwards(source: Source) -> Iterator[ast.AST]:
    """The forward of each model, and the methods it calls."""
    for node in source.tree.classes:
        if source.values.class_kind(node) != MODEL:
            continue
        methods = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
        forward = methods.get("forward")
        if forward is None:
            continue
        called = {text(c.func).removeprefix("self.") for c in calls_within(source, forward)}
        yield forward
        yield from (f for name, f in methods.items() if name in called and name != "forward")


def _over_samples(
    source: Source, head: ast.expr, target: ast.expr, body: list[ast.stmt] | list[ast.expr]
) -> bool:
    """Whether a loop's head runs over the first axis of a tensor."""
    if isinstance(head, ast.Call):
        dotted = source.names.of(head.func)
        if dotted == "enumerate" and head.args and isinstance(target, ast.Tuple):
            return _over_samples(source, head.args[0], target.elts[-1], body)
        if dotted == "range":
            sized = _sized(source, head.args[0]) if len(head.args) == 1 else ""
            return isinstance(target, ast.Name) and _picked(sized, target, body)
        if method(head) == "unbind" or dotted == "torch.unbind":
            owner = head.args[0] if dotted == "torch.unbind" else receiver(head)
            axis = argument(head, "dim", 1 if dotted == "torch.unbind" else 0)
            return (axis is None or is_constant(axis, 0)) and owner is not None
    plain = isinstance(target, ast.Name)
    return plain and isinstance(head, ast.Name) and _is_tensor(source, head)


def _sized(source: Source, node: ast.expr) -> str:
    """The tensor `x` of `x.size(0)`, `x.shape[0]` or `len(x)`, through a name too."""
    if isinstance(node, ast.Name) and (unpacked := _unpacked(source, node)):
        return unpacked
    match meaning(source, node):
        case ast.Call(func=ast.Attribute(attr="size", value=owner), args=[ast.Constant(value=0)]):
            return text(owner)
        case ast.Subscript(
            value=ast.Attribute(attr="shape", value=owner), slice=ast.Constant(value=0)
        ):
            return text(owner)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() as owner]):
            return text(owner) if _is_tensor(source, owner) else ""
    return ""


def _unpacked(source: Source, name: ast.Name) -> str:
    """The `x` behind `batch` in `batch, channels = x.shape`."""
    for definition in source.values.flow.reaching(name):
        row = source.tree.parent(definition.target)
        assign = source.tree.parent(row) if row is not None else None
        if not isinstance(row, ast.Tuple) or not isinstance(assign, ast.Assign):
            continue
        if row.elts[0] is not definition.target:
            continue
        match assign.value:
            case ast.Attribute(attr="shape", value=owner):
                return text(owner)
            case ast.Call(func=ast.Attribute(attr="size", value=owner), args=[]):
                return text(owner)
    return ""


def _picked(owner: str, index: ast.Name, body: list[ast.stmt] | list[ast.expr]) -> bool:
    """Whether the body takes `x[i]`, `x[i, ...]` or `x[i : i + 1]`."""
    for part in body:
        for node in ast.walk(part):
            if isinstance(node, ast.Subscript) and text(node.value) == owner:
                first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
                start = first.lower if isinstance(first, ast.Slice) else first
                if isinstance(start, ast.Name) and start.id == index.id:
                    return True
    return False


def _is_tensor(source: Source, node: ast.Name) -> bool:
    """Whether a name holds one tensor, by what it is or by what the function asks it."""
    definitions = source.values.flow.reaching(node)
    for definition in definitions:
        note = getattr(definition.target, "annotation", None)
        if note is not None and source.names.of(note) != "torch.Tensor":
            return False
    kinds = source.values.kinds(node)
    if SEVERAL in kinds:
        return False
    values = [d.value for d in definitions if not isinstance(d.target, ast.arg)]
    if values:
        return TENSOR in kinds and all(value and _of_torch(source, value) for value in values)
    function = source.tree.function(node)
    return function is not None and any(
        (isinstance(n, ast.Attribute) and text(n.value) == node.id and n.attr in _TENSOR_ONLY)
        or (node.id in _BATCHES and _rejoins(source, n))
        for n in ast.walk(function)
    )


def _rejoins(source: Source, node: ast.AST) -> bool:
    """`torch.stack(outputs)`, `torch.cat(outputs, 0)`: samples become a batch again."""
    if not isinstance(node, ast.Call):
        return False
    axis = argument(node, "dim", 1)
    joins = source.names.of(node.func) in {"torch.stack", "torch.cat", "torch.vstack"}
    return joins and (axis is None or is_constant(axis, 0))


def _of_torch(source: Source, value: ast.expr) -> bool:
    """What torch computes is one tensor; what a module of this file returns may be a list."""
    if not isinstance(value, ast.Call):
        return True
    if source.names.of(value.func).startswith("torch."):
        return True
    owner = receiver(value)
    made = made_by(source, value.func)
    if made and all(isinstance(m, ast.Call) and source.names.of(m.func) in _PLAIN for m in made):
        return True
    return owner is not None and TENSOR in source.values.kinds(owner) and text(owner) != "self"


def _alike(
    source: Source, body: list[ast.stmt] | list[ast.expr], target: ast.expr, loop: ast.AST
) -> bool:
    """Whether every sample goes through the same work, and none waits for another."""
    nodes = [node for part in body for node in ast.walk(part)]
    indices = names_in(target)
    works = False
    for node in nodes:
        if isinstance(node, ast.If | ast.Break | ast.Continue | ast.IfExp | ast.While):
            return False
        if isinstance(node, ast.Subscript) and _ragged(node, indices):
            return False
        if isinstance(node, ast.Call) and _own_module(node, indices):
            return False
        if isinstance(node, ast.Call):
            name = method(node) or text(node.func)
            if name in _RAGGED:
                return False
            works = works or _computes(source, node)
        works = works or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult))
    return works and not _recurs(nodes)


def _ragged(node: ast.Subscript, indices: set[str]) -> bool:
    """`x[i, : lengths[i]]`, `x[i][mask[i]]`: an index that depends on the sample."""
    return any(
        isinstance(inner, ast.Subscript) and names_in(inner.slice) & indices
        for inner in ast.walk(node.slice)
    )


def _own_module(call: ast.Call, indices: set[str]) -> bool:
    """`self.layers[i](x)`: each round has a module of its own."""
    return isinstance(call.func, ast.Subscript) and bool(names_in(call.func.slice) & indices)


def _computes(source: Source, call: ast.Call) -> bool:
    dotted = source.names.of(call.func)
    if dotted.startswith("torch."):
        return dotted.rpartition(".")[2] not in {"zeros", "empty", "tensor", "arange", "ones"}
    return source.values.are(call.func, MODEL) or (
        text(call.func).startswith("self.") and method(call) not in {"append", "size"}
    )


def _recurs(nodes: list[ast.AST]) -> bool:
    """Whether something that the body sets is read before: a state from sample to sample."""
    first: dict[str, tuple[int, int]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            end = (node.end_lineno or 0, node.end_col_offset or 0)
            for name in [text(part) for target in node.targets for part in _plain(target)]:
                first[name] = min(end, first.get(name, end))
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and place(node) <= first.get(text(node) or "-", (0, 0))
        for node in nodes
    )


def _plain(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, ast.Tuple) else [target]
