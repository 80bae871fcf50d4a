"""The command handler: what is acknowledged is in the log, and only what is wrong is refused; limits; traces."""

import asyncio
import gc
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from factories import NOW, ManualClock, event

from ingest.commands.decide import (
    AnyCommand,
    Caller,
    DeleteSlot,
    ForgetSubject,
    Observe,
    RecordLesson,
    Remember,
    ReviseLesson,
    SetSlot,
    TrackSession,
)
from ingest.commands.handler import RECORDED_AT_BYTES, Accepted, CommandHandler, charge
from ingest.commands.spans import write_span
from ingest.errors import CommandRejected, LogFull, LogUnavailable, Overloaded, ProjectionBehind, SessionFull
from ingest.events.envelope import Event, Recorded, encode
from ingest.log.event_log import MAX_ENTRY_BYTES, Appended, Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.position import START, Token
from ingest.nouns.command import Command
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import decode
from ingest.nouns.session import SessionEnded
from ingest.platform import tracing
from tests.support.memory_log import MemoryLog
from tests.support.otlp_receiver import Span, traced

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


@pytest.mark.parametrize("secrets", [0, 1, 40])
async def test_writes_that_come_together_are_each_without_secrets_and_in_order(
    handler: CommandHandler, log: MemoryLog, secrets: int
):
    """They are looked through together, some at a time, if none of them holds a secret."""
    secret = "api_key=sk-live-4f9a8b7c6d5e4f3a2b1c"
    commands = [Observe(session_id="s", content=f"{n} {secret if n < secrets else 'tea'}") for n in range(40)]
    answers = await asyncio.gather(*(handler.handle(command, ADA) for command in commands))
    contents: list[str] = [event.data.content for event in await stored(log)]  # pyright: ignore
    assert [content.split()[0] for content in contents] == [str(n) for n in range(40)]
    assert [content.split()[1] for content in contents[secrets:]] == ["tea"] * (40 - secrets)
    assert not any("4f9a8b7c" in content for content in contents)
    assert len({answer.id for answer in answers}) == 40


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
        assert [rejection for rejection in rejections() if not any(rejection is other for other in others)] == []
    finally:
        gc.enable()


def rejections() -> list[CommandRejected]:
    """All that are in memory; other tests leave some."""
    return [get_object for get_object in gc.get_objects() if type(get_object) is CommandRejected]


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


class Room:
    """Takes so many observations a session."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.counted = Counter[str]()
        self.behind = False

    async def enter(self, command: Observe, tenant: str, subject: str) -> None:
        assert (tenant, subject[:4]) == ("acme", "obs_")
        if self.behind:
            raise ProjectionBehind(1.0, {})
        if self.counted[command.session_id] >= self._limit:
            raise SessionFull(command.session_id, self._limit)
        self.counted[command.session_id] += 1

    def leave(self, command: Observe, tenant: str) -> None:
        self.counted[command.session_id] -= 1


class Failing(GroupCommit):
    """A log whose appends raise an error."""

    def __init__(self, log: MemoryLog, error: Exception) -> None:
        super().__init__(log)
        self._error = error

    async def append(self, entries: Sequence[tuple[int, Entry]], *, past_limit: bool = False) -> list[Appended]:
        raise self._error


@pytest.fixture
def room(handler: CommandHandler) -> Room:
    """Room for two observations, which the handler asks for."""
    handler.admission = room = Room(2)
    return room


def seen(event_id: str) -> Observe:
    """An observation in session s1."""
    return Observe(session_id="s1", content="tests are red", event_id=event_id)


async def test_an_observation_is_counted_once_however_often_it_is_sent(handler: CommandHandler, room: Room):
    for _ in range(3):
        await handler.handle(seen("e1"), ADA)
    assert room.counted == {"s1": 1}
    for _ in range(3):
        outcome = await handler.handle_batch([seen("e1")], ADA)
        assert (outcome.accepted, outcome.duplicates) == (0, 1)
    assert room.counted == {"s1": 1}


async def test_a_batch_is_rejected_from_where_the_session_is_full(handler: CommandHandler, room: Room):
    batch: list[AnyCommand] = [seen("e1"), seen("e2"), seen("e3"), Remember(content="likes tea")]
    outcome = await handler.handle_batch(batch, ADA)
    assert (outcome.accepted, [index for index, _ in outcome.rejected]) == (3, [2])
    assert room.counted == {"s1": 2}


async def test_what_was_not_stored_does_not_count(
    handler: CommandHandler, room: Room, log: MemoryLog, clock: ManualClock
):
    """Neither when the log is away, nor when the count of a later item cannot be told."""
    away = CommandHandler(Failing(log, LogUnavailable("away")), 4, clock)
    away.admission = room
    with pytest.raises(LogUnavailable):
        await away.handle(seen("e1"), ADA)
    with pytest.raises(LogUnavailable):
        await away.handle_batch([seen("e1"), seen("e2")], ADA)
    assert room.counted == {"s1": 0}
    room.behind = True
    with pytest.raises(ProjectionBehind):
        await handler.handle_batch([seen("e1")], ADA)
    assert room.counted == {"s1": 0}


FORGET = ForgetSubject(kind="memory", subject="mem_1", documents=["mem_1"])


class Ceiling:
    """A gate that is shut while `why` says why."""

    def __init__(self) -> None:
        self.why = ""

    def check(self, tenant: str) -> None:
        if self.why:
            raise Overloaded(self.why, 7, "memory")

    def taken(self, tenant: str, events: int, size: int) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture
def ceiling(handler: CommandHandler) -> Ceiling:
    """A gate that the handler asks."""
    handler.gate = ceiling = Ceiling()
    return ceiling


@pytest.mark.parametrize(
    "command",
    [
        Remember(content="tea at four"),
        Observe(session_id="s1", content="red"),
        TrackSession(session_id="s1", status="ended"),
        SetSlot(label="plan", content="tea"),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_a_write_is_refused_while_the_gate_is_shut_and_taken_when_it_opens(
    handler: CommandHandler, ceiling: Ceiling, command: AnyCommand
):
    ceiling.why = "too much"
    with pytest.raises(Overloaded, match="too much") as refused:
        await handler.handle(command, ADA)
    assert (refused.value.retry_after_s, refused.value.cause) == (7, "memory")
    ceiling.why = ""
    assert not (await handler.handle(command, ADA)).duplicate


async def test_a_batch_is_refused_as_a_whole_and_stored_later_once(handler: CommandHandler, ceiling: Ceiling):
    batch = [Remember(content="one", event_id="e1"), Remember(content="two", event_id="e2")]
    await handler.handle_batch(batch[:1], ADA)
    ceiling.why = "too much"
    with pytest.raises(Overloaded):
        await handler.handle_batch(batch, ADA)
    ceiling.why = ""
    outcome = await handler.handle_batch(batch, ADA)
    assert (outcome.accepted, outcome.duplicates) == (1, 1)


async def test_forgetting_passes_a_gate_that_is_shut(handler: CommandHandler, ceiling: Ceiling):
    ceiling.why = "too much"
    await handler.handle(FORGET, ADA)
    kept = SetSlot(label="plan", content="without the forgotten line")
    assert (await handler.handle_batch([FORGET, kept], ADA)).accepted == 2
    assert handler.refused == {}


async def test_what_may_not_be_is_told_as_that_also_when_the_gate_is_shut(handler: CommandHandler, ceiling: Ceiling):
    """Coming back later would not help."""
    ceiling.why = "too much"
    with pytest.raises(CommandRejected):
        await handler.handle(Remember(content="tea", project="a\0b"), ADA)
    outcome = await handler.handle_batch([CommandRejected("no content", "content")], ADA)
    assert [fault.message for _, fault in outcome.rejected] == ["no content"]


async def test_refusals_are_counted_by_their_reason(log: MemoryLog, clock: ManualClock, ceiling: Ceiling):
    handler = CommandHandler(Failing(log, LogFull("no memory left")), 4, clock)
    handler.gate = ceiling
    with pytest.raises(LogFull):
        await handler.handle(Remember(content="tea"), ADA)
    ceiling.why = "too much"
    with pytest.raises(Overloaded):
        await handler.handle_batch([Remember(content="tea")] * 3, ADA)
    with pytest.raises(Overloaded):
        await handler.append_events([event(SessionEnded())])
    assert handler.refused == {"server": 1, "memory": 4}


async def test_every_way_in_charges_the_events_that_it_stored(handler: CommandHandler):
    """Batches, imports and single writes; also repeats, which the log looked up. What was refused costs nothing."""
    charged: list[int] = []

    async def meter(events: int) -> None:
        charged.append(events)

    token = charge.set(meter)
    try:
        await handler.handle(Remember(content="tea"), ADA)
        commands = [Remember(content=f"tea {n}", event_id=f"e{n}") for n in range(3)]
        await handler.handle_batch([*commands, CommandRejected("no")], ADA)
        await handler.handle_batch(commands, ADA)
        await handler.append_events([event(SessionEnded())])
    finally:
        charge.reset(token)
    await handler.handle(Remember(content="of a worker"), ADA)
    assert charged == [1, 3, 3, 1]


TEA = Remember(content="likes tea", project="shop")
SEEN = Observe(content="saw", session_id="s", project="shop")


@pytest.mark.parametrize(
    ("commands", "operation"),
    [
        ([SEEN], "create_memory"),
        ([TEA], "upsert_memory"),
        ([RecordLesson(content="a")], "upsert_memory"),
        ([SetSlot(label="a", content="b")], "upsert_memory"),
        ([TrackSession(session_id="s", status="started")], "upsert_memory"),
        ([ReviseLesson(lesson="lsn_1", content="b")], "update_memory"),
        ([ForgetSubject(kind="memory", subject="mem_1", documents=[])], "delete_memory"),
        ([DeleteSlot(label="a")], "delete_memory"),
        ([SEEN, SEEN], "create_memory"),
        ([SEEN, TEA], "upsert_memory"),
    ],
)
def test_a_write_is_named_by_its_operation(commands: list[Command], operation: str, monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver, tracing.server("POST", {}, []), write_span(commands):
        pass
    assert receiver.spans[0].name == operation == receiver.spans[0].attributes["gen_ai.operation.name"]
    assert receiver.spans[0].attributes["gen_ai.memory.record.count"] == len(commands)


async def test_a_write_tells_its_steps_and_no_content(handler: CommandHandler, monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver, tracing.server("POST", {}, []):
        accepted = await handler.handle(TEA, Caller("acme", agent_id="ada"))
    decided, appended, written, request = receiver.spans
    assert [span.parent for span in receiver.spans] == [written.id, written.id, request.id, ""]
    assert decided.name == "decide"
    assert (appended.name, appended.kind) == ("EVALSHA append", "client")
    assert appended.attributes == {
        "db.system.name": "redis",
        "db.operation.name": "EVALSHA",
        "db.stored_procedure.name": "append",
    }
    assert written.attributes == {
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.memory.store.id": "shop",
        "gen_ai.memory.record.count": 1,
        "gen_ai.memory.record.id": accepted.id,
        "mnemolog.command": "remember",
    }
    assert b"likes tea" not in receiver.received
    assert b"ada" not in receiver.received


async def test_a_batch_is_one_write_and_one_append(handler: CommandHandler, monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver, tracing.server("POST", {}, []):
        await handler.handle_batch([TEA, CommandRejected("no"), SEEN, TEA], Caller("acme"))
    spans: dict[str, Span] = {span.name: span for span in receiver.spans}
    assert set(spans) == {"decide", "EVALSHA append", "upsert_memory", "POST"}
    assert spans["upsert_memory"].attributes["gen_ai.memory.record.count"] == 3
    assert spans["EVALSHA append"].attributes["db.operation.batch.size"] == 3


async def test_a_refused_write_says_why_without_its_message(handler: CommandHandler, monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver, tracing.server("POST", {}, []), pytest.raises(CommandRejected, match="empty"):
        await handler.handle(Remember(content=" "), Caller("acme"))
    refused = {span.name: span.attributes.get("error.type") for span in receiver.spans}
    assert refused == {"decide": "CommandRejected", "upsert_memory": "CommandRejected", "POST": None}
    assert b"empty" not in receiver.received


@pytest.mark.parametrize("recorded", [True, False])
async def test_an_entry_carries_its_context_while_that_is_recorded(
    recorded: bool, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    seen: list[Any] = []

    class Noted(MemoryLog):
        async def append(self, batches: Any) -> Any:
            seen.extend(entry for batch in batches.values() for entry in batch)
            return await super().append(batches)

    handler = CommandHandler(GroupCommit(Noted(4, clock.ms)), 4, clock)
    sampler = "always_on" if recorded else "always_off"
    with traced(monkeypatch, OTEL_TRACES_SAMPLER=sampler) as receiver, tracing.server("POST", {}, []):
        await handler.handle(TEA, Caller("acme"))
    appends = [f"00-{span.trace}-{span.id}" for span in receiver.spans if span.name == "EVALSHA append"]
    assert [one.context[:52] for one in seen] == (appends if recorded else [""])
