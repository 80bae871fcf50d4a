from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from factories import TENANT, place, remembered
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from api.dialects.memex.records import (
    IMPORTANCE,
    PROJECT,
    TYPES,
    is_found,
    memory_id_of,
    memory_record,
    record_at_once,
    remember,
    time_text,
    uuid_of,
)
from ingest.commands.decide import Caller, decide
from ingest.events.envelope import Recorded
from ingest.ids import EventId
from ingest.nouns.memory import MemoryRecorded
from projections.nouns.memory import Memory, memory

IDS = st.integers(0, 2**80 - 1).map(lambda number: f"mem_{number:020x}")


def kept(importance: float = 1.0, **changes: str) -> Memory:
    """The memory that memex's command becomes."""
    command = remember("ada", "grace", "likes tea", "semantic", importance)
    event = decide(command, Caller(TENANT), EventId("e1"), remembered(1, "x").envelope.occurred_at).event
    assert isinstance(event.data, MemoryRecorded)
    return replace(memory(Recorded(place(1), *event), event.data), **changes)


@given(IDS)
def test_an_id_is_read_back_from_its_uuid(name: str):
    uuid = uuid_of(name)
    assert memory_id_of(uuid) == name
    assert (uuid.version, uuid.variant) == (4, "specified in RFC 4122")


@given(st.lists(IDS, unique=True))
def test_no_two_ids_share_a_uuid(names: list[str]):
    assert len({uuid_of(name) for name in names}) == len(names)


def test_a_uuid_is_the_same_for_ever():
    """Clients have it in their notes."""
    assert str(uuid_of("mem_0123456789abcdef0123")) == "01234567-89ab-4cde-8f01-6d656d657823"


@pytest.mark.parametrize("uuid", [uuid4(), UUID(int=0), UUID("01234567-89ab-1cde-8f01-6d656d657823")])
def test_another_uuid_is_nobodys(uuid: UUID):
    assert memory_id_of(uuid) is None


def test_a_memory_is_of_its_agent_and_user_and_never_superseded():
    stored = kept()
    assert (stored.project, stored.agent_id, stored.user_id) == (PROJECT, "ada", "grace")
    assert (stored.memory_type, stored.keep_duplicates) == ("semantic", True)


@pytest.mark.parametrize(("given_", "ours"), [(0.0, 0.0), (1.0, 5.0), (2.0, 10.0), (1.37, 6.85)])
def test_importance_is_on_our_scale_and_kept_as_it_was_given(given_: float, ours: float):
    stored = kept(given_)
    assert stored.importance == pytest.approx(ours)  # pyright: ignore[reportUnknownMemberType]
    assert stored.metadata[IMPORTANCE] == repr(given_)


def test_only_its_agents_current_memories_are_there():
    assert is_found(kept(), "ada")
    assert not is_found(kept(), "bob")
    assert not is_found(replace(kept(), is_latest=False), "ada")
    assert not is_found(kept(project="atlas"), "ada")


def test_types_are_known_by_name():
    assert [TYPES.get(name) for name in ("episodic", "Semantic", "")] == ["episodic", None, None]


def test_a_memory_is_shown_at_once_as_it_is_found_later():
    when = datetime(2026, 1, 31, 12, 0, 0, 120, tzinfo=UTC)
    command = remember("ada", "grace", "The <private>red</private> kettle", "semantic", 1.37, when)
    event = decide(command, Caller(TENANT), EventId("e1"), remembered(1, "x").envelope.occurred_at).event
    assert isinstance(event.data, MemoryRecorded)
    stored = memory(Recorded(place(1), *event), event.data)
    at_once = record_at_once(command, stored.id, when)
    assert at_once == memory_record(stored)
    assert at_once.created_at == "2026-01-31T12:00:00.000120Z"
    assert (at_once.importance, at_once.score) == (1.37, None)
    assert "red" not in at_once.content


def test_a_score_has_four_decimals():
    assert memory_record(kept(), 0.123456).score == 0.1235


def test_the_importance_of_what_memex_did_not_give_is_on_its_scale():
    assert memory_record(replace(kept(), metadata={}, importance=8.0)).importance == 1.6
    assert memory_record(replace(kept(0.5), metadata={IMPORTANCE: "high"})).importance == 0.5
    assert memory_record(replace(kept(), metadata={}, importance=1.0, condensed=["mem_1"])).importance == 1.0


def test_a_time_without_a_fraction_has_microseconds_too():
    assert time_text(datetime(2026, 1, 31, tzinfo=UTC)) == "2026-01-31T00:00:00.000000Z"
