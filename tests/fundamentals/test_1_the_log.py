"""The log: an append gives every event a position, and readers continue from the position they know."""

import asyncio

from ingest.log.event_log import Appended, Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.position import START, Token, partition_of, project_route, session_route
from tests.support.memory_log import MemoryLog

NOON_MS = 1_769_860_800_000


def open_log(partitions: int = 2) -> MemoryLog:
    return MemoryLog(partitions, clock_ms=lambda: NOON_MS)


async def test_a_reader_continues_from_a_position():
    """Positions of a partition ascend, and each partition is a log of its own."""
    log = open_log()
    tea, milk = await GroupCommit(log).append([(0, Entry("event-1", b"likes tea")), (0, Entry("event-2", b"no milk"))])

    assert START < tea.position < milk.position
    assert [stored.payload for stored in await log.read(0, START, limit=10)] == [b"likes tea", b"no milk"]
    assert [stored.payload for stored in await log.read(0, tea.position, limit=10)] == [b"no milk"]
    assert (await log.head(0), await log.head(1)) == (milk.position, START)


async def test_an_event_id_is_stored_once():
    """A client that lost the answer sends its event again, and gets the position of the first time."""
    log = open_log()
    commit = GroupCommit(log)
    [first] = await commit.append([(0, Entry("event-1", b"likes tea"))])

    [again] = await commit.append([(0, Entry("event-1", b"likes tea"))])

    assert again == Appended(first.position, duplicate=True)
    assert len(await log.read(0, START, limit=10)) == 1


async def test_concurrent_writes_are_acknowledged_one_by_one():
    """A group commit appends the writes of many callers together; each caller gets the positions of its own events."""
    log = open_log()
    commit = GroupCommit(log)

    answers = await asyncio.gather(*(commit.append([(0, Entry(f"event-{n}", b"%d" % n))]) for n in range(50)))

    positions = [appended.position for [appended] in answers]
    stored = {row.position: row.payload for row in await log.read(0, START, limit=100)}
    assert [stored[position] for position in positions] == [b"%d" % n for n in range(50)]


def test_a_session_and_the_memories_of_a_project_are_each_one_ordered_stream():
    """The routing key picks the partition: the order of events is kept where it matters, and load is spread."""
    session = session_route("default", "shop", "monday")
    assert partition_of(session, 16) == partition_of(session_route("default", "shop", "monday"), 16)
    assert partition_of(project_route("default", "shop"), 16) in range(16)

    sessions = {partition_of(session_route("default", "shop", f"session-{n}"), 16) for n in range(200)}
    assert sessions == set(range(16))


async def test_a_token_says_what_a_reader_must_have_applied():
    """A write returns a token. An index that has applied that much answers with the write in it."""
    commit = GroupCommit(open_log())
    [first] = await commit.append([(0, Entry("event-1", b"likes tea"))])
    [second] = await commit.append([(0, Entry("event-2", b"no milk"))])

    token = Token.parse(str(Token.of([(0, second.position)])))

    assert not token.covered_by({0: first.position})
    assert token.covered_by({0: second.position})
