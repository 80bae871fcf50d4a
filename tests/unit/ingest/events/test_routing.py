"""Every event has one stream: its session's or its project's, the same for a command, a fold and an import."""

import pytest
from factories import event

from ingest.events.envelope import Envelope
from ingest.events.lesson import LessonRecorded
from ingest.events.memory import MemoryRecorded
from ingest.events.observation import ObservationCompressed, ObservationRecorded
from ingest.events.registry import EVENT_TYPES, EventData
from ingest.events.routing import SESSION_TYPES, route_of
from ingest.events.session import SessionCommitted, SessionEnded, SessionRetired, SessionStarted, SessionSummarised
from ingest.events.slot import SlotSet
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.log.partitions import project_route, session_route

OF_THE_SESSION = session_route("default", "atlas", "s1")
OF_THE_PROJECT = project_route("default", "atlas")

IN_SESSION: list[EventData] = [
    ObservationRecorded(content="a"),
    ObservationCompressed(observation="obs_1", title="a", narrative="b", model="m", prompt_version="1"),
    SessionStarted(),
    SessionEnded(),
    SessionSummarised(title="a", narrative="b"),
    SessionRetired(documents=["obs_1"], part=0, idle_since_ms=1),
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
