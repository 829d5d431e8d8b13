"""How the work is spread over devices, and what each step says to them."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import (
    argument,
    every_step,
    is_constant,
    name_of,
    trainers,
    unconditional,
)
from hotlap.source.found import Spread
from hotlap.source.kinds import MODEL
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, receiver, text

_DP = ("torch.nn.DataParallel", "torch.nn.parallel.data_parallel",
       "torch.nn.parallel.data_parallel.data_parallel")  # fmt: skip
_EMPTY = tuple(f"torch.{kind}.empty_cache" for kind in ("cuda", "mps", "xpu", "accelerator"))
_SYNC = tuple(f"torch.{kind}.synchronize" for kind in ("cuda", "mps", "xpu", "accelerator"))
_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "time.perf_counter_ns",
           "timeit.default_timer", "time.time_ns", "time.process_time")  # fmt: skip


def data_parallel(source: Source, _: Technique) -> Iterator[Spread]:
    """`DataParallel`, by torch or by a Lightning trainer."""
    for call in source.calls(*_DP):
        yield Spread(call, call, hint=not unconditional(source, call))
    for call in trainers(source):
        for name in ("strategy", "accelerator", "distributed_backend"):
            value = keyword(call, name)
            if isinstance(value, ast.Constant) and value.value == "dp":
                yield Spread(value, value)


def cache_emptied_in_step(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`empty_cache()` at each step."""
    yield from (call for call in source.calls(*_EMPTY) if every_step(source, call))


def collected_in_step(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`gc.collect()` at each step."""
    yield from (call for call in source.calls("gc.collect") if every_step(source, call))


def synchronize_in_step(source: Source, _: Technique) -> Iterator[ast.AST]:
    """The device waited for at each step, and not to read a clock."""
    calls = source.calls(*_SYNC)
    for call in source.tree.methods.get("synchronize", []):
        owner = receiver(call)
        if isinstance(owner, ast.Call) and method(owner) == "current_stream":
            calls.append(call)
    yield from (c for c in calls if every_step(source, c) and not _timed(source, c))


def model_moved_in_step(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A model sent to the device at each step, and not away from it in between."""
    for name in ("to", "cuda"):
        for call in source.tree.methods.get(name, []):
            owner = receiver(call)
            if owner is None or not text(owner) or not source.values.are(owner, MODEL):
                continue
            if every_step(source, call) and _moves(call) and not _elsewhere(source, call, owner):
                yield call


def _timed(source: Source, call: ast.Call) -> bool:
    """Whether a clock is read in a statement next to this one."""
    statement = source.tree.statement(call)
    body = source.tree.siblings(statement)
    at = body.index(statement)
    plain = [one for one in body[max(0, at - 2) : at + 3] if not isinstance(one, ast.If)]
    near = [node for one in plain for node in ast.walk(one)]
    return any(
        isinstance(node, ast.Call)
        and (source.names.of(node.func) in _CLOCKS or method(node) in {"record", "elapsed_time"})
        for node in near
    )


def _moves(call: ast.Call) -> bool:
    """To a device that stays: not to the CPU, not to another type or layout only."""
    target = argument(call, "device", 0)
    if method(call) == "cuda":
        return True
    if target is None or (isinstance(target, ast.Constant) and target.value == "cpu"):
        return False
    return "dtype" not in name_of(target) and not name_of(target).startswith("torch.")


def _elsewhere(source: Source, call: ast.Call, owner: ast.expr) -> bool:
    """Whether the model is made in the step, or leaves the device in it."""
    body = source.loops.step_of(call)
    if body is None:
        return True
    if isinstance(owner, ast.Name | ast.Attribute):
        for definition in source.values.flow.reaching(owner):
            inside = definition.value is not None and source.tree.inside(definition.target, body)
            if inside and definition.value is not call:
                return True
    return any(
        name_of(receiver(node)) == text(owner)
        and (method(node) == "cpu" or _to_cpu(node))
        for node in ast.walk(body)
        if isinstance(node, ast.Call)
    )  # fmt: skip


def _to_cpu(node: ast.Call) -> bool:
    if method(node) != "to" or not node.args:
        return False
    target = node.args[0]
    return is_constant(target, "cpu") or "cpu" in ast.unparse(target)
