"""A rebuild under another embedder, for the index on a search engine: fill the cache with its vectors, change over.

The engine's index is not made here. Once the record names the other embedder, the workers fill an index of its vectors
beside the one that readers use, out of the cache, and switch when that is as far: see `projections.search_engine`.
"""

import time
from collections.abc import Awaitable, Callable
from datetime import datetime

from ingest.ids import DocumentId, new_event_id
from ingest.log.keys import JOB_LEASE_TTL, SNAPSHOT_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.platform.connections import Client
from projections.embedding.embed_job import BATCH, DocumentLocation, DocumentVectors
from projections.embedding.live import announce, make_live
from projections.rebuilding import rebuild_steps as steps
from projections.rebuilding.canaries import Canaries, recall_verdict
from projections.rebuilding.candidate_index import KEPT, embedder_of, is_live
from projections.rebuilding.rebuild_embeddings import SNAPSHOT_WITHIN_S, embedders_of
from projections.rebuilding.rebuild_job import REPORT_EVERY_S, PartitionProgress, Strategy
from projections.rebuilding.rebuild_steps import Part, Rebuild
from projections.search.replica import live_generation
from projections.store.redis_store import scanned
from projections.vectors.embedder import Embedders


class EngineEmbeddingRebuild(Strategy):
    """One worker's part in making vectors anew."""

    def __init__(
        self,
        redis: Client,
        embedders: Embedders,
        vectors: DocumentVectors,
        go_first: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`go_first` lets other work go first."""
        self._redis, self._embedders, self._vectors, self._go_first = redis, embedders, vectors, go_first
        self._names: dict[int, list[DocumentId]] = {}
        self._filled: dict[int, int] = {}
        self._names_are_of = ""

    async def fill(self, rebuild: Rebuild, part: Part) -> PartitionProgress:
        """Make vectors of a partition's documents, for about REPORT_EVERY_S. Raises EmbeddingError."""
        until = time.monotonic() + REPORT_EVERY_S
        _, after = embedders_of(rebuild)
        embedder = await embedder_of(self._embedders, after)
        if self._names_are_of != rebuild.id:
            await announce(self._redis, after)
            self._names, self._filled, self._names_are_of = {}, {}, rebuild.id
        generation = await live_generation(self._redis, part.partition)
        if part.partition not in self._names:
            keys = PartitionKeys(part.partition).of_generation(generation)
            self._names[part.partition] = [name async for names in scanned(self._redis, keys, BATCH) for name in names]
        names, done = self._names[part.partition], self._filled.get(part.partition, 0)
        if not embedder.dimensions:
            done = len(names)
        while done < len(names) and time.monotonic() < until:
            if self._go_first is not None:
                await self._go_first()
            places = [DocumentLocation(part.partition, generation, name) for name in names[done : done + BATCH]]
            await self._vectors.of(embedder, places, KEPT)
            done += len(places)
        self._filled[part.partition] = done

        def noted(one: Rebuild, now: datetime) -> Rebuild:
            return steps.embedded(one, part.partition, done, len(names), now)

        return PartitionProgress(noted, done >= len(names))

    async def compare(self, rebuild: Rebuild) -> Canaries:
        """Nothing can be asked before there is an index, so an operator decides."""
        return recall_verdict([], "the search engine's index is filled with the new vectors after the change")

    async def switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Make the other embedder the live one; false while another worker has the lease.

        Raises WrongRebuildState when neither is live, and EmbeddingError when the other one cannot be had here.
        """
        before, after = reversed(embedders_of(rebuild)) if back else embedders_of(rebuild)
        if await is_live(self._redis, after):
            return True
        await embedder_of(self._embedders, after)
        worker = str(new_event_id())
        async with lease(self._redis, SNAPSHOT_LEASE, worker, JOB_LEASE_TTL, wait_s=SNAPSHOT_WITHIN_S) as mine:
            if mine:
                await make_live(self._redis, before, after, worker)
            return mine

    async def has_moved(self, rebuild: Rebuild) -> bool:
        """Whether the embedder that was ordered is the live one."""
        if rebuild.state not in ("switching", "rolling_back"):
            return False
        return await is_live(self._redis, embedders_of(rebuild)[1 if rebuild.state == "switching" else 0])

    def stop_filling(self) -> None:
        """Give back the names of what was to be embedded."""
        self._names, self._filled, self._names_are_of = {}, {}, ""
