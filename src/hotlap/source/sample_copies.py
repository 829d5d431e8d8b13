"""Copies to the device in what a loader runs: a data set's `__getitem__`, a collate function."""

import ast
from collections.abc import Iterator

from hotlap.source.names import Names
from hotlap.source.tree import FunctionNode, keyword, method, receiver, text

SAMPLE = ("__getitem__", "__getitems__")
# Objects that hold a device of the script's choice; any other's `device` is that of a tensor.
_HOLDERS = frozenset({"self", "args", "opt", "opts", "cfg", "config", "params", "hparams", "conf"})


def of_class(node: ast.ClassDef, names: Names) -> bool:
    """Whether a class copies to the device where it is asked for a sample."""
    return any(
        isinstance(one, FunctionNode) and one.name in SAMPLE and any(copies(one, names))
        for one in node.body
    )


def copies(function: ast.AST, names: Names) -> Iterator[ast.Call]:
    """The calls that copy to a device, or make a tensor on one, in a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _on_device(node, names):
            yield node


def _on_device(call: ast.Call, names: Names) -> bool:
    dotted = names.of(call.func)
    if method(call) == "cuda" and receiver(call) is not None and not dotted.startswith("torch."):
        return True
    if dotted.startswith("torch.cuda.") and dotted.endswith("Tensor"):
        return True
    given = keyword(call, "device")
    if given is None and method(call) == "to" and call.args:
        given = call.args[0]
    made = method(call) == "to" or dotted.startswith("torch.")
    return made and given is not None and _chosen(given, names)


def _chosen(device: ast.expr, names: Names) -> bool:
    """Whether an expression names a device that may be another one than the CPU."""
    match device:
        case ast.Constant(value=str() as value):
            return value.startswith(("cuda", "mps", "xpu"))
        case ast.Call(args=[inner, *_]) if names.of(device.func) == "torch.device":
            return _chosen(inner, names)
        case ast.IfExp(body=body, orelse=other):
            return _chosen(body, names) or _chosen(other, names)
        case ast.Name(id=name):
            return name.lower() in {"device", "dev"}
        case ast.Attribute(value=ast.Name(id=holder), attr=name):
            return name.lower() in {"device", "dev"} and holder.lower() in _HOLDERS
    return text(device).lower().endswith("args.device")
