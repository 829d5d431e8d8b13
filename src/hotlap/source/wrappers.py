"""Modules that only wrap one layer: padding and a convolution, a linear layer and its start values.

What stands right before a normalisation may be such a class instead of the layer itself.
"""

import ast
import re

from hotlap.source.names import Names
from hotlap.source.tree import attributes_of, defaults, keyword, opaque, text

_LAYER = re.compile(r"^torch\.nn\.(?:Conv(?:Transpose)?[123]d|Linear)$")


def ends_biased(node: ast.ClassDef, names: Names) -> bool:
    """Whether the `forward` of a class returns what its own layer with a bias computes.

    A `bias` that is a parameter of `__init__` counts where its default is True.
    """
    methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    forward, init = methods.get("forward"), methods.get("__init__")
    last = _returned(forward) if forward is not None else ""
    if init is None or not last.startswith("self."):
        return False
    made = attributes_of(node).get(last, [])
    return len(made) == 1 and isinstance(made[0], ast.Call) and _biased(made[0], init, names)


def _returned(forward: ast.FunctionDef) -> str:
    """The attribute whose call a function returns, directly or by the name set right before."""
    body = forward.body
    value = body[-1].value if isinstance(body[-1], ast.Return) else None
    if isinstance(value, ast.Name) and len(body) > 1:
        before = body[-2]
        named = isinstance(before, ast.Assign) and text(before.targets[0]) == value.id
        value = before.value if isinstance(before, ast.Assign) and named else None
    return text(value.func) if isinstance(value, ast.Call) else ""


def _biased(layer: ast.Call, init: ast.FunctionDef, names: Names) -> bool:
    if not _LAYER.match(names.of(layer.func)) or opaque(layer):
        return False
    bias = keyword(layer, "bias")
    if isinstance(bias, ast.Name):
        bias = defaults(init).get(bias.id)
        return isinstance(bias, ast.Constant) and bias.value is True
    return bias is None or (isinstance(bias, ast.Constant) and bias.value is True)
