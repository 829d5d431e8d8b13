"""Tensors made of lists and arrays, number by number or by a copy."""

import ast
import re
from collections.abc import Iterator
from functools import partial

from hotlap.core.technique import Technique
from hotlap.source.checks.collating import lists_arrays
from hotlap.source.checks.context import meaning
from hotlap.source.checks.copies import TENSOR_OF, repeated
from hotlap.source.checks.datasets import per_sample
from hotlap.source.element_types import shares
from hotlap.source.found import Spread
from hotlap.source.kinds import ARRAY, ARRAYS, TENSOR
from hotlap.source.module import Source
from hotlap.source.tree import behind, method, receiver, text

# What people call a store that each step of deep Q-learning takes a batch from.
_REPLAY = re.compile(r"(?i)replay|buffer|memory")
# What people call a function that turns text into a list of numbers.
_SEQUENCE = re.compile(
    r"to_(?:sequence|ids?|indices|idx)$|(?:^|\.)(?:encode|numericalize|tokenize)$"
)

_OF_ONE = {*TENSOR_OF, "torch.as_tensor"}
_ADDS = ("append", "extend", "insert")


def array_copied(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.tensor(array)`, `torch.LongTensor(array)`, where no conversion copies it anyway."""
    for call in _constructors(source):
        if len(call.args) != 1 or not _is_array(source, call.args[0]) or _once(source, call):
            continue
        if shares(source, call):
            yield call


def tensor_of_lists(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.tensor(rows)` of a list, at each step, for each sample or in a loop."""
    for call in _constructors(source):
        listed = len(call.args) == 1 and _is_list(source, call.args[0]) and _often(source, call)
        if listed and not _from_array(source, call.args[0]):
            yield call


def tensor_of_tolist(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.tensor(values.tolist())`, at each step, for each sample or in a loop."""
    for call in _constructors(source):
        if len(call.args) == 1 and _from_array(source, call.args[0]) and _often(source, call):
            yield call


def tensor_of_arrays(source: Source, _: Technique) -> Iterator[Spread]:
    """`torch.tensor([array, ...])`, in a collate function as well; once, it is a hint."""
    for call in (*_constructors(source), *source.calls("torch.as_tensor")):
        if not call.args:
            continue
        if ARRAYS in source.values.kinds(call.args[0]) or lists_arrays(source, call.args[0]):
            yield Spread(call, call, hint=not _often(source, call))


def tensors_one_by_one(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.stack([torch.tensor(x) for x in batch])`, at each step, or in a collate function."""
    for call in source.calls("torch.stack", "torch.cat"):
        values = call.args[0] if call.args else None
        if not isinstance(values, (ast.ListComp, ast.GeneratorExp)) or not _often(source, call):
            continue
        made = behind(values.elt, {"to", "cuda", "float", "long", "double"})
        if isinstance(made, ast.Call) and source.names.of(made.func) in _OF_ONE:
            yield call


def _once(source: Source, call: ast.Call) -> bool:
    """Whether a script that trains makes a tensor once, in no loop: that costs nothing."""
    if not source.script.steps or _often(source, call):
        return False
    function = source.tree.function(call)
    return function is None or source.loops.step_of(call) is None


def _constructors(source: Source) -> Iterator[ast.Call]:
    """The calls that make a tensor of values, those of a name for one of two types too."""
    yield from source.calls(*TENSOR_OF)
    yield from source.tree.methods.get("new_tensor", [])
    for name in ("Tensor", "FloatTensor", "LongTensor", "dtype", "tensor_type"):
        for call in source.tree.called.get(name, []):
            if isinstance(call.func, ast.Name) and not source.names.of(call.func):
                values = [d.value for d in source.values.flow.reaching(call.func)]
                chosen = [v for v in values if isinstance(v, ast.IfExp)]
                if chosen and all(source.names.of(v.body) in TENSOR_OF for v in chosen):
                    yield call


def _often(source: Source, call: ast.Call) -> bool:
    function = source.tree.function(call)
    name = function.name if function is not None else ""
    owner = source.tree.class_of(call)
    collates = name == "__call__" and owner is not None and "collate" in owner.name.lower()
    replays = owner is not None and _REPLAY.search(owner.name) and "sample" in name
    each = name in {"__getitem__", "forward"} or "collate" in name or collates or bool(replays)
    return each or repeated(source, call) or function in per_sample(source)


def _is_list(source: Source, node: ast.expr) -> bool:
    """A list of what is computed; not one of a few constants, nor of arrays or tensors."""
    found = meaning(source, node)
    if isinstance(found, ast.List) and _computed(found) and source.values.are(node, TENSOR):
        return True  # torch.tensor([a, b]) of tensors reads each of them
    if source.values.kinds(node) & {ARRAY, ARRAYS, TENSOR} or _read_of_array(source, found):
        return False
    if _makes_list(source, found) or _returns_list(source, found):
        return True
    return isinstance(node, ast.Name) and _collects(source, node)


def _collects(source: Source, name: ast.Name) -> bool:
    """Whether a name stands for a comprehension, or for a display that elements are added to."""
    values = [one.value for one in source.values.flow.reaching(name)]
    if any(isinstance(value, ast.ListComp) for value in values):
        return True
    displays = [value for value in values if isinstance(value, ast.List)]
    return bool(displays) and (any(map(partial(_long, source), displays)) or _grows(source, name))


def _grows(source: Source, name: ast.Name) -> bool:
    calls = (call for kind in _ADDS for call in source.tree.methods.get(kind, []))
    return any(text(owner) == name.id for call in calls if (owner := receiver(call)) is not None)


def _long(source: Source, display: ast.List) -> bool:
    """Whether an element of a list that is written out may be a list or an array itself.

    What is written out, of numbers alone, is short.
    """
    return any(_sequence(source, element) for element in display.elts)


def _sequence(source: Source, element: ast.expr) -> bool:
    if isinstance(element, ast.Starred):
        return not isinstance(element.value, ast.List | ast.Tuple)
    if isinstance(element, ast.List):
        return _long(source, element)
    if source.values.kinds(element) & {ARRAY, ARRAYS}:
        return not isinstance(element, ast.Subscript)
    found = meaning(source, element)
    if _makes_list(source, found):
        return not isinstance(found, ast.Subscript)
    return isinstance(element, ast.Name) and _collects(source, element)


def _read_of_array(source: Source, found: ast.expr) -> bool:
    """`self.labels[i]` of an array or a tensor: a number or a row, and no list."""
    while isinstance(found, ast.Subscript):
        found = found.value
        if source.values.kinds(found) & {ARRAY, TENSOR}:
            return True
    return False


def _returns_list(source: Source, call: ast.expr) -> bool:
    """Whether an expression calls a function of the file that returns nothing but lists."""
    function = source.values.local(call) if isinstance(call, ast.Call) else None
    if not isinstance(function, ast.FunctionDef):
        return False
    inside = (node for node in ast.walk(function) if isinstance(node, ast.Return))
    given = [node.value for node in inside if source.tree.function(node) is function]
    return bool(given) and all(
        one is not None and _makes_list(source, meaning(source, one)) for one in given
    )


def _makes_list(source: Source, found: ast.expr) -> bool:
    """Whether an expression is a list display, or a call that returns a list."""
    match found:
        case ast.ListComp() | ast.Attribute(attr="shape"):
            return True
        case ast.List(elts=elements):
            return not elements or _long(source, found)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"))):
            return source.tree.function(found) in per_sample(source)
        case ast.Call():
            dotted = source.names.of(found.func)
            listed = dotted in {"list", "sorted"} or method(found) in {"tolist", "split"}
            return listed or _SEQUENCE.search(dotted or text(found.func)) is not None
    return False


def _from_array(source: Source, node: ast.expr) -> bool:
    """Whether an expression is a list that `.tolist()` makes."""
    found = meaning(source, node)
    return isinstance(found, ast.Call) and method(found) == "tolist"


def _computed(display: ast.List) -> bool:
    """Whether a list is written out of more than constants."""
    return any(
        isinstance(part, ast.Name | ast.Attribute | ast.Call)
        for element in display.elts
        for part in ast.walk(element)
    )


def _is_array(source: Source, node: ast.expr) -> bool:
    if source.values.are(node, ARRAY):
        return True
    return isinstance(node, ast.Subscript) and source.values.are(node.value, ARRAY)
