"""Autocast and the loss scaler: what goes where."""

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import (
    argument,
    body_of,
    in_branch,
    is_constant,
    meaning,
    methods_within,
    name_of,
    place,
)
from hotlap.source.kinds import OPTIMIZER, SCALER
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, receiver

_AUTOCAST = frozenset({"torch.autocast", "torch.amp.autocast"})
_OLD_AUTOCAST = frozenset({"torch.cuda.amp.autocast", "torch.cpu.amp.autocast"})
_DEPRECATED = tuple(
    f"torch.{kind}.amp.{name}"
    for kind in ("cuda", "cpu")
    for name in ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
)
_CLIPS = tuple(
    f"torch.nn.utils.{name}" for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
)
_HALF = frozenset({"torch.float16", "torch.half"})
_VERSION = re.compile(r"hasattr|version|VERSION|_ge_|is_torch|TORCH")
_SCALER = re.compile(r"(?:^|grad|amp|loss|native|_)_?scaler$|loss_?scal", re.IGNORECASE)
_SCALES = re.compile(r"scaler|loss_scale|accelerator|fabric|manual_backward", re.IGNORECASE)


def clip_before_unscale(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Gradients clipped while they are still multiplied by the scaler's factor."""
    for call in source.calls(*_CLIPS):
        scaled = _last_scaled(source, call)
        if scaled is not None and not _between(source, scaled, call, "unscale_"):
            yield call


def step_around_scaler(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`optimizer.step()` on scaled gradients: no unscaling, and infinities are not skipped."""
    for call in source.tree.methods.get("step", []):
        owner = receiver(call)
        if owner is None or call.args or not source.values.are(owner, OPTIMIZER):
            continue
        if source.values.are(owner, SCALER) or _scaler_steps_else(source, call):
            continue
        if _last_scaled(source, call) is not None:
            yield call


def fp16_without_scaler(source: Source, _: Technique) -> Iterator[ast.AST]:
    """float16 under autocast, and gradients too small for it vanish."""
    for node in source.tree.every(ast.With):
        if _scales(source.tree.class_of(node) or body_of(source, node)):
            continue
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and _is_half(source, call) and _trains(source, node):
                yield call


def autocast_around_backward(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`backward()` inside the autocast block."""
    for call in source.tree.methods.get("backward", []):
        if any(_casts(source, context) for context in source.tree.contexts(call)):
            yield call


def deprecated_amp(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Calls and decorators of `torch.cuda.amp` and `torch.cpu.amp`."""
    if b".amp" not in source.content and b"import amp" not in source.content:
        return
    for call in source.calls(*_DEPRECATED):
        if not _for_old_torch(source, call):
            yield call
    for function in source.tree.functions:
        for mark in function.decorator_list:
            bare = not isinstance(mark, ast.Call) and source.names.of(mark) in _DEPRECATED
            if bare and not _for_old_torch(source, function):
                yield mark


def _for_old_torch(source: Source, node: ast.AST) -> bool:
    """Whether a question about torch's version decides on it, or a failed import."""
    for around in source.tree.above(node):
        if isinstance(around, ast.If | ast.IfExp) and _VERSION.search(ast.unparse(around.test)):
            return True
        if isinstance(around, ast.ExceptHandler):
            return True
    return False


def _scales(scope: ast.AST) -> bool:
    """Whether a class, function or module knows a loss scaler by any name."""
    return any(
        _SCALER.search(getattr(node, "id", "") or getattr(node, "attr", "") or "")
        for node in ast.walk(scope)
    )


def _last_scaled(source: Source, call: ast.Call) -> ast.Call | None:
    """The backward before a call in its function, if it is of a scaled loss."""
    all_of_them = methods_within(source, body_of(source, call), "backward")
    unscaled: list[ast.Call] = []  # between, each in a branch
    for other in reversed(all_of_them[: bisect_left(all_of_them, place(call), key=place)]):
        if source.tree.exclusive(other, call):
            continue
        if _is_scaled(source, other):
            beside = all(source.tree.exclusive(other, later) for later in unscaled)
            return other if beside else None
        if not in_branch(source.tree, other):
            return None
        unscaled.append(other)
    return None


def _is_scaled(source: Source, backward: ast.Call) -> bool:
    """`scaler.scale(loss).backward()`, through a name too."""
    owner = receiver(backward)
    made = meaning(source, owner) if owner is not None else None
    if not isinstance(made, ast.Call) or method(made) != "scale":
        return False
    scaler = receiver(made)
    return scaler is not None and (
        source.values.are(scaler, SCALER) or "scaler" in name_of(scaler).lower()
    )


def _between(source: Source, first: ast.Call, last: ast.Call, name: str) -> bool:
    others = methods_within(source, body_of(source, last), name)
    index = bisect_right(others, place(first), key=place)
    return index < len(others) and place(others[index]) < place(last)


def _scaler_steps_else(source: Source, call: ast.Call) -> bool:
    """Whether the scaler steps in another branch: this one is for runs without it."""
    return in_branch(source.tree, call) and any(
        other.args and source.tree.exclusive(other, call)
        for other in methods_within(source, body_of(source, call), "step")
    )


def _casts(source: Source, node: ast.expr) -> bool:
    """An autocast context that may be on; by a name with one definition too."""
    made = meaning(source, node)
    if not isinstance(made, ast.Call):
        return source.names.of(made) in _OLD_AUTOCAST
    dotted = source.names.of(made.func)
    known = dotted in _AUTOCAST | _OLD_AUTOCAST or (
        method(made) == "autocast" and not dotted.startswith("torch.")
    )
    position = 0 if dotted in _OLD_AUTOCAST else -1
    return known and not is_constant(argument(made, "enabled", position), False)


def _is_half(source: Source, call: ast.Call) -> bool:
    """An autocast to float16, which is what it is on CUDA when no type is given."""
    dotted = source.names.of(call.func)
    if dotted == "torch.cuda.amp.autocast":
        given = argument(call, "dtype", 1)
    elif dotted in _AUTOCAST:
        device = argument(call, "device_type", 0)
        given = argument(call, "dtype", 1)
        cuda = device is not None and is_constant(meaning(source, device), "cuda")
        if given is None and not cuda:
            return False
    else:
        return False
    if is_constant(argument(call, "enabled", -1), False) or any(
        entry.arg is None for entry in call.keywords
    ):
        return False
    return given is None or source.names.of(meaning(source, given)) in _HALF


def _trains(source: Source, node: ast.With) -> bool:
    """Whether the loss computed here goes backward unscaled: plain, and in the same function."""
    region = source.loops.region(node)
    if region is None or region.backward is None or source.loops.without_grad(node):
        return False
    owner = receiver(region.backward)
    if owner is None or _SCALES.search(ast.unparse(region.backward)):
        return False
    same = body_of(source, region.backward) is body_of(source, node)
    return same and keyword(region.backward, "inputs") is None
