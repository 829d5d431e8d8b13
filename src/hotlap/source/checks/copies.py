"""Copies to the device, and tensors that need not be copied."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.called import goes_to_device
from hotlap.source.checks.context import made_by
from hotlap.source.checks.loading import is_given, loaders
from hotlap.source.found import Spread
from hotlap.source.kinds import ARRAY, ARRAYS, HOST, MODEL, TENSOR
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, opaque, receiver, text

_MADE = frozenset(
    f"torch.{name}"
    for name in ("zeros", "ones", "full", "empty", "eye", "arange", "linspace", "logspace", "rand",
                 "randn", "randint", "randperm", "normal", "tensor", "tril_indices",
                 "triu_indices", "FloatTensor", "LongTensor")
)  # fmt: skip
_LEGACY = frozenset(f"torch.{where}{kind}Tensor" for where in ("", "cuda.")
                    for kind in ("", "Float", "Long", "Int", "Double", "Byte", "Half"))  # fmt: skip
TENSOR_OF = frozenset({"torch.tensor", *_LEGACY})
_SAME = frozenset({"float", "long", "half", "int", "unsqueeze", "view", "reshape", "expand",
                   "double", "bool", "repeat", "tril", "triu", "squeeze", "type",
                   "requires_grad_"})  # fmt: skip
_FILLED = frozenset({"numpy.eye", "numpy.zeros", "numpy.ones", "numpy.arange", "numpy.identity"})
_TRIANGLES = frozenset({"numpy.triu", "numpy.tril"})
_CONSTANTS = (ast.Constant, ast.List, ast.UnaryOp, ast.USub, ast.Load)
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
        made = _made_on_host(source, receiver(call)) and repeated(source, call)
        if made and not _kept(source, call):
            yield call


def _kept(source: Source, call: ast.Call) -> bool:
    """Whether it is made where an attribute is missing, and kept in that: once, that is.

    `if self.mask is None: self.mask = ...`, or the same behind `except AttributeError`.
    """
    statement = source.tree.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    kept = {text(one) for one in targets if isinstance(one, ast.Attribute)}
    if not kept:
        return False
    for node in source.tree.above(statement):
        if isinstance(node, ast.ExceptHandler):
            return node.type is not None and source.names.of(node.type) == "AttributeError"
        if isinstance(node, ast.If) and kept & {text(part) for part in ast.walk(node.test)}:
            return True
    return False


def repeated(source: Source, node: ast.AST) -> bool:
    """Whether a node runs at each step, or in a loop; a buffer made once costs nothing."""
    return source.loops.step_of(node) is not None or bool(list(source.tree.loops(node)))


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
    for call in (*_named(source, "to"), *_named(source, "cuda"), *_named(source, "type")):
        if opaque(call) or _does_not_wait(call) or not _in_loop(source, call):
            continue
        if method(call) == "type" and not _of_cuda(source, call):
            continue
        if _without_cuda(source, call):
            continue
        if method(call) != "to" or goes_to_device(source.values, call):
            owner = receiver(call)
            if owner is not None and _from_host(source, owner):
                yield call


def _without_cuda(source: Source, call: ast.Call) -> bool:
    """Whether a call stands in the `else` of a test for CUDA."""
    return any(
        isinstance(holder, ast.If) and field == "orelse" and _asks_for_cuda(holder.test)
        for holder, field in source.tree.blocks(call)
    )


def _asks_for_cuda(test: ast.expr) -> bool:
    """`device_type == "cuda"`, `torch.cuda.is_available()`."""
    match test:
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value="cuda")]):
            return True
        case ast.Call(func=ast.Attribute(attr="is_available")):
            return True
    return False


def _of_cuda(source: Source, call: ast.Call) -> bool:
    """`x.type(Tensor)`, where the name stands for a type of CUDA, or does if there is a device."""
    if len(call.args) != 1:
        return False
    return any(
        source.names.of(part).startswith("torch.cuda.") and source.names.of(part).endswith("Tensor")
        for one in made_by(source, call.args[0]) for part in ast.walk(one)
    )  # fmt: skip


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
    over_data = {one.loop for one in source.script.batch_loops}
    return any(loop in over_data for loop in source.tree.loops(node))


def _does_not_wait(call: ast.Call) -> bool:
    given = keyword(call, "non_blocking")
    if given is None:
        place = _NOT_THREE if method(call) == "to" else 1
        given = call.args[place] if len(call.args) > place else None
    return given is not None and not (isinstance(given, ast.Constant) and given.value is False)


def _made_on_host(source: Source, node: ast.expr | None) -> bool:
    """Whether an expression is a new tensor: `torch.zeros(3)`, or a name that holds one."""
    node = _unwrapped(source, node)
    if isinstance(node, ast.Name):
        definitions = source.values.flow.reaching(node)
        value = definitions[0].value if len(definitions) == 1 else None
        return value is not None and _just_filled(source, value) and _unused(source, node)
    if isinstance(node, ast.Call) and source.names.of(node.func) == "torch.from_numpy":
        return bool(node.args) and _filled_array(source, node.args[0])
    if not isinstance(node, ast.Call) or source.names.of(node.func) not in _MADE:
        return False
    spelled = all(entry.arg is not None for entry in node.keywords)  # `*sizes` names no device
    if keyword(node, "device") is not None or not spelled or source.names.default_device:
        return False
    return not (node.args and _from_array(source, node))


def _unwrapped(source: Source, node: ast.expr | None) -> ast.expr | None:
    """The tensor behind `x.float()`, `x[None]`, `x.view(1, -1)`, `x / 2`, `Variable(x)`."""
    while True:
        match node:
            case ast.BinOp(left=ast.Call() as inner, right=ast.Constant()):
                node = inner
            case ast.BinOp(left=ast.Call() as inner, right=ast.Name(id=name)) if name.isupper():
                node = inner
            case ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(attr=name, value=inner)) if (
                name in _SAME and source.names.of(node.func) not in _MADE
            ):
                node = inner
            case ast.Call(args=[inner, *_]) if (
                source.names.of(node.func) == "torch.autograd.Variable"
            ):
                node = inner
            case _:
                return node


def _filled_array(source: Source, node: ast.expr) -> bool:
    """`np.eye(3).astype(...)`, `np.array([1, 0, 0])`: an array of what is known beforehand.

    So is what a rule makes of one: `np.triu(np.ones((n, n)), k=1) == 0`.
    """
    match node:
        case ast.Compare(left=inner, comparators=[ast.Constant()]) | ast.Subscript(value=inner):
            return _filled_array(source, inner)
        case ast.BinOp(left=inner, right=ast.Constant()) | ast.BinOp(ast.Constant(), _, inner):
            return _filled_array(source, inner)
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        dotted = source.names.of(node.func)
        if dotted in _TRIANGLES and node.args:
            return _filled_array(source, node.args[0])
        if dotted.startswith("numpy."):
            written = all(isinstance(n, _CONSTANTS) for a in node.args[:1] for n in ast.walk(a))
            return dotted in _FILLED or (dotted == "numpy.array" and written)
        node = node.func.value
    return False


def _just_filled(source: Source, value: ast.expr) -> bool:
    """`torch.zeros(...)` and the like: what is filled by rule, not with given values."""
    inner = _unwrapped(source, value)
    filled = isinstance(inner, ast.Call) and source.names.of(inner.func) not in TENSOR_OF
    return filled and _made_on_host(source, value)


def _unused(source: Source, name: ast.Name) -> bool:
    """Whether a name is not used between where it was made and here, in one round of a loop."""
    made = source.values.flow.reaching(name)[0]
    if list(source.tree.loops(made.target)) != list(source.tree.loops(name)):
        return False
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
    if isinstance(call.args[0], ast.Call) and _made_on_host(source, call.args[0]):
        return False
    return source.names.of(call.func) in TENSOR_OF and bool(kinds & {ARRAY, ARRAYS, TENSOR})


def _named(source: Source, name: str) -> list[ast.Call]:
    return source.tree.methods.get(name, [])
