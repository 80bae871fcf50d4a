"""Reading a change feed: the step that every follower of it repeats."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ingest.connections import Client
from ingest.errors import MnemologError
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from ingest.log.scripts import look_back
from projections.feed import Cleared, Switched, read_entry
from projections.index.replica import IndexReplica
from projections.index.snapshots import FeedPosition, newest

logger = logging.getLogger(__name__)

ENTRIES_A_READ = 32
InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments in the thread that owns an index."""


class Unfollowable(MnemologError):
    """A feed cannot be followed from where its reader stands: it must start over, from a snapshot or from nothing."""


class FeedTrimmed(Unfollowable):
    """The feed no longer holds what a follower has not read."""

    code = "feed_trimmed"


class FeedRewound(Unfollowable):
    """The feed has not what a follower has read: the server lost writes that it had shown.

    A crash does that where the file is not synced before every answer, and so does a failover.
    """

    code = "feed_rewound"


class Read(NamedTuple):
    """Entries of a feed, and where its reader stands behind them."""

    entries: list[dict[bytes, bytes]]
    then: FeedPosition


async def read_feed(redis: Client, partition: int, at: FeedPosition, block_ms: int | None) -> Read:
    """The next entries behind `at`; none when there are none (within `block_ms`).

    Raises FeedTrimmed when entries behind `at` were trimmed away before they were read, and FeedRewound when the entry
    at `at` is gone though nobody trimmed it. Each read checks the last entry of the one before, so whatever was read of
    writes that the server lost is noticed, also when others took their place.
    """
    feed, last = PartitionKeys(partition).of_generation(at.generation), Position.parse(at.feed)
    answer: Any = await redis.xread({feed.changes: at.feed}, count=ENTRIES_A_READ, block=block_ms)
    trimmed, is_there = await look_back(redis, feed, at.feed)
    rows: list[tuple[bytes, dict[bytes, bytes]]] = answer[0][1] if answer else []
    if trimmed > last:
        raise FeedTrimmed(
            f"partition {partition}: the feed is trimmed up to {trimmed} and was read up to {at.feed}; "
            "if no snapshot covers that, `mnemolog rebuild` writes a whole one"
        )
    if not is_there and trimmed < last and not (rows and _begins(rows[0][1])):
        raise FeedRewound(f"partition {partition}: the server lost what was read of the feed, up to {at.feed}")
    if not rows:
        return Read([], at)
    covers = at.covers
    for _, fields in rows:
        covers = fields[b"p"].decode() or covers
    then = FeedPosition(generation=at.generation, feed=rows[-1][0].decode(), covers=covers)
    return Read([fields for _, fields in rows], then)


async def catch_up(
    redis: Client,
    index: IndexReplica,
    partition: int,
    at: FeedPosition,
    in_thread: InThread,
    goal: FeedPosition | None = None,
) -> FeedPosition:
    """Apply what a partition's feed holds behind `at`, in its live generation, to its end or to `goal` at least.

    Returns how far that was. Raises Unfollowable.
    """
    live = await live_generation(redis, partition)
    if at.generation != live:
        await in_thread(index.drop_partition, partition)
        at = FeedPosition(generation=live)
    while goal is None or at.generation != goal.generation or Position.parse(at.feed) < Position.parse(goal.feed):
        read = await read_feed(redis, partition, at, None)
        if not read.entries:
            break
        switched = await in_thread(apply_entries, index, partition, read.entries)
        at = read.then if switched is None else FeedPosition(generation=switched)
    return at


async def ahead_of_feeds(redis: Client, folder: Path, model: str, dimensions: int | None = None) -> frozenset[str]:
    """The names of the newest snapshots of a model that tell of writes which the server has lost (see FeedRewound).

    To be passed over: the one behind them is of before that. Most often there are none.
    """
    ahead: frozenset[str] = frozenset()
    while (found := await asyncio.to_thread(newest, folder, model, dimensions, ahead)) is not None:
        if not await _is_ahead(redis, found[1].partitions):
            break
        ahead |= {found[1].name}
        logger.warning("index: snapshot %s is passed over: the server lost writes that it tells of", found[1].name)
    return ahead


async def _is_ahead(redis: Client, positions: Mapping[int, FeedPosition]) -> bool:
    for partition, at in positions.items():
        if at.generation != await live_generation(redis, partition):
            continue  # of this partition nothing is taken
        try:
            await read_feed(redis, partition, at, None)
        except FeedRewound:
            return True
        except FeedTrimmed:
            pass
    return False


async def live_generation(redis: Client, partition: int) -> int:
    """The generation that readers of a partition use."""
    return int(await redis.get(PartitionKeys(partition).generation) or 1)


def apply_entries(index: IndexReplica, partition: int, entries: Iterable[dict[bytes, bytes]]) -> int | None:
    """Apply entries to an index, in the thread that owns it; returns the next generation when one ends this one."""
    for fields in entries:
        items, _ = read_entry(fields)
        index.apply(partition, items)
        for item in items:
            if isinstance(item, Switched):
                return item.generation
    return None


def _begins(fields: dict[bytes, bytes]) -> bool:
    """Whether an entry is the first of a feed that was written anew."""
    items, _ = read_entry(fields)
    return any(isinstance(item, Cleared) for item in items)
