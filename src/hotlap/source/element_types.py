"""The element type of a NumPy array, and the type that a tensor of it is asked to have."""

import ast

from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, receiver

_DEEPEST = 12
_TORCH = {"float": "float32", "double": "float64", "half": "float16", "long": "int64",
          "int": "int32", "short": "int16"}  # fmt: skip
_NUMPY = {"float": "float64", "double": "float64", "single": "float32", "half": "float16",
          "int": "int64", "f4": "float32", "f8": "float64", "i4": "int32",
          "i8": "int64"}  # fmt: skip
_LEGACY = {"Tensor": "float32", "FloatTensor": "float32", "DoubleTensor": "float64",
           "HalfTensor": "float16", "LongTensor": "int64", "IntTensor": "int32",
           "ShortTensor": "int16", "ByteTensor": "uint8"}  # fmt: skip
_FLOAT64 = frozenset({"zeros", "ones", "empty", "eye", "identity", "linspace", "logspace"})
_DRAWN = frozenset({"rand", "randn", "random", "normal", "uniform", "standard_normal", "beta"})
_JOINS = frozenset({"stack", "concatenate", "vstack", "hstack", "dstack", "column_stack"})
_KEEPS = frozenset({"array", "asarray", "ascontiguousarray", "copy", "transpose", "expand_dims",
                    "squeeze", "reshape", "flip", "roll", "pad", "repeat", "ravel", "flatten",
                    "swapaxes", "clip", "moveaxis"})  # fmt: skip


def shares(source: Source, call: ast.Call) -> bool:
    """Whether a tensor of an array can be the array's memory: no conversion copies it anyway.

    `call` makes a tensor of its first argument. Where it asks for an element type, that of the
    array must be known to be the same.
    """
    wanted = _asked(source, call)
    return wanted is None or (wanted != "" and element_type(source, call.args[0]) == wanted)


def _asked(source: Source, call: ast.Call) -> str | None:
    """The element type that a call asks for; None: that of the array; empty: not known."""
    given = keyword(call, "dtype")
    if given is not None:
        return _named(source, given)
    if source.names.of(call.func) == "torch.tensor":
        return None
    made = [call.func]
    if isinstance(call.func, ast.Name) and not source.names.of(call.func):
        values = (d.value for d in source.values.flow.reaching(call.func))
        made = [value.body if isinstance(value, ast.IfExp) else value for value in values if value]
    kinds = {_LEGACY.get(source.names.of(one).rpartition(".")[2], "") for one in made}
    return kinds.pop() if len(kinds) == 1 else ""


def element_type(source: Source, node: ast.expr | None, depth: int = 0) -> str:
    """The element type of an array, as NumPy names it; empty where the file does not say."""
    if isinstance(node, ast.Call):
        return _of_call(source, node, depth)
    parts: list[ast.expr | None] = []
    match node:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            parts = [definition.value for definition in source.values.flow.reaching(node)]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            parts = [*elements]
        case (
            ast.Subscript(value=part) | ast.Attribute(value=part, attr="T") | ast.ListComp(elt=part)
        ):
            parts = [part]
    found = {element_type(source, part, depth + 1) for part in parts if depth < _DEEPEST}
    return found.pop() if len(found) == 1 else ""


def _of_call(source: Source, call: ast.Call, depth: int) -> str:
    dotted, name = source.names.of(call.func), method(call)
    package, _, last = dotted.rpartition(".")
    given = keyword(call, "dtype")
    if given is None and name == "astype" and call.args:
        given = call.args[0]
    if given is not None:
        return _named(source, given)
    if package == "numpy.random" and last in _DRAWN:
        return "float64"
    if package == "numpy" and last in _FLOAT64 and (len(call.args) == 1 or last == "linspace"):
        return "float64"
    if package == "numpy" and last in _JOINS | _KEEPS and call.args:
        return element_type(source, call.args[0], depth + 1)
    of_array = name in _KEEPS and not dotted.startswith(("numpy.", "torch."))
    return element_type(source, receiver(call), depth + 1) if of_array else ""


def _named(source: Source, node: ast.expr) -> str:
    """`float32` of `np.float32`, `torch.float32`, `torch.float`, `"float32"`, `"f4"`."""
    if isinstance(node, ast.Constant):
        return _NUMPY.get(str(node.value), str(node.value))
    package, _, last = source.names.of(node).rpartition(".")
    return (_TORCH if package == "torch" else _NUMPY).get(last, last)
