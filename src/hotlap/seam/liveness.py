"""Whether an object that was passed to a call can be seen by anybody afterwards.

Two witnesses: how many references there are, and, if the one beyond the call's own is a local
variable of the caller, whether the caller's bytecode can read it again.
"""

import dis
import sys
from functools import cache
from types import CodeType, FrameType
from typing import Any


def owners(thing: Any) -> int:
    """References to an argument, counted from inside the function that got it."""
    return sys.getrefcount(thing)


def used_later(thing: Any, count: int, frame: FrameType | None) -> bool:
    """Whether `thing`, with `count` owners seen by the callee, outlives the call from `frame`."""
    passed, local = _calibrated()
    if count <= passed:
        return False
    if count > local or frame is None:
        return True
    code = frame.f_code
    if not code.co_flags & 0x02:  # not a function's locals: a module's or a class's names stay
        return True
    names = [name for name, value in frame.f_locals.items() if value is thing]
    return len(names) != 1 or names[0] not in _dead(code, frame.f_lasti)


@cache
def _dead(code: CodeType, at: int) -> frozenset[str]:
    """Local variables that are not read after the instruction at `at`, on any path."""
    if code.co_flags & 0x2A0:  # generators and coroutines
        return frozenset()
    later, back = set[str](), False
    for instruction in dis.get_instructions(code):
        if instruction.offset <= at:
            continue
        if instruction.opname.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD")):
            back = back or int(instruction.argval) <= at
        if "FAST" in instruction.opname:
            later |= _names(instruction.argval)
    captured = {*code.co_cellvars, *code.co_freevars}
    return frozenset() if back else frozenset(set(code.co_varnames) - later - captured)


def _names(value: Any) -> set[str]:
    return set(value) if isinstance(value, tuple) else {str(value)}


@cache
def _calibrated() -> tuple[int, int]:
    """Owners that this Python's callee sees: of a temporary, and of one caller's local."""

    def callee(data: Any, *args: Any, **kwargs: Any) -> int:
        return owners(data)

    def with_local() -> int:
        held = bytearray(8)
        return callee(held)

    return callee(bytearray(8)), with_local()
