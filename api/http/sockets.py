"""Sockets that listen. Nothing here loads a web framework, because the process of `mnemolog up` does not need one."""

import errno
import socket

from ingest.errors import ServerStartFailed
from ingest.platform.addresses import LOOPBACK

_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def bind(host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """Listening sockets; a loopback name binds both loopback addresses, because clients use `localhost`.

    `shared`: other processes of this server listen on the same port.

    Raises ServerStartFailed if the port is in use.
    """
    hosts = ("127.0.0.1", "::1") if host in LOOPBACK else (host,)
    sockets: list[socket.socket] = []
    for address in hosts:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            listening = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # a machine without IPv6
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                # the kernel distributes connections over the listening processes
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                # otherwise binding `::` also binds the IPv4 address, and the second bind fails
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((address, port))
        except OSError as error:
            listening.close()
            if error.errno in _NO_SUCH_ADDRESS and sockets:
                continue
            problem = "already in use" if error.errno == errno.EADDRINUSE else f"not available: {error.strerror}"
            raise ServerStartFailed(f"port {port} on {address} is {problem}") from None
        sockets.append(listening)
    if not sockets:
        raise ServerStartFailed(f"this machine has no address {host}")
    return sockets
