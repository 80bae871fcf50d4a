"""Changing what exists, through the operations, against a real Valkey: versions, their readers, slots, crystals.

The document manifest of live documents equals that of a replay of the log; whatever is altered is named.

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
from ingest.commands.decide import Caller, ForgetSubject, SetSlot, WriteAction
from ingest.errors import CommandRejected, Forbidden, NotFound, SlotFull
from ingest.log.keys import PartitionKeys
from ingest.nouns.memory import MemoryVisibilityChanged
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.condensing.operations import Condensing
from projections.forgetting.forget import Forgetting
from projections.maintenance.differences import ManifestUnsteady, manifest_differences, manifest_of, replay_manifest
from projections.nouns.access import Reader
from projections.nouns.action import Action
from projections.nouns.document import encode
from projections.nouns.memory import Memory
from projections.nouns.tombstone import SupersededEvent, Tombstone
from projections.operations.memory import MemoryChanges, MemoryOperations
from projections.operations.work import SlotOperations

ADA, EVE = Reader(TENANT, "ada"), Reader(TENANT, "eve")


async def change(shop: Workshop, name: str, changes: MemoryChanges, reader: Reader = ADA) -> str:
    caller = Caller(TENANT, agent_id=reader.agent_id)
    accepted = await MemoryOperations(shop.current).change(name, changes, reader, caller)
    await shop.project()
    return accepted.id


async def visibilities(shop: Workshop, *names: str) -> list[str]:
    return [(await shop.document(name, Memory)).visibility for name in names]


async def three_versions(shop: Workshop) -> list[str]:
    first = (await shop.remember("one", agent_id="ada", shared_with=["bob"])).id
    second = await change(shop, first, MemoryChanges(content="two"))
    return [first, second, await change(shop, second, MemoryChanges(content="three"))]


async def test_a_revision_through_an_old_id_starts_from_the_newest_version(shop: Workshop):
    first = (await shop.remember("one", agent_id="ada")).id
    second = await change(shop, first, MemoryChanges(content="two"))
    third = await shop.document(await change(shop, first, MemoryChanges(tags=["tea"])), Memory)
    assert (third.content, third.tags, third.parent_id, third.version) == ("two", ["tea"], second, 3)


async def test_a_stranger_supersedes_no_private_version_through_a_public_one(shop: Workshop):
    """The first stays public: the version between, which is forgotten, does not say what came before it."""
    first, second, third = await three_versions(shop)
    await shop.say(ForgetSubject(kind="memory", subject=second, project="atlas"))
    await shop.project()
    await change(shop, third, MemoryChanges(visibility="private"))
    assert await visibilities(shop, first, third) == ["public", "private"]
    with pytest.raises(NotFound):
        await change(shop, first, MemoryChanges(content="eve's"), EVE)
    assert (await shop.document(third, Memory)).is_latest


async def test_who_may_only_read_the_newest_version_may_not_revise_it_through_an_older_one(shop: Workshop):
    names = await three_versions(shop)
    await change(shop, names[0], MemoryChanges(visibility="shared", shared_with=["eve"]))
    with pytest.raises(Forbidden):
        await change(shop, names[0], MemoryChanges(content="eve's"), EVE)


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_every_version_is_shown_to_the_same_readers(shop: Workshop, which: int):
    names = await three_versions(shop)
    hide = MemoryChanges(event_id="hide", visibility="private")
    await change(shop, names[which], hide)
    assert await visibilities(shop, *names) == ["private"] * 3
    fourth = await change(shop, names[0], MemoryChanges(content="four"))
    await change(shop, fourth, MemoryChanges(visibility="public"))
    await change(shop, names[which], hide)  # a late retry
    assert await visibilities(shop, *names, fourth) == ["public"] * 4
    assert len(await shop.events(MemoryVisibilityChanged.TYPE)) == 3 + 4


async def test_a_new_version_for_fewer_readers_takes_the_earlier_ones_along(shop: Workshop):
    names = await three_versions(shop)
    changes = MemoryChanges(event_id="four", content="four", visibility="shared", shared_with=["carl"])
    fourth = await change(shop, names[0], changes)
    assert await change(shop, names[0], changes) == fourth
    pages = [await shop.document(name, Memory) for name in (*names, fourth)]
    assert {(row.visibility, *row.shared_with) for row in pages} == {("shared", "carl")}


async def test_what_somebody_else_states_stays_as_it_is(shop: Workshop):
    """Two agents that state the same have two memories, each theirs to hide."""
    text = "ada likes her green tea early every morning with some fresh lemon plus honey while reading"
    first = (await shop.remember(text, agent_id="ada", keep_duplicates=False)).id
    second = (await shop.remember(text, agent_id="eve", keep_duplicates=False)).id
    await change(shop, second, MemoryChanges(visibility="private"), EVE)
    assert (await shop.document(first, Memory)).is_latest
    assert await visibilities(shop, first, second) == ["public", "private"]


async def test_adding_a_line_does_not_lift_the_limit_of_a_slot(shop: Workshop):
    slots, caller = SlotOperations(shop.current), Caller(TENANT)
    await slots.set(SetSlot(project="atlas", label="notes", content="12345", size_limit=6), caller)
    with pytest.raises(SlotFull):
        await slots.set(SetSlot(project="atlas", label="notes", content="678", append=True, size_limit=99), caller)
    with pytest.raises(CommandRejected) as refused:
        await slots.set(SetSlot(project="atlas", label="notes", content="", append=True, size_limit=99), caller)
    assert refused.value.field == "size_limit"


async def test_a_crystal_is_linked_from_actions_of_every_project(shop: Workshop):
    done = [
        (await shop.say(WriteAction(project=project, title=f"in {project}", status="done"))).id
        for project in ("atlas", "borealis", "")
    ]
    made = await Condensing(shop.current, clock=shop.clock).crystallize(done, ADA, Caller(TENANT))
    await shop.project()
    assert {(await shop.document(name, Action)).crystallized_into for name in done} == {made.id}


EVERY = range(PARTITIONS)


@pytest.fixture
async def varied(redis: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A log with every way of storing a document in it: bytes, rows, tombstones and marks. Read in small batches."""
    monkeypatch.setattr(projections.maintenance.differences, "DOCUMENTS_PER_READ", 3)
    monkeypatch.setattr(projections.maintenance.differences, "MEMBERS_PER_READ", 2)
    varied = Workshop(redis, tmp_path)
    for n in range(9):
        await varied.observe(f"the build failed {n} times", session=f"s{n % 2}")
    await varied.remember("green tea, no sugar", user_id="u1")
    await varied.learn("rebase before pushing")
    await varied.say(SetSlot(label="notes", content="ship on Friday", project="atlas"))
    await varied.say(WriteAction(title="ship it", project="atlas"))
    gone = await varied.remember("a secret")
    await varied.project()
    await Forgetting(varied.current).documents([gone.id], Reader(TENANT, "ada"), Caller(TENANT))
    await varied.project()
    return varied


async def test_live_documents_have_the_manifest_of_a_replay(varied: Workshop):
    live, again = await manifest_of(varied.redis, EVERY), await replay_manifest(varied.log, EVERY)
    assert manifest_differences(live, again) == []
    assert live.summary == again.summary
    kinds = {kind for item in live.summary.values() for kind in item.documents}
    assert kinds >= {"observation", "memory", "session", "lesson", "slot", "action", "tombstone", "mark"}
    assert {type(item) for item in await varied.everything()} >= {SupersededEvent, Tombstone}


async def test_another_generation_has_the_same_manifest(varied: Workshop):
    before = await manifest_of(varied.redis, EVERY)
    for partition in EVERY:
        assert await rebuild(varied.redis, varied.log, partition, 10) == 1
    assert (await manifest_of(varied.redis, EVERY)).summary == before.summary
    assert (await manifest_of(varied.redis, EVERY, generation=1)).summary == before.summary


async def test_what_is_altered_missing_or_too_many_is_named(varied: Workshop):
    again = await replay_manifest(varied.log, EVERY)
    home = next(item for item in EVERY if any(name.startswith("obs_") for name in again.partitions[item].documents))
    keys = PartitionKeys(home).of_generation(1)
    altered, missing = [name for name in again.partitions[home].documents if name.startswith("obs_")][:2]
    extra = Tombstone(id=cast(Any, "mem_" + "0" * 20))
    await varied.redis.set(keys.doc(altered), encode(Tombstone(id=cast(Any, altered))))
    await varied.redis.delete(keys.doc(missing))
    await varied.redis.set(keys.doc(extra.id), encode(extra))
    (result,) = manifest_differences(await manifest_of(varied.redis, EVERY), again)
    assert result.partition == home
    assert result.first_documents == sorted([altered, missing, extra.id])
    assert result.listings == 0


async def test_a_partition_that_does_not_hold_still_is_refused(varied: Workshop):
    """Documents of two moments would be a manifest of nothing."""
    keys = PartitionKeys(0).of_generation(1)

    async def keep_on() -> None:
        for ms in count(1):
            await varied.redis.set(keys.checkpoint, f"{ms}-0")

    writing = asyncio.create_task(keep_on())
    try:
        with pytest.raises(ManifestUnsteady, match="partition 0"):
            await manifest_of(varied.redis, EVERY)
    finally:
        await end(writing)
