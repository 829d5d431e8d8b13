"""Hooks that pile up on a module: a step registers the same function again and again."""

from collections import Counter
from collections.abc import Iterable
from types import CodeType

from torch.nn import Module

from hotlap.core.protocol import PiledHooks
from hotlap.seam.where import is_users

MANY = 8
"""Hooks of one function on one module from which they pile up: one that is meant is one."""
KINDS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def piled_hooks(roots: Iterable[Module]) -> list[PiledHooks]:
    """The user's functions that are hooks of one module many times, the most frequent first."""
    most: Counter[CodeType] = Counter()
    for module in {one for root in roots for one in root.modules()}:
        for kind in KINDS:
            codes = (
                getattr(hook, "__code__", None) for hook in vars(module).get(kind, {}).values()
            )
            for code, times in Counter(code for code in codes if code is not None).items():
                most[code] = max(most[code], times)
    return [
        PiledHooks(code.co_filename, code.co_firstlineno, _last_line(code), times)
        for code, times in most.most_common()
        if times >= MANY and is_users(code)
    ]


def _last_line(code: CodeType) -> int:
    return max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno)
