"""Reading a change feed: the step that every follower of it repeats."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ingest.connections import Client
from ingest.errors import MnemologError
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from projections.feed import Switched, read_entry
from projections.index.replica import IndexReplica
from projections.index.snapshots import FeedPosition

ENTRIES_A_READ = 32


class FeedTrimmed(MnemologError):
    """The feed no longer holds what a follower has not read."""

    code = "feed_trimmed"


class Read(NamedTuple):
    """Entries of a feed, and where its reader stands behind them."""

    entries: list[dict[bytes, bytes]]
    then: FeedPosition


async def read_feed(redis: Client, partition: int, at: FeedPosition, block_ms: int | None) -> Read:
    """The next entries behind `at`; none when there are none (within `block_ms`).

    Raises FeedTrimmed when entries behind `at` were trimmed away before they were read.
    """
    feed = PartitionKeys(partition).of_generation(at.generation)
    answer: Any = await redis.xread({feed.changes: at.feed}, count=ENTRIES_A_READ, block=block_ms)
    trimmed = await redis.get(feed.trimmed)
    if trimmed and Position.parse(trimmed) > Position.parse(at.feed):
        raise FeedTrimmed(
            f"partition {partition}: the feed is trimmed up to {trimmed.decode()} and was read up to {at.feed}; "
            "if no snapshot covers that, `mnemolog rebuild` writes a whole one"
        )
    if not answer:
        return Read([], at)
    rows: list[tuple[bytes, dict[bytes, bytes]]] = answer[0][1]
    covers = at.covers
    for _, fields in rows:
        covers = fields[b"p"].decode() or covers
    then = FeedPosition(generation=at.generation, feed=rows[-1][0].decode(), covers=covers)
    return Read([fields for _, fields in rows], then)


def apply_entries(index: IndexReplica, partition: int, entries: Iterable[dict[bytes, bytes]]) -> int | None:
    """Apply entries to an index, in the thread that owns it; returns the next generation when one ends this one."""
    for fields in entries:
        items, _ = read_entry(fields)
        index.apply(partition, items)
        for item in items:
            if isinstance(item, Switched):
                return item.generation
    return None
