"""The log: what is appended gets a position, and readers go on from the position they know."""

from ingest.log.event_log import Appended, Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.position import START, Token
from tests.support.memory_log import MemoryLog

NOON_MS = 1_769_860_800_000


async def test_an_event_is_appended_once_and_read_from_a_position_on():
    """Positions of a partition ascend. The same id again gives the first position, and nothing is stored twice."""
    log = MemoryLog(partitions=2, clock_ms=lambda: NOON_MS)
    commit = GroupCommit(log)

    tea, milk = await commit.append([(0, Entry("event-1", b"likes tea")), (0, Entry("event-2", b"no milk"))])
    assert START < tea.position < milk.position

    [again] = await commit.append([(0, Entry("event-1", b"likes tea"))])
    assert again == Appended(tea.position, duplicate=True)

    everything = await log.read(0, START, limit=10)
    assert [stored.payload for stored in everything] == [b"likes tea", b"no milk"]
    later = await log.read(0, tea.position, limit=10)
    assert [stored.payload for stored in later] == [b"no milk"]

    assert await log.head(0) == milk.position
    assert await log.head(1) == START  # the other partition is a log of its own


async def test_a_token_says_what_a_read_must_have_seen():
    """A write hands out a token; a reader that has applied that much has seen the write."""
    commit = GroupCommit(MemoryLog(partitions=2, clock_ms=lambda: NOON_MS))
    [first] = await commit.append([(0, Entry("event-1", b"likes tea"))])
    [second] = await commit.append([(0, Entry("event-2", b"no milk"))])

    handed_out = str(Token.of([(0, second.position)]))
    wanted = Token.parse(handed_out)

    assert not wanted.covered_by({0: first.position})
    assert wanted.covered_by({0: second.position})
