"""What must hold when the chaos is over: the ledger, and every projection equal to a replay of the log from zero."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
from fixed_embedder import FixedEmbedder

from ingest.events.envelope import Recorded
from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect
from ingest.platform.settings import Settings
from projections.index.service import ReplicaService
from projections.store.dead_letters import dead_letters
from projections.vectors.embedder import NoEmbedder
from tests.chaos.ledger import Ledger, Verdict, compare
from tests.chaos.stack import DIMENSIONS, Stack
from tests.support.replay_compare import (
    assert_equals_replay,
    assert_same_index,
    index_of_documents,
    indexed,
    read_log,
    without_vectors,
)
from tests.support.waiting import wait_until

CAUGHT_UP_WITHIN_S = 90
TRIES = 5
"""Upkeep writes summaries by itself, also while things are compared; it has done soon."""
MODEL = f"openai/hash:{DIMENSIONS}"


class _Named(NoEmbedder):
    """Embeds nothing here: the vectors are read."""

    model = MODEL
    dimensions = DIMENSIONS


async def check_everything(stack: Stack, ledger: Ledger, work: Path, seed: int) -> Verdict:
    """What the log has of what was acknowledged; raises AssertionError where a projection is not a replay's."""
    settings = stack.settings
    assert settings.redis_url is not None
    await wait_until(lambda: stack.pid("valkey") is not None)
    redis = connect(settings.redis_url)
    log = RedisLog(redis, settings.partitions)
    try:
        for number in range(TRIES):
            await wait_until(lambda: all_projected(redis, log), CAUGHT_UP_WITHIN_S)
            heads = await _heads(log)
            try:
                return await _check_once(redis, log, settings, ledger, work / str(number), seed)
            except AssertionError:
                if await _heads(log) == heads:  # else what was compared was of two moments
                    raise
        raise AssertionError(f"the log never stood still, in {TRIES} tries")
    finally:
        await redis.aclose()
        await redis.connection_pool.disconnect()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def _check_once(
    redis: Client, log: EventLog, settings: Settings, ledger: Ledger, work: Path, seed: int
) -> Verdict:
    events = {partition: await read_log(log, partition) for partition in range(log.partitions)}
    verdict = compare(ledger, events)
    for partition in range(log.partitions):
        assert [letter async for letter in dead_letters(redis, PartitionKeys(partition))] == []
    replays = await assert_equals_replay(redis, log, log.partitions)
    again = index_of_documents(replays, DIMENSIONS, MODEL)
    replica = ReplicaService(redis, log.partitions, settings.snapshots, FixedEmbedder(_Named()), "check")
    replica.start()
    try:
        await replica.wait_ready(30)
        assert_same_index(await replica.in_index_thread(indexed, replica.index), indexed(again))
        assert await replica.in_index_thread(without_vectors, replica.index) == set()
        await _check_answers(settings, ledger, events, len(again), seed)
    finally:
        await _close(replica)
    return verdict


async def _heads(log: EventLog) -> list[Position]:
    return [await log.head(partition) for partition in range(log.partitions)]


async def all_projected(redis: Client, log: EventLog) -> bool:
    """Every checkpoint is at its head, nothing is delivered and not acknowledged, nothing waits to be embedded."""
    for partition in range(log.partitions):
        keys = PartitionKeys(partition)
        of = keys.of_generation(int(await redis.get(keys.generation) or 1))
        raw = await redis.get(of.checkpoint)
        if (Position.parse(raw) if raw else START) != await log.head(partition):
            return False
        if await redis.zcard(of.embed_queue):
            return False
        if raw and any(group["pending"] for group in await redis.xinfo_groups(keys.log)):
            return False
    return True


async def _check_answers(
    settings: Settings, ledger: Ledger, events: Mapping[int, Sequence[Recorded]], documents: int, seed: int
) -> None:
    """The API itself, through however many restarts: it counts what a replay counts, and finds what was said."""
    chance = random.Random(seed)
    contents = [
        content
        for recorded in events.values()
        for event in recorded
        if "unique" in (content := getattr(event.data, "content", ""))
    ]
    url = f"http://127.0.0.1:{settings.port}"
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:

        async def ready() -> bool:
            nonlocal last
            try:
                answer = await client.get("/readyz")
            except httpx.HTTPError as error:
                last = repr(error)
                return False
            last = answer.text
            return answer.status_code == 200 and answer.json()["documents"] == documents

        last = "nothing was asked"
        try:
            await wait_until(ready, 40)
        except AssertionError as error:
            error.add_note(f"expected {documents} documents; /readyz said last: {last}")
            raise
        for content in chance.sample(contents, min(20, len(contents))):
            answer = await client.post("/v1/recall", json={"query": content, "mode": "lexical"})
            assert content in [hit["content"] for hit in answer.json()["results"]]
        for name in chance.sample(sorted(ledger.forgotten.values()), min(10, len(ledger.forgotten))):
            collection = {"obs": "observations", "mem": "memories", "lsn": "lessons"}[name.partition("_")[0]]
            assert (await client.get(f"/v1/{collection}/{name}")).status_code == 404


async def _close(replica: ReplicaService) -> None:
    closing = asyncio.create_task(replica.aclose())
    while not closing.done():  # a follower may miss one cancellation: index_replica/test_following.py says so
        await asyncio.wait([closing], timeout=0.2)
        for task in asyncio.all_tasks():
            if task.get_name().startswith(("feed-", "index-replica", "lag")):
                task.cancel()
