"""Memories of agentd and memex, as they are here after an import."""

from typing import Any
from uuid import UUID

import pytest
from factories import TENANT
from imported import documents, events

from api.dialects.agentd import importer as agentd
from api.dialects.memex import importer as memex
from api.dialects.memex.records import IMPORTANCE, PROJECT, is_found, memory_id_of, uuid_of
from api.importing.mapping import ImportRow, Mapped, Record
from ingest.errors import CommandRejected
from projections.documents.memories import Memory

OURS = {
    "id": "mem_1_aa", "content": "Paris", "type": "question", "tags": ["a,b", "c"], "created_by": "ada",
    "visibility": "shared", "shared_with": ["bob"], "references": ["mem_0_bb"],
    "created_at": "2026-01-31T12:00:00.123456789Z", "updated_at": "2026-02-01T12:00:00Z",
}  # fmt: skip
THEIRS = {
    "id": "3fa85f64-5717-4562-b3fc-2c963f66afa6", "agent_id": "bot", "user_id": "u", "content": "likes tea",
    "importance": 1.2, "memory_type": "semantic", "created_at": "2026-05-26T10:30:00Z", "score": None,
}  # fmt: skip


def of_agentd(row: ImportRow) -> Mapped:
    return agentd.mapped(row, TENANT, "town")


def row(record: Record, **changes: Any) -> ImportRow:
    said = {**record, **changes}
    return ImportRow("memory", str(said["id"]), said)


def test_a_memory_of_agentd_keeps_author_readers_and_times():
    rows = [row(OURS, id="mem_0_bb"), row(OURS)]
    _, memory = documents(events("agentd", of_agentd, rows), Memory)
    assert (memory.project, memory.agent_id, memory.owner, memory.purpose) == ("town", "ada", "ada", "question")
    assert (memory.visibility, memory.shared_with, memory.tags) == ("shared", ["bob"], ["a,b", "c"])
    assert memory.recorded_at.isoformat() == "2026-01-31T12:00:00.123000+00:00"
    assert memory.updated_at.isoformat() == "2026-02-01T12:00:00+00:00"
    assert memory.metadata == {"agentd_id": "mem_1_aa"}


def test_equal_memories_of_agentd_stay_two_and_references_lead_to_them():
    rows = [row(OURS, id="mem_0_bb"), row(OURS)]
    first, second = documents(events("agentd", of_agentd, rows), Memory)
    assert (first.is_latest, second.is_latest, second.references) == (True, True, [first.id])


@pytest.mark.parametrize(
    ("field", "value"),
    [("content", " "), ("created_by", None), ("type", "gossip"), ("visibility", "secret"), ("created_at", "now")],
)
def test_a_broken_memory_of_agentd_is_refused_by_its_field(field: str, value: Any):
    with pytest.raises(CommandRejected) as refused:
        of_agentd(row(OURS, **{field: value}))
    assert refused.value.field == field


def test_a_memory_of_memex_is_found_as_memex_finds_it():
    (memory,) = documents(events("memex", memex.mapped, [row(THEIRS)]), Memory)
    assert is_found(memory, "bot")
    assert (memory.project, memory.user_id, memory.importance) == (PROJECT, "u", 6.0)
    assert memory.metadata == {IMPORTANCE: "1.2", "memex_id": THEIRS["id"]}
    assert memory_id_of(uuid_of(memory.id)) == memory.id
    assert memory_id_of(UUID(str(THEIRS["id"]))) is None


@pytest.mark.parametrize(
    ("field", "value"), [("agent_id", ""), ("user_id", None), ("memory_type", "working"), ("created_at", None)]
)
def test_a_broken_memory_of_memex_is_refused_by_its_field(field: str, value: Any):
    with pytest.raises(CommandRejected) as refused:
        memex.mapped(row(THEIRS, **{field: value}))
    assert refused.value.field == field
