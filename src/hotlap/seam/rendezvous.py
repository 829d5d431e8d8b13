"""A port of its own for each trial, where a program names the one at which its ranks meet.

The sides of a race run at the same time, and of two processes one alone can listen at a port. All
ways to name a port (`torchrun --master-port`, `MASTER_PORT`, `tcp://` addresses, the default of a
launcher) end in a `TCPStore`. There another port is put in the place of the one that was asked
for, the same one in every process of the trial: the first that asks chooses it.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING

from hotlap.seam.hook import when_imported
from hotlap.seam.patch import replaced, resolve

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore
    from torch.distributed.elastic.rendezvous import RendezvousParameters

_ARGUMENTS = (
    "host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant",
    "master_listen_fd",
)  # fmt: skip
"""Of `TCPStore`, in their order: it has no signature that could be asked."""


class Ports:
    """Which port stands for which; a link in the trial's `folder` says it to all its processes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._reserved: list[int] = []

    def of(self, asked: int) -> int:
        """The port that stands for `asked`; the first call in the trial chooses a free one."""
        with suppress(FileNotFoundError):
            return int(os.readlink(self._link(asked)))
        chosen = self._reserve()
        self.keep(chosen)  # who reads it off a store may ask for it in turn
        return self._agree(asked, chosen)

    def keep(self, port: int) -> None:
        """Let the port stand for itself."""
        self._agree(port, port)

    def _agree(self, asked: int, port: int) -> int:
        try:
            os.symlink(str(port), self._link(asked))
        except FileExistsError:
            return int(os.readlink(self._link(asked)))
        return port

    def _reserve(self) -> int:
        """A free port, which the system gives to nobody else while this process lives.

        The socket stays bound and never listens, so that a store may listen at the port.
        """
        with socket.socket() as reserved:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("", 0))
            port = int(reserved.getsockname()[1])
            self._reserved.append(reserved.detach())  # no warning of it as the process ends
        return port

    def release(self) -> None:
        """Give up the ports that this process has chosen."""
        for reserved in self._reserved:
            os.close(reserved)

    def _link(self, port: int) -> str:
        return os.path.join(self._folder, f"port-{port}")


@contextmanager
def ports_of_its_own(folder: str) -> Iterator[None]:
    """Let the ranks of this trial meet at another port of this machine than those of any other.

    Ranks on several nodes keep theirs: the other nodes could not know another one.
    """
    from torch import distributed

    if not distributed.is_available():
        yield
        return
    ports = Ports(folder)
    with ExitStack() as stack:
        stack.callback(ports.release)
        made = resolve("torch.distributed.TCPStore.__init__")
        stack.enter_context(replaced(*made, lambda original: _store(original, ports)))

        def elastic(module: ModuleType) -> None:
            owner = module.RendezvousHandlerRegistry
            stack.enter_context(
                replaced(owner, "create_handler", lambda original: _handler(original, ports))
            )

        when_imported("torch.distributed.elastic.rendezvous.api", elastic)
        yield


def _store(original: Callable[..., object], ports: Ports) -> object:
    def __init__(store: "TCPStore", *args: object, **kwargs: object) -> None:  # noqa: N807
        given = dict(zip(_ARGUMENTS, args, strict=False)) | kwargs
        host, asked = given.get("host_name"), given.get("port")
        if isinstance(host, str) and isinstance(asked, int) and asked > 0:
            if given.get("master_listen_fd") is not None:  # the program listens there already
                ports.keep(asked)
            elif _is_here(host) and len(args) > 1:
                args = (host, ports.of(asked), *args[2:])
            elif _is_here(host):
                kwargs["port"] = ports.of(asked)
        original(store, *args, **kwargs)
        if asked == 0:  # the other ranks ask for the port that the system chose
            ports.keep(store.port)

    return __init__


def _handler(original: Callable[..., object], ports: Ports) -> object:
    def create_handler(registry: object, params: "RendezvousParameters") -> object:
        from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as c10d
        from torch.distributed.elastic.rendezvous import utils

        if params.max_nodes > 1:
            with suppress(ValueError):  # which torch raises in its turn
                named = utils.parse_rendezvous_endpoint(params.endpoint, c10d.DEFAULT_PORT)
                ports.keep(named[1])
        return original(registry, params)

    return create_handler


def _is_here(host: str) -> bool:
    """Whether a name or an address is one of this machine's."""
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM
        ):
            with suppress(OSError), socket.socket(family, kind, protocol) as tried:
                tried.bind(address)
                return True
    return False
