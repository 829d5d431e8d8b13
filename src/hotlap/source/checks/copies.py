"""Copies to the device, and tensors that need not be copied."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.called import goes_to_device
from hotlap.source.checks.collating import lists_arrays
from hotlap.source.checks.context import meaning
from hotlap.source.checks.loading import is_given, loaders
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, opaque, receiver, text
from hotlap.source.values import ARRAY, ARRAYS, HOST, LOADER, MODEL, TENSOR

_MADE = frozenset(
    f"torch.{name}"
    for name in ("zeros", "ones", "full", "empty", "eye", "arange", "linspace", "logspace", "rand",
                 "randn", "randint", "randperm", "normal", "tensor", "tril_indices",
                 "triu_indices", "FloatTensor", "LongTensor")
)  # fmt: skip
_LEGACY = frozenset(f"torch.{where}{kind}Tensor" for where in ("", "cuda.")
                    for kind in ("", "Float", "Long", "Int", "Double", "Byte", "Half"))  # fmt: skip
_TENSOR = frozenset({"torch.tensor", *_LEGACY})
_SAME = frozenset({"float", "long", "half", "int", "unsqueeze", "view", "reshape", "expand",
                   "double", "bool", "repeat", "tril", "triu", "squeeze", "type",
                   "requires_grad_"})  # fmt: skip
_NOT_THREE = 2


def blocking_copy(source: Source, _: Technique) -> Iterator[Spread]:
    """A copy of a pinned batch to the device without `non_blocking`.

    A hint where it is another file of the project that pins.
    """
    pins, elsewhere = _pins(source), source.project.has("pins")
    for call in _copies(source):
        made_here = _made_by_torch(source, receiver(call))
        if ((pins or elsewhere) and not made_here) or _pinned_here(call):
            yield Spread(call, call, hint=not (pins or _pinned_here(call)))


def pageable_copy(source: Source, _: Technique) -> Iterator[ast.AST]:
    """The same where nothing in the file pins the batch."""
    pins = _pins(source) or source.project.has("pins")
    for call in _copies(source):
        if not _pinned_here(call) and (not pins or _made_by_torch(source, receiver(call))):
            yield call


def moved_after_creation(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.zeros(...).to(device)`, also by way of a name."""
    for call in (*_named(source, "to"), *_named(source, "cuda")):
        if method(call) == "to" and not goes_to_device(source.values, call):
            continue
        if _made_on_host(source, receiver(call)) and _repeated(source, call):
            yield call


def array_copied(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.tensor(array)`, `torch.Tensor(array)`, `FloatTensor(array)`."""
    for call in _constructors(source):
        if len(call.args) == 1 and _is_array(source, call.args[0]):
            yield call


def tensor_of_lists(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.tensor(rows)` of a list, at each step, for each sample or in a loop."""
    for call in _constructors(source):
        if len(call.args) == 1 and _is_list(source, call.args[0]) and _often(source, call):
            yield call


def _constructors(source: Source) -> Iterator[ast.Call]:
    """The calls that make a tensor of values, those of a name for one of two types too."""
    yield from source.calls(*_TENSOR)
    for name in ("Tensor", "FloatTensor", "LongTensor", "dtype", "tensor_type"):
        for call in source.tree.called.get(name, []):
            if isinstance(call.func, ast.Name) and not source.names.of(call.func):
                values = [d.value for d in source.values.flow.reaching(call.func)]
                chosen = [v for v in values if isinstance(v, ast.IfExp)]
                if chosen and all(source.names.of(v.body) in _TENSOR for v in chosen):
                    yield call


def _often(source: Source, call: ast.Call) -> bool:
    function = source.tree.function(call)
    name = function.name if function is not None else ""
    each = name in {"__getitem__", "forward"} or "collate" in name
    return each or _repeated(source, call)


def _is_list(source: Source, node: ast.expr) -> bool:
    """A list of what is computed; not one of a few constants, nor of arrays or tensors."""
    found = meaning(source, node)
    if source.values.kinds(node) & {ARRAY, ARRAYS, TENSOR}:
        return False
    match found:
        case ast.ListComp():
            return True
        case ast.List(elts=elements):
            return not elements or any(
                isinstance(part, ast.Name | ast.Attribute | ast.Call)
                for e in elements
                for part in ast.walk(e)
            )
        case ast.Call():
            dotted = source.names.of(found.func)
            return dotted in {"list", "sorted"} or method(found) in {"tolist", "split"}
    if not isinstance(node, ast.Name):
        return False
    values = [d.value for d in source.values.flow.reaching(node) if d.value is not None]
    return any(isinstance(value, ast.List | ast.ListComp) for value in values)


def tensor_of_arrays(source: Source, _: Technique) -> Iterator[Spread]:
    """`torch.tensor([array, ...])`, in a collate function as well; once, it is a hint."""
    for call in (*_constructors(source), *source.calls("torch.as_tensor")):
        if not call.args:
            continue
        if ARRAYS in source.values.kinds(call.args[0]) or lists_arrays(source, call.args[0]):
            yield Spread(call, call, hint=not _often(source, call))


def _repeated(source: Source, call: ast.Call) -> bool:
    """Whether a call runs at each step, or in a loop; a buffer made once costs nothing."""
    return source.loops.step_of(call) is not None or bool(list(source.tree.loops(call)))


def _made_by_torch(source: Source, node: ast.expr | None) -> bool:
    """Whether a tensor was made here, and so does not come from a loader that pins."""
    made = [node] if isinstance(node, ast.Call) else []
    if isinstance(node, ast.Name):
        made = [d.value for d in source.values.flow.reaching(node) if isinstance(d.value, ast.Call)]
    return bool(made) and all(source.names.of(one.func).startswith("torch.") for one in made)


def _pins(source: Source) -> bool:
    return any(is_given(source, given, "pin_memory") for _, given in loaders(source))


def _pinned_here(call: ast.Call) -> bool:
    return method(receiver(call) or call) == "pin_memory"


def _copies(source: Source) -> Iterator[ast.Call]:
    """Blocking copies of batches from the host, in the step or in a loop over a loader."""
    for call in (*_named(source, "to"), *_named(source, "cuda")):
        if opaque(call) or _does_not_wait(call) or not _in_loop(source, call):
            continue
        if method(call) == "cuda" or goes_to_device(source.values, call):
            owner = receiver(call)
            if owner is not None and _from_host(source, owner):
                yield call


def _from_host(source: Source, owner: ast.expr) -> bool:
    """Known to lie on the host, or a plain name in the step of which nothing is known."""
    kinds = source.values.kinds(owner)
    if kinds or _made_on_host(source, owner):
        return {TENSOR, HOST} <= kinds and not _made_on_host(source, owner)
    plain = isinstance(owner, ast.Name | ast.Subscript) and text(owner) != "self"
    return plain and source.loops.in_step(owner) and MODEL not in kinds


def _in_loop(source: Source, node: ast.AST) -> bool:
    if source.loops.step_of(node) is not None:
        return True
    return any(
        source.values.are(inner, LOADER)
        for loop in source.tree.loops(node)
        if isinstance(loop, ast.For)
        for inner in (loop.iter, *getattr(loop.iter, "args", []))
    )


def _does_not_wait(call: ast.Call) -> bool:
    given = keyword(call, "non_blocking")
    if given is None:
        place = _NOT_THREE if method(call) == "to" else 1
        given = call.args[place] if len(call.args) > place else None
    return given is not None and not (isinstance(given, ast.Constant) and given.value is False)


def _made_on_host(source: Source, node: ast.expr | None) -> bool:
    """Whether an expression is a new tensor: `torch.zeros(3)`, or a name that holds one."""
    while (
        isinstance(node, ast.Call)
        and method(node) in _SAME
        and isinstance(node.func, ast.Attribute)
    ):
        if source.names.of(node.func) in _MADE:
            break
        node = node.func.value
    if isinstance(node, ast.Name):
        definitions = source.values.flow.reaching(node)
        value = definitions[0].value if len(definitions) == 1 else None
        return value is not None and _just_filled(source, value) and _unused(source, node)
    if not isinstance(node, ast.Call) or source.names.of(node.func) not in _MADE:
        return False
    if keyword(node, "device") is not None or opaque(node) or source.names.default_device:
        return False
    return not (node.args and _from_array(source, node))


def _just_filled(source: Source, value: ast.expr) -> bool:
    """`torch.zeros(...)` and the like: what is filled by rule, not with given values."""
    filled = isinstance(value, ast.Call) and source.names.of(value.func) not in _TENSOR
    return filled and _made_on_host(source, value)


def _unused(source: Source, name: ast.Name) -> bool:
    """Whether a name is not used between where it was made and here, in the same function."""
    made = source.values.flow.reaching(name)[0]
    here = (name.lineno, name.col_offset)
    function = source.tree.function(name)
    between = [
        node
        for node in source.tree.every(ast.Name)
        if node.id == name.id
        and isinstance(node.ctx, ast.Load)
        and made.at <= (node.lineno, node.col_offset) < here
    ]
    return source.tree.function(made.target) is function and not between


def _from_array(source: Source, call: ast.Call) -> bool:
    """`torch.tensor(array)`: not made, but copied."""
    kinds = source.values.kinds(call.args[0])
    return source.names.of(call.func) in _TENSOR and bool(kinds & {ARRAY, ARRAYS, TENSOR})


def _is_array(source: Source, node: ast.expr) -> bool:
    if source.values.are(node, ARRAY):
        return True
    return isinstance(node, ast.Subscript) and source.values.are(node.value, ARRAY)


def _named(source: Source, name: str) -> list[ast.Call]:
    return source.tree.methods.get(name, [])
