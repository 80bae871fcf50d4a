"""Purges the index on a search engine. Loaded only with one."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from redis.exceptions import RedisError, ResponseError

from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from ingest.platform.connections import Client
from projections.forgetting.purge import Cleaned, rewrite_log_file
from projections.index.replica import end_of_feed, live_generation, trim_feed
from projections.index.snapshots import FeedPosition
from projections.search_engine import schema
from projections.search_engine.layout import PartitionIndex, encoded, encoded_term, place_of
from projections.search_engine.schema import Named
from projections.search_engine.writing import read_state
from projections.store.receipts import Probe
from projections.text.terms import terms

logger = logging.getLogger(__name__)

WAIT_FOR_ENGINE_S = 30.0
LOOK_AGAIN_S = 0.2
NAMES_AT_ONCE = 500
WORDS = 32
"""Of a forgotten text, by which it is searched for."""
FIRST = 100


@dataclass
class SearchEnginePurge:
    """Purges the indexes of an engine."""

    _redis: Client
    _engine: Client
    _partitions: int

    async def clean(self) -> Cleaned | None:
        """Wait until every index has all removals and dropped ones are gone, then trim the feeds.

        None where that takes too long, or the engine is away. Words and values that only removed documents had leave
        the engine's dictionaries when it collects them: it is asked to, and may refuse.
        """
        try:
            ends: list[FeedPosition] = []
            for partition in range(self._partitions):
                generation = await live_generation(self._redis, partition)
                feed = await end_of_feed(self._redis, PartitionKeys(partition).of_generation(generation))
                ends.append(FeedPosition(generation=generation, feed=feed))
            live = await self._wait_for(ends)
            if live is None:
                logger.warning("the purge waits for the search index, which has not applied all removals yet")
                return None
            for partition, end in enumerate(ends):
                await trim_feed(self._redis, partition, end)
            try:
                await schema.command(self._engine, "FT.DEBUG", "GC_FORCEINVOKE", live.name)
            except ResponseError as error:
                logger.debug("the engine's garbage collection could not be started: %s", error)
            # where the engine is the log's server its file is rewritten by the purge
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
        hits: set[str] = set()
        if live is not None:
            for start in range(0, len(names), NAMES_AT_ONCE):
                batch, parts = names[start : start + NAMES_AT_ONCE], self._partitions
                indexes = [PartitionIndex(live.name, partition) for partition in range(parts)]
                async with self._engine.pipeline(transaction=False) as pipe:
                    for key in [index.document(name) for name in batch for index in indexes]:
                        pipe.exists(key)
                    answers = await pipe.execute()
                hits |= {name for n, name in enumerate(batch) if any(answers[n * parts : (n + 1) * parts])}
            for text in texts:
                hits |= set(names) & await self._search(live, tenant, text)
        return Probe(documents=len(names), queries=len(texts), found=len(hits))

    async def _wait_for(self, ends: Sequence[FeedPosition]) -> Named | None:
        """The live index, once all indexes have what the feeds have; None when that takes too long."""
        until = time.monotonic() + WAIT_FOR_ENGINE_S
        while time.monotonic() < until:
            catalogue = (await schema.read_catalogue(self._engine)).catalogue
            behind = catalogue.leaving or not all([await self._has(index, ends) for index in catalogue.filled])
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

    async def _search(self, live: Named, tenant: str, text: str) -> set[str]:
        """The ids of the documents that have one of a text's first words."""
        words = list(dict.fromkeys(map(encoded_term, terms(text))))[:WORDS]
        if not words:
            return set()
        query = f"@tenant:{{{encoded(tenant)}}} @terms:({'|'.join(words)})"
        answer = await schema.command(
            self._engine, "FT.SEARCH", live.name, query, "VERBATIM", "NOCONTENT", "LIMIT", 0, FIRST, "DIALECT", 2
        )
        return {place_of(key)[1] for key in answer[1:]}
