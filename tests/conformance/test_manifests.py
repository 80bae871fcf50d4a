"""The document manifest of live documents equals that of a replay of the log; whatever is altered is named.

Left open: how often a partition is read again that is written to meanwhile.
"""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from rebuilding import rebuild
from workshop import PARTITIONS, TENANT, Workshop

import projections.maintenance.differences
from ingest.commands.decide import Caller, SetSlot, WriteAction
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.documents.access import Reader
from projections.documents.document import encode
from projections.documents.tombstones import SupersededEvent, Tombstone
from projections.forgetting.forget import Forgetting
from projections.maintenance.differences import ManifestUnsteady, manifest_differences, manifest_of, replay_manifest

EVERY = range(PARTITIONS)


@pytest.fixture
async def shop(redis: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A log with every way of storing a document in it: bytes, rows, tombstones and marks. Read in small batches."""
    monkeypatch.setattr(projections.maintenance.differences, "DOCUMENTS_PER_READ", 3)
    monkeypatch.setattr(projections.maintenance.differences, "MEMBERS_PER_READ", 2)
    shop = Workshop(redis, tmp_path)
    for n in range(9):
        await shop.observe(f"the build failed {n} times", session=f"s{n % 2}")
    await shop.remember("green tea, no sugar", user_id="u1")
    await shop.learn("rebase before pushing")
    await shop.say(SetSlot(label="notes", content="ship on Friday", project="atlas"))
    await shop.say(WriteAction(title="ship it", project="atlas"))
    gone = await shop.remember("a secret")
    await shop.project()
    await Forgetting(shop.current).documents([gone.id], Reader(TENANT, "ada"), Caller(TENANT))
    await shop.project()
    return shop


async def test_live_documents_have_the_manifest_of_a_replay(shop: Workshop):
    live, again = await manifest_of(shop.redis, EVERY), await replay_manifest(shop.log, EVERY)
    assert manifest_differences(live, again) == []
    assert live.summary == again.summary
    kinds = {kind for item in live.summary.values() for kind in item.documents}
    assert kinds >= {"observation", "memory", "session", "lesson", "slot", "action", "tombstone", "mark"}
    assert {type(item) for item in await shop.everything()} >= {SupersededEvent, Tombstone}


async def test_another_generation_has_the_same_manifest(shop: Workshop):
    before = await manifest_of(shop.redis, EVERY)
    for partition in EVERY:
        assert await rebuild(shop.redis, shop.log, partition, 10) == 1
    assert (await manifest_of(shop.redis, EVERY)).summary == before.summary
    assert (await manifest_of(shop.redis, EVERY, generation=1)).summary == before.summary


async def test_what_is_altered_missing_or_too_many_is_named(shop: Workshop):
    again = await replay_manifest(shop.log, EVERY)
    home = next(item for item in EVERY if any(name.startswith("obs_") for name in again.partitions[item].documents))
    keys = PartitionKeys(home).of_generation(1)
    altered, missing = [name for name in again.partitions[home].documents if name.startswith("obs_")][:2]
    extra = Tombstone(id=cast(Any, "mem_" + "0" * 20))
    await shop.redis.set(keys.doc(altered), encode(Tombstone(id=cast(Any, altered))))
    await shop.redis.delete(keys.doc(missing))
    await shop.redis.set(keys.doc(extra.id), encode(extra))
    (result,) = manifest_differences(await manifest_of(shop.redis, EVERY), again)
    assert result.partition == home
    assert result.first_documents == sorted([altered, missing, extra.id])
    assert result.listings == 0


async def test_a_partition_that_does_not_hold_still_is_refused(shop: Workshop):
    """Documents of two moments would be a manifest of nothing."""
    keys = PartitionKeys(0).of_generation(1)

    async def keep_on() -> None:
        for ms in count(1):
            await shop.redis.set(keys.checkpoint, f"{ms}-0")

    writing = asyncio.create_task(keep_on())
    try:
        with pytest.raises(ManifestUnsteady, match="partition 0"):
            await manifest_of(shop.redis, EVERY)
    finally:
        await end(writing)
