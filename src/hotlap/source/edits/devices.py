"""How a script names the device that it computes on."""

import ast
import re

from hotlap.source.patch.draft import Draft
from hotlap.source.patch.imports import spelt
from hotlap.source.tree import method

_DEVICE = "torch.device"
_TYPES = {"cuda", "cpu", "mps", "xpu"}
# What moves a model to another device than the CPU, or may.
_OTHERS = re.compile(r"\bcuda\b|\bmps\b|\bxpu\b|accelerat|\bgpus?\b|[Ff]abric|[Ll]ightning")


def device_type(draft: Draft, near: ast.AST) -> str:
    """An expression for the device's type, such as `torch.autocast` takes, at a place.

    From the script's own `.to(device)`; `"cuda"` where it calls `.cuda()` in any case, `"cpu"`
    where no file names another device; else empty: the device is chosen when the script runs.
    """
    found = _moves(draft, near) or _moves(draft, None)
    for node in found:
        if written := _as_type(draft, node, near):
            return written
    if any(method(c) == "cuda" and not _decided(draft, c) for c in draft.source.tree.calls):
        return '"cuda"'
    if not found and not any(_OTHERS.search(text) for text in (draft.text, *draft.texts)):
        return '"cpu"'
    return ""


def _decided(draft: Draft, node: ast.AST) -> bool:
    """Whether a condition, the main guard aside, decides on a node."""
    return any(
        isinstance(above, ast.If | ast.IfExp) and "__name__" not in ast.unparse(above.test)
        for above in draft.source.tree.above(node)
    )


def _moves(draft: Draft, near: ast.AST | None) -> list[ast.expr]:
    """The devices that tensors are moved to: in the function around a place, or anywhere."""
    function = None if near is None else draft.source.tree.function(near)
    where = ast.walk(function) if function is not None else iter(draft.source.tree.nodes)
    found: list[ast.expr] = []
    for node in where:
        if isinstance(node, ast.Call):
            found += [k.value for k in node.keywords if k.arg == "device"]
            if method(node) == "to" and node.args:
                found.append(node.args[0])
    return found


def _as_type(draft: Draft, device: ast.expr, near: ast.AST) -> str:
    origin = draft.script.origins.only(device)
    if isinstance(origin, ast.Constant) and origin.value in _TYPES:
        return "" if _decided(draft, device) else f'"{origin.value}"'
    if not isinstance(device, ast.Name | ast.Attribute) or not _visible(draft, device, near):
        return ""
    kinds, name = _types_of(draft, device), ast.unparse(device)
    if kinds == {_DEVICE}:
        return f"{name}.type"
    if kinds and kinds <= _TYPES:
        return name
    known = all(kind == _DEVICE or kind.partition(":")[0] in _TYPES for kind in kinds)
    return f"{spelt(draft, _DEVICE)}({name}).type" if kinds and known else ""


def _types_of(draft: Draft, device: ast.expr) -> set[str]:
    """What a device expression may be: device types as strings, or `torch.device` objects."""
    kinds = set()
    for origin in draft.script.origins.of(device) or ():
        if isinstance(origin, ast.Constant) and isinstance(origin.value, str):
            kinds.add(origin.value)
        elif isinstance(origin, ast.Call):
            kinds.add(draft.source.names.of(origin.func))
        else:
            kinds.add("")
    return kinds


def _visible(draft: Draft, device: ast.expr, near: ast.AST) -> bool:
    """Whether the name of a device means the same at another place."""
    if isinstance(device, ast.Attribute):
        return draft.source.tree.class_of(device) is draft.source.tree.class_of(near)
    if not isinstance(device, ast.Name):
        return False
    home = draft.script.origins.scope_of(device)
    return home is not None and home in list(draft.source.tree.scopes(near))
