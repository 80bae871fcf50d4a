"""The log read backwards: who wrote or deleted what, and when."""

from typing import Any

import pytest
from desk import ADA, ALONE, BOB, PARTITIONS, STRANGER, Desk
from factories import TENANT

from ingest.commands.decide import LinkCommit, ReinforceLesson, Relate, SetSlot, TrackSession, WriteAction
from ingest.errors import CommandRejected
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, partition_of, project_route
from projections.documents.access import Reader
from projections.queries import log_events as audit_module
from projections.queries.log_events import Audit, AuditEntry


@pytest.fixture
def audit(desk: Desk) -> Audit:
    return Audit(desk.log)


async def done(audit: Audit, reader: Reader = ADA, **asked: Any) -> list[str]:
    page = await audit.entries(reader, **asked)
    return [entry.operation for entry in page.entries]


async def test_every_write_is_told_newest_first_with_the_document_it_is_about(desk: Desk, audit: Audit):
    memory = await desk.remember("tea", user_id="u1", session_id="s1")
    lesson = await desk.learn("rebase")
    await desk.say(ReinforceLesson(lesson=lesson, project="atlas", agent_id="bob"))
    slot = await desk.say(SetSlot(label="persona", content="kind", project="atlas"))
    action = await desk.say(WriteAction(title="brew", project="atlas"))
    await desk.say(WriteAction(action=action, status="done", project="atlas"))
    relation = await desk.say(Relate(source=memory, target=lesson, relation="explains", project="atlas"))
    await desk.say(TrackSession(status="started", session_id="s1", project="atlas"))
    commit = await desk.say(LinkCommit(commit="abc", project="atlas"))
    await desk.settle()
    page = await audit.entries(ADA)
    told = [(entry.operation, entry.targets) for entry in reversed(page.entries)]
    (session,) = next(targets for operation, targets in told if operation == "session.started")
    assert session.startswith("ses_")
    assert told == [
        ("memory.recorded", [memory]),
        ("lesson.recorded", [lesson]),
        ("lesson.reinforced", [lesson]),
        ("slot.set", [slot]),
        ("action.created", [action]),
        ("action.updated", [action]),
        ("relation.linked", [relation]),
        ("session.started", [session]),
        ("session.committed", [commit]),
    ]
    first = page.entries[-1]
    assert (first.agent_id, first.user_id, first.project, first.session_id) == ("ada", "u1", "atlas", "s1")
    assert (first.source, first.reason, first.erased) == ("native", "", False)
    partition, _, position = first.position.partition(":")
    assert int(partition) < PARTITIONS
    assert first.at == Position.parse(position).recorded_at
    assert page.next is None


async def test_what_was_said_is_never_told(desk: Desk, audit: Audit):
    await desk.remember("the safe is behind the kettle", visibility="private")
    await desk.settle()
    (entry,) = (await audit.entries(BOB)).entries
    assert "kettle" not in repr(entry)


async def test_observations_are_told_only_when_asked_for(desk: Desk, audit: Audit):
    seen = await desk.observe("step 1")
    await desk.remember("tea")
    assert await done(audit) == ["memory.recorded"]
    assert await done(audit, operation="*") == ["memory.recorded", "observation.recorded"]
    (entry,) = (await audit.entries(ADA, "observation.recorded")).entries
    assert entry.targets == [seen]


async def test_a_forgotten_memory_leaves_who_wrote_it_and_who_deleted_it_and_why(desk: Desk, audit: Audit):
    memory = await desk.remember("tea")
    await desk.settle()
    await desk.forget("memory", memory, reason="a secret", agent_id="bob")
    forgetting, writing = (await audit.entries(ADA)).entries
    assert (forgetting.operation, forgetting.agent_id, forgetting.reason) == ("subject.forgotten", "bob", "a secret")
    assert (writing.operation, writing.agent_id, writing.erased) == ("memory.recorded", "ada", True)
    assert forgetting.targets == writing.targets == [memory]


async def test_it_can_be_narrowed_to_an_operation_an_agent_or_a_project(desk: Desk, audit: Audit):
    await desk.remember("tea")
    await desk.learn("rebase", agent_id="bob")
    await desk.remember("pot", project="hermes")
    assert await done(audit, operation="memory.recorded") == ["memory.recorded"] * 2
    assert await done(audit, agent_id="bob") == ["lesson.recorded"]
    assert await done(audit, project="hermes") == ["memory.recorded"]
    assert await done(audit, project="") == []


@pytest.mark.parametrize("step", [2, 200])
async def test_pages_go_back_through_all_partitions_whatever_is_written_meanwhile(
    desk: Desk, audit: Audit, step: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_module, "STEP", step)
    names = [await desk.remember(f"memory {n}", project=f"p{n % 5}") for n in range(12)]
    found: list[AuditEntry] = []
    cursor: str | None = None
    while True:
        page = await audit.entries(ADA, limit=5, cursor=cursor)
        found += page.entries
        await desk.remember("meanwhile", project=f"p{len(found) % 5}")
        cursor = page.next
        if cursor is None:
            break
    assert [entry.targets for entry in found] == [[name] for name in reversed(names)]


async def test_a_page_passes_over_so_many_entries_only_and_says_where_to_go_on(
    desk: Desk, audit: Audit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_module, "MAX_SCANNED", 2)
    await desk.remember("tea")
    for n in range(3):
        await desk.observe(f"step {n}")
    first = await audit.entries(ADA)
    assert first.entries == []
    assert first.next is not None
    second = await audit.entries(ADA, cursor=first.next)
    assert [entry.operation for entry in second.entries] == ["memory.recorded"]


async def test_what_is_no_cursor_is_refused(audit: Audit):
    for cursor in ("junk", f"{PARTITIONS}:1-0"):
        with pytest.raises(CommandRejected) as refused:
            await audit.entries(ADA, cursor=cursor)
        assert refused.value.field == "cursor"


async def test_isolated_readers_are_told_of_themselves_and_other_tenants_of_nothing(desk: Desk, audit: Audit):
    await desk.remember("tea")
    await desk.learn("rebase", agent_id="bob")
    assert await done(audit, ALONE) == ["lesson.recorded"]
    assert await done(audit, ALONE, agent_id="ada") == []
    assert await done(audit, STRANGER, operation="*") == []
    assert await done(audit, Reader("default", "bob", "isolated", operator=True)) == [
        "lesson.recorded",
        "memory.recorded",
    ]


async def test_an_event_of_a_newer_release_is_told_without_its_targets(desk: Desk, audit: Audit):
    await desk.remember("tea")
    partition = partition_of(project_route(TENANT, "atlas"), PARTITIONS)
    (row,) = await desk.log.read(partition, START, 1)
    for payload in (row.payload.replace(b"memory.recorded", b"memory.imagined"), b"junk"):
        await desk.redis.xadd(PartitionKeys(partition).log, {"e": payload})
    page = await audit.entries(ADA)
    assert [(entry.operation, bool(entry.targets)) for entry in page.entries] == [
        ("memory.imagined", False),
        ("memory.recorded", True),
    ]
