"""Queries while the node of one partition is away: what could not be read gives nothing away, and is not kept."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from desk import ADA, BOB, PARTITIONS, Desk
from factories import TENANT
from redis.exceptions import ConnectionError

from ingest.commands.decide import ChangeVisibility, Relate
from ingest.errors import LogUnavailable, NotFound
from ingest.log.event_log import Stored
from ingest.log.position import Position, partition_of, project_route, session_route
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, ask
from ingest.platform.partial import partial_reads
from ingest.platform.redis_client import Command
from projections.documents.access import Reader
from projections.documents.sessions import sessions
from projections.operations.exporting import export_events
from projections.queries import documents as documents_module
from projections.queries.context import Compile, ContextRequest
from projections.queries.documents import DocumentReader
from projections.queries.log_events import Audit, EventFilter, LogEvents
from projections.queries.profiles import ProjectProfiles
from projections.queries.sessions import Sessions
from projections.queries.work import Relations

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

    (said, _) = (await events.page(EventFilter(BOB), "", 10, None)).events
    assert said["data"] == {"visibility": "private", "withheld": True}
    assert "kettle" not in await exported(BOB)
    take_away(HOME)
    with partial_reads(), pytest.raises(LogUnavailable, match="who may see"):
        await events.page(EventFilter(BOB), "", 10, None)
    with partial_reads(), pytest.raises(LogUnavailable, match="who may see"):
        await exported(BOB)
    with partial_reads():
        (said, _) = (await events.page(EventFilter(Reader(TENANT, operator=True)), "", 10, None)).events
    assert said["data"]["content"] == "the safe is behind the kettle"


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
    told = Compile(desk.replica, documents, desk.recall, profiles)
    whole = await told(ContextRequest(project="atlas"), ADA)
    assert "tea at four" in whole.context
    take_away(HOME)
    with partial_reads() as left_out:
        partial = await told(ContextRequest(project="atlas"), ADA)
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
    assert [one.project for one in first.entries] == [ELSEWHERE]
    assert sorted(one.project for one in rest.entries) == sorted(["atlas", ELSEWHERE])


async def test_pages_behind_one_that_left_a_partition_out_leave_it_out_and_say_so(
    desk: Desk, documents: DocumentReader, take_away: TakeAway, monkeypatch: pytest.MonkeyPatch
):
    """What is there and newer than the cursor would be missing from them without a word, once the node is back."""
    for n in range(12):
        await desk.observe("tea at four", session_id=f"s{n}")
    await desk.settle()
    whole = await documents.newest(sessions(TENANT), Reader(TENANT), None, None, 100)
    there = [one.document.id for one in whole.documents if one.partition != HOME]
    assert len(whole.documents) == 12 > len(there) > 2
    take_away(HOME)
    with partial_reads() as missing:
        first = await documents.newest(sessions(TENANT), Reader(TENANT), None, None, 2)
    assert missing == {HOME}
    monkeypatch.setattr(documents_module, "ask", ask)
    with partial_reads() as missing:
        second = await documents.newest(sessions(TENANT), Reader(TENANT), None, first.next, 100)
    assert missing == {HOME}
    assert [one.document.id for one in (*first.documents, *second.documents)] == there
    assert second.next is None
