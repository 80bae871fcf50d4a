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
from ingest.commands.decision import EVERYBODY, writer
from ingest.commands.requests import (
    AnyCommand,
    ChangeVisibility,
    CondenseMemories,
    DeleteSlot,
    EndIdleSession,
    ForgetSubject,
    LinkCommit,
    Observe,
    RecordLesson,
    ReinforceLesson,
    Relate,
    Remember,
    RetireLesson,
    RetireSession,
    ReviseLesson,
    ReviseMemory,
    SetSlot,
    SummariseSession,
    TrackSession,
    TriggerLesson,
    WriteAction,
)
from ingest.errors import CommandRejected
from ingest.events.action import ActionCreated, ActionEdge, ActionUpdated
from ingest.events.envelope import decode, encode
from ingest.events.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.events.memory import (
    MemoryCondensed,
    MemoryRecorded,
    MemoryRevised,
    MemoryVisibilityChanged,
    RelationLinked,
    RelationUnlinked,
)
from ingest.events.registry import EventData
from ingest.events.session import (
    ObservationRecorded,
    SessionCommitted,
    SessionEnded,
    SessionRetired,
    SessionStarted,
    SessionSummarised,
)
from ingest.events.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.events.subject import SubjectForgotten
from ingest.ids import EventId
from ingest.log.partitions import project_route, session_route
from ingest.log.position import Position
from ingest.secrets.scrub import PRIVATE, SECRET

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
    LinkCommit(project="atlas", commit="9f1c", session_id="s1"),
    DeleteSlot(project="atlas", label="notes"),
    ReviseMemory(project="atlas", memory="mem_1", content="a", memory_type="semantic", purpose="information"),
    ChangeVisibility(project="atlas", memory="mem_1", visibility="private"),
    CondenseMemories(project="atlas", originals=["mem_1"], content="a"),
    ReinforceLesson(project="atlas", lesson="lsn_1"),
    ReviseLesson(project="atlas", lesson="lsn_1", content="a"),
    TriggerLesson(project="atlas", lesson="lsn_1"),
    RetireLesson(project="atlas", lesson="lsn_1", confidence=0.1),
    EndIdleSession(project="atlas", session_id="s1", idle_since_ms=1),
    RetireSession(project="atlas", session_id="s1", documents=["obs_1"]),
    SummariseSession(project="atlas", session_id="s1", title="a", narrative="b"),
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


def test_a_session_may_end_badly_or_fall_silent():
    route = session_route("acme", "", "s1")
    when(TrackSession(session_id="s1", status="ended", outcome="failed")).then(
        SessionEnded(outcome="failed"), route=route
    )
    when(EndIdleSession(session_id="s1", idle_since_ms=5)).then(
        SessionEnded(reason="idle", idle_since_ms=5), route=route
    )


def test_a_retirement_goes_to_its_session():
    command = RetireSession(session_id="s1", documents=["obs_1", "evt_1"], part=2, idle_since_ms=5)
    when(command).then(
        SessionRetired(documents=["obs_1", "evt_1"], part=2, idle_since_ms=5), route=session_route("acme", "", "s1")
    )
    when(RetireSession(documents=["obs_1"])).then_rejected("session_id")


def test_a_summary_goes_to_its_session():
    command = SummariseSession(session_id="s1", title="a", narrative="b", observation_count=2, forgotten_at="e1")
    when(command).then(
        SessionSummarised(title="a", narrative="b", observation_count=2, forgotten_at="e1"),
        route=session_route("acme", "", "s1"),
    )
    when(SummariseSession(title="a", narrative="b")).then_rejected("session_id")


def test_a_commit_belongs_to_its_project_and_names_its_session():
    decision = when(LinkCommit(project="atlas", commit="9f1c", session_id="s1", files=["a", "a"])).decided()
    assert decision.event.data == SessionCommitted(commit="9f1c", files=["a"])
    assert (decision.route, decision.event.envelope.session_id) == (project_route("acme", "atlas"), "s1")
    again = when(LinkCommit(project="atlas", commit="9f1c")).decided("e2")
    assert again.subject == decision.subject, "the same commit, whoever links it"


def test_a_revision_says_all_of_the_new_version():
    command = ReviseMemory(
        memory="mem_1", content="b", memory_type="episodic", purpose="question", tags=["x", "x"], forget_after=NOW
    )
    when(command).then(
        MemoryRevised(
            memory="mem_1", content="b", memory_type="episodic", purpose="question", tags=["x"], forget_after=NOW
        ),
        route=project_route("acme", ""),
    )
    assert when(command).decided().subject.startswith("mem_")


def test_a_revision_needs_text_a_zone_and_somebody_who_may_read_it():
    command = ReviseMemory(memory="mem_1", content="b", memory_type="semantic", purpose="information")
    when(msgspec.structs.replace(command, content=" ")).then_rejected("content")
    when(msgspec.structs.replace(command, forget_after=datetime(2026, 1, 31))).then_rejected("forget_after")
    private = msgspec.structs.replace(command, visibility="private")
    when(private, Caller("acme")).then_rejected("agent_id")


def test_who_may_read_is_changed_of_the_memory_itself():
    command = ChangeVisibility(memory="mem_1", visibility="shared", shared_with=["bob", "bob"])
    assert when(command).decided().subject == "mem_1"
    when(command).then(
        MemoryVisibilityChanged(memory="mem_1", visibility="shared", shared_with=["bob"]),
        route=project_route("acme", ""),
    )


def test_memories_are_condensed_into_one():
    decision = when(CondenseMemories(originals=["mem_1", "mem_2"], content="b", model="m")).decided()
    assert decision.event.data == MemoryCondensed(originals=["mem_1", "mem_2"], content="b", model="m")
    assert decision.subject.startswith("mem_")


@pytest.mark.parametrize(
    ("command", "data"),
    [
        (ReinforceLesson(lesson="lsn_1"), LessonReinforced(lesson="lsn_1")),
        (TriggerLesson(lesson="lsn_1"), LessonTriggered(lesson="lsn_1")),
        (RetireLesson(lesson="lsn_1", confidence=0.1), LessonRetired(lesson="lsn_1", confidence=0.1)),
        (ReviseLesson(lesson="lsn_1", tags=["a", "a"]), LessonRevised(lesson="lsn_1", tags=["a"])),
        (ReviseLesson(lesson="lsn_1", active=False), LessonRevised(lesson="lsn_1", active=False)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_lesson_that_exists_is_the_subject(command: AnyCommand, data: EventData):
    when(command).then(data, route=project_route("acme", ""))
    assert when(command).decided().subject == "lsn_1"


@pytest.mark.parametrize("pattern", ["(", "a{1,99999}"])
def test_a_pattern_that_does_not_compile_is_rejected(pattern: str):
    with pytest.raises(CommandRejected):
        when(RecordLesson(content="a", trigger_pattern=pattern)).decided()
    with pytest.raises(CommandRejected):
        when(ReviseLesson(lesson="lsn_1", trigger_pattern=pattern)).decided()


def test_an_edited_lesson_is_not_empty():
    when(ReviseLesson(lesson="lsn_1", content=" ")).then_rejected("content")


def test_a_slot_is_deleted():
    when(DeleteSlot(project="atlas", label="notes")).then(
        SlotDeleted(label="notes"), route=project_route("acme", "atlas")
    )
    one = when(DeleteSlot(project="atlas", label="notes", scope="global")).decided()
    other = when(SetSlot(project="hermes", label="notes", content="a", scope="global")).decided()
    assert (one.subject, one.route) == (other.subject, project_route("acme", ""))


def test_what_is_not_said_of_a_slot_stays_unsaid():
    """So that the fold knows to keep it."""
    when(SetSlot(label="notes", content="a", pinned=False, description="")).then(
        SlotSet(label="notes", content="a", pinned=False, description=""), route=project_route("acme", "")
    )


def test_what_an_action_requires_is_an_edge():
    edges = [ActionEdge(type="requires", target="act_1"), ActionEdge(type="unlocks", target="act_2")]
    when(WriteAction(title="a", requires=["act_1"], edges=edges[1:])).then(
        ActionCreated(title="a", edges=edges), route=project_route("acme", "")
    )
    when(WriteAction(action="act_0", requires=["act_1"], edges=edges[1:], session_id="s1")).then(
        ActionUpdated(action="act_0", edges=edges, session="s1"), route=project_route("acme", "")
    )


def test_a_relation_is_withdrawn():
    one = when(Relate(source="a", target="b", relation="causes", remove=True))
    one.then(RelationUnlinked(source="a", target="b", relation="causes"), route=project_route("acme", ""))
    assert one.decided("e2").subject == when(Relate(source="a", target="b", relation="causes")).decided().subject


@pytest.mark.parametrize("name", ["source", "target", "relation"])
def test_nul_separates_the_ends_of_a_relation(name: str):
    related = msgspec.structs.replace(Relate(source="a", target="b", relation="c"), **{name: "a\0b"})
    with pytest.raises(CommandRejected):
        when(related).decided()


def test_a_slot_is_set_or_appended_to():
    route = project_route("acme", "atlas")
    when(SetSlot(project="atlas", label="notes", content="a")).then(SlotSet(label="notes", content="a"), route=route)
    when(SetSlot(project="atlas", label="notes", content="a", append=True)).then(
        SlotAppended(label="notes", content="a"), route=route
    )


@pytest.mark.parametrize("stated", [{"size_limit": 9}, {"description": ""}, {"pinned": False}, {"read_only": False}])
def test_adding_a_line_changes_nothing_else_of_a_slot(stated: dict[str, Any]):
    with pytest.raises(CommandRejected) as refused:
        when(SetSlot(label="notes", content="a", append=True, **stated)).decided()
    assert [refused.value.field] == list(stated)


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


def test_an_action_keeps_its_parent():
    with pytest.raises(CommandRejected) as refused:
        when(WriteAction(action="act_1", parent="act_0")).decided()
    assert refused.value.field == "parent"


def test_everybody_is_no_name_to_write_under():
    assert [writer(EVERYBODY, "ada"), writer("", EVERYBODY), writer("bob", "ada")] == ["ada", "", "bob"]
    everybody = Caller("acme", agent_id=EVERYBODY)
    made = decide(Remember(content="a", agent_id=EVERYBODY), everybody, EVENT, NOW)
    assert made.event.envelope.agent_id == ""
    with pytest.raises(CommandRejected):
        decide(Remember(content="a", visibility="private"), everybody, EVENT, NOW)


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
    when(ForgetSubject(project="atlas", kind="observation", subject="obs_1")).then_rejected("session_id")


def test_a_forgetting_of_listed_documents_goes_where_its_caller_says():
    """A user's are in many streams, and what was derived from an observation is of the project."""
    command = ForgetSubject(project="atlas", session_id="s1", kind="user", subject="usr_1", documents=["obs_1"])
    route = session_route("acme", "atlas", "s1")
    when(command).then(SubjectForgotten(kind="user", subject="usr_1", documents=["obs_1"]), route=route)
    when(msgspec.structs.replace(command, kind="memory")).then(
        SubjectForgotten(kind="memory", subject="usr_1", documents=["obs_1"]), route=route
    )
    when(msgspec.structs.replace(command, kind="observation", session_id="", documents=["mem_1"])).then(
        SubjectForgotten(kind="observation", subject="usr_1", documents=["mem_1"]),
        route=project_route("acme", "atlas"),
    )


@pytest.mark.parametrize("command", [Remember(content=" "), RecordLesson(content="\n")])
def test_empty_content_is_rejected(command: AnyCommand):
    when(command).then_rejected("content")


def test_what_is_kept_whatever_it_says_may_be_blank():
    when(Remember(content=" ", keep_duplicates=True)).then(
        MemoryRecorded(content=" ", keep_duplicates=True), route=project_route("acme", "")
    )
    when(Remember(content="", keep_duplicates=True)).then_rejected("content")


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
    "command",
    [COMMANDS[0], COMMANDS[1], COMMANDS[6], COMMANDS[11], COMMANDS[13]],
    ids=["obs", "mem", "act", "rev", "con"],
)
def test_a_document_id_comes_from_the_event_id_and_its_place(command: AnyCommand):
    subject = when(command).decided().subject
    assert when(command).decided("e2").subject != subject
    assert when(command, Caller("other")).decided().subject != subject
    assert when(msgspec.structs.replace(command, project="other")).decided().subject != subject


def test_equal_event_ids_of_two_sessions_are_two_observations():
    one, other = (when(Observe(session_id=name, content="a")).decided().subject for name in ("s1", "s2"))
    assert one != other


def test_a_relation_is_identified_by_its_ends():
    subject = when(COMMANDS[7]).decided().subject
    assert when(COMMANDS[7]).decided("e2").subject == subject
    for change in ({"source": "c"}, {"target": "c"}, {"relation": "c"}, {"project": "other"}):
        assert when(msgspec.structs.replace(COMMANDS[7], **change)).decided().subject != subject


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
        WriteAction(action="act_1", result=KEY, title=KEY, edges=[ActionEdge(type="requires", target=KEY)]),
        ForgetSubject(kind="memory", subject="mem_1", reason=KEY),
        RecordLesson(content="a", title=KEY, trigger_pattern=KEY),
        ReviseLesson(lesson="lsn_1", content=KEY, context=KEY, title=KEY, tags=[KEY], trigger_pattern=KEY),
        ReviseMemory(memory="mem_1", content=KEY, title=KEY, tags=[KEY], memory_type="semantic", purpose="information"),
        CondenseMemories(originals=["mem_1"], content=KEY, tags=[KEY]),
        LinkCommit(commit="9f1c", message=KEY, branch=KEY, repo=f"https://{KEY}@host/a", author=KEY, files=[KEY]),
        SetSlot(label="notes", content="a", description=KEY),
        SetSlot(label="notes", content=KEY, append=True),
        SummariseSession(session_id="s1", title=KEY, narrative=KEY, decisions=[KEY], files=[KEY], concepts=[KEY]),
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
