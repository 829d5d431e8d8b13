"""The child's end of the control channel: JSON lines over a Unix socket.

Not the program's stdin or stdout, so that these stay the user's. A process that was forked opens a
connection of its own.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader

from hotlap.core.protocol import Order

LONGEST_ADDRESS_BYTES = 107
"""What `struct sockaddr_un` has room for."""


@contextmanager
def short_address(path: str) -> Iterator[str]:
    """An address of the Unix socket at `path`, by way of /proc where the path is too long."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS_BYTES:
        yield path
        return
    folder, name = os.path.split(path)
    handle = os.open(folder, os.O_PATH)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)


class Wire:
    """A connection to the parent, opened at the first message.

    A program may close every descriptor that it does not know, as daemons do, and its own next file
    has the number then: each message looks whether the descriptor is the connection still.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket: socket.socket | None = None
        self._reader: BufferedReader | None = None
        self._pid = 0
        self._identity = (0, 0)

    def send(self, kind: str, **fields: object) -> None:
        """Send one message; a parent that is gone is no error of the user's program."""
        line = json.dumps({"type": kind, **fields}).encode() + b"\n"
        try:
            self._connection().sendall(line)
        except OSError:
            self._let_go()

    def receive(self) -> Order | None:
        """Wait for one order; None when the parent is gone."""
        if self._socket is None or self._reader is None:
            return None
        try:
            line = self._reader.readline()
        except OSError:
            return None
        return json.loads(line) if line else None

    def _connection(self) -> socket.socket:
        if self._pid != os.getpid() or not self._is_open():
            self._let_go()
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._identity = _identity(self._socket.fileno())
            with short_address(self.address) as address:
                self._socket.connect(address)
            self._reader = self._socket.makefile("rb")
            self._pid = os.getpid()
            hello = {"type": "hello", "pid": self._pid, "argv": sys.argv}
            self._socket.sendall(json.dumps(hello).encode() + b"\n")
        return self._socket

    def _is_open(self) -> bool:
        try:
            return self._socket is not None and _identity(self._socket.fileno()) == self._identity
        except OSError:
            return False

    def _let_go(self) -> None:
        """Close the connection, but no descriptor that is the program's by now."""
        if self._socket is not None and not self._is_open():
            self._socket.detach()
        self._socket = self._reader = None


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
