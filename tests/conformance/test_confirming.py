"""Saying what proved right, through the operation, against a real Valkey."""

from workshop import TENANT, Workshop

from ingest.commands.decide import Caller, RecordLesson
from projections.documents.access import Reader
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.operations.memories import MemoryChanges, MemoryOperations
from projections.operations.work import Confirmed, Confirming

ADA, EVE = Reader(TENANT, "ada"), Reader(TENANT, "eve")


async def confirm(shop: Workshop, *names: str, reader: Reader = ADA, event_id: str = "") -> Confirmed:
    caller = Caller(TENANT, agent_id=reader.agent_id)
    told = await Confirming(shop.current).confirm(names, reader, caller, event_id)
    await shop.project()
    return told


async def learn(shop: Workshop) -> str:
    return (await shop.say(RecordLesson(content="Run the migrations first.", project="atlas"))).id


async def test_memories_and_lessons_that_proved_right_count_for_more(shop: Workshop):
    tea, lesson = (await shop.remember("tea")).id, await learn(shop)
    told = await confirm(shop, tea, lesson, tea)
    assert (told.confirmed, told.unknown) == ([tea, lesson], [])
    assert told.position
    assert (await shop.document(tea, Memory)).confirmations == 1
    assert (await shop.document(lesson, Lesson)).reinforcements == 1


async def test_confirming_again_with_the_same_event_id_changes_nothing(shop: Workshop):
    tea, lesson = (await shop.remember("tea")).id, await learn(shop)
    for _ in range(2):
        await confirm(shop, tea, lesson, event_id="e1")
    assert (await shop.document(tea, Memory)).confirmations == 1
    assert (await shop.document(lesson, Lesson)).reinforcements == 1
    await confirm(shop, tea, event_id="e2")
    assert (await shop.document(tea, Memory)).confirmations == 2


async def test_what_is_not_there_or_not_the_readers_to_see_is_unknown(shop: Workshop):
    superseded = (await shop.remember("one", agent_id="eve")).id
    changes = MemoryChanges(content="two")
    await MemoryOperations(shop.current).change(superseded, changes, EVE, Caller(TENANT, agent_id="eve"))
    hers = (await shop.remember("private", agent_id="ada", visibility="private")).id
    seen = (await shop.observe("an observation")).id
    named = [hers, seen, superseded, "mem_nothing", "what?"]
    told = await confirm(shop, *named, reader=EVE)
    assert (told.confirmed, told.unknown, told.position) == ([], named, "")
    assert (await shop.document(hers, Memory)).confirmations == 0
