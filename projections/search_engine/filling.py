"""Keeps one partition of an index current: from its feed, and from its documents if the feed has a gap.

Its state is written together with the changes, so a crash only repeats the last step.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import NamedTuple

from redis.exceptions import RedisError

from ingest.errors import reason_of
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from ingest.platform.connections import Client
from ingest.platform.tracing import batch
from projections.index.comparing import begin as begin_comparison
from projections.index.replica import FeedGap, Read, live_generation, read_feed
from projections.search_engine.comparing import Compared, GenerationEnded
from projections.search_engine.layout import COMPARING, FILLING, READY, PartitionIndex, State
from projections.search_engine.schema import Named
from projections.search_engine.writing import (
    Change,
    Changes,
    Placed,
    Stale,
    Standing,
    begin,
    placed,
    read_state,
    standing,
    write,
)
from projections.store.feed import Switched, contexts_of, read_entry

logger = logging.getLogger(__name__)

BLOCK_MS = 1000
AGAIN_AFTER_S = 1.0
"""After a server did not answer."""
LONGEST_REST_S = 0.1


class Servers(NamedTuple):
    """Connections: to the log's server, to it for blocking commands, and to the engine."""

    redis: Client
    blocking: Client
    engine: Client


def changes_of(
    changes: Changes, partition: int, entries: Iterable[dict[bytes, bytes]], covers: Position
) -> tuple[Sequence[Change], Switched | None]:
    """The changes of entries after those that cover `covers`, and what ends the generation, if anything does; nothing
    after that."""
    placed_items: list[Placed] = []
    for fields in entries:
        items, covered = read_entry(fields)
        covers = covered or covers
        placed_items += placed(items, covers)
        for item in items:
            if isinstance(item, Switched):
                return changes.of(partition, placed_items), item
    return changes.of(partition, placed_items), None


class PartitionFiller:
    """Fills one partition of one index for as long as `run` runs. `one_at_a_time` is for comparisons of a process."""

    def __init__(
        self, servers: Servers, index: Named, partition: int, changes: Changes, one_at_a_time: asyncio.Lock
    ) -> None:
        self._redis, self._blocking, self._engine = servers
        self._index, self._partition, self._changes = index, partition, changes
        self._keys = PartitionIndex(index.name, partition)
        self._one_at_a_time = one_at_a_time
        self._comparison: AsyncGenerator[Sequence[Placed]] | None = None
        """Under way, while this one has its turn."""
        self._stopping = False
        self.state: State | None = None
        """The last known state of the partition."""
        self.error: str | None = None
        """Why it makes no progress; mostly a server that does not answer."""

    def stop(self) -> None:
        """Have `run` return within about a second, or when the current step is done."""
        self._stopping = True

    async def run(self) -> None:
        """Fill until it is stopped. A failed step is retried, from the state of the partition."""
        while not self._stopping:
            try:
                await self._fill()
                continue
            except (Stale, GenerationEnded) as error:  # the state, or the feed, decides how to continue
                logger.info("search index: %s: %s", self._title, error)
                continue
            except (RedisError, OSError) as error:
                self.error = reason_of(error)
            except Exception as error:
                self.error = repr(error)
                logger.exception("search index: %s could not be filled", self._title)
            await asyncio.sleep(AGAIN_AFTER_S)

    @property
    def _title(self) -> str:
        return f"partition {self._partition} of {self._index.name}"

    async def _fill(self) -> None:
        state = self.state = await read_state(self._engine, self._keys)
        if state is None:
            state = await self._begin(None, "none of it is in the index")
        block_ms: int | None = None  # the first read shows whether the feed can be followed from here
        try:
            while not self._stopping:
                state = await self._follow(state, block_ms)
                self.error = None
                began = time.monotonic()
                state = await self._compare(state)
                compared_s = time.monotonic() - began
                if state.phase == READY:
                    block_ms = BLOCK_MS
                elif self._comparison is None:  # another partition's turn
                    block_ms = int(1000 * LONGEST_REST_S)
                elif state.complete:  # no read waits for it, so a comparison takes half of a processor at most
                    block_ms = int(1000 * min(LONGEST_REST_S, compared_s)) or None
                else:
                    block_ms = None
        finally:
            await self._end_comparison()

    async def _begin(self, state: State | None, why: str) -> State:
        logger.info("search index: filling %s from its documents: %s", self._title, why)
        await self._end_comparison()
        at, _ = await begin_comparison(self._redis, self._partition, why)
        then = Standing(at.generation, at.feed, at.covers, FILLING)
        self.state = await begin(self._engine, self._keys, state, then)
        return self.state

    async def _follow(self, state: State, block_ms: int | None) -> State:
        """Apply what the feed has after the state of the partition; waits so long for it."""
        try:
            read = await read_feed(self._blocking, self._partition, state.at, block_ms)
        except FeedGap as error:
            return await self._begin(state, str(error))
        if read.entries:
            return await self._apply(state, read)
        if block_ms != BLOCK_MS and (live := await live_generation(self._redis, self._partition)) != state.generation:
            return await self._begin(state, f"generation {live} is live, but the index has {state.generation}")
        now = await read_state(self._engine, self._keys)
        if now is None or now.token != state.token:  # the engine was emptied, or lost its newest writes
            raise Stale(f"{self._title} does not stand where it was left")
        return state

    async def _apply(self, state: State, read: Read) -> State:
        attributes = {"mnemolog.partition": self._partition, "mnemolog.feed_entries": len(read.entries)}
        contexts = contexts_of(read.entries) if state.phase == READY else []  # catching up belongs to no trace
        with batch("index", contexts, attributes):
            changes, switched = await asyncio.to_thread(
                changes_of, self._changes, self._partition, read.entries, state.position
            )
            then = Standing(read.then.generation, read.then.feed, read.then.covers, state.phase)
            if switched is not None and switched.feed:
                # both generations covered the same position, so reads continue; the documents may differ
                await self._end_comparison()
                phase = COMPARING if state.complete else FILLING
                then = Standing(switched.generation, switched.feed, read.then.covers, phase)
            self.state = state = await write(self._engine, self._keys, state, changes, then)
        if switched is not None and not switched.feed:
            return await self._begin(state, f"generation {switched.generation} became live")
        return state

    async def _compare(self, state: State) -> State:
        """Take the next step of a comparison, if one is pending and it is this one's turn."""
        if state.phase == READY:
            return state
        if self._comparison is None:
            if self._one_at_a_time.locked():
                return state
            await self._one_at_a_time.acquire()
            documents = PartitionKeys(self._partition).of_generation(state.generation)
            compared = Compared(self._redis, self._engine, self._index.identity, self._keys, documents)
            self._comparison = compared.steps()
        step = await anext(self._comparison, None)
        if step:
            changes = await asyncio.to_thread(self._changes.of, self._partition, step)
            self.state = state = await write(self._engine, self._keys, state, changes, standing(state))
        elif step is None:
            await self._end_comparison()
            self.state = state = await write(self._engine, self._keys, state, [], standing(state)._replace(phase=READY))
            logger.info("search index: %s is complete: %d documents", self._title, state.documents)
        return state

    async def _end_comparison(self) -> None:
        if self._comparison is not None:
            comparison, self._comparison = self._comparison, None
            self._one_at_a_time.release()
            await comparison.aclose()
