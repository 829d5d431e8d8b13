"""Copies to the device, and tensors that need not be copied."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.called import goes_to_device
from hotlap.source.checks.collating import lists_arrays
from hotlap.source.checks.loading import is_given, loaders
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, opaque, receiver, text
from hotlap.source.values import ARRAY, ARRAYS, HOST, LOADER, MODEL, TENSOR

_MADE = frozenset(
    f"torch.{name}"
    for name in ("zeros", "ones", "full", "empty", "eye", "arange", "linspace", "logspace", "rand",
                 "randn", "randint", "randperm", "normal", "tensor", "tril_indices",
                 "triu_indices", "FloatTensor", "LongTensor")
)  # fmt: skip
_TENSOR = frozenset({"torch.tensor", "torch.FloatTensor", "torch.Tensor", "torch.LongTensor"})
_SAME = frozenset({"float", "long", "half", "int", "unsqueeze", "view", "reshape", "expand",
                   "double", "bool", "repeat", "tril", "triu", "squeeze", "type",
                   "requires_grad_"})  # fmt: skip
_NOT_THREE = 2


def blocking_copy(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A copy of a pinned batch to the device without `non_blocking`."""
    pins = _pins(source)
    for call in _copies(source):
        if (pins and not _made_by_torch(source, receiver(call))) or _pinned_here(call):
            yield call


def pageable_copy(source: Source, _: Technique) -> Iterator[ast.AST]:
    """The same where nothing in the file pins the batch."""
    pins = _pins(source)
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
    """`torch.tensor(array)`."""
    for call in source.calls(*_TENSOR):
        if call.args and _is_array(source, call.args[0]):
            yield call


def tensor_of_arrays(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.tensor([array, ...])`, in a collate function as well."""
    for call in source.calls(*_TENSOR, "torch.as_tensor"):
        if not call.args:
            continue
        if ARRAYS in source.values.kinds(call.args[0]) or lists_arrays(source, call.args[0]):
            yield call


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
