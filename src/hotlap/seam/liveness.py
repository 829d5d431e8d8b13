"""Whether an object that was passed to a call can be seen by anybody afterwards.

Two signs: how many references there are, and, if the only one beyond the call's own is a local
variable of the caller, whether the caller's bytecode can read that variable again.
"""

import dis
import sys
from functools import cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any

RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def owners(thing: object) -> int:
    """Count the references to an argument, from inside the function that got it."""
    return sys.getrefcount(thing)


def used_later(count: int, frame: FrameType) -> bool:
    """Whether the first argument of the call at `frame` outlives it.

    `count` is what `owners` said in the callee, whose signature is (thing, *args, **kwargs).
    """
    temporary, local = _calibrated()
    if count <= temporary:
        return False
    return count > local or not _last_use(frame.f_code, frame.f_lasti)


@cache
def _last_use(code: CodeType, at: int) -> bool:
    """Whether the call at `at` takes a local variable that is not read after it, on any path."""
    if not code.co_flags & CO_OPTIMIZED or code.co_flags & RESUMED:
        return False
    instructions = list(dis.get_instructions(code))
    at = max(i.offset for i in instructions if i.offset <= at)  # `at` may be the call's own cache
    name = _first_argument(instructions, at)
    if name is None or name in code.co_cellvars or name in code.co_freevars:
        return False
    return not any(_reads_or_returns(i, name, at) for i in instructions if i.offset > at)


def _first_argument(instructions: list[dis.Instruction], at: int) -> str | None:
    """The local variable that the call at `at` has as its first argument; None if it has none."""
    call = next((i for i in instructions if i.offset == at), None)
    if call is None or _begin(call) is None:
        return None
    begin, end = _begin(call), (call.positions.end_lineno, call.positions.end_col_offset)  # type: ignore[union-attr]
    inside = [i for i in instructions if i.offset < at and _within(i, begin, end)]
    if not inside or not inside[0].opname.startswith("LOAD_FAST"):
        return None
    alone = sum(_begin(i) == _begin(inside[0]) for i in inside) == 1
    return inside[0].argval if alone and isinstance(inside[0].argval, str) else None


def _within(instruction: dis.Instruction, begin: Any, end: Any) -> bool:
    """Whether it belongs to the arguments: behind the callee, before the call's end."""
    here = _begin(instruction)
    return here is not None and bool(begin < here < end)


def _begin(instruction: dis.Instruction) -> tuple[int, int] | None:
    positions = instruction.positions
    if positions is None or positions.lineno is None or positions.col_offset is None:
        return None
    return positions.lineno, positions.col_offset


def _reads_or_returns(instruction: dis.Instruction, name: str, at: int) -> bool:
    """Whether an instruction after the call touches the variable, or jumps back before the call."""
    if "JUMP_BACKWARD" in instruction.opname:
        return int(instruction.argval) <= at
    if "FAST" not in instruction.opname:
        return False
    value = instruction.argval
    return name in value if isinstance(value, tuple) else bool(name == value)


@cache
def _calibrated() -> tuple[int, int]:
    """Owners that this Python's callee sees: of a temporary, and of one caller's local."""

    def callee(data: object, *args: object, **kwargs: object) -> int:
        return owners(data)

    def with_local() -> int:
        held = bytearray(8)
        return callee(held)

    return callee(bytearray(8)), with_local()
