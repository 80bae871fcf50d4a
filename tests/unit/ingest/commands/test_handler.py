"""The write side's shell: what is acknowledged is in the log, and only what is wrong is refused."""

import gc
from typing import Any

import pytest
from factories import NOW, ManualClock, event

from ingest.commands.decide import AnyCommand, Caller, Observe, RecordLesson, Remember
from ingest.commands.handler import RECORDED_AT_BYTES, Accepted, CommandHandler
from ingest.errors import CommandRejected
from ingest.events.envelope import Event, Recorded, decode, encode
from ingest.events.memory import MemoryRecorded
from ingest.events.session import ObservationRecorded
from ingest.log.event_log import MAX_ENTRY_BYTES
from ingest.log.group_commit import GroupCommit
from ingest.log.position import START, Token
from tests.support.memory_log import MemoryLog

ADA = Caller("acme")


@pytest.fixture
def log(clock: ManualClock) -> MemoryLog:
    return MemoryLog(4, clock.ms)


@pytest.fixture
def handler(log: MemoryLog, clock: ManualClock) -> CommandHandler:
    return CommandHandler(GroupCommit(log), 4, clock)


async def stored(log: MemoryLog) -> list[Recorded]:
    """Every event in the log."""
    return [
        decode(entry.payload, entry.position)
        for partition in range(log.partitions)
        for entry in await log.read(partition, START, 10_000)
    ]


async def test_an_accepted_command_is_in_the_log_where_its_position_says(handler: CommandHandler, log: MemoryLog):
    accepted = await handler.handle(Remember(content="likes tea", event_id="e1"), ADA)
    ((partition, position),) = Token.parse(accepted.position).items()
    (entry,) = await log.read(partition, START, 10)
    assert entry.position == position
    assert decode(entry.payload, position).envelope.event_id == "e1" == accepted.event_id
    assert accepted.id.startswith("mem_")
    assert not accepted.duplicate


async def test_a_repeat_is_acknowledged_as_the_first_and_stored_once(handler: CommandHandler, log: MemoryLog):
    command = Remember(content="likes tea", event_id="e1")
    first, second = await handler.handle(command, ADA), await handler.handle(command, ADA)
    assert second == Accepted(first.id, "e1", first.position, True, "memory")
    assert len(await stored(log)) == 1


async def test_without_an_event_id_every_command_is_a_new_event(handler: CommandHandler, log: MemoryLog):
    command = Remember(content="likes tea")
    first, second = await handler.handle(command, ADA), await handler.handle(command, ADA)
    assert first.event_id != second.event_id
    assert len(await stored(log)) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((Remember(content="a", event_id="1"), Caller("acme")), (Remember(content="a", event_id="1"), Caller("emca"))),
        (
            (Observe(session_id="s1", content="a", event_id="1"), ADA),
            (Observe(session_id="s2", content="b", event_id="1"), ADA),
        ),
        (
            (Remember(content="a", project="atlas", event_id="1"), ADA),
            (Remember(content="b", project="hermes", event_id="1"), ADA),
        ),
    ],
    ids=["tenants", "sessions", "projects"],
)
async def test_equal_event_ids_of_different_places_do_not_meet(
    clock: ManualClock, one: tuple[AnyCommand, Caller], other: tuple[AnyCommand, Caller]
):
    """Neither swallows the other, also when both are routed to one partition (see ingest/ids.py)."""
    log = MemoryLog(1, clock.ms)
    handler = CommandHandler(GroupCommit(log), 1, clock)
    answers = [await handler.handle(*one), await handler.handle(*other)]
    assert [answer.duplicate for answer in answers] == [False, False]
    assert len(await stored(log)) == 2


async def test_a_batch_is_accepted_or_rejected_item_by_item(handler: CommandHandler, log: MemoryLog):
    fault = CommandRejected("unknown field `x`", "x")
    items: list[Any] = [
        Remember(content="a", event_id="e1"),
        fault,
        Remember(content=" "),
        RecordLesson(content="b", event_id="e2"),
        Remember(content="a", event_id="e1"),
    ]
    outcome = await handler.handle_batch(items, ADA)
    assert (outcome.accepted, outcome.duplicates) == (2, 1)
    assert [index for index, _ in outcome.rejected] == [1, 2]
    assert outcome.rejected[0][1] is fault
    assert len(await stored(log)) == 2


async def test_a_secret_is_removed_from_its_item_of_a_batch_and_the_others_stay_as_they_are(
    handler: CommandHandler, log: MemoryLog
):
    texts = [f"note {n}" for n in range(40)]
    texts[20] = "token = ghp_" + "a1B2" * 9
    outcome = await handler.handle_batch([Remember(content=text, event_id=text[:7]) for text in texts], ADA)
    assert outcome.accepted == len(texts)
    contents = {one.envelope.event_id: str(one.data.content) for one in await stored(log)}  # pyright: ignore
    assert "ghp_" not in contents.pop("token =")
    assert contents == {text: text for text in texts if text.startswith("note")}


async def test_the_token_of_a_batch_covers_all_of_it(handler: CommandHandler, log: MemoryLog):
    commands = [Observe(session_id=f"s{n}", content="a") for n in range(20)]
    outcome = await handler.handle_batch(commands, ADA)
    assert outcome.token == {partition: await log.head(partition) for partition in range(log.partitions)}


async def test_a_repeated_batch_gets_the_token_of_the_first(handler: CommandHandler, log: MemoryLog):
    commands = [Observe(session_id=f"s{n}", content="a", event_id=f"e{n}") for n in range(5)]
    first, second = await handler.handle_batch(commands, ADA), await handler.handle_batch(commands, ADA)
    assert (second.accepted, second.duplicates, second.token) == (0, 5, first.token)
    assert len(await stored(log)) == 5


async def test_a_batch_of_nothing_good_appends_nothing(handler: CommandHandler, log: MemoryLog):
    assert await handler.handle_batch([], ADA) == (0, 0, [], Token(), "memory", ())
    outcome = await handler.handle_batch([Remember(content="")], ADA)
    assert (outcome.accepted, outcome.duplicates, outcome.token) == (0, 0, Token())
    assert await stored(log) == []


async def test_rejected_items_are_freed_with_their_batch(handler: CommandHandler):
    """Without the collector, which comes by late: each error kept its batch, and every batch its errors."""
    others = rejections()
    commands = [CommandRejected("no command"), Remember(content=""), Observe(content="no session")] * 20
    gc.collect()
    gc.disable()
    try:
        assert len((await handler.handle_batch(commands, ADA)).rejected) == 60
        del commands
        assert [one for one in rejections() if not any(one is other for other in others)] == []
    finally:
        gc.enable()


def rejections() -> list[CommandRejected]:
    """All that are in memory; other tests leave some."""
    return [one for one in gc.get_objects() if type(one) is CommandRejected]


async def test_a_big_command_is_decided_as_any_other(handler: CommandHandler, log: MemoryLog):
    """In a thread, alone and in a batch."""
    big = [
        Observe(session_id="s1", data={"x": list(range(5_000))}, event_id="e1"),
        Remember(content="tea " * 50_000, event_id="e2"),
    ]
    for one in big:
        assert (await handler.handle(one, ADA)).event_id == one.event_id
    assert (await handler.handle_batch(big, ADA)).duplicates == 2
    with pytest.raises(CommandRejected, match="session"):
        await handler.handle(Observe(data={"x": list(range(5_000))}), ADA)
    assert {event.envelope.event_id for event in await stored(log)} == {"e1", "e2"}


async def test_a_batch_of_many_slices_keeps_its_order(handler: CommandHandler, log: MemoryLog):
    count = 2_000
    commands = [Observe(session_id="s1", content=str(n), event_id=f"e{n}") for n in range(count)]
    assert (await handler.handle_batch(commands, ADA)).accepted == count
    assert [event.envelope.event_id for event in await stored(log)] == [f"e{n}" for n in range(count)]


async def test_an_event_too_big_for_the_log_is_rejected(handler: CommandHandler, log: MemoryLog):
    with pytest.raises(CommandRejected) as fault:
        await handler.handle(Remember(content="x" * MAX_ENTRY_BYTES), ADA)
    assert fault.value.field == "content"
    with pytest.raises(CommandRejected) as fault:
        await handler.handle(Observe(session_id="s1", data={"x": "y" * MAX_ENTRY_BYTES}), ADA)
    assert fault.value.field == "data"
    assert await stored(log) == []


@pytest.mark.parametrize(
    "bad",
    [Observe(session_id="s1", data={"n": 2**70}), Observe(session_id="\ud800", content="a")],
    ids=["huge integer", "lone surrogate"],
)
async def test_an_item_that_cannot_be_stored_rejects_only_itself(handler: CommandHandler, log: MemoryLog, bad: Observe):
    outcome = await handler.handle_batch([Remember(content="a"), bad, Remember(content="b")], ADA)
    assert [index for index, _ in outcome.rejected] == [1]
    assert len(await stored(log)) == 2


async def test_events_of_another_log_are_appended_as_they_are(handler: CommandHandler, log: MemoryLog):
    events = [
        event(ObservationRecorded(content="a"), event_id="e1", recorded_at=NOW),
        event(MemoryRecorded(content="b"), event_id="e2", recorded_at=NOW),
    ]
    outcome = await handler.append_events(events)
    assert (outcome.accepted, outcome.duplicates, outcome.rejected) == (2, 0, [])
    found = await stored(log)
    assert len(found) == 2
    assert {encode(Event(one.envelope, one.data)) for one in found} == set(map(encode, events))
    again = await handler.append_events(events)
    assert (again.accepted, again.duplicates, again.token) == (0, 2, outcome.token)


async def test_another_event_of_the_same_id_is_appended(handler: CommandHandler, log: MemoryLog):
    """Behind its dedup window the other log took the id again."""
    first, second = (event(MemoryRecorded(content=text), recorded_at=NOW) for text in "ab")
    assert (await handler.append_events([first, second, first])).duplicates == 1
    assert len(await stored(log)) == 2


async def test_an_event_of_another_log_may_be_bigger_by_the_time_it_was_recorded(handler: CommandHandler):
    empty = len(encode(event(ObservationRecorded(content="x" * 100_000)))) - 100_000
    biggest = "x" * (MAX_ENTRY_BYTES - empty)
    fits, too_big = (
        event(ObservationRecorded(content=biggest + more), recorded_at=NOW) for more in ("", "x" * RECORDED_AT_BYTES)
    )
    outcome = await handler.append_events([too_big, fits])
    assert outcome.accepted == 1
    assert [(index, fault.code) for index, fault in outcome.rejected] == [(0, "invalid")]


async def test_an_event_that_cannot_be_encoded_rejects_only_itself(handler: CommandHandler):
    events = [event(ObservationRecorded(data={"n": n})) for n in (1, 2**70)]
    outcome = await handler.append_events(events)
    assert (outcome.accepted, [index for index, _ in outcome.rejected]) == (1, [1])
