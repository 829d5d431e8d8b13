"""What makes the CPU wait for the device in the step."""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator

from hotlap.core.technique import Technique
from hotlap.source.called import goes_to_host
from hotlap.source.checks.context import meaning
from hotlap.source.conditional import is_conditional
from hotlap.source.found import Spread
from hotlap.source.kinds import ARRAY, HOST, MODEL, SEVERAL, TENSOR
from hotlap.source.module import Source
from hotlap.source.tree import behind, keyword, method, receiver

_NUMBERS = frozenset({"float", "int", "bool", "complex"})
_ARRAYS = frozenset({"numpy.array", "numpy.asarray"})
_VIEWS = frozenset({"squeeze", "unsqueeze", "view", "reshape", "flatten", "detach", "cpu"})
_CHOICES = frozenset({"argmax", "argmin", "multinomial", "sample"})
_OF_MODELS = frozenset({"parameters", "state_dict", "eval", "train", "modules"})
_EXPORTED = re.compile(r"^torch\.jit\.load|onnxruntime|tensorrt|InferenceSession|openvino|"
                       r"tflite|coremltools|tritonclient|readNetFrom")  # fmt: skip
_NONZERO = frozenset({"torch.nonzero", "torch.argwhere"})


def item_in_step(source: Source, _: Technique) -> Iterator[Spread]:
    """`.item()`, `.tolist()`, `float(tensor)`."""
    yield from perhaps(source, (node for node in _items(source) if not _is_choice(source, node)))


def _is_choice(source: Source, node: ast.AST) -> bool:
    """Whether what is read is the index of an action or a token, which the host goes on with."""
    if not isinstance(node, ast.Call) or method(node) == "tolist":
        return False
    values = [*node.args[:1], receiver(node)]
    return any(
        method(behind(meaning(source, value), _VIEWS)) in _CHOICES for value in values if value
    )


def _items(source: Source) -> Iterator[ast.AST]:
    yield from (call for call in _asked(source, "item") if not call.args)
    for index in source.tree.every(ast.Subscript):
        old = isinstance(index.value, ast.Attribute) and index.value.attr == "data"
        first = isinstance(index.slice, ast.Constant) and index.slice.value == 0
        if old and first and of_device(source, index.value) and source.loops.in_step(index):
            yield index  # loss.data[0], as before torch 0.4
    yield from (call for call in _in_step(source, "tolist") if of_device(source, receiver(call)))
    yield from _given(source, _NUMBERS)


_WANTS_HOST = "torch.nn.utils.rnn.pack_padded_sequence"
"""It takes the lengths from the host: they had better never left it, which no copy shows."""


def cpu_in_step(source: Source, _: Technique) -> Iterator[Spread]:
    """`.cpu()`, `.to("cpu")`, `.numpy()`."""
    wanted = {
        id(argument)
        for call in source.calls(_WANTS_HOST)
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
    }
    yield from perhaps(source, (call for call in _copied_back(source) if id(call) not in wanted))


def _copied_back(source: Source) -> Iterator[ast.AST]:
    yield from _asked(source, "cpu")
    for call in _in_step(source, "to"):
        waits = keyword(call, "non_blocking") is None and goes_to_host(source.values, call)
        if waits and of_device(source, receiver(call)):
            yield call
    yield from (call for call in _in_step(source, "numpy") if of_device(source, receiver(call)))
    yield from _given(source, _ARRAYS)


def nonzero_in_step(source: Source, _: Technique) -> Iterator[Spread]:
    """`.nonzero()`, `torch.nonzero(x)`, `torch.where(mask)`: their length is asked for."""
    yield from perhaps(source, _sized_by_data(source))


def _sized_by_data(source: Source) -> Iterator[ast.AST]:
    yield from (call for call in _in_step(source, "nonzero") if of_device(source, receiver(call)))
    yield from (part for part in source.tree.every(ast.Subscript) if _masked(source, part))
    for call in source.calls(*_NONZERO, "torch.where"):
        alone = len(call.args) == 1 and not call.keywords
        asks = alone or source.names.of(call.func) in _NONZERO
        on_host = call.args and HOST in source.values.kinds(call.args[0])
        if asks and not on_host and source.loops.in_step(call):
            yield call


def _masked(source: Source, part: ast.Subscript) -> bool:
    """`x[mask]` in the step, where the mask is a comparison of tensors of the device."""
    if not isinstance(part.ctx, ast.Load) or not source.loops.in_step(part):
        return False
    mask = meaning(source, part.slice)
    return (
        isinstance(mask, ast.Compare)
        and one_of_device(source, mask)
        and of_device(source, part.value)
    )


def tensor_as_condition(source: Source, _: Technique) -> Iterator[Spread]:
    """`if loss > best:`, `while error.max() > 0:`, `assert mask.any()`."""
    yield from perhaps(source, _decided(source))


def _decided(source: Source) -> Iterator[ast.AST]:
    for test in _tests(source):
        if source.loops.in_step(test):
            yield from (part for part in _parts(source, test) if _decides(source, part))


def perhaps(source: Source, nodes: Iterable[ast.AST]) -> Iterator[Spread]:
    """The nodes, unless they run where nothing waits for a device: on the CPU, or in inference.

    What is printed at every step costs time on the CPU as well.
    """
    on_cpu = source.names.no_device or source.names.cpu_only
    for node in nodes:
        if not _in_inference(source, node) and (not on_cpu or _printed(source, node)):
            yield Spread(node, node, "printed at every step" if on_cpu else "")


def _printed(source: Source, node: ast.AST) -> bool:
    above = itertools.takewhile(lambda one: not isinstance(one, ast.stmt), source.tree.above(node))
    return any(isinstance(one, ast.Call) and source.names.of(one.func) == "print" for one in above)


def _in_inference(source: Source, node: ast.AST) -> bool:
    """Whether a node belongs to a class that runs exported models, as a deployed program does."""
    owner = source.tree.class_of(node)
    return owner is not None and any(
        isinstance(inner, ast.Call) and _EXPORTED.search(source.names.of(inner.func))
        for inner in ast.walk(owner)
    )


def of_device(source: Source, node: ast.expr | None) -> bool:
    """Whether an expression is a tensor (or several) that is not known to lie on the host."""
    if node is None or source.names.cpu_only:
        return False
    kinds = source.values.kinds(node)
    return TENSOR in kinds and HOST not in kinds


def one_of_device(source: Source, node: ast.expr) -> bool:
    """The same, and it is one tensor."""
    return of_device(source, node) and SEVERAL not in source.values.kinds(node)


def _may_be_on_device(source: Source, owner: ast.expr) -> bool:
    """A tensor of the device, or something unknown: little else has `.item()` or `.cpu()`."""
    kinds = source.values.kinds(owner)
    if source.names.cpu_only or kinds & {ARRAY, HOST, MODEL}:
        return False
    if _asked_as_model(source, owner):
        return False
    called = source.names.of(owner.func) if isinstance(owner, ast.Call) else ""
    return not called.startswith(("numpy.", "math.", "pandas."))


def _asked_as_model(source: Source, owner: ast.expr) -> bool:
    """`m.cpu().parameters()`."""
    above = itertools.islice(source.tree.above(owner), 3)
    return any(isinstance(node, ast.Attribute) and node.attr in _OF_MODELS for node in above)


def _tests(source: Source) -> Iterator[ast.expr]:
    yield from (node.test for node in source.tree.every(ast.If))
    yield from (node.test for node in source.tree.every(ast.While))
    yield from (node.test for node in source.tree.every(ast.IfExp))
    yield from (node.test for node in source.tree.every(ast.Assert))


def _parts(source: Source, test: ast.expr) -> Iterator[ast.expr]:
    """The operands of `a and not b`; what follows `step % n == 0 and` is conditional."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            if isinstance(test.op, ast.And) and is_conditional(source.tree, value):
                return
            yield from _parts(source, value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(source, test.operand)
    else:
        yield test


def _decides(source: Source, part: ast.expr) -> bool:
    """A name that holds a model's output may as well be a dictionary or None."""
    if not one_of_device(source, part):
        return False
    if not isinstance(part, ast.Name | ast.Attribute | ast.Subscript):
        return True
    values = [
        definition.value
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
        for definition in source.values.flow.reaching(node)
    ]
    calls = [value for value in values if isinstance(value, ast.Call | ast.Compare)]
    made = [v for v in calls if not source.values.are(getattr(v, "func", v), MODEL)]
    return bool(values) and len(made) == len(values)


def _asked(source: Source, name: str) -> Iterator[ast.Call]:
    """Calls of a method, in the step, on what may be a tensor of the device."""
    for call in _in_step(source, name):
        owner = receiver(call)
        if owner is not None and _may_be_on_device(source, owner):
            yield call


def _given(source: Source, functions: Iterable[str]) -> Iterator[ast.Call]:
    """Calls of functions, in the step, that are given a tensor of the device."""
    for call in source.calls(*functions):
        if call.args and one_of_device(source, call.args[0]) and source.loops.in_step(call):
            yield call


def _in_step(source: Source, name: str) -> Iterator[ast.Call]:
    """Calls of a method that run at every step."""
    for call in source.tree.methods.get(name, []):
        if source.loops.in_step(call) and method(call):
            yield call
