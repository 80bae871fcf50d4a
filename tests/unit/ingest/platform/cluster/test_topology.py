"""Which primary has which slot, as nodes say that answer, stand still or refuse."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from ingest.platform.cluster import topology
from ingest.platform.cluster.topology import Address, ClusterChanged, Topology

NODES = [Address("127.0.0.1", port) for port in range(7001, 7007)]
WHOLE = [[0, 16383, [b"127.0.0.1", 7001]]]
HALF = [[0, 8191, [b"127.0.0.1", 7001]]]


class Node:
    """A client of a node that says what it is given; None stands still."""

    def __init__(self, slots: Any) -> None:
        self._slots = slots

    async def execute_command(self, *words: str) -> Any:
        if self._slots is None:
            await asyncio.Event().wait()
        if isinstance(self._slots, Exception):
            raise self._slots
        return self._slots

    async def aclose(self) -> None:
        pass


def topology_of(*slots: Any) -> Topology:
    """That of nodes that say so of the cluster."""
    nodes = dict(zip(NODES, map(Node, slots), strict=False))
    return Topology(list(nodes), nodes.__getitem__)


async def test_nodes_that_stand_still_do_not_hold_up_a_look_at_the_slots(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topology, "ASK_WITHIN_S", 3600.0)
    monkeypatch.setattr(topology, "ASK_ANOTHER_AFTER_S", 0.001)
    found = topology_of(None, None, None, None, None, WHOLE)
    await found.ready()
    assert found.address_of(0) == NODES[0]
    await found.aclose()


async def test_the_node_that_knows_most_slots_is_believed():
    found = topology_of(HALF, ConnectionError("refused"), WHOLE)
    await found.ready()
    assert found.address_of(16383) == NODES[0]
    await found.aclose()


async def test_without_any_node_that_answers_each_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topology, "ASK_WITHIN_S", 0.001)
    found = topology_of(None, ConnectionError("refused"))
    with pytest.raises(ClusterChanged, match=r"no node of the cluster answers: .*127.0.0.1:7001: TimeoutError"):
        await found.ready()
    await found.aclose()
