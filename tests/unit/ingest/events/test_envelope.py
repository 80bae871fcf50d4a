"""What is stored is read back unchanged; what cannot be read says why and is never mistaken for something else."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from any_events import data_of, envelopes
from factories import NOW, event
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import NewerEventVersion, UnknownEventType, UnreadableEvent
from ingest.events.envelope import (
    SESSION_TYPES,
    UNCLAIMED,
    Envelope,
    Event,
    EventData,
    as_json_object,
    encode,
    route_of,
)
from ingest.events.subject import EventErased, ObservationQuarantined, SubjectForgotten
from ingest.log.position import Position, project_route, session_route
from ingest.nouns.lesson import LessonRecorded, fingerprint
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.observation import ObservationCompressed, ObservationRecorded
from ingest.nouns.registry import EVENT_TYPES, UPCASTERS, decode
from ingest.nouns.session import SessionCommitted, SessionEnded, SessionRetired, SessionStarted, SessionSummarised
from ingest.nouns.slot import SlotSet

HERE = Position(1_769_860_800_000, 7)


@pytest.mark.parametrize("cls", EVENT_TYPES.values(), ids=EVENT_TYPES.keys())
@settings(max_examples=10)
@given(drawn=st.data())
def test_an_event_is_read_back_as_it_was_written(cls: type[EventData], drawn: st.DataObject):
    written = event(drawn.draw(data_of(cls)), **drawn.draw(envelopes))
    read = decode(encode(written), HERE)
    assert (read.position, read.data) == (HERE, written.data)
    assert all(getattr(read.envelope, name) == getattr(written.envelope, name) for name in Envelope.__struct_fields__)


def test_an_imported_event_keeps_the_time_of_its_first_log():
    first = NOW - timedelta(days=30)
    read = decode(encode(event(MemoryRecorded(content="a"), recorded_at=first)), HERE)
    assert (read.recorded_at, read.recorded_ms) == (first, int(first.timestamp() * 1000))
    own = decode(encode(event(MemoryRecorded(content="a"))), HERE)
    assert (own.recorded_at, own.recorded_ms) == (HERE.recorded_at, HERE.ms)


def test_the_defaults_of_an_envelope_are_read_back():
    bare = Envelope(event_id="e1", type="memory.recorded", version=2, tenant="t")
    read = decode(encode(Event(bare, MemoryRecorded(content="a"))), HERE)
    assert read.envelope.occurred_at == UNCLAIMED
    assert read.envelope.metadata == {}


def test_equal_events_are_equal_bytes():
    data = ObservationRecorded(content="a", data={"b": 1})
    assert encode(event(data)) == encode(event(data))


def stored(**changes: Any) -> bytes:
    """A stored memory with some of its fields replaced."""
    raw = msgspec.msgpack.decode(encode(event(MemoryRecorded(content="likes tea"))))
    return msgspec.msgpack.encode({**raw, **changes})


def test_an_unknown_type_is_named_with_the_known_ones():
    with pytest.raises(UnknownEventType, match=r"'memory\.exploded'.*memory\.recorded"):
        decode(stored(type="memory.exploded"), HERE)


def test_a_newer_version_asks_for_an_upgrade():
    with pytest.raises(NewerEventVersion, match=r"memory\.recorded version 99 .* upgrade"):
        decode(stored(version=99), HERE)


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\xc1", b"\xff" * 20, b"[]", b'{"type": "memory.recorded"}', msgspec.msgpack.encode(5),
        msgspec.msgpack.encode({}), stored(data=5), stored(data={}), stored(data={"content": 5}), stored(version="2"),
        stored(version=1, data=5), stored(version=0), stored(version=-1),
        stored(version=1, data={"content": "a", "ttl_days": "many"}),
        stored(version=1, data={"content": "a", "ttl_days": 1e300}), stored()[:-1],
        stored().replace(b"likes tea", b"likes\xff\xfftea"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_event_are_unreadable(payload: bytes):
    with pytest.raises(UnreadableEvent):
        decode(payload, HERE)


@given(st.binary(max_size=100))
def test_no_bytes_crash_the_reader(payload: bytes):
    with pytest.raises(UnreadableEvent):
        decode(payload, HERE)


def test_fields_of_a_newer_release_are_ignored():
    """Additive changes need no version: an older reader survives a rolling deploy."""
    read = decode(stored(mood="calm", data={"content": "likes tea", "mood": "calm"}), HERE)
    assert read.data == MemoryRecorded(content="likes tea")


def test_every_older_version_has_an_upcaster():
    steps = {(name, version) for name, cls in EVENT_TYPES.items() for version in range(1, cls.VERSION)}
    assert UPCASTERS.keys() == steps


def test_a_type_name_is_a_noun_and_a_past_verb():
    assert all(name == cls.TYPE and len(name.split(".")) == 2 for name, cls in EVENT_TYPES.items())


def test_people_read_any_stored_event():
    """Also of an unknown type or a newer version: nothing in the log is hidden."""
    shown = as_json_object(stored(type="memory.exploded", version=99), HERE)
    assert (shown["type"], shown["version"], shown["position"]) == ("memory.exploded", 99, str(HERE))
    assert shown["recorded_at"] == HERE.recorded_at
    assert shown["data"] == {"content": "likes tea"}
    assert shown["occurred_at"] == NOW


@pytest.mark.parametrize("payload", [b"", b"\xc1", msgspec.msgpack.encode(5)])
def test_people_are_told_of_stored_bytes_that_are_no_event(payload: bytes):
    shown = as_json_object(payload, HERE)
    assert shown["position"] == str(HERE)
    assert shown["unreadable"]


OF_THE_SESSION = session_route("default", "atlas", "s1")
OF_THE_PROJECT = project_route("default", "atlas")

IN_SESSION: list[EventData] = [
    ObservationRecorded(content="a"),
    ObservationCompressed(observation="obs_1", title="a", narrative="b", model="m", prompt_version="1"),
    SessionStarted(),
    SessionEnded(),
    SessionSummarised(title="a", narrative="b"),
    SessionRetired(documents=["obs_1"], part=0, idle_since_ms=1),
    ObservationQuarantined(document="obs_1"),
]
IN_PROJECT: list[EventData] = [
    MemoryRecorded(content="a"),
    LessonRecorded(content="a"),
    SessionCommitted(commit="9f1c"),
    SlotSet(label="notes", content="a"),
]


@pytest.mark.parametrize("data", IN_SESSION, ids=lambda data: data.TYPE)
def test_what_happens_in_a_session_goes_to_the_session(data: EventData):
    assert route_of(*event(data)) == OF_THE_SESSION


@pytest.mark.parametrize("data", IN_PROJECT, ids=lambda data: data.TYPE)
def test_what_is_kept_goes_to_the_project_although_a_session_said_it(data: EventData):
    assert route_of(*event(data)) == OF_THE_PROJECT


def test_the_types_of_a_session_are_these():
    """Another type here would send its events to another partition than those that are stored already."""
    assert {data.TYPE for data in IN_SESSION} == SESSION_TYPES
    assert EVENT_TYPES.keys() > SESSION_TYPES


@pytest.mark.parametrize("kind", ["observation", "memory", "session", "user", "project"])
def test_a_tombstone_goes_to_the_session_it_names_else_to_the_project(kind: str):
    data = SubjectForgotten(kind=kind, subject="x")  # type: ignore[arg-type]
    assert route_of(*event(data)) == OF_THE_SESSION
    assert route_of(*event(data, session_id="")) == OF_THE_PROJECT


@pytest.mark.parametrize("was", sorted(EVENT_TYPES.keys() - {"event.erased", "subject.forgotten"}))
def test_a_stub_goes_where_the_erased_event_went(was: str):
    data = EventErased(was=was, document="x")
    assert route_of(*event(data)) == (OF_THE_SESSION if was in SESSION_TYPES else OF_THE_PROJECT)


def test_streams_of_two_tenants_or_projects_are_apart():
    data = MemoryRecorded(content="a")
    routes = {
        route_of(Envelope(event_id="e", type="", version=1, tenant=t, project=p), data) for t in "ab" for p in "ab"
    }
    assert len(routes) == 4


def test_case_and_outer_whitespace_do_not_make_another_lesson():
    assert fingerprint("  Run Tests\n") == fingerprint("run tests") == "c7b8e61142837b8e"


@given(st.text())
def test_every_text_has_a_fingerprint(content: str):
    assert len(fingerprint(content)) == 16
