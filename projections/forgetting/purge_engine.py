"""Purging the index on a search engine: nothing removed is left in any index, nor in the feeds that told of it."""

import asyncio
import logging
import time
from collections.abc import Sequence

from redis.exceptions import RedisError, ResponseError

from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from ingest.platform.connections import Client
from projections.forgetting.purge import Cleaned, rewrite_log_file
from projections.forgetting.receipts import Probe
from projections.search.replica import FeedPosition, end_of_feed, live_generation, trim_feed
from projections.search.terms import terms
from projections.search_engine import schema
from projections.search_engine.layout import PartitionIndex, encoded, encoded_term, place_of
from projections.search_engine.schema import Named
from projections.search_engine.writing import read_state

logger = logging.getLogger(__name__)

WAIT_FOR_ENGINE_S = 30.0
LOOK_AGAIN_S = 0.2
NAMES_AT_ONCE = 500
WORDS = 32
"""Of a forgotten text, by which it is searched for."""
FIRST = 100


class SearchEnginePurge:
    """Purges the indexes of an engine."""

    def __init__(self, redis: Client, engine: Client, partitions: int) -> None:
        self._redis, self._engine, self._partitions = redis, engine, partitions

    async def clean(self) -> Cleaned | None:
        """Wait until every index has all removals and dropped ones are gone, then trim the feeds.

        None where that takes too long, or the engine is away. Words and values that only removed documents had leave
        the engine's dictionaries when it collects them: it is asked to, and may refuse.
        """
        try:
            ends = [await self._end(partition) for partition in range(self._partitions)]
            live = await self._wait_for(ends)
            if live is None:
                logger.warning("the purge waits for the search index: it has not all removals yet")
                return None
            for partition, end in enumerate(ends):
                await trim_feed(self._redis, partition, end)
            await self._collect(live)
            if self._engine is not self._redis:
                await rewrite_log_file(self._engine)
        except (RedisError, OSError) as error:
            logger.warning("the purge waits for the search engine: %s", error)
            return None
        return Cleaned(live.name)

    async def await_readers(self, name: str) -> tuple[int, int]:
        """Readers hold nothing of the index."""
        return 0, 0

    async def probe(self, tenant: str, names: Sequence[str], texts: Sequence[str]) -> Probe:
        """Look for documents by id, and by searching for what they said, in the index that readers use."""
        live = (await schema.read_catalogue(self._engine)).catalogue.live
        found: set[str] = set()
        if live is not None:
            found = await self._there(live, names)
            for text in texts:
                found |= set(names) & await self._said(live, tenant, text)
        return Probe(documents=len(names), queries=len(texts), found=len(found))

    async def _end(self, partition: int) -> FeedPosition:
        generation = await live_generation(self._redis, partition)
        feed = PartitionKeys(partition).of_generation(generation)
        return FeedPosition(generation=generation, feed=await end_of_feed(self._redis, feed))

    async def _wait_for(self, ends: Sequence[FeedPosition]) -> Named | None:
        """The live index, once all indexes have what the feeds have; None when that takes too long."""
        until = time.monotonic() + WAIT_FOR_ENGINE_S
        while time.monotonic() < until:
            catalogue = (await schema.read_catalogue(self._engine)).catalogue
            behind = catalogue.leaving or not all([await self._has(one, ends) for one in catalogue.filled])
            if catalogue.live is not None and not behind:
                return catalogue.live
            await asyncio.sleep(LOOK_AGAIN_S)
        return None

    async def _has(self, index: Named, ends: Sequence[FeedPosition]) -> bool:
        for partition, end in enumerate(ends):
            state = await read_state(self._engine, PartitionIndex(index.name, partition))
            if state is None or not state.complete or state.generation < end.generation:
                return False
            if state.generation == end.generation and Position.parse(state.feed) < Position.parse(end.feed):
                return False
        return True

    async def _collect(self, live: Named) -> None:
        try:
            await schema.command(self._engine, "FT.DEBUG", "GC_FORCEINVOKE", live.name)
        except ResponseError as error:
            logger.debug("the engine collects when it will: %s", error)

    async def _there(self, live: Named, names: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(names), NAMES_AT_ONCE):
            some = names[start : start + NAMES_AT_ONCE]
            async with self._engine.pipeline(transaction=False) as pipe:
                for name in some:
                    for partition in range(self._partitions):
                        pipe.exists(PartitionIndex(live.name, partition).document(name))
                answers = await pipe.execute()
            parts = [answers[n : n + self._partitions] for n in range(0, len(answers), self._partitions)]
            found |= {name for name, is_there in zip(some, parts, strict=True) if any(is_there)}
        return found

    async def _said(self, live: Named, tenant: str, text: str) -> set[str]:
        """The ids of the documents that say most of what a text says."""
        words = list(dict.fromkeys(map(encoded_term, terms(text))))[:WORDS]
        if not words:
            return set()
        query = f"@tenant:{{{encoded(tenant)}}} @terms:({'|'.join(words)})"
        answer = await schema.command(
            self._engine, "FT.SEARCH", live.name, query, "VERBATIM", "NOCONTENT", "LIMIT", 0, FIRST, "DIALECT", 2
        )
        return {place_of(key)[1] for key in answer[1:]}
