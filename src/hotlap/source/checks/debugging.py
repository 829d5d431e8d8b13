"""Debugging aids left on."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import (
    argument,
    every_step,
    in_steps,
    is_constant,
    reached,
    trainers,
    unconditional,
)
from hotlap.source.constants import constant
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method

_SET = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
_DETECT = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
_AUTOGRAD = ("torch.autograd.profiler.profile", "torch.autograd.profiler_legacy.profile",
             "torch.autograd.profiler.emit_nvtx", "torch.autograd.profiler.emit_itt",
             "torch.cuda.profiler.profile")  # fmt: skip
_PROFILER = ("torch.profiler.profile", "torch.profiler.profiler.profile")
_CHECKS = ("gradcheck", "gradgradcheck")
_GRADCHECK = tuple(f"torch.autograd.{at}{name}" for at in ("", "gradcheck.") for name in _CHECKS)
_MEASURES = ("profil", "bench", "trace", "measure")


def anomaly_on(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Anomaly detection switched on by a constant."""
    for call in source.calls(*_SET):
        if constant(source, argument(call, "mode", 0)) is True and unconditional(source, call):
            yield call
    for call in source.calls(*_DETECT):
        used = not isinstance(source.tree.parent(call), ast.IfExp)
        if used and unconditional(source, call):
            yield call
    yield from _trainer_option(source, "detect_anomaly", (True,))


def profiler_on(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A profiler around the training that records every step of it."""
    for call in source.calls(*_AUTOGRAD, *_PROFILER):
        if _records_all(source, call) and unconditional(source, call) and _trains(source, call):
            yield call
    yield from _trainer_option(source, "profiler", ("advanced", "pytorch"))


def gradcheck_left(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Numerical gradients in a file that trains."""
    if not any(region.backward for region in source.script.steps):
        return
    for call in source.calls(*_GRADCHECK):
        if unconditional(source, call):
            yield call


def _trainer_option(source: Source, name: str, on: tuple[object, ...]) -> Iterator[ast.AST]:
    for call in trainers(source):
        value = keyword(call, name)
        if isinstance(value, ast.Constant) and value.value in on and unconditional(source, call):
            yield value


def _records_all(source: Source, call: ast.Call) -> bool:
    dotted = source.names.of(call.func)
    if dotted in _PROFILER:
        return keyword(call, "schedule") is None and not call.args[1:]
    enabled = argument(call, "enabled", 0)
    return enabled is None or is_constant(enabled, True)


def _trains(source: Source, call: ast.Call) -> bool:
    """Whether a `with` of this profiler holds steps, all of them, and is no measurement."""
    function = source.tree.function(call)
    if function is not None and any(word in function.name.lower() for word in _MEASURES):
        return False
    holder = source.tree.parent(source.tree.parent(call) or call)
    if not isinstance(holder, ast.With):
        return False
    if every_step(source, call) and _goes_backward(source, holder):
        return True
    inside = set(ast.walk(holder))
    stops = any(isinstance(node, ast.Break) for node in inside)
    loops = {r.loop for r in source.script.steps if r.loop is not None and r.backward}
    return not stops and bool(loops & set(reached(source, holder)))


def _goes_backward(source: Source, holder: ast.AST) -> bool:
    steps = in_steps(source)
    return any(method(node) == "backward" and node in steps for node in reached(source, holder))
