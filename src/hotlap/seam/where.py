"""Which line of the user's own code is responsible for a call."""

import os
import site
import sys
import sysconfig
from functools import lru_cache
from types import CodeType, FrameType

from hotlap.core.spec import NOTEBOOK_SHIM
from hotlap.seam.tracebacks import OURS

_LIBRARIES = tuple(
    {
        os.path.realpath(folder) + os.sep
        for folder in (
            *site.getsitepackages(),
            site.getusersitepackages(),
            sysconfig.get_paths()["stdlib"],
            OURS.rstrip(os.sep),
        )
    }
)
_known: dict[CodeType, bool] = {}
DEEPEST = 32

Stack = tuple[tuple[CodeType, int, int], ...]
"""Lines of the user's code, the innermost first: function, line number and the offset of the
bytecode instruction that is running (`f_lasti`), which says which call of the line it is."""


def is_users(code: CodeType) -> bool:
    """Whether code was written by the user: not installed, generated, built in or ours."""
    verdict = _known.get(code)
    if verdict is None:
        verdict = _known[code] = is_users_file(code.co_filename)
    return verdict


def is_users_file(name: str) -> bool:
    """Whether a file of that name is the user's own."""
    path = os.path.realpath(name)
    ours = path.startswith(_LIBRARIES) or path.endswith(f"{NOTEBOOK_SHIM}.py")
    return not (name.startswith("<") or ours or _is_generated(path))


def _is_generated(path: str) -> bool:
    """Whether torch.compile wrote the file, into its cache."""
    if folder := os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return path.startswith(os.path.realpath(folder) + os.sep)
    return f"{os.sep}torchinductor_" in path


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code at or above `frame`."""
    while frame is not None and not is_users(frame.f_code):
        frame = frame.f_back
    return frame


def line_of(frame: FrameType) -> int:
    """The line that runs; of an instruction that the compiler gave none, the one before it."""
    if frame.f_lineno is not None:
        return frame.f_lineno
    code, at = frame.f_code, frame.f_lasti
    before = [line for begin, _, line in code.co_lines() if line is not None and begin <= at]
    return before[-1] if before else code.co_firstlineno


def users_stack(frame: FrameType | None) -> Stack:
    """The user's lines at and above `frame`, at most so many."""
    found: list[tuple[CodeType, int, int]] = []
    while frame is not None and len(found) < DEEPEST:
        if is_users(frame.f_code):
            found.append((frame.f_code, line_of(frame), frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


CALLERS = 4
"""How many lines above a model's call are looked at for one that only the evaluation runs."""
Lines = tuple[tuple[CodeType, int], ...]
"""Functions and line numbers of the user's code, the innermost first."""


def users_lines(frame: FrameType | None, most: int) -> Lines:
    """The user's lines at and above `frame`, at most so many: `users_stack` for hot paths."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < most:
        if is_users(frame.f_code):
            found.append((frame.f_code, line_of(frame)))
        frame = frame.f_back
    return tuple(found)


def modules(frame: FrameType | None) -> list[str]:
    """The names of the modules at and above `frame`, the innermost first."""
    found: list[str] = []
    while frame is not None:
        found.append(str(frame.f_globals.get("__name__", "")))
        frame = frame.f_back
    return found


def place(frame: FrameType | None = None) -> str:
    """`path/from/cwd.py:line` of the user's line that led here; empty if there is none."""
    found = users_frame(frame or sys._getframe(1))
    return "" if found is None else f"{short(found.f_code.co_filename)}:{line_of(found)}"


def short(path: str) -> str:
    """The path as the user would type it: relative to the working directory when below it."""
    return _below(path, os.getcwd())


@lru_cache(maxsize=1024)
def _below(path: str, folder: str) -> str:
    full = os.path.abspath(path)
    try:
        relative = os.path.relpath(full, folder)
    except ValueError:
        return full
    return full if relative.startswith("..") else relative
