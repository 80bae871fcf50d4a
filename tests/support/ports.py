"""Loopback ports for the servers of tests: no two test processes on one machine are given the same.

A port that the system chooses for a probe belongs to nobody once the probe is closed: another test process, or any
outgoing connection, may have it before the server does. So each process takes a block of ports below those of outgoing
connections, for as long as it lives, and gives them out in turn.
"""

import errno
import itertools
import socket
from collections.abc import Iterator
from functools import cache

FIRST, LAST, BLOCK = 12_288, 32_768, 256


def free_port() -> int:
    """A port that nobody listens on."""
    return next(port for port in _ports() if _is_free(port))


def free_ports(count: int) -> list[int]:
    """So many different ports that nobody listens on."""
    return [free_port() for _ in range(count)]


@cache
def _ports() -> Iterator[int]:
    """The ports of this process's block, again and again. Its first port, taken for UDP, says whose the block is."""
    for first in range(FIRST, LAST, BLOCK):
        owner = socket.socket(type=socket.SOCK_DGRAM)
        try:
            owner.bind(("127.0.0.1", first))
        except OSError as error:
            owner.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        _OWNERS.append(owner)
        return itertools.cycle(range(first + 1, first + BLOCK))
    raise AssertionError(f"every block of ports from {FIRST} to {LAST} is taken")


_OWNERS: list[socket.socket] = []
"""Kept open until the process ends; a child has none of them."""


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
