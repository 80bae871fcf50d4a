"""The embedding queue is bounded: what does not fit is embedded later, and nothing is forgotten."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from embedding import embedding_queue
from replica_pen import PARTITIONS, TENANT, HashEmbedder, Pen

from ingest.commands.decide import Caller, Observe
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client
from projections.embedding.embed_job import EmbeddingQueue, EmbedJob, LaterTexts
from projections.health.samples import HealthSampler
from projections.search.comparing import cached_vectors
from projections.store.redis_store import load, places
from projections.vectors.embedder import FixedEmbedder, Urgency, changed_place, place
from tests.conformance.test_vitals import Loaded

MOST = 5
LIVE = [PartitionKeys(partition).of_generation(1) for partition in range(PARTITIONS)]


@pytest.fixture
async def pen(redis: Client) -> Pen:
    made = Pen(redis)
    await made.log.create_or_check()
    return made


@pytest.fixture
async def queue(redis: Client) -> AsyncIterator[EmbeddingQueue]:
    with ThreadPoolExecutor(2) as executor:
        yield embedding_queue(redis, HashEmbedder(), executor)


@pytest.fixture
def later(pen: Pen) -> LaterTexts:
    return LaterTexts(pen.redis, pen.log, FixedEmbedder(HashEmbedder()), MOST)


async def _queued(redis: Client, keys: GenerationKeys) -> list[str]:
    return [name.decode() for name in await redis.zrange(keys.embed_queue, 0, -1)]


async def _without_vectors(redis: Client) -> set[str]:
    """The searchable documents whose vectors nobody has made."""
    missing = set[str]()
    for keys in LIVE:
        documents = await load(redis, keys, [place.id for place in await places(redis, keys)])
        results = [document for document in documents if document is not None]
        embedder = HashEmbedder()
        missing |= (await cached_vectors(redis, embedder.model, embedder.dimensions, results)).missing
    return missing


async def _no_wait() -> None:
    return


async def test_what_does_not_fit_is_put_off_and_all_of_it_is_embedded_in_the_end(
    pen: Pen, queue: EmbeddingQueue, later: LaterTexts
):
    await pen.write_some(120)
    await pen.project()
    everything = await _without_vectors(pen.redis)
    assert len(everything) == 120 + 120 + 7
    await later.put_off(range(PARTITIONS))
    for keys in LIVE:
        assert len(await _queued(pen.redis, keys)) == MOST
    noted = [int((await pen.redis.hget(keys.embed_later, "count")) or 0) for keys in LIVE]
    assert sum(noted) == len(everything) - MOST * PARTITIONS
    sample = await HealthSampler(pen.redis, PARTITIONS, Loaded()).sample()
    assert (sample.to_embed, sample.embed_later) == (MOST * PARTITIONS, sum(noted))
    await pen.write_some(10)  # meanwhile, more comes
    await pen.project()
    await EmbedJob(queue, later, _no_wait).run(list(range(PARTITIONS)))
    assert await _without_vectors(pen.redis) == set()
    assert await pen.redis.exists(*(keys.embed_later for keys in LIVE)) == 0
    assert not await later.queue_some(range(PARTITIONS))


async def test_what_is_kept_on_purpose_stays_and_what_was_reported_is_put_off(pen: Pen, later: LaterTexts):
    for n in range(20):
        await pen.observe(f"output {n}", "s1")
        await pen.remember(f"fact {n} of many", "shop")
    await pen.project()
    await later.put_off(range(PARTITIONS))
    for keys in LIVE:
        queued = await _queued(pen.redis, keys)
        stored = [name for name in queued if name.startswith("mem_")]
        assert len(queued) <= MOST
        assert queued == stored or keys.partition not in await _partitions_of_memories(pen.redis)


async def _partitions_of_memories(redis: Client) -> set[int]:
    return {
        keys.partition for keys in LIVE for place in await places(redis, keys) if place.id.startswith("mem_")
    }  # fmt: skip


async def test_the_newest_are_queued_first_and_events_of_one_moment_are_not_passed_over(pen: Pen, later: LaterTexts):
    """A batch has one moment for hundreds of events: the walk goes on ahead of a position, not of a millisecond."""
    commands = [Observe(session_id="s1", project="shop", content=f"line {n}") for n in range(600)]
    await pen.handler.handle_batch(commands, Caller(TENANT))
    await pen.project()
    everything = await _without_vectors(pen.redis)
    assert len(everything) == 600
    (keys,) = [item for item in LIVE if await pen.redis.zcard(item.embed_queue)]
    await later.put_off(range(PARTITIONS))
    observation = set(await _queued(pen.redis, keys))
    while await later.queue_some(range(PARTITIONS)):
        observation |= set(await _queued(pen.redis, keys))
    assert observation == everything


async def test_a_runner_puts_off_what_is_too_much_with_each_batch(pen: Pen):
    """Also while no embedding job runs, as behind a long backlog."""
    pen.most_to_embed = MOST
    await pen.write_some(40)
    await pen.project()
    for keys in LIVE:
        assert len(await _queued(pen.redis, keys)) <= MOST
        assert await pen.redis.exists(keys.embed_later)


@pytest.mark.parametrize("of", ["shown", "changed"])
async def test_what_recall_has_shown_and_what_changed_is_found_again(
    pen: Pen, queue: EmbeddingQueue, later: LaterTexts, of: str
):
    """Its place says when it was shown or changed, not when it was recorded: the whole log is looked through."""
    await pen.write_some(30)
    await pen.project()
    now_ms = system_clock().timestamp() * 1000 + 60_000
    score = place(Urgency.RECALLED, now_ms) if of == "shown" else changed_place(Urgency.KEPT, now_ms)
    for keys in LIVE:
        await pen.redis.zadd(keys.embed_queue, dict.fromkeys(await _queued(pen.redis, keys), score))
    await later.put_off(range(PARTITIONS))
    await EmbedJob(queue, later, _no_wait).run(list(range(PARTITIONS)))
    assert await _without_vectors(pen.redis) == set()
