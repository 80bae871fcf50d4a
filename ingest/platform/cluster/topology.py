"""The slot map of a cluster: read from the cluster, and read again when it turns out to be outdated."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from redis.crc import REDIS_CLUSTER_HASH_SLOTS
from redis.exceptions import ConnectionError, MovedError, RedisError

from ingest.errors import reason_of
from ingest.platform.tasks import end

logger = logging.getLogger(__name__)

ASK_WITHIN_S = 2.0
"""A node that does not describe the cluster within this time is skipped."""
ASK_ANOTHER_AFTER_S = 0.1
"""A node that has not responded by then may hang, so another node is also asked."""
LISTEN_EVERY_S = 0.25
"""How often to check whether an unresponsive node has recovered, or another node has its slots."""

NodeClient: TypeAlias = Any
"""redis-py's client of one node."""


class ClusterChanged(ConnectionError):
    """The cluster could not be asked just now: a slot moves, has no primary yet, or too few nodes are up. Try again."""


class NodeSilent(ClusterChanged):
    """The node of a slot did not answer in time, and is asked nothing until it does: nothing was carried out."""


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class NodePlace(NamedTuple):
    """A primary, as known at a version of the topology."""

    address: Address
    client: NodeClient
    version: int


class Topology:
    """The primaries of one cluster with a client each. Bounded: a client for each primary and each seed; clients of
    nodes that are neither any more are closed."""

    def __init__(self, seeds: Sequence[Address], open_client: Callable[[Address], NodeClient]) -> None:
        self._seeds, self._open = tuple(dict.fromkeys(seeds)), open_client
        self._clients: dict[Address, NodeClient] = {}
        self._slots: list[Address | None] = []
        self._others: frozenset[Address] = frozenset()
        """Nodes that are not primaries, but know the primaries."""
        self._version = 0
        self._doubted: Address | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._silent: dict[Address, asyncio.Task[None]] = {}
        """Nodes that did not respond in time, with the task that monitors each."""

    @property
    def clients(self) -> list[NodeClient]:
        """Every client that is open."""
        return list(self._clients.values())

    @property
    def is_known(self) -> bool:
        """Whether the cluster was asked at least once."""
        return bool(self._slots)

    async def ready(self) -> None:
        """Return when the cluster was asked at least once; raises ConnectionError when no node answers."""
        if not self._slots or self._doubted is not None:
            await self.refresh(self._version, without=self._doubted)

    def doubt(self, node: NodePlace) -> None:
        """A caller gave up waiting for a node: the topology is read again before the next command."""
        if node.version == self._version:
            self._doubted = node.address

    def address_of(self, slot: int) -> Address | None:
        """Where the primary of a slot is, as far as is known; None when it has none."""
        return self._slots[slot] if self._slots else None

    def place_of(self, slot: int) -> NodePlace:
        """The primary of a slot, as far as is known; raises ClusterChanged when it has none, or that is silent."""
        address = self.address_of(slot)
        if address is None:
            raise ClusterChanged(f"no primary has slot {slot}")
        if address in self._silent:
            raise NodeSilent(f"{address} is not responding")
        return NodePlace(address, self.client_at(address), self._version)

    def primaries(self) -> list[NodePlace]:
        """Every primary that has slots, in the order of the slots."""
        addresses = dict.fromkeys(address for address in self._slots if address is not None)
        return [NodePlace(address, self.client_at(address), self._version) for address in addresses]

    def moved(self, error: MovedError, by: Address) -> None:
        """Believe a node that named another one as the primary of a slot."""
        redirection: Any = error
        self._slots[int(redirection.slot_id)] = Address(redirection.host or by.host, int(redirection.port))

    def silence(self, node: NodePlace) -> None:
        """Send a node nothing until it answers again: every caller would wait as long as the last one."""
        if node.address not in self._silent:
            listening = asyncio.create_task(self._listen_for(node.address), name=f"cluster node {node.address}")
            self._silent[node.address] = listening

    def is_silent(self, address: Address) -> bool:
        """Whether a node is asked nothing at the moment."""
        return address in self._silent

    async def refresh(self, seen: int, without: Address | None = None) -> None:
        """Read the topology again, unless that was done since version `seen`; concurrent callers share the answer.
        `without` is asked last: it has just failed. Raises ConnectionError when no node answers."""
        if self._version != seen:
            return
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(without), name="cluster topology")
            self._refreshing.add_done_callback(self._refreshed)
        await asyncio.shield(self._refreshing)

    async def aclose(self) -> None:
        """Close every connection."""
        await end(*self._silent.values(), self._refreshing)
        clients, self._clients = self.clients, {}
        for client in clients:
            await client.aclose()

    def _refreshed(self, task: "asyncio.Task[None]") -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()  # its waiters have the error; there may be none left

    async def _refresh(self, without: Address | None) -> None:
        best: _View | None = None
        faults: list[str] = []
        to_ask, asking = self._to_ask(without), dict[asyncio.Task[_View], Address]()
        try:
            while to_ask or asking:
                if to_ask:
                    address = to_ask.pop(0)
                    asking[asyncio.create_task(self._view_of(address), name=f"slots of {address}")] = address
                done, _ = await asyncio.wait(
                    asking, timeout=ASK_ANOTHER_AFTER_S if to_ask else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    address = asking.pop(task)
                    try:
                        view = task.result()
                    except (RedisError, OSError, TimeoutError) as error:
                        faults.append(f"{address}: {reason_of(error)}")
                        continue
                    if best is None or view.covered > best.covered:
                        best = view
                if best is not None:
                    if best.covered == REDIS_CLUSTER_HASH_SLOTS:
                        break
                    to_ask = [node for node in to_ask if not self.is_silent(node)]
        finally:
            await end(*asking)
        if best is None:
            raise ClusterChanged(f"no cluster node is responding: {'; '.join(faults)}")
        if self._slots and best.slots != self._slots:
            logger.info("cluster: the slots are on %s", ", ".join(map(str, best.primaries)))
        self._slots, self._others = best.slots, best.others
        self._version, self._doubted = self._version + 1, None
        await self._close_unused(best.primaries)

    async def _view_of(self, address: Address) -> "_View":
        async with asyncio.timeout(ASK_WITHIN_S):
            return _view(await self.client_at(address).execute_command("CLUSTER SLOTS"), address)

    async def _listen_for(self, address: Address) -> None:
        """Return when a silent node answers, or has no slots any more."""
        try:
            while True:
                await asyncio.sleep(LISTEN_EVERY_S)
                try:
                    async with asyncio.timeout(ASK_WITHIN_S):
                        await self.refresh(self._version, without=address)
                        if address in self._slots:
                            await self.client_at(address).execute_command("PING")
                    return
                except (RedisError, OSError) as error:
                    logger.debug("%s is still not responding: %s", address, error)
        finally:
            del self._silent[address]

    def _to_ask(self, without: Address | None) -> list[Address]:
        """Every node that is known, in any order: what one got wrong, another may know."""
        primaries = {address for address in self._slots if address is not None}
        nodes = list({*self._seeds, *primaries, *self._others} - {without})
        random.shuffle(nodes)
        nodes.sort(key=self.is_silent)
        return nodes if without is None else [*nodes, without]

    async def _close_unused(self, primaries: frozenset[Address]) -> None:
        """A command under way on a node that is no primary any more ends first; it is closed at a later refresh."""
        for address in self._clients.keys() - primaries - set(self._seeds):
            pool = self._clients[address].connection_pool
            if not pool._in_use_connections:
                await self._clients.pop(address).aclose()

    def client_at(self, address: Address) -> NodeClient:
        """The client of a node; opens it."""
        if address not in self._clients:
            self._clients[address] = self._open(address)
        return self._clients[address]


def down_nodes(answer: str) -> str:
    """Return which nodes are down, and how many primaries have no replica left; empty if none is down.

    `answer` is that of CLUSTER NODES: a line per node with its id, address, flags, primary and, from the ninth word on,
    its slots.
    """
    nodes = [line.split() for line in answer.splitlines()]
    down = sorted(node[1].partition("@")[0] for node in nodes if "fail" in node[2].split(","))
    running = [node for node in nodes if "fail" not in node[2].split(",")]
    replicated = {node[3] for node in running}
    alone = [node for node in running if len(node) > 8 and node[0] not in replicated]
    if not down:
        return ""
    names, primaries = ", ".join(down), len(alone)
    return f"{len(down)} of {len(nodes)} cluster nodes are down ({names}); {primaries} primaries have no replica"


class _View(NamedTuple):
    """What one node says of the cluster."""

    slots: list[Address | None]
    others: frozenset[Address]

    @property
    def covered(self) -> int:
        return sum(address is not None for address in self.slots)

    @property
    def primaries(self) -> frozenset[Address]:
        return frozenset(address for address in self.slots if address is not None)


def _view(ranges: Sequence[Sequence[Any]], source: Address) -> _View:
    """The answer to CLUSTER SLOTS: `[first, last, primary, replica...]`, a node being `[host, port, ...]`."""
    slots: list[Address | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
    others: set[Address] = set()
    for first, last, primary, *replicas in ranges:
        slots[first : last + 1] = [_address(primary, source)] * (last + 1 - first)
        others.update(other for other in (_address(replica, source) for replica in replicas) if other is not None)
    return _View(slots, frozenset(others))


def _address(node: Sequence[Any], source: Address) -> Address | None:
    host = (node[0] or b"").decode() or source.host  # a node leaves out its own host, and an unknown one is `?`
    return None if host == "?" else Address(host, int(node[1]))
