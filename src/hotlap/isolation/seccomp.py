"""Has the kernel ask the supervisor about calls that change files (seccomp, user notification).

Landlock does not know modes, owners, times, extended attributes and file flags, and does not say
what it refused. Calls that change these wait for the supervisor's answer (`refused_calls`); those
that open a file for writing, make or remove a directory, remove by `unlinkat` (as `rm` does) or
rename are shown to it and go on to Landlock. `unlink` is left out: torch calls it for each tensor
of a worker. io_uring changes attributes without a system call of its own: it is answered as on a
kernel that has none, and programs do without.
Linux's include/uapi/linux/seccomp.h; system calls through ctypes, nothing else.
"""

import ctypes
import errno
import os
import platform
import struct
from fcntl import ioctl
from typing import NamedTuple

SYSCALL = 317 if platform.machine() == "x86_64" else 277
SET_FILTER, GET_SIZES = 1, 3
NEW_LISTENER, SPEC_ALLOW, WAIT_KILLABLE = 1 << 3, 1 << 2, 1 << 5
RECEIVE, SEND = 0xC0502100, 0xC0182101
NOTIFICATION = struct.Struct("=QIIiIQ6Q")
RESPONSE = struct.Struct("=QqiI")
CONTINUE = 1
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _NOTIFY, _FAIL = 0x7FFF0000, 0x7FC00000, 0x00050000
IO_URING_SETUP = 425
SET_FLAGS, SET_PROJECT_FLAGS = 0x40086602, 0x401C5820  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_libc = ctypes.CDLL(None, use_errno=True)


class Call(NamedTuple):
    """Where a call's arguments name its files; -1: none.

    `places` are pairs of the arguments for a directory's descriptor and a path. `flags` is the
    argument that may say that a link itself is meant, as `link` says always. `refuse` is set for
    what Landlock lets through. `opened` is the argument with open's flags.
    """

    places: tuple[tuple[int, int], ...]
    flags: int = -1
    link: bool = False
    refuse: bool = True
    opened: int = -1
    requests: tuple[int, ...] = ()


_PATH, _LINK = Call(((-1, 0),)), Call(((-1, 0),), link=True)
_FILE = Call(((0, -1),))
_SEEN = {
    "openat": Call(((0, 1),), refuse=False, opened=2),
    "mkdirat": Call(((0, 1),), refuse=False),
    "unlinkat": Call(((0, 1),), refuse=False, link=True),
    "renameat2": Call(((0, 1), (2, 3)), refuse=False, link=True),
}
_CALLS = _SEEN | {
    "ioctl": Call(((0, -1),), requests=(SET_FLAGS, SET_PROJECT_FLAGS)),
    "fchmod": _FILE, "fchown": _FILE, "fsetxattr": _FILE, "fremovexattr": _FILE,
    "setxattr": _PATH, "removexattr": _PATH, "truncate": _PATH,
    "lsetxattr": _LINK, "lremovexattr": _LINK,
    "fchmodat": Call(((0, 1),)), "fchmodat2": Call(((0, 1),), 3),
    "fchownat": Call(((0, 1),), 4), "utimensat": Call(((0, 1),), 3),
    "setxattrat": Call(((0, 1),), 2), "removexattrat": Call(((0, 1),), 2),
    "file_setattr": Call(((0, 1),), 4),
    "chmod": _PATH, "chown": _PATH, "lchown": _LINK, "utime": _PATH, "utimes": _PATH,
    "futimesat": Call(((0, 1),)),
    "open": Call(((-1, 0),), refuse=False, opened=1), "creat": Call(((-1, 0),), refuse=False),
    "mkdir": Call(((-1, 0),), refuse=False), "rmdir": Call(((-1, 0),), refuse=False),
    "rename": Call(((-1, 0), (-1, 1)), refuse=False, link=True),
    "renameat": Call(((0, 1), (2, 3)), refuse=False, link=True),
}  # fmt: skip
_COMMON = {"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469}
_NUMBERS = {
    "x86_64": _COMMON | {
        "open": 2, "ioctl": 16, "truncate": 76, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85,
        "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "utime": 132,
        "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197,
        "lremovexattr": 198, "fremovexattr": 199, "utimes": 235, "openat": 257, "mkdirat": 258,
        "fchownat": 260, "futimesat": 261, "unlinkat": 263, "renameat": 264, "fchmodat": 268,
        "utimensat": 280, "renameat2": 316,
    },
    "aarch64": _COMMON | {
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
        "fremovexattr": 16, "ioctl": 29, "mkdirat": 34, "unlinkat": 35, "renameat": 38,
        "truncate": 45, "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55,
        "openat": 56, "utimensat": 88, "renameat2": 276,
    },
}  # fmt: skip
CALLS = {number: _CALLS[name] for name, number in _NUMBERS.get(platform.machine(), {}).items()}


def available() -> bool:
    """Whether this kernel notifies of system calls, on an architecture whose numbers are known."""
    if not CALLS:
        return False
    sizes = ctypes.create_string_buffer(6)
    if _libc.syscall(SYSCALL, GET_SIZES, 0, sizes):
        return False
    request, response, _ = struct.unpack("=HHH", sizes.raw)
    return (request, response) == (NOTIFICATION.size, RESPONSE.size)


def install() -> int:
    """Filter this process and all that it starts; return the descriptor that hears of their calls.

    `no_new_privs` must be set.

    Raises:
        OSError: the kernel refuses, or another listener hears of this process already.
    """
    program = _program()
    code = ctypes.create_string_buffer(program)
    filtered = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    for more in (WAIT_KILLABLE, 0):  # Linux 5.19 on: no signal interrupts a call that waits
        flags = NEW_LISTENER | SPEC_ALLOW | more
        listener = int(_libc.syscall(SYSCALL, SET_FILTER, flags, ctypes.c_char_p(filtered)))
        if listener >= 0:
            return listener
    number = ctypes.get_errno()
    raise OSError(number, f"seccomp: {os.strerror(number)}")


def _program() -> bytes:
    """The filter: each call of `CALLS` notifies, those that open only where they may write."""
    code = [(_LOAD, 0, 0, _ARCHITECTURE)]
    code += [(_JUMP_EQUAL, 1, 0, ARCHITECTURES[platform.machine()]), (_RETURN, 0, 0, _ALLOW)]
    code += [(_LOAD, 0, 0, _NUMBER), (_JUMP_EQUAL, 0, 1, IO_URING_SETUP)]
    code.append((_RETURN, 0, 0, _FAIL | errno.ENOSYS))
    for number, call in CALLS.items():
        if call.opened >= 0:
            asked = [(_LOAD, 0, 0, _ARGUMENTS + 8 * call.opened), (_JUMP_SET, 0, 1, _WRITES)]
        else:
            asked = [(_LOAD, 0, 0, _ARGUMENTS + 8)] if call.requests else []
            last = len(call.requests) - 1
            asked += [
                (_JUMP_EQUAL, last - at, int(at == last), request)
                for at, request in enumerate(call.requests)
            ]
        asked.append((_RETURN, 0, 0, _NOTIFY))
        code += [(_LOAD, 0, 0, _NUMBER), (_JUMP_EQUAL, 0, len(asked), number), *asked]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in code)


def receive(listener: int) -> tuple[int, int, int, tuple[int, ...]]:
    """The next call: its id, thread, number and arguments.

    Raises:
        OSError: the call was given up meanwhile, by a signal.
    """
    buffer = bytearray(NOTIFICATION.size)
    ioctl(listener, RECEIVE, buffer)
    found = NOTIFICATION.unpack(buffer)
    return found[0], found[1], found[3], found[6:]


def respond(listener: int, call: int, error: int = 0) -> None:
    """Let the call go on, or have it fail with this error number.

    Raises:
        OSError: the call was given up meanwhile.
    """
    flags = 0 if error else CONTINUE
    ioctl(listener, SEND, bytearray(RESPONSE.pack(call, 0, -error, flags)))
