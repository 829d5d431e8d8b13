"""The parent's end of the control channel: messages of all of a trial's processes, in one queue."""

import contextlib
import json
import queue
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.seam.wire import short_address


@dataclass(frozen=True)
class Message:
    """One message, the connection and moment it came by; `gone` when that connection ended."""

    type: str
    fields: dict[str, Any]
    peer: "Peer"
    at: float = field(default_factory=time.monotonic)


class Peer:
    """One process of the trial."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, **fields: object) -> None:
        """Send one order; a process that is gone is noticed elsewhere."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(fields).encode() + b"\n")


class Channel:
    """Listens on a Unix socket in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "control")
        self.messages: queue.Queue[Message] = queue.Queue()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_address(self.address) as address:
            self._server.bind(address)
        self._server.listen(256)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening; whoever waits for an order sees the end of the line."""
        for connection in (self._server, *self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._open.append(connection)
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        peer = Peer(connection)
        with contextlib.suppress(OSError, ValueError), connection.makefile("rb") as lines:
            for line in lines:
                fields = json.loads(line)
                kind = fields.pop("type")
                self.messages.put(Message(kind, fields, peer))
        self.messages.put(Message("gone", {}, peer))
