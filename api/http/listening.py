"""Where a server listens: the ports its settings ask for, and the sockets that are bound there."""

import errno
import socket

from api.dialects.registry import DIALECTS, listeners_of
from ingest.errors import InvalidSetting, ServerStartFailed
from ingest.platform.addresses import LOOPBACK
from ingest.platform.settings import Settings

PORT_CLIENTS = {"MNEMOLOG_PORT": "native and agentmemory"} | {
    listener.variable: listener.clients for one in DIALECTS.values() for listener in one.listeners
}
"""Whose clients call the port that a variable names."""
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def ports_of(settings: Settings) -> dict[int, str]:
    """Every port the settings ask for, with the variable that names it; raises InvalidSetting when two name one."""
    wanted = [("MNEMOLOG_PORT", (settings.port,))]
    wanted += [(one.variable, one.ports(settings)) for one in listeners_of(settings)]
    found: dict[int, str] = {}
    for variable, ports in wanted:
        for port in ports:
            if found.setdefault(port, variable) != variable:
                raise InvalidSetting(f"{found[port]} and {variable} both name port {port}")
    return found


def ports_of_one(settings: Settings) -> frozenset[int]:
    """The ports whose clients have sessions in the memory of a process: of several processes, the first has them."""
    return frozenset(port for one in listeners_of(settings) if one.has_sessions for port in one.ports(settings))


def bind(host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """Sockets that listen there; for a loopback name on both loopbacks, since clients say `localhost`.

    `shared`: other processes of this server listen there, too.

    Raises ServerStartFailed when another program has the port.
    """
    hosts = ("127.0.0.1", "::1") if host in LOOPBACK else (host,)
    found: list[socket.socket] = []
    for one in hosts:
        family = socket.AF_INET6 if ":" in one else socket.AF_INET
        try:
            listening = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # a machine without IPv6
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((one, port))
        except OSError as error:
            listening.close()
            if error.errno in _NO_SUCH_ADDRESS and found:
                continue
            raise ServerStartFailed(f"port {port} on {one} cannot be had: {error.strerror}") from None
        found.append(listening)
    if not found:
        raise ServerStartFailed(f"there is no address {host} on this machine")
    return found
