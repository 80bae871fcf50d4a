"""What recall shows gets its vectors first."""

import asyncio

import pytest

from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from projections.queries import embedding_priority as module
from projections.queries.embedding_priority import EmbeddingPriority
from projections.search.question import Hit
from projections.vectors.embedder import Urgency, place

NOW = 1_790_000_000_000
QUEUE = PartitionKeys(3).of_generation(2).embed_queue


class Second:
    def generation_of(self, partition: int) -> int:
        return 2


def hit(name: str, **explain: float) -> Hit:
    return Hit(name, 3, "observation", 1.0, explain)


@pytest.fixture
async def sooner(redis: Client, monkeypatch: pytest.MonkeyPatch) -> EmbeddingPriority:
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    queued = {name: place(Urgency.REPORTED, NOW + n) for n, name in enumerate(["obs_1", "obs_2", "obs_3"])}
    await redis.zadd(QUEUE, queued)
    return EmbeddingPriority(redis, Second())


async def order(redis: Client) -> list[str]:
    return [name.decode() for name in await redis.zrange(QUEUE, 0, -1)]


async def until_moved(redis: Client, wanted: list[str]) -> None:
    async with asyncio.timeout(10):
        while await order(redis) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_was_shown_without_a_vector_of_the_model_moves_up(sooner: EmbeddingPriority, redis: Client):
    assert await order(redis) == ["obs_3", "obs_2", "obs_1"]
    sooner.shown([hit("obs_1", static=0.5)])
    await until_moved(redis, ["obs_1", "obs_3", "obs_2"])
    sooner.shown([hit("obs_2", static=0.5)])
    await until_moved(redis, ["obs_2", "obs_1", "obs_3"])


async def test_what_is_not_queued_is_not_queued_again(sooner: EmbeddingPriority, redis: Client):
    sooner.shown([hit("obs_9", static=0.5), hit("obs_3", static=0.4, cosine=0.4), hit("obs_1", static=0.1)])
    await until_moved(redis, ["obs_1", "obs_3", "obs_2"])
    assert await redis.zmscore(QUEUE, ["obs_3"]) == [place(Urgency.REPORTED, NOW + 2)]


async def test_names_that_wait_are_bounded(sooner: EmbeddingPriority, redis: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST", 1)
    sooner.shown([hit("obs_1", static=0.5), hit("obs_2", static=0.5)])
    await until_moved(redis, ["obs_1", "obs_3", "obs_2"])
    await sooner.aclose()
