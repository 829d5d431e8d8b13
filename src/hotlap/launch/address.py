"""The address that the other nodes see, also where this machine's name does not resolve."""

import socket

import psutil

LOOPBACK = "127.0.0.1"


def towards(host: str, port: int) -> str | None:
    """The local address that packets to `host` leave from; None if there is no way to it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port or 1, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # of a datagram socket: nothing is sent
            return str(probe.getsockname()[0])
    except OSError:
        return None


def interface(address: str) -> str | None:
    """The network interface that has an address; None if there is none."""
    for name, known in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in known):
            return str(name)
    return None


def split(endpoint: str) -> tuple[str, int]:
    """Part `host:port`, `[v6]:port` or `host`; the port is 0 where there is none."""
    host, colon, port = endpoint.rpartition(":")
    if not colon or not port.isdigit():
        host, port = endpoint, "0"
    return host.strip("[]"), int(port)
