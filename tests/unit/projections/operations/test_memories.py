"""A revision and what is left of a memory keep every field that they do not change, also one that is added later."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from ingest.ids import DocumentId
from ingest.nouns.memory import Remember, ReviseMemory
from projections.nouns.access import Reader
from projections.nouns.document import carried
from projections.nouns.memory import Memory
from projections.operations.memory import MemoryChanges, revision_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MEMORY = Memory(
    id=DocumentId("mem_1"), event_id="e1", tenant="default", project="p", session_id="s", agent_id="ada", user_id="kim",
    content="tea", title="drinks", memory_type="procedural", purpose="request", tags=["t"], concepts=["c"],
    files=["f.py"], references=["mem_2"], metadata={"k": "v"}, importance=7.0, visibility="shared", shared_with=["bob"],
    owner="eve", forget_after=NOON, keep_duplicates=True, derived_from=["obs_1"], trust="imported", valid_until=NOON,
    mandatory=True, occurred_at=NOON, recorded_at=NOON, position="1-0", updated_at=NOON,
)  # fmt: skip


def shared_fields(command: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the memory's values of the fields that the command has, too; none may be a default."""
    values = {field.name: getattr(MEMORY, field.name, None) for field in msgspec.structs.fields(command)}
    shared = {name: value for name, value in values.items() if name in MEMORY.__struct_fields__}
    for field in msgspec.structs.fields(command):
        assert shared.get(field.name, ...) != field.default, f"set {field.name} in MEMORY"
    return shared


def test_a_revision_keeps_every_field_that_it_does_not_change():
    revised = revision_of(MEMORY, MemoryChanges(event_id="e2", tags=["new"]), Reader("default", "bob"))
    expected = shared_fields(ReviseMemory) | {"event_id": "e2", "tags": ["new"], "agent_id": "bob", "occurred_at": None}
    assert {name: getattr(revised, name) for name in expected} == expected
    assert (revised.memory, revised.creator) == ("mem_1", "ada")


def test_a_revision_with_another_text_drops_the_title_the_end_and_the_trust_of_the_old_text():
    revised = revision_of(MEMORY, MemoryChanges(event_id="e2", content="coffee"), Reader("default", "bob"))
    assert (revised.content, revised.title, revised.valid_until, revised.trust) == ("coffee", "", None, "")
    assert revised.forget_after == NOON


def test_carried_fields_are_all_that_a_command_shares_with_a_document():
    assert carried(MEMORY, Remember) == shared_fields(Remember)
    assert carried(MEMORY, Remember, without={"files"}).keys() == shared_fields(Remember).keys() - {"files"}
