"""What is found wrong, by looking at the newest of everything.

What happened around something, and what is known of files; and who is told.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from desk import ADA, ALONE, BOB, NOBODY, PARTITIONS, STRANGER, Desk
from factories import NOW, TENANT, ManualClock, minute
from msgspec.structs import replace
from redis.exceptions import ConnectionError

from ingest.commands.decide import ChangeVisibility, Relate, ReviseMemory, SetSlot, SummariseSession, WriteAction
from ingest.errors import LogUnavailable, NotFound
from ingest.log.event_log import Stored
from ingest.log.keys import WORKERS, PartitionKeys
from ingest.log.position import Position, partition_of, project_route, session_route
from ingest.log.redis_log import RedisLog
from ingest.nouns.action import ActionEdge
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client, ask
from ingest.platform.partial import partial_reads
from ingest.platform.redis_client import Command
from projections.health.diagnosis import CATEGORIES
from projections.health.queries import Diagnose
from projections.health.samples import HealthSampler
from projections.health.watch import Limits, Watch
from projections.maintenance.backups import Status, save_status
from projections.nouns.access import Reader
from projections.nouns.session import sessions
from projections.operations.transfer import export_events
from projections.queries import documents as documents_module
from projections.queries import graph as graph_module
from projections.queries import lookup
from projections.queries.context import Compile, ContextRequest
from projections.queries.documents import DocumentReader
from projections.queries.graph import Drawing, Graph
from projections.queries.log_events import Audit, EventFilter, LogEvents
from projections.queries.observation import AroundQueries, EnrichRequest, Timeline
from projections.queries.profiles import ProjectProfiles
from projections.queries.session import Sessions
from projections.queries.work import Relations
from projections.store.dead_letters import DeadLetter, queue_letter

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
    assert "is a worker running?" in (await troubles(health))["storage/backup"]


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
    assert check.message.startswith("1 events are pending, the oldest for 3")


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
    with partial_reads(), pytest.raises(LogUnavailable, match="cannot be determined"):
        await events.page(EventFilter(BOB), "", 10, None)
    with partial_reads(), pytest.raises(LogUnavailable, match="cannot be determined"):
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
    with partial_reads(), pytest.raises(LogUnavailable, match="it is unknown whether there is a session 's1'"):
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


@pytest.fixture
def around(desk: Desk) -> AroundQueries:
    return AroundQueries(desk.replica, desk.documents, desk.recall)


def told(timeline: Timeline) -> list[tuple[int, str]]:
    return [(entry.position, entry.observation.content) for entry in timeline.entries]


async def day(desk: Desk) -> list[str]:
    """Nine observations, a minute apart, written in another order than they happened."""
    names = {n: await desk.observe(f"step {n}", minute(n), session_id=f"s{n % 2}") for n in (4, 0, 8, 2, 6, 1, 7, 3, 5)}
    await desk.settle()
    return [names[n] for n in range(9)]


async def test_around_a_date_is_what_happened_nearest_to_it(desk: Desk, around: AroundQueries):
    await day(desk)
    timeline = await around.timeline(ADA, (minute(4) + timedelta(seconds=20)).isoformat(), "atlas", before=2, after=3)
    assert told(timeline) == [(n - 4, f"step {n}") for n in range(2, 8)]
    assert (timeline.anchor_index, timeline.reason) == (2, "")
    assert told(await around.timeline(ADA, NOW.strftime("%Y-%m-%d"), "atlas", before=1, after=1))[0] == (0, "step 0")


async def test_around_an_observation_is_what_happened_before_and_after_it(desk: Desk, around: AroundQueries):
    names = await day(desk)
    assert told(await around.timeline(ADA, names[8], "atlas", before=2)) == [
        (-2, "step 6"),
        (-1, "step 7"),
        (0, "step 8"),
    ]
    of_session = await around.timeline(ADA, names[4], None, "s0", before=1, after=1)
    assert told(of_session) == [(-1, "step 2"), (0, "step 4"), (1, "step 6")]
    assert (await around.timeline(ADA, names[4], "hermes")).reason == "no_match"
    assert (await around.timeline(ADA, names[4], None, "s1")).reason == "no_match"


async def test_what_happened_in_the_same_millisecond_is_in_the_order_of_ids(desk: Desk, around: AroundQueries):
    names = sorted([await desk.observe(f"step {n}", NOW) for n in range(5)])
    await desk.settle()
    timeline = await around.timeline(ADA, names[2], "atlas", before=1, after=1)
    assert [entry.observation.id for entry in timeline.entries] == names[1:4]


@pytest.mark.parametrize("looked_at", [2_000, 1])
async def test_around_words_is_the_newest_that_contains_them(
    desk: Desk, around: AroundQueries, looked_at: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lookup, "LOOKED_AT", looked_at)
    await desk.observe("the kettle leaks", minute(1))
    await desk.observe("the kettle was replaced", minute(3))
    await desk.observe("the pot, not that kettle leaks", minute(2))
    await desk.observe("tea at four", minute(4))
    await desk.settle()
    assert told(await around.timeline(ADA, "Kettle", "atlas", before=0, after=0)) == [(0, "the kettle was replaced")]
    timeline = await around.timeline(ADA, "kettle leaks", "atlas", before=0, after=0)
    assert told(timeline) == [(0, "the pot, not that kettle leaks")]
    assert (await around.timeline(ADA, "leaks kettle", "atlas")).reason == "no_match", "not as it was said"


async def test_an_empty_timeline_says_why(desk: Desk, around: AroundQueries):
    await day(desk)
    reasons = {
        "  ": "invalid_anchor",
        "2026-13-45": "invalid_date",
        "2026-01-31 at tea": "invalid_date",
        "nobody said this": "no_match",
        "obs_0123": "no_match",
    }
    timeline = {anchor: await around.timeline(ADA, anchor, "atlas") for anchor in reasons}
    assert {anchor: item.reason for anchor, item in timeline.items()} == reasons
    assert {(len(item.entries), item.anchor_index) for item in timeline.values()} == {(0, -1)}
    assert (await around.timeline(ADA, "2026-01-31", "nowhere")).reason == "no_match"


async def test_a_timeline_tells_isolated_readers_their_own_only_and_other_tenants_nothing(
    desk: Desk, around: AroundQueries
):
    names = [
        await desk.observe(f"step {n}", minute(n), agent_id=agent)
        for n, agent in enumerate(["ada", "bob", "ada", "bob"])
    ]
    await desk.settle()
    assert told(await around.timeline(ALONE, names[1], "atlas")) == [(0, "step 1"), (1, "step 3")]
    assert told(await around.timeline(ALONE, "step", None))[-1] == (0, "step 3")
    for anchor in (names[0], "step 2"):
        assert (await around.timeline(ALONE, anchor, "atlas")).reason == "no_match"
    for anchor in (names[0], "step", "2026-01-31"):
        assert (await around.timeline(STRANGER, anchor, None)).reason == "no_match"


async def enriched(
    around: AroundQueries, *files: str, reader: Reader = ADA, session: str = "s9", **options: Any
) -> str:
    fields: dict[str, Any] = {"tool_name": "Edit", "project": "atlas", **options}
    return (await around.enrich(reader, EnrichRequest(files=list(files), session_id=session, **fields))).context


async def test_files_are_told_of_by_history_recall_and_bugs(desk: Desk, around: AroundQueries):
    await desk.edit("/repo/src/tea.py", "the kettle was too small")
    await desk.edit("src/tea.py", "steeped for long", session_id="s2")
    await desk.edit("lib/tea.py", "unrelated", session_id="s2")
    await desk.remember("the pot overflows on retry", files=["src/tea.py"], tags=["bug"])
    await desk.remember("the pot is blue", files=["src/tea.py"])
    await desk.remember("the pot leaks", files=["other.py"], tags=["bug"])
    await desk.settle()
    context = await enriched(around, "src/tea.py", terms=["overflows"])
    history, _, rest = context.partition("</agentmemory-file-context>")
    assert history.startswith("<agentmemory-file-context>\n## src/tea.py\n")
    assert "Edit `/repo/src/tea.py`" in history
    assert "Edit `src/tea.py`" in history
    assert "lib/tea.py" not in history
    assert "<agentmemory-relevant-context>" in rest
    _, _, errors = rest.partition("<agentmemory-past-errors>\n")
    assert errors == "- the pot overflows on retry\n</agentmemory-past-errors>"
    assert "Edit `src/tea.py`" in await enriched(around, "/home/ada/src/tea.py")


async def test_a_sessions_own_work_is_no_news_and_its_project_is_the_default(desk: Desk, around: AroundQueries):
    await desk.edit("tea.py", "steeped for long", session_id="s1")
    await desk.edit("tea.py", "of another project", session_id="s2", project="hermes")
    await desk.observe("begun", session_id="s9")
    await desk.settle()
    assert "file-context" not in await enriched(around, "tea.py", session="s1")
    assert "steeped for long" in await enriched(around, "tea.py", project=None)
    assert "of another project" not in await enriched(around, "tea.py", project=None)
    assert "of another project" in await enriched(around, "tea.py", project=None, session="unknown")


async def test_nothing_known_is_nothing_said(desk: Desk, around: AroundQueries):
    assert await enriched(around, "tea.py") == ""
    assert await enriched(around) == ""


async def test_bugs_are_told_to_those_who_may_see_them(desk: Desk, around: AroundQueries):
    await desk.remember("overflows on retry", files=["tea.py"], tags=["bug"], visibility="private")
    await desk.settle()
    assert "overflows" in await enriched(around, "tea.py")
    for reader in (BOB, NOBODY, ALONE, STRANGER):
        assert await enriched(around, "tea.py", reader=reader) == ""


@pytest.fixture
def graph(desk: Desk) -> Graph:
    return Graph(desk.replica, desk.documents)


def names(drawn: Drawing) -> set[str]:
    return {node.id for node in drawn.nodes}


def edges(drawn: Drawing) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.type, edge.target) for edge in drawn.edges}


async def test_memories_and_sessions_are_drawn_with_what_they_are_in_and_about(desk: Desk, graph: Graph):
    tea = await desk.remember("the kettle leaks", session_id="s1", files=["src/tea.py"], concepts=["tea"])
    await desk.edit("src/pot.py")
    await desk.edit("src/pot.py")
    await desk.settle()
    drawn = await graph.query(ADA, "atlas")
    assert names(drawn) == {tea, "project:atlas", "session:s1", "file:src/tea.py", "file:src/pot.py", "concept:tea"}
    assert edges(drawn) == {
        (tea, "in_project", "project:atlas"),
        (tea, "in_session", "session:s1"),
        (tea, "touches", "file:src/tea.py"),
        (tea, "about", "concept:tea"),
        ("session:s1", "in_project", "project:atlas"),
        ("session:s1", "touches", "file:src/pot.py"),
    }
    assert (drawn.total_nodes, drawn.total_edges, drawn.truncated) == (6, 6, False)
    assert {node.id: (node.type, node.label) for node in drawn.nodes}[tea] == ("memory", "the kettle leaks")


async def test_from_a_node_the_graph_is_drawn_step_by_step(desk: Desk, graph: Graph):
    tea = await desk.remember("the kettle leaks", concepts=["tea"], files=["src/tea.py"])
    pot = await desk.remember("the pot is cracked", concepts=["tea"], project="hermes")
    await desk.edit("src/tea.py", session_id="s2")
    await desk.settle()
    assert names(await graph.query(ADA, None, "concept:tea", 0)) == {"concept:tea"}
    assert names(await graph.query(ADA, None, "concept:tea", 1)) == {"concept:tea", tea, pot}
    assert names(await graph.query(ADA, "atlas", "concept:tea", 1)) == {"concept:tea", tea}
    nearby = {"project:atlas", "file:src/tea.py", "concept:tea"}
    assert names(await graph.query(ADA, None, tea, 1)) == {tea, *nearby}
    assert names(await graph.query(ADA, None, tea, 2)) == {tea, *nearby, pot, "session:s2"}
    cut = await graph.query(ADA, None, "concept:tea", 1, limit=2)
    assert (len(cut.nodes), cut.total_nodes, cut.truncated) == (2, 3, True)


async def test_relations_and_versions_are_edges_of_their_own_type(desk: Desk, graph: Graph):
    old = await desk.remember("tea at four")
    other = await desk.remember("coffee at ten")
    await desk.say(Relate(source=other, target=old, relation="contradicts", project="atlas"))
    await desk.say(Relate(source=other, target="concept:caffeine", relation="causes", project="atlas"))
    await desk.settle()
    revised = ReviseMemory(
        memory=old, content="tea at five", memory_type="semantic", purpose="information", project="atlas"
    )
    new = await desk.say(revised)
    await desk.settle()
    drawn = await graph.query(ADA, "atlas")
    assert {edge for edge in edges(drawn) if edge[1] != "in_project"} == {
        (other, "contradicts", old),
        (other, "causes", "concept:caffeine"),
        (new, "supersedes", old),
    }
    assert names(await graph.query(ADA, None, "concept:caffeine")) == {"concept:caffeine", other}
    assert (await graph.stats(ADA, "atlas")).edges == {"in_project": 2, "contradicts": 1, "causes": 1}


async def test_totals_count_every_type(desk: Desk, graph: Graph, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(graph_module, "SLICE", 3)
    await desk.remember("the kettle leaks", session_id="s1", files=["a.py", "b.py"], concepts=["tea"])
    await desk.remember("global", project="", concepts=["tea"])
    for session in ("s1", "s2", "s2"):
        await desk.edit("a.py", session_id=session)
    await desk.edit("c.py", session_id="s3", project="hermes")
    await desk.settle()
    totals = await graph.stats(ADA, None)
    assert totals.nodes == {"memory": 2, "project": 2, "session": 3, "file": 3, "concept": 1}
    assert totals.edges == {"in_project": 4, "in_session": 1, "touches": 5, "about": 2}
    assert not totals.truncated
    drawn = await graph.query(ADA, None)
    assert (drawn.total_nodes, drawn.total_edges) == (len(drawn.nodes), len(drawn.edges)) == (11, 12)
    assert (await graph.stats(ADA, "hermes")).nodes == {"project": 1, "session": 1, "file": 1}


async def test_a_memory_that_somebody_may_not_see_is_not_there_nor_what_is_known_through_it_alone(
    desk: Desk, graph: Graph
):
    public = await desk.remember("the kettle leaks", concepts=["tea"])
    secret = await desk.remember(
        "the safe is behind the kettle", visibility="private", concepts=["safe"], files=["plan.md"], session_id="s9"
    )
    await desk.say(Relate(source=secret, target=public, relation="explains", project="atlas"))
    await desk.settle()
    hidden = {secret, "concept:safe", "file:plan.md", "session:s9"}
    assert hidden < names(await graph.query(ADA, None))
    for reader in (BOB, NOBODY, STRANGER, ALONE):
        observation = {public, "concept:tea", "project:atlas"} if reader in (BOB, NOBODY) else set[str]()
        drawn = await graph.query(reader, None)
        assert names(drawn) == observation
        assert not {edge.type for edge in drawn.edges} & {"explains"}
        totals = await graph.stats(reader, "atlas")
        assert sum(totals.nodes.values()) == len(observation)
        assert "explains" not in totals.edges
        for start in hidden:
            assert await graph.query(reader, None, start, 3) == Drawing([], [], 0, 0, False)


async def test_a_forgotten_memory_is_gone_from_the_graph(desk: Desk, graph: Graph):
    tea = await desk.remember("the kettle leaks", concepts=["tea"])
    await desk.settle()
    assert tea in names(await graph.query(ADA, None))
    await desk.forget("memory", tea)
    assert names(await graph.query(ADA, None)) == set()


async def related(graph: Graph, name: str, reader: Reader = ADA, **options: Any) -> list[tuple[str, int, float]]:
    results = await graph.related(reader, name, **options)
    return [(result.related.id, result.related.hops, result.related.confidence) for result in results]


async def test_related_documents_come_surest_first_through_relations_and_versions(desk: Desk, graph: Graph):
    a, b, c, d = [await desk.remember(f"memory {name}") for name in "abcd"]
    await desk.say(Relate(source=a, target=b, relation="explains", project="atlas", confidence=0.9))
    await desk.say(Relate(source=c, target=b, relation="explains", project="atlas", confidence=0.3))
    await desk.say(Relate(source=d, target=c, relation="explains", project="atlas", confidence=0.8))
    await desk.settle()
    revised = ReviseMemory(memory=a, content="new a", memory_type="semantic", purpose="information", project="atlas")
    new = await desk.say(revised)
    await desk.settle()
    assert await related(graph, a) == [(b, 1, 0.9), (new, 1, 0.5), (c, 2, 0.3)]
    assert await related(graph, a, max_hops=3) == [(b, 1, 0.9), (d, 3, 0.8), (new, 1, 0.5), (c, 2, 0.3)]
    assert await related(graph, a, min_confidence=0.5) == [(b, 1, 0.9), (new, 1, 0.5)]
    (first, *_) = await graph.related(ADA, a)
    assert getattr(first.document, "content", "") == "memory b"
    with pytest.raises(NotFound):
        await graph.related(STRANGER, a)


async def test_nothing_is_related_through_what_the_reader_may_not_see(desk: Desk, graph: Graph):
    a, b = [await desk.remember(f"memory {name}") for name in "ab"]
    secret = await desk.remember("between them", visibility="private")
    for end in (a, b):
        await desk.say(Relate(source=secret, target=end, relation="explains", project="atlas", confidence=0.9))
    await desk.settle()
    revised = ReviseMemory(
        memory=a, content="hidden", memory_type="semantic", purpose="information", project="atlas", agent_id="ada"
    )
    new = await desk.say(replace(revised, visibility="private"))
    await desk.settle()
    assert {item for item, _, _ in await related(graph, a)} == {secret, b, new}
    assert await related(graph, a, BOB) == []
