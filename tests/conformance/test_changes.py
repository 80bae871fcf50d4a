"""Changing what exists, through the operations, against a real Valkey: versions, their readers, slots, crystals."""

import pytest
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller, ForgetSubject, SetSlot, WriteAction
from ingest.errors import CommandRejected, Forbidden, NotFound, SlotFull
from ingest.events.memory import MemoryVisibilityChanged
from projections.condensing.operations import Condensing
from projections.documents.access import Reader
from projections.documents.actions import Action
from projections.documents.memories import Memory
from projections.operations.memories import MemoryChanges, MemoryOperations
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
