"""What is found wrong, by looking at the newest of everything."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from desk import ADA, ALONE, BOB, PARTITIONS, STRANGER, Desk
from factories import TENANT, ManualClock
from redis.exceptions import ConnectionError

from ingest.commands.decide import ChangeVisibility, Relate, SetSlot, SummariseSession, WriteAction
from ingest.errors import LogUnavailable, NotFound
from ingest.events.action import ActionEdge
from ingest.log.event_log import Stored
from ingest.log.keys import WORKERS, PartitionKeys
from ingest.log.position import Position, partition_of, project_route, session_route
from ingest.log.redis_log import RedisLog
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client, ask
from ingest.platform.partial import partial_reads
from ingest.platform.redis_client import Command
from projections.dead_letters.records import DeadLetter, queue_letter
from projections.documents.access import Reader
from projections.documents.sessions import sessions
from projections.health.diagnosis import CATEGORIES
from projections.health.queries import Diagnose
from projections.health.samples import HealthSampler
from projections.health.watch import Limits, Watch
from projections.maintenance.backups import Status, save_status
from projections.operations.transfer import export_events
from projections.queries import documents as documents_module
from projections.queries.context import Compile, ContextRequest
from projections.queries.documents import DocumentReader
from projections.queries.log_events import Audit, EventFilter, LogEvents
from projections.queries.profiles import ProjectProfiles
from projections.queries.sessions import Sessions
from projections.queries.work import Relations

MISSING = f"mem_{0:020x}"


@pytest.fixture
def later() -> ManualClock:
    """A clock that can be moved on from now."""
    return ManualClock(system_clock())


@pytest.fixture
async def watch(desk: Desk, later: ManualClock) -> Watch:
    """Sees a worker that is alive, however far the clock is moved."""
    await desk.redis.zadd(WORKERS, {"desk": (later() + timedelta(days=365)).timestamp() * 1000})
    return Watch(HealthSampler(desk.redis, PARTITIONS, desk.replica, clock=later), Limits())


@pytest.fixture
def diagnose(desk: Desk, watch: Watch, later: ManualClock) -> Diagnose:
    return Diagnose(desk.redis, watch, desk.replica, desk.documents, llm="stub", clock=later)


async def troubles(diagnose: Diagnose, reader: Reader = ADA, *categories: str) -> dict[str, str]:
    """The messages of what did not pass, by category and name."""
    report = await diagnose(reader, categories)
    return {f"{check.category}/{check.name}": check.message for check in report.checks if check.status != "pass"}


async def test_an_empty_memory_is_healthy(diagnose: Diagnose):
    report = await diagnose(ADA)
    assert report.status == "healthy"
    assert {check.category for check in report.checks} == set(CATEGORIES)


async def test_backups_that_fail_or_are_late_are_told(desk: Desk, watch: Watch, later: ManualClock):
    health = Diagnose(desk.redis, watch, desk.replica, desk.documents, backup_every=timedelta(hours=1), clock=later)
    assert await troubles(health) == {}, "nobody has looked yet"
    await save_status(desk.redis, Status(target="/srv", error="the disk is full"))
    assert await troubles(health) == {"storage/backup": "the newest backup failed: the disk is full"}
    await save_status(desk.redis, Status(target="/srv", listed_at=later()))
    later.advance(timedelta(hours=3))
    assert await troubles(health) == {}
    later.advance(timedelta(seconds=1))
    assert "does a worker run?" in (await troubles(health))["storage/backup"]


async def test_only_what_is_asked_for_is_told(diagnose: Diagnose):
    report = await diagnose(ADA, ["storage", "llm", "unknown"])
    assert [check.category for check in report.checks] == ["storage", "llm"]
    assert " MiB" in report.checks[0].message


async def test_ordinary_work_is_healthy(desk: Desk, diagnose: Diagnose):
    first = await desk.remember("tea at four in the afternoon", keep_duplicates=False)
    await desk.remember("tea at four in the afternoon", keep_duplicates=False)
    await desk.learn("rebase")
    await desk.observe("step 1")
    await desk.say(Relate(source=first, target="concept:tea", relation="about", project="atlas"))
    await desk.settle()
    await desk.forget("memory", first)
    assert await troubles(diagnose) == {}


async def test_events_that_wait_are_counted_and_timed(desk: Desk, diagnose: Diagnose, later: ManualClock):
    await desk.remember("tea")
    later.advance(timedelta(seconds=35))
    assert list(await troubles(diagnose)) == ["log/lag"]
    (check,) = (await diagnose(ADA, ["log"])).checks
    assert check.message.startswith("1 events are not projected yet, the oldest for 3")


async def test_dead_letters_are_counted(desk: Desk, diagnose: Diagnose):
    letter = DeadLetter(position="1-0", code="internal", message="no", attempts=3)
    async with desk.redis.pipeline() as pipe:
        queue_letter(pipe, PartitionKeys(PARTITIONS - 1).of_generation(1), letter)
        await pipe.execute()
    assert await troubles(diagnose) == {"dead_letters/dead-letters": "1 events could not be applied"}


async def test_a_session_that_was_silent_for_a_day_is_named(desk: Desk, diagnose: Diagnose, later: ManualClock):
    await desk.observe("step 1", session_id="forgotten")
    await desk.settle()
    later.advance(timedelta(hours=23))
    assert await troubles(diagnose) == {}
    later.advance(timedelta(hours=2))
    assert "forgotten" in (await troubles(diagnose))["sessions/active-over-a-day"]
    assert await troubles(diagnose, ALONE) == {}
    assert await troubles(diagnose, STRANGER) == {}


async def test_what_leads_nowhere_is_named(desk: Desk, diagnose: Diagnose):
    memory = await desk.remember("tea")
    action = await desk.say(WriteAction(title="brew", requires=[f"act_{0:020x}"], project="atlas", agent_id="ada"))
    relation = await desk.say(Relate(source=memory, target=MISSING, relation="about", project="atlas", agent_id="ada"))
    await desk.settle()
    results = await troubles(diagnose)
    assert set(results) == {"actions/missing-requirement", "relations/dangling"}
    assert action in results["actions/missing-requirement"]
    assert relation in results["relations/dangling"]
    assert await troubles(diagnose, ALONE) == {}
    assert await troubles(diagnose, STRANGER) == {}


async def test_circles_of_actions_summaries_without_a_title_and_full_slots_are_named(desk: Desk, diagnose: Diagnose):
    await desk.remember("tea")
    first = await desk.say(WriteAction(title="hen", project="atlas"))
    second = await desk.say(WriteAction(title="egg", requires=[first], project="atlas"))
    edge = ActionEdge(type="requires", target=second)
    await desk.say(WriteAction(action=first, edges=[edge], project="atlas"))
    await desk.observe("step 1", event_id="opening")
    summary = SummariseSession(
        title=" ", narrative="said", project="atlas", session_id="s1", observation_count=1, forgotten_at="opening"
    )
    await desk.say(summary)
    await desk.say(SetSlot(label="notes", content="too long", size_limit=100, project="atlas"))
    await desk.say(SetSlot(label="notes", content="too long", size_limit=3, project="atlas"))
    await desk.settle()
    results = await troubles(diagnose)
    assert set(results) == {"actions/cycle", "summaries/title", "slots/over-limit"}
    assert first in results["actions/cycle"]
    assert "notes" in results["slots/over-limit"]


async def test_memories_that_the_server_made_are_not_counted_among_those_without_a_project(
    desk: Desk, diagnose: Diagnose
):
    """A crystal, or what was consolidated, of work without a project is nobody's fault."""
    for tags in (["crystal"], ["consolidated"], ["fact", "consolidated"], ["procedure", "consolidated"]):
        await desk.remember(f"made of {tags}", project="", tags=tags)
    await desk.settle()
    assert await troubles(diagnose) == {}
    await desk.remember("a fact that somebody saved", project="", tags=["fact"])
    await desk.settle()
    assert (await troubles(diagnose))["memories/unscoped"].startswith("1 memories")


async def test_memories_without_a_project_are_counted_for_those_who_may_see_them(desk: Desk, diagnose: Diagnose):
    await desk.remember("tea", project="")
    await desk.remember("the safe", project="", visibility="private")
    await desk.settle()
    assert (await troubles(diagnose))["memories/unscoped"].startswith("2 memories")
    assert (await troubles(diagnose, Reader("default")))["memories/unscoped"].startswith("1 memories")


HOME = partition_of(project_route(TENANT, "atlas"), PARTITIONS)
ELSEWHERE = next(
    name for name in ("hermes", "janus", "kairos", "lethe")
    if partition_of(project_route(TENANT, name), PARTITIONS) != HOME
)  # fmt: skip
"""A project in another partition than atlas."""
TakeAway = Callable[[int], None]


class SomeAway(RedisLog):
    """A log of which some partitions are on a node that does not answer."""

    def __init__(self, redis: Client, partitions: int) -> None:
        super().__init__(redis, partitions)
        self.away = set[int]()

    async def head(self, partition: int) -> Position:
        if partition in self.away:
            raise ConnectionError("connection refused")
        return await super().head(partition)

    async def read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        if partition in self.away:
            raise ConnectionError("connection refused")
        return await super().read_back(partition, before, limit)


@pytest.fixture
def take_away(monkeypatch: pytest.MonkeyPatch) -> TakeAway:
    """Has a partition's documents be on a node that does not answer."""

    def take_away(partition: int) -> None:
        tag = f"{{p{partition:02d}}}"

        async def asked(client: Client, commands: Sequence[Command], *, at_once: bool = False) -> list[Any]:
            answers = await ask(client, commands, at_once=at_once)
            is_away = [any(tag in str(word) for word in command) for command in commands]
            away = ConnectionError("connection refused")
            return [away if gone else answer for gone, answer in zip(is_away, answers, strict=True)]

        monkeypatch.setattr(documents_module, "ask", asked)

    return take_away


@pytest.fixture
def documents(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> DocumentReader:
    """Reads as on a cluster, a command for each partition."""

    def apart(client: Client) -> bool:
        return False

    monkeypatch.setattr(documents_module, "keys_may_be_apart", apart)
    return DocumentReader(desk.redis, PARTITIONS)


async def test_a_relation_of_a_memory_that_cannot_be_read_is_shown_to_operators_alone(
    desk: Desk, documents: DocumentReader, take_away: TakeAway
):
    secret = await desk.remember("the safe is behind the kettle", visibility="private")
    open_to_all = await desk.remember("tea at four", project=ELSEWHERE)
    await desk.say(Relate(source=secret, target=open_to_all, relation="explains", project=ELSEWHERE))
    await desk.settle()
    relations = Relations(documents, desk.lookup)
    operator = Reader(TENANT, operator=True)
    assert len((await relations.page(ADA, ELSEWHERE, None, 10)).items) == 1
    assert (await relations.page(BOB, ELSEWHERE, None, 10)).items == []
    take_away(HOME)
    with partial_reads() as left_out:
        assert (await relations.page(BOB, ELSEWHERE, None, 10)).items == []
        assert len((await relations.page(operator, ELSEWHERE, None, 10)).items) == 1
    assert left_out == {HOME}


async def test_an_event_of_a_memory_that_cannot_be_read_goes_to_nobody_who_might_not_see_it(
    desk: Desk, documents: DocumentReader, take_away: TakeAway
):
    memory = await desk.remember("the safe is behind the kettle")
    await desk.say(ChangeVisibility(memory=memory, visibility="private", project="atlas"))
    await desk.settle()
    events = LogEvents(desk.log, desk.replica, documents)

    async def exported(reader: Reader) -> str:
        return b"".join([chunk async for chunk in export_events(desk.log, documents, reader, None)]).decode()

    (fields, _) = (await events.page(EventFilter(BOB), "", 10, None)).events
    assert fields["data"] == {"visibility": "private", "withheld": True}
    assert "kettle" not in await exported(BOB)
    take_away(HOME)
    with partial_reads(), pytest.raises(LogUnavailable, match="who may see"):
        await events.page(EventFilter(BOB), "", 10, None)
    with partial_reads(), pytest.raises(LogUnavailable, match="who may see"):
        await exported(BOB)
    with partial_reads():
        (fields, _) = (await events.page(EventFilter(Reader(TENANT, operator=True)), "", 10, None)).events
    assert fields["data"]["content"] == "the safe is behind the kettle"


@pytest.mark.parametrize("project", ["atlas", None])
async def test_a_session_is_not_said_not_to_exist_while_its_partition_cannot_be_read(
    desk: Desk, documents: DocumentReader, take_away: TakeAway, project: str | None
):
    sessions = Sessions(documents)
    await desk.observe("tea at four")
    await desk.settle()
    partition = (await sessions.one(ADA, "s1", project)).partition
    take_away(partition)
    with partial_reads(), pytest.raises(LogUnavailable, match="cannot be told whether there is a session 's1'"):
        await sessions.one(ADA, "s1", project)
    take_away(PARTITIONS)  # none there is
    with partial_reads(), pytest.raises(NotFound):
        await sessions.one(ADA, "unknown", project)


async def test_a_profile_that_lacks_a_partition_is_not_kept(
    desk: Desk, documents: DocumentReader, take_away: TakeAway, monkeypatch: pytest.MonkeyPatch
):
    for number in range(8):
        await desk.edit("src/tea.py", session_id=f"s{number}")
    await desk.settle()
    profiles = ProjectProfiles(desk.replica, documents)
    take_away(HOME)
    with partial_reads() as left_out:
        partial, _ = await profiles.of(ADA, "atlas")
    assert left_out == {HOME}
    assert partial is not None
    assert partial.session_count < 8
    monkeypatch.setattr(documents_module, "ask", ask)  # it is back
    whole, cached = await profiles.of(ADA, "atlas")
    assert whole is not None
    assert (whole.session_count, cached) == (8, False)


async def test_a_context_of_a_project_whose_partition_is_away_tells_its_sessions_of_other_partitions(
    desk: Desk, documents: DocumentReader, take_away: TakeAway
):
    elsewhere = next(
        name for name in map("s{}".format, range(100))
        if partition_of(session_route(TENANT, "atlas", name), PARTITIONS) != HOME
    )  # fmt: skip
    await desk.observe("We decided that the kettle is bought.", session_id=elsewhere)
    await desk.remember("tea at four")
    await desk.settle()
    profiles = ProjectProfiles(desk.replica, documents)
    answer = Compile(desk.replica, documents, desk.recall, profiles)
    whole = await answer(ContextRequest(project="atlas"), ADA)
    assert "tea at four" in whole.context
    take_away(HOME)
    with partial_reads() as left_out:
        partial = await answer(ContextRequest(project="atlas"), ADA)
    assert left_out == {HOME}
    assert "tea at four" not in partial.context
    assert "kettle" in partial.context


async def test_a_partition_that_the_first_page_of_the_audit_log_lacks_is_in_a_later_one(desk: Desk):
    for project in ("atlas", ELSEWHERE, ELSEWHERE):
        await desk.remember("tea at four", project=project)
    log = SomeAway(desk.redis, PARTITIONS)
    log.away.add(HOME)
    audit = Audit(log)
    with partial_reads() as left_out:
        first = await audit.entries(ADA, limit=1)
    assert left_out == {HOME}
    log.away.clear()
    rest = await audit.entries(ADA, cursor=first.next)
    assert [entry.project for entry in first.entries] == [ELSEWHERE]
    assert sorted(entry.project for entry in rest.entries) == sorted(["atlas", ELSEWHERE])


async def test_pages_behind_one_that_left_a_partition_out_leave_it_out_and_say_so(
    desk: Desk, documents: DocumentReader, take_away: TakeAway, monkeypatch: pytest.MonkeyPatch
):
    """What is there and newer than the cursor would be missing from them without a word, once the node is back."""
    for n in range(12):
        await desk.observe("tea at four", session_id=f"s{n}")
    await desk.settle()
    whole = await documents.newest(sessions(TENANT), Reader(TENANT), None, None, 100)
    there = [document.document.id for document in whole.documents if document.partition != HOME]
    assert len(whole.documents) == 12 > len(there) > 2
    take_away(HOME)
    with partial_reads() as missing:
        first = await documents.newest(sessions(TENANT), Reader(TENANT), None, None, 2)
    assert missing == {HOME}
    monkeypatch.setattr(documents_module, "ask", ask)
    with partial_reads() as missing:
        second = await documents.newest(sessions(TENANT), Reader(TENANT), None, first.next, 100)
    assert missing == {HOME}
    assert [item.document.id for item in (*first.documents, *second.documents)] == there
    assert second.next is None
