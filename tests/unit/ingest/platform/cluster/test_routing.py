"""When a node counts as silent; what is made of the answers of several primaries."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from redis.exceptions import TimeoutError

from ingest.platform.cluster.routing import Router, merged_config, merged_info
from ingest.platform.cluster.topology import Address, NodePlace, Topology
from ingest.platform.partial import waiting_at_most

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
