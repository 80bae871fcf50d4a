"""The cluster client: slots of keys, silent nodes, topology, merged answers, URLs."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError, TimeoutError

from ingest.errors import InvalidSetting
from ingest.log.keys import PartitionKeys
from ingest.platform.addresses import is_cluster
from ingest.platform.cluster import ClusterClient, parse_cluster_url, topology
from ingest.platform.cluster.routing import (
    KeysInDifferentSlots,
    Router,
    keys_of,
    merged_config,
    merged_info,
    slot_of,
    slot_of_all,
)
from ingest.platform.cluster.topology import Address, ClusterChanged, NodePlace, Topology
from ingest.platform.connections import connect
from ingest.platform.tasks import waiting_at_most

NODE = Address("127.0.0.1", 7001)
PATIENCE_S = 0.04


class Client:
    """That of a node which answers a PING as it is told, and everything else once it has answered one."""

    def __init__(self, ping: Callable[[], Awaitable[None]]) -> None:
        self._ping, self._answered = ping, asyncio.Event()

    async def execute_command(self, *words: str) -> bytes:
        if words[0] != "PING":
            await self._answered.wait()
            return b"text"
        await self._ping()
        self._answered.set()
        return b"PONG"

    async def aclose(self) -> None:
        pass


async def stand_still() -> None:
    """As a process does that gets no processor time, with some turns of the event loop before the answer is read."""
    _without_a_turn(3 * PATIENCE_S)
    for _ in range(3):
        await asyncio.sleep(0)


def _without_a_turn(seconds: float) -> None:
    time.sleep(seconds)


async def never() -> None:
    await asyncio.Event().wait()


async def answer(client: Client) -> tuple[bytes, bool]:
    """What a command is answered within PATIENCE_S, and whether the node is asked nothing more."""
    router = Router(Topology([NODE], lambda _: client), repeat=False)
    try:
        with waiting_at_most(PATIENCE_S):
            return await router.answer(NodePlace(NODE, client, 0), client.execute_command("GET")), False
    except TimeoutError:
        return b"", router.topology.is_silent(NODE)
    finally:
        await router.topology.aclose()


@pytest.mark.parametrize(("ping", "expected"), [(stand_still, (b"text", False)), (never, (b"", True))])
async def test_a_node_is_silent_that_does_not_answer_a_ping_and_not_where_this_process_stood_still(
    ping: Callable[[], Awaitable[None]], expected: tuple[bytes, bool]
):
    assert await answer(Client(ping)) == expected


def test_of_numbers_the_greatest_stands_for_all_and_of_the_rest_the_first():
    """The fullest primary is the one that refuses writes; a rewrite is under way when one node is at it."""
    merged = merged_info([
        {"used_memory": 10, "maxmemory": 100, "aof_rewrite_in_progress": 0, "valkey_version": "9.0.1", "ratio": 1.5},
        {"used_memory": 70, "maxmemory": 100, "aof_rewrite_in_progress": 1, "valkey_version": "9.0.2", "ratio": 2.5},
    ])  # fmt: skip
    assert merged == {
        "used_memory": 70, "maxmemory": 100, "aof_rewrite_in_progress": 1, "valkey_version": "9.0.1", "ratio": 1.5,
    }  # fmt: skip


def test_a_setting_that_differs_is_told_with_all_its_values():
    merged = merged_config([{"appendonly": "yes", "appendfsync": "always"}, {"appendonly": "yes", "appendfsync": "no"}])
    assert merged == {"appendonly": "yes", "appendfsync": "always|no"}


def test_nothing_is_made_of_nothing():
    assert merged_info([]) == merged_config([]) == {}


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (("GET", "a"), ["a"]),
        (("HSET", "a", "field", "value"), ["a"]),
        (("MGET", "a", "b"), ["a", "b"]),
        (("UNLINK", b"a", b"b"), [b"a", b"b"]),
        (("WATCH", "a", "b"), ["a", "b"]),
        (("SUNIONSTORE", "to", "a", "b"), ["to", "a", "b"]),
        (("EVALSHA", "sha", 2, "a", "b", "not a key"), ["a", "b"]),
        (("EVALSHA", "sha", 0, "not a key"), []),
        (("XREAD", b"COUNT", b"1", b"STREAMS", "a", "0-0"), ["a"]),
        (("XREADGROUP", b"GROUP", "g", "c", b"STREAMS", "a", "b", ">", ">"), ["a", "b"]),
        (("XINFO GROUPS", "a"), ["a"]),
        (("MEMORY USAGE", "a", b"SAMPLES", 5), ["a"]),
        (("PING",), []),
        (("CONFIG GET", "append*"), []),
        (("SCRIPT LOAD", "return 1"), []),
        (("INFO", "memory"), []),
    ],
)
def test_the_keys_of_a_command(command: tuple[Any, ...], keys: list[Any]):
    assert list(keys_of(command)) == keys


def test_a_slot_is_that_of_the_hash_tag():
    """Values of the cluster specification and of `CLUSTER KEYSLOT`."""
    assert slot_of("123456789") == 12739
    assert slot_of("foo{bar}baz") == slot_of(b"bar") == 5061
    assert slot_of("foo{}{bar}") == slot_of("foo{}{bar}") != slot_of("bar")


def test_everything_of_a_partition_is_in_one_slot():
    keys = PartitionKeys(7)
    live = keys.of_generation(3)
    names = [keys.log, keys.dedup, keys.fence, live.dead, live.checkpoint, live.changes, live.doc("x"), live.row("y")]
    assert {slot_of(name) for name in names} == {slot_of("{p07}")}


def test_sixteen_partitions_are_in_sixteen_slots():
    assert len({slot_of(PartitionKeys(n).log) for n in range(16)}) == 16


def test_keys_of_several_slots_are_a_fault_that_names_them():
    assert slot_of_all(("MGET", "{a}1", "{a}2")) == slot_of("a")
    with pytest.raises(KeysInDifferentSlots, match=r"MGET 'a' 'b' names keys in 2 slots"):
        slot_of_all(("MGET", "a", "b"))
    with pytest.raises(KeysInDifferentSlots, match="PING names no key"):
        slot_of_all(("PING",))


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
    with pytest.raises(ClusterChanged, match=r"no cluster node is responding: .*127.0.0.1:7001: TimeoutError"):
        await found.ready()
    await found.aclose()


def test_several_nodes_are_named_by_comma():
    nodes, options = parse_cluster_url("redis+cluster://a:7000,b:7001,[::1]:7002/")
    assert nodes == [Address("a", 7000), Address("b", 7001), Address("::1", 7002)]
    assert options == {}


def test_a_login_and_options_hold_for_every_node():
    nodes, options = parse_cluster_url("redis+cluster://ada:s%40crt@a,b:7001?client_name=shop")
    assert nodes == [Address("a", 6379), Address("b", 7001)]
    assert options == {"username": "ada", "password": "s@crt", "client_name": "shop"}


async def test_options_of_the_url_replace_all_defaults_but_the_protocol():
    """Answers of version 3, the default of redis-py 8, have other shapes."""
    options: Any = {"connections": 4, "read_timeout_s": 5.0, "repeat": True}
    cluster: Any = ClusterClient("redis+cluster://a?socket_timeout=9&protocol=3", **options)
    server: Any = connect("redis://a?socket_timeout=9&protocol=3")
    for client in (cluster._router.topology.client_at(Address("a", 6379)), server):
        settings = client.connection_pool.connection_kwargs
        assert (settings["socket_timeout"], settings["protocol"]) == (9.0, 2)


def test_tls_is_for_every_node():
    _, options = parse_cluster_url("rediss+cluster://a:7000,b:7001")
    assert options["connection_class"].__name__ == "SSLConnection"


@pytest.mark.parametrize(
    "url", ["redis+cluster://", "redis+cluster://a:seven", "redis+cluster://a:7000/3", "redis+cluster://,"]
)
def test_what_cannot_be_a_cluster_is_refused_by_name(url: str):
    with pytest.raises(InvalidSetting, match="REDIS_URL"):
        parse_cluster_url(url)


def test_only_these_schemes_are_a_cluster():
    assert is_cluster("redis+cluster://a:1")
    assert is_cluster("rediss+cluster://a:1")
    assert not any(map(is_cluster, ("redis://a:1", "rediss://a:1", "unix:///run/valkey.sock", "")))
