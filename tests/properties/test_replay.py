"""Random histories: however they are cut into batches, repeated or replayed, the documents are the same.

A history is a sequence of commands with repeats far apart (a spool that sends again behind the log's dedup window), so
the log holds some events twice. Commands are decided as at a door; a command's event id comes from its place in the
table, so a repeat is the same command. A forget names the subject of another command and when that one happened, as the
door does that looked it up.
"""

from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from typing import Any

import pytest
from factories import AGENT, PROJECT, TENANT, decided, minute, place
from folding import apply, contents, folded, members, one_by_one, replayed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ingest.commands.decide import Caller, decide
from ingest.commands.requests import (
    AnyCommand,
    ForgetSubject,
    Observe,
    RecordLesson,
    Remember,
    TrackSession,
)
from ingest.connections import Client
from ingest.events.envelope import Recorded
from ingest.events.subject import SubjectKind
from ingest.ids import DocumentId, EventId
from ingest.log.keys import PartitionKeys
from ingest.log.scripts import acquire_lease
from projections.documents.document import Mark, Tombstone
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.rows import Row
from projections.memory_store import MemoryStore
from projections.redis_store import RedisStore
from projections.store import project

MEMORIES = [
    "ada likes green tea in the morning with lemon",
    "ada likes green tea in the morning with honey",
    "ada likes green tea in the evening with honey",
    "bob drinks black coffee after lunch",
]
LESSONS = ["rebase before pushing", " Rebase BEFORE pushing", "never force push"]
KINDS: dict[type[AnyCommand], SubjectKind] = {Observe: "observation", Remember: "memory", RecordLesson: "lesson"}

sessions = st.sampled_from(["s1", "s2"])
agents = st.sampled_from([AGENT, "bob"])
claims = {"project": st.just(PROJECT), "agent_id": agents, "occurred_at": st.integers(-3, 3).map(minute)}
observe = st.builds(Observe, session_id=sessions, content=st.sampled_from(["it failed", "it works"]), **claims)
track = st.builds(
    TrackSession, session_id=sessions, status=st.sampled_from(["started", "ended"]), title=st.just("fix"), **claims
)
remember = st.builds(
    Remember,
    session_id=sessions,
    content=st.sampled_from(MEMORIES),
    visibility=st.sampled_from(["public", "public", "private"]),
    **claims,
)
learn = st.builds(RecordLesson, content=st.sampled_from(LESSONS), confidence=st.sampled_from([0.3, 0.5]), **claims)


def _event_id(command: AnyCommand) -> str:
    return command.event_id


def identified(command: AnyCommand, event_id: str) -> AnyCommand:
    return replace(command, event_id=event_id)


def forgetting(command: AnyCommand, event_id: str) -> ForgetSubject:
    """The command that forgets what another one creates."""
    subject = decide(command, Caller(TENANT), EventId(command.event_id), minute(0)).subject
    return ForgetSubject(
        event_id=event_id,
        project=command.project,
        agent_id="admin",
        session_id=command.session_id if isinstance(command, Observe) else "",
        kind=KINDS[type(command)],
        subject=subject,
        occurred_at=minute(9),
    )


@st.composite
def histories(
    draw: st.DrawFn, *nouns: st.SearchStrategy[AnyCommand], forget: bool = True, overtaking: bool = True
) -> list[Recorded]:
    """A log. Unless `overtaking`, a subject is forgotten only after it was first recorded."""
    drawn = draw(st.lists(st.one_of(*nouns), min_size=1, max_size=8))
    table = [identified(command, f"e{n}") for n, command in enumerate(drawn)]
    if forget:
        subjects = [command for command in table if type(command) in KINDS]
        chosen = draw(st.lists(st.sampled_from(subjects), max_size=3, unique_by=_event_id)) if subjects else []
        table += [forgetting(command, f"f{n}") for n, command in enumerate(chosen)]
    order = draw(st.lists(st.sampled_from(table), min_size=1, max_size=16))
    events = [decided(command, place(n)) for n, command in enumerate(order, 1)]
    return events if overtaking else _in_time(events, order)


def _in_time(events: list[Recorded], order: Sequence[AnyCommand]) -> list[Recorded]:
    """Without the tombstones that come before anything was recorded of their subject."""
    subjects: set[str] = set()
    kept: list[Recorded] = []
    for event, command in zip(events, order, strict=True):
        if isinstance(command, ForgetSubject):
            if command.subject not in subjects:
                continue
        else:
            subjects.add(decide(command, Caller(TENANT), EventId(command.event_id), minute(0)).subject)
        kept.append(event)
    return kept


@st.composite
def cut(draw: st.DrawFn, events: list[Recorded]) -> list[list[Recorded]]:
    """The events as batches, in order."""
    places = sorted({0, len(events), *draw(st.lists(st.integers(0, len(events)), max_size=4))})
    return [events[start:end] for start, end in pairwise(places)]


any_history = histories(observe, track, remember, learn)


@given(any_history, st.data())
def test_batches_end_where_single_events_end(events: list[Recorded], data: st.DataObject):
    batches = data.draw(cut(events))
    in_batches, single = folded(*batches), one_by_one(events)
    assert contents(in_batches) == contents(single)
    assert sorted(in_batches.erased) == sorted(single.erased)


@given(any_history, st.data())
def test_a_batch_applied_twice_changes_nothing(events: list[Recorded], data: st.DataObject):
    """Redelivery at once, of one batch."""
    store = MemoryStore()
    for batch in data.draw(cut(events)):
        apply(store, batch)
        before = contents(store)
        apply(store, batch)
        assert contents(store) == before


@given(histories(observe, track, remember, learn, forget=False), st.data())
def test_a_history_without_forgetting_repeated_from_anywhere_changes_nothing(
    events: list[Recorded], data: st.DataObject
):
    """A worker that lost its checkpoint applies old events again."""
    store = one_by_one(events)
    before = contents(store)
    for event in events[data.draw(st.integers(0, len(events))) :]:
        apply(store, [event])
    assert contents(store) == before


def visible(store: MemoryStore) -> dict[DocumentId, dict[str, Any]]:
    """What readers see: the fields of every document but tombstones and marks."""
    return {
        name: document.model_dump() if isinstance(document, Row) else _fields(document)
        for name, document in store.documents.items()
        if not isinstance(document, Tombstone | Mark)
    }


def _fields(document: Any) -> dict[str, Any]:
    return {name: getattr(document, name) for name in document.__struct_fields__}


def differing_fields(
    live: Mapping[DocumentId, Mapping[str, Any]], again: Mapping[DocumentId, Mapping[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """`<document> <field>` to its value in the live projection and in the replay, where they differ."""
    names = live.keys() | again.keys()
    pairs = ((name, live.get(name, {}), again.get(name, {})) for name in names)
    return {
        f"{name} {field}": (mine.get(field), other.get(field))
        for name, mine, other in pairs
        for field in mine.keys() | other.keys()
        if mine.get(field) != other.get(field)
    }


def hidden(store: MemoryStore) -> set[DocumentId]:
    """Tombstones: what may not come back."""
    return {name for name, document in store.documents.items() if isinstance(document, Tombstone)}


def assert_replay_equals_live(events: list[Recorded]) -> None:
    live = one_by_one(events)
    again = replayed(events, live)
    assert differing_fields(visible(live), visible(again)) == {}
    assert members(again) == members(live)


@given(histories(observe, track, overtaking=False))
def test_a_replay_ends_with_the_live_sessions_and_observations(events: list[Recorded]):
    """Although it no longer sees what was erased."""
    assert_replay_equals_live(events)


@given(histories(remember, overtaking=False))
def test_a_replay_ends_with_the_live_memories(events: list[Recorded]):
    assert_replay_equals_live(events)


@given(histories(learn, overtaking=False))
def test_a_replay_ends_with_the_live_lessons(events: list[Recorded]):
    assert_replay_equals_live(events)


@given(histories(observe, track, remember, learn, forget=False))
def test_a_replay_of_everything_is_the_live_projection(events: list[Recorded]):
    """Nothing forgotten, nothing erased: equal to the last mark."""
    assert contents(replayed(events, one_by_one(events))) == contents(one_by_one(events))


@given(histories(observe, track, remember, overtaking=False))
def test_a_replay_hides_what_live_hides(events: list[Recorded]):
    live = one_by_one(events)
    assert hidden(replayed(events, live)) == hidden(live)


@given(any_history)
def test_nothing_forgotten_is_readable_after_a_replay(events: list[Recorded]):
    """What is gone in the live projection never comes back by rebuilding it."""
    live = one_by_one(events)
    back = visible(replayed(events, live)).keys() - visible(live).keys()
    assert not back


@given(any_history)
def test_what_is_erased_is_nothing_that_is_still_read(events: list[Recorded]):
    live = one_by_one(events)
    read = {document.position for document in live.documents.values() if isinstance(document, Lesson | Memory)}
    assert read.isdisjoint(str(position) for position in live.erased)


_partitions = count(10)


@settings(max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=any_history, data=st.data())
async def test_redis_keeps_what_memory_keeps(redis: Client, events: list[Recorded], data: st.DataObject):
    """The same batches, documents and listings alike, checkpoint included. Each example has a partition of its own."""
    memory = MemoryStore()
    keys = PartitionKeys(next(_partitions))
    store = RedisStore(redis, keys, 1, await acquire_lease(redis, keys, "ada", 60_000))
    for batch in data.draw(cut(events)):
        apply(memory, batch)
        await store.save(await project(store, batch), batch[-1].position)
    assert await store.load(list(memory.documents)) == memory.documents
    listed = {name: set(found) for name, found in (await store.members(list(memory.listings))).items()}
    assert {name: found for name, found in listed.items() if found} == members(memory)
    prefix = store.keys.listing("")
    stored = {raw.decode().removeprefix(prefix) async for raw in redis.scan_iter(match=f"{prefix}*", count=1000)}
    assert stored == members(memory).keys()
    assert await store.checkpoint() == events[-1].position


FORGET_EXAMPLES = [
    pytest.param(
        [Observe(session_id="s1", content="a"), TrackSession(session_id="s1", status="ended"),
         Observe(session_id="s1", content="b"), 2],
        id="the observation that reopened a session",
    ),
    pytest.param(
        [
            Observe(session_id="s1", content="a", agent_id="ada"),
            Observe(session_id="s1", content="b", agent_id="bob"),
            0,
        ],
        id="the observation whose agent named the session",
    ),
    pytest.param([Observe(session_id="s1", content="a", agent_id="ada"), 0], id="the only observation"),
    pytest.param([Remember(content=MEMORIES[0]), Remember(content=MEMORIES[1]), 1], id="the memory that superseded"),
    pytest.param([Remember(content=MEMORIES[0]), Remember(content=MEMORIES[1]), 0], id="the memory superseded"),
    pytest.param([RecordLesson(content=LESSONS[0]), 0], id="a lesson"),
    pytest.param([RecordLesson(content=LESSONS[0]), RecordLesson(content=LESSONS[0]), 0], id="a lesson said twice"),
    pytest.param([RecordLesson(content=LESSONS[0]), 0, RecordLesson(content=LESSONS[0])], id="a lesson said again"),
    pytest.param([RecordLesson(content=LESSONS[0]), 0, -1], id="a lesson repeated late"),
]  # fmt: skip


@pytest.mark.parametrize("history", FORGET_EXAMPLES)
def test_forgetting_ends_alike_in_a_replay(history: list[AnyCommand | int]):
    """Named cases of the properties above: n forgets what the n-th command created, -1 repeats the first command."""
    said: list[AnyCommand] = []
    order: list[AnyCommand] = []
    for n, step in enumerate(history):
        if isinstance(step, int):
            order.append(said[0] if step < 0 else forgetting(said[step if step < len(said) else -1], f"f{n}"))
        else:
            said.append(replace(step, event_id=f"e{n}", project=PROJECT, occurred_at=minute(n)))
            order.append(said[-1])
    assert_replay_equals_live([decided(command, place(n)) for n, command in enumerate(order, 1)])
