"""Has the kernel refuse every write outside of given directories (Landlock, Linux 5.13 on).

Runs in the child, before `exec`: system calls through ctypes, nothing else.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Sequence

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38
# Linux's include/uapi/linux/landlock.h; reading and executing stay free.
WRITE_FILE = 1 << 1
REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
REFER, TRUNCATE = 1 << 13, 1 << 14
ON_FILES = WRITE_FILE | TRUNCATE
_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The version of Landlock's interface that the kernel has; 0: none."""
    return max(0, int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION)))


def handled(abi: int) -> int:
    """The rights that a ruleset of this version takes away."""
    rights = WRITE_FILE | REMOVE_AND_MAKE
    return rights | (REFER if abi >= 2 else 0) | (TRUNCATE if abi >= 3 else 0)


def restrict(writable: Sequence[str]) -> None:
    """Allow writes below these paths only, for this process and all that it starts.

    Raises:
        OSError: the kernel refuses.
    """
    rights = handled(version())
    ruleset = _call(
        CREATE_RULESET, ctypes.c_char_p(struct.pack("=Q", rights)), ctypes.c_size_t(8), 0
    )
    for path in writable:
        with contextlib.suppress(FileNotFoundError):
            _allow(ruleset, path, rights)
    if _libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    _call(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = rights if os.path.isdir(f"/proc/self/fd/{place}") else rights & ON_FILES
        rule = ctypes.c_char_p(struct.pack("=Qi", allowed, place))
        _call(ADD_RULE, ruleset, PATH_BENEATH, rule, 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
