"""decide: a command becomes exactly one event, scrubbed, with an id that a repeat finds again; or it is rejected."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from factories import NOW, minute
from hypothesis import given
from hypothesis import strategies as st

from ingest.commands.decide import (
    MAX_METADATA_BYTES,
    AnyCommand,
    Caller,
    ChangeVisibility,
    CondenseMemories,
    ConfirmMemory,
    Decision,
    DeleteSlot,
    EndIdleSession,
    ForgetSubject,
    LinkCommit,
    Observe,
    Quarantine,
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
    decide,
)
from ingest.errors import CommandRejected
from ingest.events.envelope import EventData, encode
from ingest.events.subject import MemoryQuarantined, ObservationQuarantined, SubjectForgotten
from ingest.ids import EventId
from ingest.log.position import Position, project_route, session_route
from ingest.nouns.action import ActionCreated, ActionEdge, ActionUpdated
from ingest.nouns.command import EVERYBODY, storable, writer
from ingest.nouns.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.nouns.memory import MemoryCondensed, MemoryRecorded, MemoryRevised, MemoryVisibilityChanged
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import decode
from ingest.nouns.relation import RelationLinked, RelationUnlinked
from ingest.nouns.session import SessionCommitted, SessionEnded, SessionRetired, SessionStarted, SessionSummarised
from ingest.nouns.slot import SlotAppended, SlotDeleted, SlotSet
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
    ConfirmMemory(project="atlas", memory="mem_1"),
    ReinforceLesson(project="atlas", lesson="lsn_1"),
    ReviseLesson(project="atlas", lesson="lsn_1", content="a"),
    TriggerLesson(project="atlas", lesson="lsn_1"),
    RetireLesson(project="atlas", lesson="lsn_1", confidence=0.1),
    EndIdleSession(project="atlas", session_id="s1", idle_since_ms=1),
    RetireSession(project="atlas", session_id="s1", documents=["obs_1"]),
    SummariseSession(project="atlas", session_id="s1", title="a", narrative="b"),
    Quarantine(project="atlas", document="mem_1"),
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


IN_ATLAS, NOWHERE = project_route("acme", "atlas"), project_route("acme", "")
IN_S1, IN_S1_OF_ATLAS = session_route("acme", "", "s1"), session_route("acme", "atlas", "s1")
REQUIRES_1, UNLOCKS_2 = ActionEdge(type="requires", target="act_1"), ActionEdge(type="unlocks", target="act_2")

REVISION = ReviseMemory(memory="mem_1", content="b", memory_type="semantic", purpose="information")

# The route is where the subject's other events are: its session, its project, the empty project for what is global.
# A tombstone comes behind the events of its subject; one that lists documents goes where its caller says, since a
# user's are in many streams. What is not said of a slot stays unsaid, so that the fold knows to keep it.
DECIDED: list[tuple[AnyCommand, EventData, str]] = [
    (Observe(session_id="s1", project="atlas", kind="task", content="built it", data={"a": 1}),
     ObservationRecorded(kind="task", content="built it", data={"a": 1}), IN_S1_OF_ATLAS),
    (Observe(session_id="s1", data={"tool": "bash"}), ObservationRecorded(data={"tool": "bash"}), IN_S1),
    (Remember(project="atlas", content="likes tea", tags=["a", "b", "a"]),
     MemoryRecorded(content="likes tea", tags=["a", "b"]), IN_ATLAS),
    (Remember(content="a", ttl_days=1.5), MemoryRecorded(content="a", forget_after=NOW + timedelta(days=1.5)), NOWHERE),
    (Remember(content="a", valid_until=NOW), MemoryRecorded(content="a", valid_until=NOW), NOWHERE),
    (msgspec.structs.replace(REVISION, valid_until=NOW), MemoryRevised(memory="mem_1", content="b", valid_until=NOW),
     NOWHERE),
    (Remember(content="a\0b"), MemoryRecorded(content="a\0b"), NOWHERE),
    (Remember(content=" ", keep_duplicates=True), MemoryRecorded(content=" ", keep_duplicates=True), NOWHERE),
    (RecordLesson(project="atlas", content="rebase first", context="git", confidence=0.8),
     LessonRecorded(content="rebase first", context="git", confidence=0.8), IN_ATLAS),
    (TrackSession(session_id="s1", status="started", cwd="/src", title="fix"), SessionStarted(cwd="/src", title="fix"),
     IN_S1),
    (TrackSession(session_id="s1", status="ended", reason="done"), SessionEnded(reason="done"), IN_S1),
    (TrackSession(session_id="s1", status="ended", outcome="failed"), SessionEnded(outcome="failed"), IN_S1),
    (EndIdleSession(session_id="s1", idle_since_ms=5), SessionEnded(reason="idle", idle_since_ms=5), IN_S1),
    (RetireSession(session_id="s1", documents=["obs_1", "evt_1"], part=2, idle_since_ms=5),
     SessionRetired(documents=["obs_1", "evt_1"], part=2, idle_since_ms=5), IN_S1),
    (SummariseSession(session_id="s1", title="a", narrative="b", observation_count=2, forgotten_at="e1"),
     SessionSummarised(title="a", narrative="b", observation_count=2, forgotten_at="e1"), IN_S1),
    (LinkCommit(project="atlas", commit="9f1c", session_id="s1", files=["a", "a"]),
     SessionCommitted(commit="9f1c", files=["a"]), IN_ATLAS),
    (ReviseMemory(memory="mem_1", content="b", memory_type="episodic", purpose="question", tags=["x", "x"]),
     MemoryRevised(memory="mem_1", content="b", memory_type="episodic", purpose="question", tags=["x"]), NOWHERE),
    (msgspec.structs.replace(REVISION, forget_after=NOW), MemoryRevised(memory="mem_1", content="b", forget_after=NOW),
     NOWHERE),
    (ChangeVisibility(memory="mem_1", visibility="shared", shared_with=["bob", "bob"]),
     MemoryVisibilityChanged(memory="mem_1", visibility="shared", shared_with=["bob"]), NOWHERE),
    (CondenseMemories(originals=["mem_1", "mem_2"], content="b", model="m"),
     MemoryCondensed(originals=["mem_1", "mem_2"], content="b", model="m"), NOWHERE),
    (ReinforceLesson(lesson="lsn_1"), LessonReinforced(lesson="lsn_1"), NOWHERE),
    (TriggerLesson(lesson="lsn_1"), LessonTriggered(lesson="lsn_1"), NOWHERE),
    (RetireLesson(lesson="lsn_1", confidence=0.1), LessonRetired(lesson="lsn_1", confidence=0.1), NOWHERE),
    (ReviseLesson(lesson="lsn_1", tags=["a", "a"]), LessonRevised(lesson="lsn_1", tags=["a"]), NOWHERE),
    (ReviseLesson(lesson="lsn_1", active=False), LessonRevised(lesson="lsn_1", active=False), NOWHERE),
    (SetSlot(project="atlas", label="notes", content="a"), SlotSet(label="notes", content="a"), IN_ATLAS),
    (SetSlot(label="notes", content="a", pinned=False, description=""),
     SlotSet(label="notes", content="a", pinned=False, description=""), NOWHERE),
    (SetSlot(project="atlas", label="notes", content="a", append=True), SlotAppended(label="notes", content="a"),
     IN_ATLAS),
    (SetSlot(project="atlas", label="notes", content="a", scope="global"),
     SlotSet(label="notes", content="a", scope="global"), NOWHERE),
    (DeleteSlot(project="atlas", label="notes"), SlotDeleted(label="notes"), IN_ATLAS),
    (WriteAction(title="ship it", priority=2), ActionCreated(title="ship it", priority=2), NOWHERE),
    (WriteAction(action="act_1", status="done"), ActionUpdated(action="act_1", status="done"), NOWHERE),
    (WriteAction(title="a", requires=["act_1"], edges=[UNLOCKS_2]),
     ActionCreated(title="a", edges=[REQUIRES_1, UNLOCKS_2]), NOWHERE),
    (WriteAction(action="act_0", requires=["act_1"], edges=[UNLOCKS_2], session_id="s1"),
     ActionUpdated(action="act_0", edges=[REQUIRES_1, UNLOCKS_2], session="s1"), NOWHERE),
    (Relate(source="a", target="b", relation="causes", confidence=0.5),
     RelationLinked(source="a", target="b", relation="causes", confidence=0.5), NOWHERE),
    (Relate(source="a", target="b", relation="causes", remove=True),
     RelationUnlinked(source="a", target="b", relation="causes"), NOWHERE),
    (ForgetSubject(project="atlas", session_id="s1", kind="observation", subject="obs_1", reason="asked"),
     SubjectForgotten(kind="observation", subject="obs_1", reason="asked"), IN_S1_OF_ATLAS),
    (ForgetSubject(project="atlas", session_id="s1", kind="memory", subject="mem_1"),
     SubjectForgotten(kind="memory", subject="mem_1"), IN_ATLAS),
    (ForgetSubject(project="atlas", session_id="s1", kind="user", subject="usr_1", documents=["obs_1"]),
     SubjectForgotten(kind="user", subject="usr_1", documents=["obs_1"]), IN_S1_OF_ATLAS),
    (ForgetSubject(project="atlas", session_id="s1", kind="memory", subject="usr_1", documents=["obs_1"]),
     SubjectForgotten(kind="memory", subject="usr_1", documents=["obs_1"]), IN_S1_OF_ATLAS),
    (ForgetSubject(project="atlas", kind="observation", subject="obs_1", documents=["mem_1"]),
     SubjectForgotten(kind="observation", subject="obs_1", documents=["mem_1"]), IN_ATLAS),
    (Quarantine(project="atlas", document="lsn_1", reason="planted"),
     MemoryQuarantined(document="lsn_1", reason="planted"), IN_ATLAS),
    (Quarantine(project="atlas", session_id="s1", document="obs_1", released=True),
     ObservationQuarantined(document="obs_1", released=True), IN_S1_OF_ATLAS),
]  # fmt: skip

REJECTED: list[tuple[AnyCommand, str]] = [
    (Observe(content="a"), "session_id"),
    *((Observe(session_id="s1", content=blank), "content") for blank in ("", " ", "\n\t")),
    (Remember(content=" "), "content"),
    (Remember(content="", keep_duplicates=True), "content"),
    (Remember(content="a", event_id="a\0b"), "event_id"),
    (Remember(content="a", occurred_at=datetime(2026, 1, 31)), "occurred_at"),
    (RecordLesson(content="\n"), "content"),
    (ReviseLesson(lesson="lsn_1", content=" "), "content"),
    *((RecordLesson(content="a", trigger_pattern=pattern), "trigger_pattern") for pattern in ("(", "a{1,99999}")),
    *((ReviseLesson(lesson="l", trigger_pattern=pattern), "trigger_pattern") for pattern in ("(", "a{1,99999}")),
    (TrackSession(status="started"), "session_id"),
    (RetireSession(documents=["obs_1"]), "session_id"),
    (SummariseSession(title="a", narrative="b"), "session_id"),
    (msgspec.structs.replace(REVISION, content=" "), "content"),
    (msgspec.structs.replace(REVISION, forget_after=datetime(2026, 1, 31)), "forget_after"),
    (Remember(content="a", valid_until=datetime(2026, 1, 31)), "valid_until"),
    (Relate(source="a\0b", target="b", relation="c"), "source"),
    (Relate(source="a", target="a\0b", relation="c"), "source"),
    (Relate(source="a", target="b", relation="a\0b"), "source"),
    (SetSlot(label="notes", content="a", append=True, size_limit=9), "size_limit"),
    (SetSlot(label="notes", content="a", append=True, description=""), "description"),
    (SetSlot(label="notes", content="a", append=True, pinned=False), "pinned"),
    (SetSlot(label="notes", content="a", append=True, read_only=False), "read_only"),
    (WriteAction(description="a"), "title"),
    (WriteAction(action="act_1", parent="act_0"), "parent"),
    (ForgetSubject(project="atlas", kind="observation", subject="obs_1"), "session_id"),
]


def test_a_command_becomes_one_event_on_the_route_of_its_subject():
    for command, data, route in DECIDED:
        when(command).then(data, route=route)


def test_a_command_that_breaks_a_rule_is_rejected_and_the_field_named():
    for command, field in REJECTED:
        when(command).then_rejected(field)


def test_a_commit_names_its_session_and_is_the_same_whoever_links_it():
    one = when(LinkCommit(project="atlas", commit="9f1c", session_id="s1")).decided()
    other = when(LinkCommit(project="atlas", commit="9f1c")).decided("e2")
    assert (one.event.envelope.session_id, one.subject) == ("s1", other.subject)


def test_a_private_version_needs_somebody_who_may_read_it():
    when(msgspec.structs.replace(REVISION, visibility="private"), Caller("acme")).then_rejected("agent_id")


def test_a_new_version_is_a_document_of_its_own_and_a_change_is_of_the_document_it_names():
    assert when(REVISION).decided().subject.startswith("mem_")
    assert when(REVISION).decided().subject != "mem_1"
    assert when(CondenseMemories(originals=["mem_1"], content="b")).decided().subject.startswith("mem_")
    assert when(ChangeVisibility(memory="mem_1", visibility="public")).decided().subject == "mem_1"
    for command in (
        ReinforceLesson(lesson="lsn_1"),
        TriggerLesson(lesson="lsn_1"),
        RetireLesson(lesson="lsn_1", confidence=0.1),
        ReviseLesson(lesson="lsn_1", active=False),
    ):
        assert when(command).decided().subject == "lsn_1"


def test_a_global_slot_is_one_of_all_projects():
    one = when(DeleteSlot(project="atlas", label="notes", scope="global")).decided()
    other = when(SetSlot(project="hermes", label="notes", content="a", scope="global")).decided()
    assert (one.subject, one.route) == (other.subject, NOWHERE)


def test_a_relation_is_withdrawn_by_its_ends():
    one = when(Relate(source="a", target="b", relation="causes", remove=True)).decided("e2")
    assert one.subject == when(Relate(source="a", target="b", relation="causes")).decided().subject


def test_everybody_is_no_name_to_write_under():
    assert [writer(EVERYBODY, "ada"), writer("", EVERYBODY), writer("bob", "ada")] == ["ada", "", "bob"]
    everybody = Caller("acme", agent_id=EVERYBODY)
    made = decide(Remember(content="a", agent_id=EVERYBODY), everybody, EVENT, NOW)
    assert made.event.envelope.agent_id == ""
    with pytest.raises(CommandRejected):
        decide(Remember(content="a", visibility="private"), everybody, EVENT, NOW)


def test_the_envelope_says_who_and_when():
    for command in COMMANDS:
        envelope = when(command).decided().event.envelope
        assert (envelope.event_id, envelope.tenant, envelope.source) == ("e1", "acme", "mcp"), command
        assert (envelope.project, envelope.agent_id, envelope.occurred_at) == ("atlas", "ada", NOW), command


def test_what_the_command_claims_goes_before_what_the_caller_is():
    command = Remember(
        content="a", agent_id="bob", user_id="eve", occurred_at=minute(-5), trace="t1", metadata={"k": "v"}
    )
    envelope = when(command).decided().event.envelope
    assert (envelope.agent_id, envelope.user_id, envelope.occurred_at) == ("bob", "eve", minute(-5))
    assert (envelope.trace, envelope.metadata) == ("t1", {"k": "v"})


def test_a_repeat_decides_the_same_event_and_names_the_same_subject_at_any_later_time():
    for command in COMMANDS:
        assert when(command).decided() == when(command).decided()
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


def test_a_name_may_not_hold_nul():
    """NUL separates the parts of a routing key."""
    for command in COMMANDS:
        for field in ("project", "session_id", "agent_id", "user_id"):
            when(msgspec.structs.replace(command, **{field: "a\0b"})).then_rejected(field)


def metadata_of(size: int) -> Mapping[str, str]:
    return {"key": "é" * ((size - 3) // 2) + "x" * ((size - 3) % 2)}


def test_metadata_is_bounded_in_bytes():
    at_most = dict(metadata_of(MAX_METADATA_BYTES))
    assert when(Remember(content="a", metadata=at_most)).decided().event.envelope.metadata == at_most
    when(Remember(content="a", metadata=dict(metadata_of(MAX_METADATA_BYTES + 1)))).then_rejected("metadata")


def test_text_that_cannot_be_stored_is_rejected_with_its_field():
    with pytest.raises(CommandRejected, match="surrogates not allowed") as rejected:
        storable({"name": "\ud83c"}, "data")
    assert rejected.value.field == "data"


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
