"""Reading a change feed: the step that every follower of it repeats."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ingest.errors import MnemologError
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.log.scripts import look_back
from ingest.platform.connections import Client, Transaction, past_memory_limit
from projections.search.replica import IndexReplica
from projections.search.snapshots import FeedPosition
from projections.store.feed import FeedItem, Put, Remove, Switched, Vectors, read_entry

ENTRIES_A_READ = 32
SLICE_S = 0.02
"""For so long the thread that owns an index applies at once, when it can be interrupted: a search waits behind it."""
InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments in the thread that owns an index."""


class FeedGap(MnemologError):
    """A feed cannot be followed from where its reader stands: what it has is to be compared with the documents."""


class FeedTrimmed(FeedGap):
    """The feed no longer holds what a follower has not read."""

    code = "feed_trimmed"


class FeedRewound(FeedGap):
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
        raise FeedTrimmed(f"partition {partition}: the feed is trimmed up to {trimmed} and was read up to {at.feed}")
    if not is_there and trimmed < last:
        raise FeedRewound(f"partition {partition}: the server lost what was read of the feed, up to {at.feed}")
    if not rows:
        return Read([], at)
    covers = at.covers
    for _, fields in rows:
        covers = fields[b"p"].decode() or covers
    then = FeedPosition(generation=at.generation, feed=rows[-1][0].decode(), covers=covers)
    return Read([fields for _, fields in rows], then)


async def end_of_feed(redis: Client | Transaction, keys: GenerationKeys) -> str:
    """The id of the last entry that a feed has had; "0-0" for none."""
    return newest_id(await redis.xrevrange(keys.changes, count=1), await redis.get(keys.trimmed))


def newest_id(rows: Sequence[tuple[bytes, Any]], trimmed: bytes | None) -> str:
    """The id of the last entry that a feed has had, by its last entry now and the note of where it is trimmed."""
    ids = [rows[0][0] if rows else None, trimmed]
    return str(max(Position.parse(one) if one else START for one in ids))


async def trim_feed(redis: Client, partition: int, at: FeedPosition) -> None:
    """Remove what is told up to `at`, and leave a note for followers that had not read it."""
    feed, last = PartitionKeys(partition).of_generation(at.generation), Position.parse(at.feed)
    async with past_memory_limit(redis) as pipe:  # it frees memory
        pipe.xtrim(feed.changes, minid=str(Position(last.ms, last.seq + 1)), approximate=False)
        pipe.set(feed.trimmed, str(last))
        await pipe.execute()


async def live_generation(redis: Client, partition: int) -> int:
    """The generation that readers of a partition use."""
    return int(await redis.get(PartitionKeys(partition).generation) or 1)


def steps_of(entries: Iterable[dict[bytes, bytes]]) -> deque[list[FeedItem]]:
    """The items of entries, as they may be applied with a search between any two: but for vectors, entry by entry."""
    steps: deque[list[FeedItem]] = deque()
    for fields in entries:
        items, _ = read_entry(fields)
        vectors: list[FeedItem] = [item for item in items if isinstance(item, Vectors)]
        if len(vectors) == len(items):
            steps.extend([item] for item in vectors)
        else:
            steps.append(items)
    return steps


def apply_entries(
    index: IndexReplica, partition: int, entries: Iterable[dict[bytes, bytes]], changed: set[str] | None
) -> tuple[deque[list[FeedItem]], Switched | None]:
    """Apply entries as far as `apply_steps` does in one go, unless they begin with vectors; returns what is left.

    Decoding them in the same turn of the thread spares the event loop a hand-over, which costs more than most entries.
    """
    steps = steps_of(entries)
    if not steps or isinstance(steps[0][0], Vectors):
        return steps, None
    return steps, apply_steps(index, partition, steps, changed)


def apply_steps(
    index: IndexReplica, partition: int, steps: deque[list[FeedItem]], changed: set[str] | None = None
) -> Switched | None:
    """Apply steps, in the thread that owns the index, and take them off: for SLICE_S, then searches have their turn.

    Returns what ends this generation, if anything does; nothing is applied behind that. What is put or removed joins
    `changed`.
    """
    until = time.monotonic() + SLICE_S
    while steps:
        items = steps.popleft()
        index.apply(partition, items)
        for item in items:
            match item:
                case Put(entry) if changed is not None:
                    changed.add(entry.id)
                case Remove(name) if changed is not None:
                    changed.add(name)
                case Switched():
                    steps.clear()
                    return item
                case _:
                    pass
        if time.monotonic() > until:
            break
    return None
