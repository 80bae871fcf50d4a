from datetime import UTC, datetime, timedelta
from typing import Any

from factories import TENANT, place
from msgspec import UNSET
from msgspec.structs import replace

from api.dialects.agentd.importer import mapped
from api.dialects.agentd.records import Create, document_of, name_of, new_name, recorded, remember, view
from api.importing.mapping import ImportRow, events_of
from ingest.commands.decide import Caller
from ingest.ids import DocumentId
from projections.nouns.memory import Memory

AT = datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)
NAME = new_name(AT, "0a1b2c3d")


def kept(**fields: Any) -> Memory:
    """The memory that a command becomes, acknowledged at a place a moment later."""
    command = remember(NAME, Create(content="likes tea", agent_id="ada", **fields), AT)
    return recorded(command, Caller(TENANT), f"0:{place(1)}")


def test_a_name_says_when_and_means_one_document():
    assert NAME == "mem_1769860800123_0a1b2c3d"
    memory = kept()
    assert (document_of(NAME, TENANT), name_of(memory)) == (memory.id, NAME)
    assert document_of(NAME, "another") != memory.id


def test_an_imported_memory_keeps_its_name():
    row = {"id": NAME, "content": "likes tea", "created_by": "ada", "created_at": "2026-01-31T12:00:00.123456Z"}
    (event,) = events_of(mapped(ImportRow("memory", NAME, row), TENANT, "agentd"), "agentd", TENANT)
    assert event.envelope.event_id == remember(NAME, Create(content="likes tea", agent_id="ada"), AT).event_id
    assert event.envelope.metadata == kept().metadata


def test_what_another_door_wrote_goes_by_our_id():
    memory = replace(kept(), metadata={})
    assert name_of(memory) == memory.id
    assert document_of(memory.id, TENANT) == memory.id
    assert name_of(replace(memory, metadata={"agentd_id": "../x"})) == memory.id
    assert name_of(replace(memory, metadata={"agentd_id": "mem_1700000000000_deadbeef"})) == memory.id


def test_a_revision_goes_by_an_id_of_its_own():
    """Or the name that a list shows would read the version before."""
    revision = replace(kept(), id=DocumentId("mem_0123456789abcdef0123"), version=2)
    assert name_of(revision) == revision.id


def test_a_view_has_whole_milliseconds_and_moves_only_when_changed():
    memory = kept(purpose="question", tags=["a,b", ""], visibility="shared", shared_with=["x,y"], references=["r"])
    seen = view(memory)
    created = AT.replace(microsecond=123_000)
    assert (seen.occurred_at, seen.updated_at) == (created, created)
    assert (seen.purpose, seen.tags, seen.shared_with, seen.references) == ("question", ["a,b", ""], ["x,y"], ["r"])
    later = memory.recorded_at + timedelta(days=400)
    assert view(replace(memory, updated_at=later)).updated_at == later
    earlier = created - timedelta(days=400)
    assert view(replace(memory, updated_at=earlier)).updated_at == created


def test_an_owner_is_told_where_it_is_not_the_creator():
    assert view(kept()).owner is UNSET
    assert view(replace(kept(), owner="olga")).owner == "olga"


def test_what_is_secret_is_not_answered_either():
    command = remember(NAME, Create(content="my <private>pin</private>", agent_id="ada"), AT)
    assert "pin" not in recorded(command, Caller(TENANT), f"0:{place(1)}").content
