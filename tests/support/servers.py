"""The servers that the conformance suites run against: the embedded Valkey, Redis where it is installed, a cluster."""

import re
import shutil
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ingest.embedded.valkey import EmbeddedValkey
from tests.support.ports import free_port, free_ports
from tools.valkey_nodes import Process, ValkeyCluster

OLDEST_REDIS = 7


class Server(Protocol):
    """What tests know of a server: where it is."""

    @property
    def url(self) -> str: ...


class Cluster(ValkeyCluster):
    """A Valkey cluster on free ports."""

    def __init__(self, folder: Path, primaries: int = 3, *, replicas: bool = False) -> None:
        ports = free_ports(2 * primaries * (1 + replicas))
        super().__init__(folder, ports, primaries=primaries, replicas=replicas)


def installed_redis() -> str | None:
    """The path of a Redis server that is new enough, if one is installed."""
    for name in ("redis-server", "/usr/bin/redis-server"):
        path = shutil.which(name)
        if path is None:
            continue
        version = re.search(r"v=(\d+)\.", subprocess.run([path, "--version"], capture_output=True, text=True).stdout)
        if version and int(version[1]) >= OLDEST_REDIS:
            return path
    return None


SERVERS: Sequence[str] = ("valkey", *(["redis"] if installed_redis() else []), "cluster")
"""The names that `serving` takes here."""


@contextmanager
def serving(name: str, folder: Path) -> Generator[Server]:
    """A server of this kind, with its data in `folder`; stopped afterwards."""
    server = _SERVERS[name](folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _redis(folder: Path) -> Process:
    return Process(installed_redis() or "redis-server", folder, free_port())


_SERVERS: dict[str, Callable[[Path], "EmbeddedValkey | Process | Cluster"]] = {
    "valkey": EmbeddedValkey,
    "redis": _redis,
    "cluster": Cluster,
}
