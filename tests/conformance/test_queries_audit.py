"""The log read backwards: who wrote or deleted what, and when."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, cast, get_args
from uuid import uuid4

import pytest
from desk import ADA, ALONE, BOB, NOBODY, PARTITIONS, STRANGER, Desk
from factories import AGENT, PROJECT, TENANT

from ingest.commands.decide import (
    LinkCommit,
    ReinforceLesson,
    Relate,
    SetSlot,
    SummariseSession,
    TrackSession,
    WriteAction,
)
from ingest.errors import CommandRejected
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, partition_of, project_route
from ingest.log.redis_log import RedisLog
from ingest.nouns.action import ActionEdge
from ingest.platform.connections import Client
from ingest.roles import KeyScope
from projections.nouns.access import Reader
from projections.queries import documents as documents_module
from projections.queries import log_events as audit_module
from projections.queries.context import Compile, ContextRequest
from projections.queries.documents import DocumentReader
from projections.queries.lesson import Lessons
from projections.queries.listed import AT_ONCE, IntegerIds, Noun
from projections.queries.log_events import Audit, AuditEntry, EventFilter, LogEvents
from projections.queries.memory import Memories
from projections.queries.observation import Observations
from projections.queries.profiles import ProjectProfiles
from projections.queries.session import Commits, Sessions, Summaries
from projections.queries.work import Actions, Relations


@pytest.fixture
def audit(desk: Desk) -> Audit:
    return Audit(desk.log)


async def done(audit: Audit, reader: Reader = ADA, **options: Any) -> list[str]:
    page = await audit.entries(reader, **options)
    return [entry.operation for entry in page.entries]


async def test_every_write_is_told_newest_first_with_the_document_it_is_about(desk: Desk, audit: Audit):
    memory = await desk.remember("tea", user_id="u1", session_id="s1")
    lesson = await desk.learn("rebase")
    await desk.say(ReinforceLesson(lesson=lesson, project="atlas", agent_id="bob"))
    slot = await desk.say(SetSlot(label="persona", content="kind", project="atlas"))
    action = await desk.say(WriteAction(title="brew", project="atlas"))
    await desk.say(WriteAction(action=action, status="done", project="atlas"))
    relation = await desk.say(Relate(source=memory, target=lesson, relation="explains", project="atlas"))
    await desk.say(TrackSession(status="started", session_id="s1", project="atlas"))
    commit = await desk.say(LinkCommit(commit="abc", project="atlas"))
    await desk.settle()
    page = await audit.entries(ADA)
    entries = [(entry.operation, entry.targets) for entry in reversed(page.entries)]
    (session,) = next(targets for operation, targets in entries if operation == "session.started")
    assert session.startswith("ses_")
    assert entries == [
        ("memory.recorded", [memory]),
        ("lesson.recorded", [lesson]),
        ("lesson.reinforced", [lesson]),
        ("slot.set", [slot]),
        ("action.created", [action]),
        ("action.updated", [action]),
        ("relation.linked", [relation]),
        ("session.started", [session]),
        ("session.committed", [commit]),
    ]
    first = page.entries[-1]
    assert (first.agent_id, first.user_id, first.project, first.session_id) == ("ada", "u1", "atlas", "s1")
    assert (first.source, first.reason, first.erased) == ("native", "", False)
    partition, _, position = first.position.partition(":")
    assert int(partition) < PARTITIONS
    assert first.at == Position.parse(position).recorded_at
    assert page.next is None


async def test_what_was_said_is_never_told(desk: Desk, audit: Audit):
    await desk.remember("the safe is behind the kettle", visibility="private")
    await desk.settle()
    (entry,) = (await audit.entries(BOB)).entries
    assert "kettle" not in repr(entry)


async def test_observations_are_told_only_when_asked_for(desk: Desk, audit: Audit):
    observation = await desk.observe("step 1")
    await desk.remember("tea")
    assert await done(audit) == ["memory.recorded"]
    assert await done(audit, operation="*") == ["memory.recorded", "observation.recorded"]
    (entry,) = (await audit.entries(ADA, "observation.recorded")).entries
    assert entry.targets == [observation]


async def test_a_forgotten_memory_leaves_who_wrote_it_and_who_deleted_it_and_why(desk: Desk, audit: Audit):
    memory = await desk.remember("tea")
    await desk.settle()
    await desk.forget("memory", memory, reason="a secret", agent_id="bob")
    forgetting, writing = (await audit.entries(ADA)).entries
    assert (forgetting.operation, forgetting.agent_id, forgetting.reason) == ("subject.forgotten", "bob", "a secret")
    assert (writing.operation, writing.agent_id, writing.erased) == ("memory.recorded", "ada", True)
    assert forgetting.targets == writing.targets == [memory]


async def test_it_can_be_narrowed_to_an_operation_an_agent_or_a_project(desk: Desk, audit: Audit):
    await desk.remember("tea")
    await desk.learn("rebase", agent_id="bob")
    await desk.remember("pot", project="hermes")
    assert await done(audit, operation="memory.recorded") == ["memory.recorded"] * 2
    assert await done(audit, agent_id="bob") == ["lesson.recorded"]
    assert await done(audit, project="hermes") == ["memory.recorded"]
    assert await done(audit, project="") == []


@pytest.mark.parametrize("step", [2, 200])
async def test_pages_go_back_through_all_partitions_whatever_is_written_meanwhile(
    desk: Desk, audit: Audit, step: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_module, "STEP", step)
    names = [await desk.remember(f"memory {n}", project=f"p{n % 5}") for n in range(12)]
    results: list[AuditEntry] = []
    cursor: str | None = None
    while True:
        page = await audit.entries(ADA, limit=5, cursor=cursor)
        results += page.entries
        await desk.remember("meanwhile", project=f"p{len(results) % 5}")
        cursor = page.next
        if cursor is None:
            break
    assert [entry.targets for entry in results] == [[name] for name in reversed(names)]


async def test_a_page_passes_over_so_many_entries_only_and_says_where_to_go_on(
    desk: Desk, audit: Audit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_module, "MAX_SCANNED", 2)
    await desk.remember("tea")
    for n in range(3):
        await desk.observe(f"step {n}")
    first = await audit.entries(ADA)
    assert first.entries == []
    assert first.next is not None
    second = await audit.entries(ADA, cursor=first.next)
    assert [entry.operation for entry in second.entries] == ["memory.recorded"]


async def test_what_is_no_cursor_is_refused(audit: Audit, desk: Desk):
    for cursor in ("junk", f"{PARTITIONS}:1-0"):
        with pytest.raises(CommandRejected) as refused:
            await audit.entries(ADA, cursor=cursor)
        assert refused.value.field == "cursor"
    with pytest.raises(CommandRejected, match="not a cursor"):
        await desk.documents.page("memories:", [0], cursor="!", limit=1, newest_first=True)


async def test_isolated_readers_are_told_of_themselves_and_other_tenants_of_nothing(desk: Desk, audit: Audit):
    await desk.remember("tea")
    await desk.learn("rebase", agent_id="bob")
    assert await done(audit, ALONE) == ["lesson.recorded"]
    assert await done(audit, ALONE, agent_id="ada") == []
    assert await done(audit, STRANGER, operation="*") == []
    assert await done(audit, Reader("default", "bob", "isolated", operator=True)) == [
        "lesson.recorded",
        "memory.recorded",
    ]


async def test_an_event_of_a_newer_release_is_told_without_its_targets(desk: Desk, audit: Audit):
    await desk.remember("tea")
    partition = partition_of(project_route(TENANT, "atlas"), PARTITIONS)
    (row,) = await desk.log.read(partition, START, 1)
    for payload in (row.payload.replace(b"memory.recorded", b"memory.imagined"), b"junk"):
        await desk.redis.xadd(PartitionKeys(partition).log, {"e": payload})
    page = await audit.entries(ADA)
    assert [(entry.operation, bool(entry.targets)) for entry in page.entries] == [
        ("memory.imagined", False),
        ("memory.recorded", True),
    ]


ALONE_ADA = Reader(ALONE.tenant, AGENT, "isolated")


def compiling(desk: Desk) -> Compile:
    profiles = ProjectProfiles(desk.replica, desk.documents)
    return Compile(desk.replica, desk.documents, desk.recall, profiles)


async def told(desk: Desk, reader: Reader) -> str:
    """What the context says of past sessions."""
    context = await compiling(desk)(ContextRequest(project=PROJECT), reader)
    return "\n".join(block.text for block in context.blocks if block.kind == "session")


async def test_a_past_session_is_told_by_the_readers_own_observations(desk: Desk):
    await desk.observe("We decided that ada keeps the kiwi.")
    await desk.observe("We decided that bob sells the mango.", agent_id="bob")
    await desk.settle()
    assert "kiwi" in await told(desk, ALONE_ADA)
    assert "mango" not in await told(desk, ALONE_ADA)
    assert "mango" in await told(desk, NOBODY)


async def test_a_summary_that_is_nobodys_is_not_shown_to_an_isolated_reader(desk: Desk):
    await desk.observe("We decided that ada keeps the kiwi.")
    await desk.settle()
    located = await Sessions(desk.documents).one(NOBODY, "s1", PROJECT)
    command = SummariseSession(
        project=PROJECT, session_id="s1", title="Fruit", narrative="The kiwi and the mango.", observation_count=1,
        forgotten_at=getattr(located.document, "told_from", ""),
    )  # fmt: skip
    await desk.say(command)
    await desk.settle()
    assert "mango" in await told(desk, NOBODY)
    assert "mango" not in await told(desk, ALONE_ADA)
    assert "kiwi" in await told(desk, ALONE_ADA)


async def test_an_action_of_another_agent_blocks_and_is_not_shown(desk: Desk):
    first = await desk.say(WriteAction(project=PROJECT, title="Find the fault", agent_id=AGENT))
    waits = [ActionEdge(type="requires", target=first)]
    waiting = await desk.say(WriteAction(project=PROJECT, title="Fix it", agent_id="bob", edges=waits))
    free = await desk.say(WriteAction(project=PROJECT, title="Tell it", agent_id="bob"))
    await desk.settle()
    work = await Actions(desk.documents).open_work(ALONE, PROJECT)
    assert {*work.actions} == {waiting, free}
    assert [item.item.id for item in work.ready] == [free]
    everybody = await Actions(desk.documents).open_work(NOBODY, PROJECT)
    assert {*everybody.actions} == {first, waiting, free}
    assert {item.item.id for item in everybody.ready} == {first, free}


ELSEWHERE = Reader(TENANT, AGENT, key_scope=KeyScope(projects=("elsewhere",)))
"""A key for another project."""
PAGES: dict[str, Callable[[Desk], Callable[..., Awaitable[Any]]]] = {
    "memories": lambda desk: Memories(desk.documents, desk.lookup, desk.replica).page,
    "lessons": lambda desk: Lessons(desk.replica, desk.documents, desk.recall.vectors).page,
    "actions": lambda desk: Actions(desk.documents).page,
    "relations": lambda desk: Relations(desk.documents, desk.lookup).page,
    "sessions": lambda desk: Sessions(desk.documents).page,
    "commits": lambda desk: Commits(desk.documents).page,
    "summaries": lambda desk: Summaries(desk.documents).page,
    "timeline": lambda desk: Observations(desk.replica, desk.documents).timeline,
}
EVERYONES = [name for name in PAGES if name != "summaries"]
"""Those that `_write` writes to, for each agent: a summary is nobody's."""


@pytest.fixture(autouse=True)
def little_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """A request that looks at few documents, so that pages end behind some that may not be seen."""
    monkeypatch.setattr(documents_module, "MAX_SCANNED", 2)
    monkeypatch.setattr(documents_module, "SCANNED_AT_ONCE", 1)


async def _write(desk: Desk, agent: str, count: int) -> set[str]:
    """Documents of every kind that an agent writes alone; their ids."""
    written: set[str] = set()
    for _ in range(count):
        name, fields = uuid4().hex, _by(agent)
        memory = await desk.remember(name, agent_id=agent, visibility="private")
        written |= {
            memory,
            await desk.learn(name, agent_id=agent),
            await desk.observe(name, agent_id=agent, session_id=name),
            await desk.say(WriteAction(title=name, **fields)),
            await desk.say(LinkCommit(commit=name, **fields)),
            await desk.say(Relate(source=memory, target=memory, relation="explains", **fields)),
        }
    return written


def _by(agent: str) -> dict[str, Any]:
    return {"project": PROJECT, "agent_id": agent}


async def _walk(desk: Desk, listing: str, reader: Reader) -> tuple[list[str], str]:
    """The ids on all pages of a listing, and all that their cursors say."""
    results: list[str] = []
    fields, cursor = "", None
    while True:
        page = await PAGES[listing](desk)(reader, PROJECT, cursor, 1)
        results += [row["id"] for row in page.items]
        if (cursor := page.next) is None:
            return results, fields
        fields += base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode() + "\n"


async def test_a_reader_gets_all_that_it_may_see_and_no_cursor_names_what_it_may_not(desk: Desk):
    hidden = await _write(desk, AGENT, 4)
    own = await _write(desk, "bob", 1)
    hidden |= await _write(desk, AGENT, 4)
    own |= await _write(desk, "bob", 1)
    hidden |= await _write(desk, AGENT, 4)
    await desk.settle()
    for listing in EVERYONES:
        results, texts = await _walk(desk, listing, ALONE)
        assert len(results) == 2, listing
        assert texts, listing
        assert [name for name in hidden if name in texts] == [], listing
        if listing != "sessions":
            assert set(results) <= own, listing


async def test_no_cursor_names_a_private_memory_of_somebody_else(desk: Desk):
    hidden = [await desk.remember(f"{n}", visibility="private") for n in range(4)]
    public = await desk.remember("tea")
    hidden += [await desk.remember(f"more {n}", visibility="private") for n in range(4)]
    await desk.settle()
    results, fields = await _walk(desk, "memories", NOBODY)
    assert results == [public]
    assert [name for name in hidden if name in fields] == []


@pytest.mark.parametrize("listing", PAGES)
async def test_of_a_project_that_a_key_is_not_for_nothing_is_read(
    desk: Desk, listing: str, monkeypatch: pytest.MonkeyPatch
):
    await _write(desk, AGENT, 1)
    await desk.settle()
    monkeypatch.setattr(DocumentReader, "page", _refuse)
    page = await PAGES[listing](desk)(ELSEWHERE, PROJECT, None, 1)
    assert (page.items, page.next) == ([], None)


async def test_of_a_project_that_a_key_is_not_for_the_log_is_not_read(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    await _write(desk, AGENT, 1)
    await desk.settle()
    for reading in ("read", "read_back", "head"):
        monkeypatch.setattr(RedisLog, reading, _refuse)
    assert (await Audit(desk.log).entries(ELSEWHERE, project=PROJECT)).next is None
    events = LogEvents(desk.log, desk.replica, desk.documents)
    event_filter = EventFilter(ELSEWHERE, project=PROJECT)
    assert (await events.page(event_filter, "", 10, None)).next is None
    assert (await events.page(event_filter, "0:5-0", 10, None)).next == "0:5-0"


async def _refuse(*options: Any, **more: Any) -> None:
    raise AssertionError("this is not to be read")


@pytest.fixture
def observations(redis: Client) -> IntegerIds:
    return IntegerIds(redis, TENANT, "observation")


def names(count: int, first: int = 0) -> list[str]:
    return [f"obs_{n:020x}" for n in range(first, first + count)]


async def test_numbers_begin_at_one_and_follow_the_order_of_first_sight(observations: IntegerIds):
    assert await observations.numbers(["obs_b", "obs_a"]) == [1, 2]
    assert await observations.numbers(["obs_a", "obs_c", "obs_b"]) == [2, 3, 1]


async def test_a_name_twice_in_one_call_has_one_number(observations: IntegerIds):
    assert await observations.numbers(["obs_a", "obs_b", "obs_a", "obs_c"]) == [1, 2, 1, 3]


async def test_a_number_leads_back_to_its_name(observations: IntegerIds):
    await observations.numbers(["obs_a", "проект / 🚀"])
    assert await observations.ids([2, 7, 1, 0, -1, 2**70]) == ["проект / 🚀", None, "obs_a", None, None, None]


async def test_nothing_asked_is_nothing_answered(observations: IntegerIds):
    assert await observations.numbers([]) == []
    assert await observations.ids([]) == []


async def test_the_empty_name_is_a_name(redis: Client):
    """A project may be called so."""
    projects = IntegerIds(redis, TENANT, "project")
    assert await projects.numbers([""]) == [1]
    assert await projects.ids([1]) == [""]


async def test_every_noun_and_every_tenant_counts_for_itself(redis: Client):
    nouns = cast("tuple[Noun, ...]", get_args(Noun))
    registries = [IntegerIds(redis, tenant, noun) for noun in nouns for tenant in ("a", "a:by-number", "{b}", "")]
    for place, registry in enumerate(registries):
        assert await registry.numbers([f"name_{place}"]) == [1]
    for place, registry in enumerate(registries):
        assert await registry.ids([1, 2]) == [f"name_{place}", None]


async def test_more_than_one_call_takes(observations: IntegerIds):
    expected = names(2 * AT_ONCE + 1)
    assert await observations.numbers(expected) == list(range(1, len(expected) + 1))
    assert await observations.ids(range(1, len(expected) + 1)) == expected


async def test_those_who_ask_at_once_agree(redis: Client):
    """Twenty processes see the same hundred names in different orders: everybody gets the same hundred numbers."""
    expected = names(100)
    orders = [expected[turn * 5 :] + expected[: turn * 5] for turn in range(20)]
    answers = await asyncio.gather(*(IntegerIds(redis, TENANT, "lesson").numbers(order) for order in orders))
    agreed = dict(zip(orders[0], answers[0], strict=True))
    assert sorted(agreed.values()) == list(range(1, 101))
    for order, answer in zip(orders, answers, strict=True):
        assert [agreed[name] for name in order] == answer


async def test_numbers_outlive_a_restart_of_the_scripts(redis: Client, observations: IntegerIds):
    await observations.numbers(["obs_a"])
    await redis.script_flush()  # type: ignore[attr-defined]
    assert await observations.numbers(["obs_a", "obs_b"]) == [1, 2]
