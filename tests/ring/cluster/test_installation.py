"""A whole installation on a Redis Cluster: three primaries, a replica each, an API, two workers, arq on its own server.

What a failover may lose is what no replica had yet: replication is asynchronous. Everything else has to hold: what was
acknowledged as replicated is there, nothing is there twice, writes go on, and the documents are what the log says.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from replay_compare import assert_equals_replay, read_log
from waiting import wait_until

from ingest.log.position import partition_of, session_route
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect
from tests.acceptance.asking import read, recall, write
from tests.acceptance.running import Installation, on_cluster
from tests.acceptance.test_forgetting import forget

PARTITIONS = 12
WRITERS = 12
MAY_BE_ANSWERED = {202, 429, 503}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[Installation]:
    """One installation for these tests; the last of them kills a node of it."""
    folder = tmp_path_factory.mktemp("stack")
    with on_cluster(folder, cache_dir, replicas=True, workers=2, partitions=PARTITIONS, purge_every=1) as stack:
        yield stack


@pytest.fixture
async def client(stack: Installation) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the API."""
    async with stack.server.client() as http:
        yield http


@pytest.fixture
async def redis(stack: Installation) -> AsyncGenerator[Client]:
    """A client of the cluster."""
    client = connect(stack.cluster.url)
    yield client
    await client.aclose()


async def projections(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """How every partition is."""
    return (await read(client, "/v1/admin/projections"))["partitions"]


async def test_partitions_are_spread_over_the_nodes_and_shared_by_the_workers(
    stack: Installation, client: httpx.AsyncClient
):
    written = [
        await write(client, "/v1/observations", session_id=f"s{n}", project="atlas", content=f"the heron says {n}")
        for n in range(4 * PARTITIONS)
    ]
    assert {one["position"].partition(":")[0] for one in written} == {str(n) for n in range(PARTITIONS)}
    nodes = Counter(stack.cluster.primary_of(partition).port for partition in range(PARTITIONS))
    assert len(nodes) == 3

    async def shared() -> bool:
        holders = Counter(projection["worker"] for projection in await projections(client))
        return sorted(holders.values()) == [PARTITIONS // 2] * 2

    await wait_until(shared)


async def test_what_is_written_is_recalled_and_forgotten(stack: Installation, client: httpx.AsyncClient, project: str):
    user = f"user-{project}"
    about = {"project": project, "user_id": user}
    await write(client, "/v1/memories", **about, content="The walrus likes ice")
    kept = await write(client, "/v1/memories", project=project, content="The walrus eats at dawn")
    found = await recall(client, "walrus", project=project, after=kept["position"])
    assert {one["content"] for one in found["results"]} == {"The walrus likes ice", "The walrus eats at dawn"}
    receipt = await forget(client, kind="user", subject=user, reason="asked to")
    assert receipt["removed"]["documents"]["memory"] == 1
    assert receipt["removed"]["append_only_file"] == "being rewritten"
    assert receipt["removed"]["replicas_waiting"] == receipt["probe"]["found"] == 0
    found = await recall(client, "walrus", project=project)
    assert [one["content"] for one in found["results"]] == ["The walrus eats at dawn"]


async def test_a_partition_is_rebuilt_and_a_snapshot_written(
    stack: Installation, client: httpx.AsyncClient, redis: Client
):
    """Jobs go through a server of their own: the cluster has no key of arq."""
    before = {projection["partition"]: projection["generation"] for projection in await projections(client)}
    answer = await client.post("/v1/admin/projections/rebuild", json={"partition": 3})
    assert answer.json() == {"queued": [3]}

    async def rebuilt() -> bool:
        now = {projection["partition"]: projection["generation"] for projection in await projections(client)}
        return now == {**before, 3: before[3] + 1}

    await wait_until(rebuilt)
    snapshots = {path.name for path in stack.settings.snapshots.glob("*")}
    assert (await client.post("/v1/admin/snapshots")).status_code == 202
    await wait_until(lambda: bool({path.name for path in stack.settings.snapshots.glob("*")} - snapshots))
    diagnosis = await read(client, "/v1/diagnose")
    assert diagnosis
    await assert_equals_replay(redis, RedisLog(redis, PARTITIONS), PARTITIONS)
    assert [key async for key in redis.scan_iter(match="*arq*", count=1000)] == []


@dataclass
class Ledger:
    """What was acknowledged, what of it as replicated, and what else was answered."""

    acknowledged: set[str] = field(default_factory=set[str])
    replicated: set[str] = field(default_factory=set[str])
    statuses: Counter[int] = field(default_factory=Counter[int])
    refused: set[str] = field(default_factory=set[str])
    """Partitions of writes without a wish that were refused."""
    after_kill: Counter[str] = field(default_factory=Counter[str])
    """Acknowledgements by partition since the node was killed."""
    killed: bool = False


async def keep_writing(number: int, client: httpx.AsyncClient, ledger: Ledger, stop: asyncio.Event) -> None:
    """Write observations, one after the other; each again with the same id until it is acknowledged.

    Every other writer asks for a replica, and is held up where there is none.
    """
    n = 0
    headers = {"X-Durability": "replicated"} if number % 2 else {}
    while not stop.is_set():
        n += 1
        said = {"event_id": f"w{number}-{n}", "session_id": f"s{n % 40}", "project": "failover", "content": f"{n}"}
        if (answer := await repeated_until(client, said, headers, ledger, stop)) is None:
            return
        ledger.acknowledged.add(said["event_id"])
        if answer["durability"] == "replicated":
            ledger.replicated.add(said["event_id"])
        if ledger.killed:
            ledger.after_kill[answer["position"].partition(":")[0]] += 1


async def repeated_until(
    client: httpx.AsyncClient, said: dict[str, Any], headers: dict[str, str], ledger: Ledger, stop: asyncio.Event
) -> dict[str, Any] | None:
    """The acknowledgement; None when there was none until the end."""
    while not stop.is_set():
        answer = await client.post("/v1/observations", json=said, headers=headers)
        ledger.statuses[answer.status_code] += 1
        if answer.status_code == 202:
            return answer.json()
        if not headers:
            ledger.refused.add(str(partition_of(session_route("default", "failover", said["session_id"]), PARTITIONS)))
        await asyncio.sleep(0.05)
    return None


async def test_writes_survive_the_death_of_a_primary(stack: Installation, client: httpx.AsyncClient, redis: Client):
    ledger, stop = Ledger(), asyncio.Event()
    victim = stack.cluster.primary_of(0)
    affected = {str(n) for n in range(PARTITIONS) if stack.cluster.primary_of(n) is victim}
    tasks = [asyncio.create_task(keep_writing(n, client, ledger, stop)) for n in range(WRITERS)]
    try:
        await wait_until(lambda: len(ledger.replicated) > 30, 60)
        victim.kill()
        ledger.killed = True
        await wait_until(lambda: all(ledger.after_kill[one] > 5 for one in affected), 60)
    finally:
        stop.set()
        await asyncio.wait(tasks, timeout=30)
    for task in tasks:
        task.result()
    assert set(ledger.statuses) <= MAY_BE_ANSWERED
    assert ledger.refused <= affected, "writes to nodes that were there the whole time were refused"
    log = RedisLog(redis, PARTITIONS)

    async def projected() -> bool:
        return not any(projection["lag"] for projection in await projections(client))

    await wait_until(projected, 90)
    stored = Counter[str]()
    for partition in range(PARTITIONS):
        stored.update(event.envelope.event_id for event in await read_log(log, partition))
    assert [name for name, count in stored.items() if count > 1] == []
    assert ledger.replicated - stored.keys() == set()
    await assert_equals_replay(redis, log, PARTITIONS)
    said = await write(client, "/v1/memories", project="failover", content="The new primary is a heron")
    found = await recall(client, "heron", project="failover", after=said["position"])
    assert found["results"][0]["content"] == "The new primary is a heron"
