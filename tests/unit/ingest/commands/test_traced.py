"""What a trace says of a write."""

from typing import Any

import pytest
from factories import ManualClock

from ingest.commands.command import Command
from ingest.commands.decide import Caller
from ingest.commands.forgetting import ForgetSubject
from ingest.commands.handler import CommandHandler, write_span
from ingest.commands.lessons import RecordLesson, ReviseLesson
from ingest.commands.memories import Remember
from ingest.commands.sessions import Observe, TrackSession
from ingest.commands.slots import DeleteSlot, SetSlot
from ingest.errors import CommandRejected
from ingest.log.group_commit import GroupCommit
from ingest.platform import tracing
from tests.support.memory_log import MemoryLog
from tests.support.otlp_receiver import Span, traced

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


async def test_a_write_tells_its_steps_and_no_content(clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    log = MemoryLog(4, clock.ms)
    handler = CommandHandler(GroupCommit(log), 4, clock)
    with traced(monkeypatch) as receiver, tracing.server("POST", {}, []):
        accepted = await handler.handle(TEA, Caller("acme", agent_id="ada"))
    decided, appended, written, request = receiver.spans
    assert [one.parent for one in receiver.spans] == [written.id, written.id, request.id, ""]
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


async def test_a_batch_is_one_write_and_one_append(clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    handler = CommandHandler(GroupCommit(MemoryLog(4, clock.ms)), 4, clock)
    with traced(monkeypatch) as receiver, tracing.server("POST", {}, []):
        await handler.handle_batch([TEA, CommandRejected("no"), SEEN, TEA], Caller("acme"))
    spans: dict[str, Span] = {one.name: one for one in receiver.spans}
    assert set(spans) == {"decide", "EVALSHA append", "upsert_memory", "POST"}
    assert spans["upsert_memory"].attributes["gen_ai.memory.record.count"] == 3
    assert spans["EVALSHA append"].attributes["db.operation.batch.size"] == 3


async def test_a_refused_write_says_why_without_its_message(clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    handler = CommandHandler(GroupCommit(MemoryLog(4, clock.ms)), 4, clock)
    with (
        traced(monkeypatch) as receiver,
        tracing.server("POST", {}, []),
        pytest.raises(CommandRejected, match="empty"),
    ):
        await handler.handle(Remember(content=" "), Caller("acme"))
    refused = {one.name: one.attributes.get("error.type") for one in receiver.spans}
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
    appends = [f"00-{one.trace}-{one.id}" for one in receiver.spans if one.name == "EVALSHA append"]
    assert [one.context[:52] for one in seen] == (appends if recorded else [""])
