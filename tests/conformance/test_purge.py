"""What purging guarantees, against a real Valkey: after it, nothing is left of what was made of forgotten texts.

Cached vectors, snapshots and change feeds; and whatever it is interrupted by, running again does the rest.

Left open: in what order stores are cleaned; when the server rewrites its append-only file (it is asked to).
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from embedding import embedding_queue
from numpy.typing import NDArray
from workshop import PARTITIONS, TENANT, HashEmbedder, Workshop

from ingest.commands.decide import SetSlot
from ingest.log.keys import PURGE_LEASE, PURGED, PartitionKeys, embedding
from ingest.platform.connections import Client
from projections.embedding.embed_job import EmbeddingQueue
from projections.forgetting import purge as purge_module
from projections.forgetting.purge import Purge, SnapshotPurge
from projections.forgetting.receipts import Removed
from projections.search import snapshots as snapshots_module
from projections.search.snapshots import SnapshotJob
from projections.vectors.embedder import cache_key
from tests.conformance.interruptions import Killed, files_with, forget, killing

MARK = "zqxvkmarker7"
SECRET, KEPT = f"the key is {MARK}", "the kettle is green"


@pytest.fixture
async def queue(redis: Client) -> AsyncIterator[EmbeddingQueue]:
    with ThreadPoolExecutor(1) as executor:
        yield embedding_queue(redis, HashEmbedder(), executor)


async def settled(shop: Workshop, queue: EmbeddingQueue) -> None:
    """Fold and embed everything."""
    await shop.project()
    while await queue.work(range(PARTITIONS)):
        pass


async def cached(shop: Workshop, text: str) -> bool:
    """Whether a text's vector is in the cache."""
    return await shop.redis.get(embedding(cache_key(HashEmbedder.model, text))) is not None


async def noted(shop: Workshop) -> int:
    """Notes of what is to be purged."""
    keys = [PartitionKeys(partition) for partition in range(PARTITIONS)]
    return sum([int(await shop.redis.scard(name)) for key in keys for name in (key.purge, key.purging)])


async def fed(shop: Workshop) -> int:
    """Entries of the change feeds that speak of the mark."""
    results = 0
    for partition in range(PARTITIONS):
        rows = await shop.redis.xrange(PartitionKeys(partition).of_generation(1).changes)
        results += sum(MARK.encode() in fields[b"c"] for _, fields in rows)
    return results


async def assert_nothing_left(shop: Workshop) -> None:
    """Nothing of the secret in any store, and what is kept is there."""
    assert not await cached(shop, SECRET)
    assert await cached(shop, KEPT)
    assert await noted(shop) == 0
    assert await fed(shop) == 0
    assert files_with(shop.folder, MARK) == []
    (only,) = shop.snapshots.iterdir()
    assert await shop.redis.get(PURGED) == only.name.encode()
    results = snapshots_module.newest(shop.snapshots, HashEmbedder.model)
    assert results is not None
    assert results[1].documents == 1


async def test_a_purge_removes_what_was_made_of_a_forgotten_text(shop: Workshop, queue: EmbeddingQueue):
    secret = await shop.remember(SECRET)
    await shop.remember(KEPT)
    await settled(shop, queue)
    await shop.snapshot_job().run(force=True)
    assert await cached(shop, SECRET)
    assert files_with(shop.snapshots, MARK)
    await forget(shop, secret.id)
    purge = shop.purge()
    assert await purge.wanted()
    removed = await purge.run()
    assert (removed.embedding_cache, removed.older_snapshots, removed.replicas_waiting) == (1, 1, 0)
    assert removed.append_only_file == "being rewritten"
    assert not await purge.wanted()
    await assert_nothing_left(shop)


async def test_a_purge_is_not_wanted_when_nothing_was_forgotten(shop: Workshop, queue: EmbeddingQueue):
    await shop.remember(KEPT)
    await settled(shop, queue)
    assert not await shop.purge().wanted()


STEPS: list[tuple[object, str]] = [
    (Purge, "_notes"),
    (Purge, "_forget_vectors"),
    (Purge, "_feed_entries"),
    (SnapshotJob, "_start"),
    (snapshots_module, "save"),
    (snapshots_module, "trim_feed"),
    (snapshots_module, "prune"),
    (SnapshotJob, "run"),
    (purge_module, "rewrite_log_file"),
    (SnapshotPurge, "await_readers"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[name for _, name in STEPS])
async def test_a_purge_that_is_killed_at_any_step_is_done_by_the_next(
    shop: Workshop, queue: EmbeddingQueue, monkeypatch: pytest.MonkeyPatch, owner: object, step: str, when: str
):
    """Until everything was done the notes stay; so the next look finds that a purge is wanted."""
    secret = await shop.remember(SECRET)
    await shop.remember(KEPT)
    await settled(shop, queue)
    await shop.snapshot_job().run(force=True)
    await forget(shop, secret.id)
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, killing(getattr(owner, step), when))
        with pytest.raises(Killed):
            await shop.purge().run()
    again = shop.purge()
    if step == "await_readers":
        assert not await again.wanted(), "all is done but for waiting"
    else:
        assert await again.wanted()
        await again.run()
    await assert_nothing_left(shop)


async def test_what_is_forgotten_while_a_purge_runs_is_left_to_the_next_one(
    shop: Workshop, queue: EmbeddingQueue, monkeypatch: pytest.MonkeyPatch
):
    """The same text, forgotten once more after the snapshot was written: its note is not taken off with the first."""
    first = await shop.remember(SECRET)
    second = await shop.remember(SECRET, session_id="another")
    await shop.remember(KEPT)
    await settled(shop, queue)
    await forget(shop, first.id)
    ask = purge_module.rewrite_log_file

    async def meanwhile(server: Client) -> str:
        await forget(shop, second.id)
        return await ask(server)

    with monkeypatch.context() as patched:
        patched.setattr(purge_module, "rewrite_log_file", meanwhile)
        await shop.purge().run()
    assert files_with(shop.snapshots, MARK), "the second was there when it was written"
    assert await shop.purge().wanted()
    await shop.purge().run()
    await assert_nothing_left(shop)


async def test_a_slot_forgotten_while_a_purge_runs_makes_another_one_wanted(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """It has no text in the index; but the server's append-only file has it until it is rewritten."""
    secret = await shop.remember(SECRET)
    slot = await shop.say(SetSlot(label="notes", content=SECRET, project="atlas"))
    await shop.project()
    await forget(shop, secret.id)
    save = snapshots_module.save

    def and_forget(*args: Any) -> Any:
        asyncio.run_coroutine_threadsafe(forget(shop, slot.id), loop).result(10)
        return save(*args)

    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        patched.setattr(snapshots_module, "save", and_forget)
        await shop.purge().run()
    assert await shop.purge().wanted()


class SlowEmbedder(HashEmbedder):
    """Embeds when it is told to."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.set()
        assert self.go_on.wait(30)
        return super().embed(texts)


async def test_a_text_that_is_embedded_while_it_is_forgotten_and_purged_leaves_no_vector(shop: Workshop):
    """The worker had read it before; its vector must not come into the cache, or into the feed, behind the purge."""
    embedder = SlowEmbedder()
    with ThreadPoolExecutor(1) as executor:
        queue = embedding_queue(shop.redis, embedder, executor)
        secret = await shop.remember(SECRET)
        await shop.remember(KEPT)
        await shop.project()
        embedding_it = asyncio.create_task(queue.work(range(PARTITIONS)))
        assert await asyncio.to_thread(embedder.asked.wait, 10)
        await forget(shop, secret.id)
        await shop.purge().run()
        embedder.go_on.set()
        assert await embedding_it == 2
        while await queue.work(range(PARTITIONS)):
            pass
    assert not await cached(shop, SECRET)
    assert await cached(shop, KEPT)
    entries = [
        fields[b"c"]
        for partition in range(PARTITIONS)
        for _, fields in await shop.redis.xrange(PartitionKeys(partition).of_generation(1).changes)
    ]
    assert not [item for item in entries if secret.id.encode() in item]


async def test_of_two_purges_at_once_the_second_waits_for_the_first(
    shop: Workshop, queue: EmbeddingQueue, monkeypatch: pytest.MonkeyPatch
):
    """So both write a snapshot, whichever worker they run in; and neither takes off notes that the other works on."""
    secret = await shop.remember(SECRET)
    await shop.remember(KEPT)
    await settled(shop, queue)
    await forget(shop, secret.id)
    order: list[str] = []
    for owner, step in ((Purge, "_notes"), (SnapshotPurge, "await_readers")):
        monkeypatch.setattr(owner, step, told(order, getattr(owner, step)))
    both = await asyncio.gather(shop.purge("one").run(), shop.purge("other").run())
    assert order == ["_notes", "_await_replicas"] * 2
    assert [item.snapshot != "" for item in both] == [True, True]
    assert [item.embedding_cache for item in both] in ([1, 0], [0, 1])
    await assert_nothing_left(shop)


def told(order: list[str], step: Callable[..., Any]) -> Callable[..., Any]:
    """The step, which says when it begins."""

    async def telling(*args: Any) -> Any:
        order.append(step.__name__)
        return await step(*args)

    return telling


async def test_a_purge_that_waits_for_another_in_vain_keeps_the_notes(
    shop: Workshop, queue: EmbeddingQueue, monkeypatch: pytest.MonkeyPatch
):
    secret = await shop.remember(SECRET)
    await settled(shop, queue)
    await forget(shop, secret.id)
    await shop.redis.set(PURGE_LEASE, "another", ex=30)
    monkeypatch.setattr(purge_module, "WAIT_FOR_OTHER_S", 0.1)
    assert await shop.purge().run() == Removed()
    assert await shop.purge().wanted()


async def test_a_purge_that_can_write_no_snapshot_keeps_its_notes(
    shop: Workshop, queue: EmbeddingQueue, caplog: pytest.LogCaptureFixture
):
    """Its folder cannot be made; the next run tries again."""
    secret = await shop.remember(SECRET)
    await settled(shop, queue)
    shop.snapshots.write_text("in the way")
    await forget(shop, secret.id)
    removed = await shop.purge().run()
    assert removed.snapshot == ""
    assert "no snapshot can be written" in caplog.text
    assert await shop.purge().wanted()


async def test_a_probe_finds_what_is_still_there_and_nothing_after_a_purge(shop: Workshop, queue: EmbeddingQueue):
    secret = await shop.remember(SECRET)
    await shop.remember(KEPT)
    await settled(shop, queue)
    await shop.snapshot_job().run(force=True)
    await forget(shop, secret.id)
    purge = shop.purge()
    probe = await purge.index.probe(TENANT, [secret.id], [SECRET])
    assert (probe.documents, probe.queries, probe.found) == (1, 1, 1)
    await purge.run()
    probe = await purge.index.probe(TENANT, [secret.id], [SECRET])
    assert (probe.documents, probe.queries, probe.found) == (1, 1, 0)
