"""decide: a command becomes exactly one event, scrubbed, with an id that a repeat finds again; or it is rejected."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from factories import NOW, minute
from hypothesis import given
from hypothesis import strategies as st

from ingest.commands.decide import MAX_METADATA_BYTES, Caller, Decision, decide
from ingest.commands.requests import (
    AnyCommand,
    ForgetSubject,
    Observe,
    RecordLesson,
    Relate,
    Remember,
    SetSlot,
    TrackSession,
    WriteAction,
)
from ingest.commands.scrub import PRIVATE, SECRET
from ingest.errors import CommandRejected
from ingest.events.action import ActionCreated, ActionUpdated
from ingest.events.envelope import decode, encode
from ingest.events.lesson import LessonRecorded
from ingest.events.memory import MemoryRecorded
from ingest.events.observation import ObservationRecorded
from ingest.events.registry import EventData
from ingest.events.relation import RelationLinked
from ingest.events.session import SessionEnded, SessionStarted
from ingest.events.slot import SlotAppended, SlotSet
from ingest.events.subject import SubjectForgotten
from ingest.ids import EventId
from ingest.log.partitions import project_route, session_route
from ingest.log.position import Position

ADA = Caller("acme", "mcp", "ada")
KEY = "sk-proj-" + "aB3_-" * 4
EVENT = EventId("e1")

COMMANDS: list[AnyCommand] = [
    Observe(session_id="s1", project="atlas", content="a"),
    Remember(project="atlas", content="a"),
    RecordLesson(project="atlas", content="a"),
    TrackSession(session_id="s1", project="atlas", status="started"),
    TrackSession(session_id="s1", project="atlas", status="ended"),
    SetSlot(project="atlas", label="notes", content="a"),
    WriteAction(project="atlas", title="a"),
    Relate(project="atlas", source="a", target="b", relation="r"),
    ForgetSubject(project="atlas", kind="memory", subject="mem_1"),
]


class When:
    """A command carried out for a caller, and what must come of it."""

    def __init__(self, command: AnyCommand, caller: Caller = ADA, now: datetime = NOW) -> None:
        self._command, self._caller, self._now = command, caller, now

    def decided(self, event_id: str = EVENT) -> Decision:
        return decide(self._command, self._caller, EventId(event_id), self._now)

    def then(self, data: EventData, *, route: str) -> None:
        decision = self.decided()
        assert (decision.event.data, decision.route) == (data, route)

    def then_rejected(self, field: str) -> None:
        with pytest.raises(CommandRejected) as fault:
            self.decided()
        assert fault.value.field == field


when = When


def test_an_observation_belongs_to_its_session():
    when(Observe(session_id="s1", project="atlas", kind="task", content="built it", data={"a": 1})).then(
        ObservationRecorded(kind="task", content="built it", data={"a": 1}), route=session_route("acme", "atlas", "s1")
    )


def test_an_observation_without_a_session_is_rejected():
    when(Observe(content="a")).then_rejected("session_id")


@pytest.mark.parametrize("content", ["", " ", "\n\t"])
def test_an_observation_of_nothing_is_rejected(content: str):
    when(Observe(session_id="s1", content=content)).then_rejected("content")


def test_an_observation_may_be_data_alone():
    when(Observe(session_id="s1", data={"tool": "bash"})).then(
        ObservationRecorded(data={"tool": "bash"}), route=session_route("acme", "", "s1")
    )


def test_a_memory_belongs_to_its_project():
    when(Remember(project="atlas", content="likes tea", tags=["a", "b", "a"])).then(
        MemoryRecorded(content="likes tea", tags=["a", "b"]), route=project_route("acme", "atlas")
    )


def test_a_memory_that_expires_knows_when():
    when(Remember(content="a", ttl_days=1.5)).then(
        MemoryRecorded(content="a", forget_after=NOW + timedelta(days=1.5)), route=project_route("acme", "")
    )


def test_a_lesson_belongs_to_its_project():
    when(RecordLesson(project="atlas", content="rebase first", context="git", confidence=0.8)).then(
        LessonRecorded(content="rebase first", context="git", confidence=0.8), route=project_route("acme", "atlas")
    )


def test_a_session_starts_and_ends():
    route = session_route("acme", "", "s1")
    when(TrackSession(session_id="s1", status="started", cwd="/src", title="fix")).then(
        SessionStarted(cwd="/src", title="fix"), route=route
    )
    when(TrackSession(session_id="s1", status="ended", reason="done")).then(SessionEnded(reason="done"), route=route)


def test_a_session_needs_a_name():
    when(TrackSession(status="started")).then_rejected("session_id")


def test_a_slot_is_set_or_appended_to():
    route = project_route("acme", "atlas")
    when(SetSlot(project="atlas", label="notes", content="a")).then(SlotSet(label="notes", content="a"), route=route)
    when(SetSlot(project="atlas", label="notes", content="a", append=True)).then(
        SlotAppended(label="notes", content="a"), route=route
    )


def test_a_global_slot_belongs_to_no_project():
    when(SetSlot(project="atlas", label="notes", content="a", scope="global")).then(
        SlotSet(label="notes", content="a", scope="global"), route=project_route("acme", "")
    )


def test_an_action_is_created_or_updated():
    when(WriteAction(title="ship it", priority=2)).then(
        ActionCreated(title="ship it", priority=2), route=project_route("acme", "")
    )
    when(WriteAction(action="act_1", status="done")).then(
        ActionUpdated(action="act_1", status="done"), route=project_route("acme", "")
    )


def test_a_new_action_needs_a_title():
    when(WriteAction(description="a")).then_rejected("title")


def test_two_documents_are_related():
    when(Relate(source="a", target="b", relation="causes", confidence=0.5)).then(
        RelationLinked(source="a", target="b", relation="causes", confidence=0.5), route=project_route("acme", "")
    )


def test_forgetting_goes_where_the_subject_went():
    """A tombstone must come behind the events of its subject, so it takes their partition."""
    told = SubjectForgotten(kind="observation", subject="obs_1", reason="asked")
    when(
        ForgetSubject(
            project="atlas",
            session_id="s1",
            kind="observation",
            subject="obs_1",
            reason="asked",
        )
    ).then(told, route=session_route("acme", "atlas", "s1"))
    when(ForgetSubject(project="atlas", session_id="s1", kind="memory", subject="mem_1")).then(
        SubjectForgotten(kind="memory", subject="mem_1"), route=project_route("acme", "atlas")
    )


@pytest.mark.parametrize("command", [Remember(content=" "), RecordLesson(content="\n")])
def test_empty_content_is_rejected(command: AnyCommand):
    when(command).then_rejected("content")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_the_envelope_says_who_and_when(command: AnyCommand):
    envelope = when(command).decided().event.envelope
    assert (envelope.event_id, envelope.tenant, envelope.source) == ("e1", "acme", "mcp")
    assert (envelope.project, envelope.agent_id, envelope.occurred_at) == ("atlas", "ada", NOW)


def test_what_the_command_claims_goes_before_what_the_caller_is():
    command = Remember(
        content="a", agent_id="bob", user_id="eve", occurred_at=minute(-5), trace="t1", metadata={"k": "v"}
    )
    envelope = when(command).decided().event.envelope
    assert (envelope.agent_id, envelope.user_id, envelope.occurred_at) == ("bob", "eve", minute(-5))
    assert (envelope.trace, envelope.metadata) == ("t1", {"k": "v"})


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_the_same_command_decides_the_same_event(command: AnyCommand):
    assert when(command).decided() == when(command).decided()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_repeat_names_the_same_subject_at_any_later_time(command: AnyCommand):
    assert when(command, now=minute(9)).decided().subject == when(command).decided().subject


@pytest.mark.parametrize(
    "command", [COMMANDS[0], COMMANDS[1], COMMANDS[6], COMMANDS[7]], ids=["obs", "mem", "act", "rel"]
)
def test_a_document_id_comes_from_the_event_id_and_its_place(command: AnyCommand):
    subject = when(command).decided().subject
    assert when(command).decided("e2").subject != subject
    assert when(command, Caller("other")).decided().subject != subject
    assert when(msgspec.structs.replace(command, project="other")).decided().subject != subject


def test_equal_event_ids_of_two_sessions_are_two_observations():
    one, other = (when(Observe(session_id=name, content="a")).decided().subject for name in ("s1", "s2"))
    assert one != other


def test_a_lesson_is_identified_by_what_it_says():
    """Case and surrounding blanks aside; the event id does not matter."""
    first = when(RecordLesson(content="Rebase first")).decided("e1").subject
    assert when(RecordLesson(content="  rebase FIRST\n")).decided("e2").subject == first
    assert when(RecordLesson(content="rebase last")).decided("e1").subject != first


@pytest.mark.parametrize(
    "command",
    [
        Observe(session_id="s1", content=f"use {KEY}"),
        Observe(session_id="s1", data={"env": [{"line": f"use {KEY}"}]}),
        Observe(session_id="s1", data={"api_token": "0123456789abcdefghij"}),
        Remember(content=f"use {KEY}"),
        Remember(content="a", tags=[KEY], concepts=[KEY], files=[KEY], references=[KEY]),
        Remember(content="a", metadata={"note": KEY}),
        RecordLesson(content=f"use {KEY}", context=KEY, tags=[KEY]),
        TrackSession(session_id="s1", status="started", title=KEY),
        TrackSession(session_id="s1", status="ended", reason=KEY),
        SetSlot(label="notes", content=KEY),
        WriteAction(title=KEY, description=KEY, tags=[KEY], requires=[KEY]),
        ForgetSubject(kind="memory", subject="mem_1", reason=KEY),
    ],
)
def test_secrets_are_gone_before_an_event_exists(command: AnyCommand):
    stored = encode(when(command).decided().event)
    assert KEY.encode() not in stored
    assert b"0123456789abcdefghij" not in stored
    assert SECRET.encode() in stored


def test_private_text_is_gone_before_an_event_exists():
    decision = when(Remember(content="likes tea <private>and gin</private>")).decided()
    assert decision.event.data == MemoryRecorded(content=f"likes tea {PRIVATE}")


def test_what_is_learned_with_a_secret_is_identified_without_it():
    """The same lesson with another key is the same lesson, and the id tells nothing of the key."""
    one, other = (
        when(RecordLesson(content=f"set token={secret * 8}")).decided().subject for secret in ("abcd", "efgh")
    )
    assert one == other


@pytest.mark.parametrize("field", ["project", "session_id", "agent_id", "user_id"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_name_may_not_hold_nul(command: AnyCommand, field: str):
    """NUL separates the parts of a routing key."""
    when(msgspec.structs.replace(command, **{field: "a\0b"})).then_rejected(field)


def test_an_event_id_may_not_hold_nul():
    when(Remember(content="a", event_id="a\0b")).then_rejected("event_id")


def test_text_may_hold_nul():
    when(Remember(content="a\0b")).then(MemoryRecorded(content="a\0b"), route=project_route("acme", ""))


def test_a_time_without_a_zone_is_rejected():
    when(Remember(content="a", occurred_at=datetime(2026, 1, 31))).then_rejected("occurred_at")


def metadata_of(size: int) -> Mapping[str, str]:
    return {"key": "é" * ((size - 3) // 2) + "x" * ((size - 3) % 2)}


def test_metadata_is_bounded_in_bytes():
    at_most = dict(metadata_of(MAX_METADATA_BYTES))
    assert when(Remember(content="a", metadata=at_most)).decided().event.envelope.metadata == at_most
    when(Remember(content="a", metadata=dict(metadata_of(MAX_METADATA_BYTES + 1)))).then_rejected("metadata")


def test_data_nested_too_deep_is_rejected():
    deep: dict[str, Any] = {}
    for _ in range(150):
        deep = {"a": deep}
    when(Observe(session_id="s1", data=deep)).then_rejected("data")


def survives(command: AnyCommand) -> None:
    """Rejected, or an event that can be stored and read back; nothing in between."""
    try:
        event = decide(command, ADA, EVENT, NOW).event
    except CommandRejected:
        return
    assert decode(encode(event), Position(1, 0)).data == event.data


@given(st.datetimes(timezones=st.timezones()))
def test_any_time_is_rejected_or_can_be_stored(occurred_at: datetime):
    survives(Remember(content="a", occurred_at=occurred_at))


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_at_the_edge_of_the_calendar_is_rejected_or_can_be_stored(text: str):
    survives(Remember(content="a", occurred_at=datetime.fromisoformat(text)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=3))
def test_any_json_data_is_rejected_or_can_be_stored(data: dict[str, Any]):
    survives(Observe(session_id="s1", content="a", data=data))


def test_a_whole_number_too_big_to_store_is_rejected():
    """JSON has integers of any length, msgpack stops at 64 bits."""
    for number in (2**64, -(2**63) - 1, 10**30):
        survives(Observe(session_id="s1", data={"n": number}))
