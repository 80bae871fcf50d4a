"""A rebuild under another embedder: fill the cache with its vectors, make an index of them, change over.

Filling is shared, by partitions, and what is cached stays: who goes on after a crash finds it. The index is made by one
worker; see `candidate_index`. Then one record names the live embedder. Replicas hear of it, load the snapshot beside
the index that they have, and change over, each in one step.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.ids import DocumentId, new_event_id
from ingest.log.keys import JOB_LEASE_TTL, SNAPSHOT_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.documents.document import Searched, searchable_text
from projections.embedding.embed_job import BATCH, DocumentLocation, DocumentVectors
from projections.embedding.live import Choice, announce, make_live
from projections.maintenance.repairs import Repairs
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import Canaries, RecallProbe, recall_verdict
from projections.rebuilding.candidate_index import (
    KEPT,
    Candidate,
    CandidateIndexes,
    embedder_of,
    is_live,
    missing,
    place_of,
)
from projections.rebuilding.job import REPORT_EVERY_S, PartitionProgress, Strategy
from projections.rebuilding.rebuilds import Part, Rebuild
from projections.search import snapshots
from projections.search.embedded import matches, search
from projections.search.question import BitMap, Filter, Question, ordinals
from projections.search.ranking import Mode
from projections.search.reading import live_generation
from projections.search.snapshot_job import SnapshotJob
from projections.search.snapshots import UnusableSnapshot
from projections.store.redis_store import scanned
from projections.vectors.embedder import Embedders, EmbeddingError, ModelUnavailable

logger = logging.getLogger(__name__)

SOUGHT = 50
"""Documents that canaries ask for."""
WORDS = 12
"""Of a document, from its middle, that it is asked for with."""
FIRST = 10
SNAPSHOT_WITHIN_S = 60.0
"""For the snapshot that another worker writes."""


class EmbeddingRebuild(Strategy):
    """One worker's part in making vectors anew."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        embedders: Embedders,
        vectors: DocumentVectors,
        snapshot: SnapshotJob,
        folder: Path,
        work: Path,
        go_first: Callable[[], Awaitable[None]] | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """`folder` has the snapshots, `work` is a folder of this worker's own; `go_first` lets other work go first."""
        self._redis, self._embedders, self._vectors, self._snapshot = redis, embedders, vectors, snapshot
        self._folder, self._go_first, self._clock = folder, go_first, clock
        self._indexes = CandidateIndexes(redis, partitions, embedders, vectors, snapshot, folder, work, go_first)
        self._names: dict[int, list[DocumentId]] = {}
        self._filled: dict[int, int] = {}
        self._names_are_of = ""

    async def fill(self, rebuild: Rebuild, part: Part) -> PartitionProgress:
        """Make vectors of a partition's documents, for about REPORT_EVERY_S.

        Raises EmbeddingError, and UnusableSnapshot while no snapshot names the documents.
        """
        done, total = await self._fill(rebuild, part.partition)

        def noted(one: Rebuild, now: datetime) -> Rebuild:
            return steps.embedded(one, part.partition, done, total, now)

        return PartitionProgress(noted, done >= total)

    async def _fill(self, rebuild: Rebuild, partition: int) -> tuple[int, int]:
        """How many documents of a partition have vectors, and how many there are."""
        until = time.monotonic() + REPORT_EVERY_S
        _, after = embedders_of(rebuild)
        embedder = await embedder_of(self._embedders, after)
        if self._names_are_of != rebuild.id:
            await announce(self._redis, after)
            await self._snapshot.run(force=True)
            self._names, self._filled = await asyncio.to_thread(self._known, rebuild), {}
            self._names_are_of = rebuild.id
        names = self._names.get(partition, [])
        if not embedder.dimensions:
            return len(names), len(names)
        generation = await live_generation(self._redis, partition)
        done = self._filled.get(partition, 0)
        while done < len(names) and time.monotonic() < until:
            if self._go_first is not None:
                await self._go_first()
            places = [DocumentLocation(partition, generation, name) for name in names[done : done + BATCH]]
            await self._vectors.of(embedder, places, KEPT)
            done += len(places)
            self._filled[partition] = done
        return done, len(names)

    async def compare(self, rebuild: Rebuild) -> Canaries:
        """Ask the live index and the new one for documents, each with vectors of its own model.

        Raises EmbeddingError, and UnusableSnapshot when there is nothing to begin with.
        """
        before, after = embedders_of(rebuild)
        candidate = await self._indexes.complete(await self._indexes.candidate(after))
        live = await self._indexes.loaded(before, await self._embedders.refresh(), "live")
        try:
            return await self._verdict(live, candidate)
        finally:
            await asyncio.to_thread(shutil.rmtree, live.folder, True)

    async def switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Make the other embedder the live one; false while another worker writes a snapshot.

        What was embedded by the one before until the last moment, and nobody would embed again, is queued again. Raises
        WrongRebuildState when neither is live, and, before that is decided, EmbeddingError when the other one cannot be
        had here, UnusableSnapshot when there is nothing to begin with, LeaseLost when it took too long.
        """
        before, after = reversed(embedders_of(rebuild)) if back else embedders_of(rebuild)
        if not await is_live(self._redis, after) and not await self._make_live(before, after):
            return False
        await self._queue_missing(await self._indexes.candidate(after))
        await self.release()
        return True

    async def has_moved(self, rebuild: Rebuild) -> bool:
        """Whether the embedder that was ordered is the live one."""
        if rebuild.state not in ("switching", "rolling_back"):
            return False
        return await is_live(self._redis, embedders_of(rebuild)[1 if rebuild.state == "switching" else 0])

    async def _make_live(self, before: Choice, after: Choice) -> bool:
        same = (before.model, before.dimensions) == (after.model, after.dimensions)
        indexes = self._indexes
        candidate = None if same else await indexes.complete(await indexes.candidate(after))
        worker = str(new_event_id())
        async with lease(self._redis, SNAPSHOT_LEASE, worker, JOB_LEASE_TTL, wait_s=SNAPSHOT_WITHIN_S) as mine:
            if not mine:  # who trims the feeds meanwhile would trim them before what is written here
                return False
            if candidate is not None:
                await indexes.save(await indexes.complete(candidate))
            await make_live(self._redis, before, after, worker)
        logger.info("vectors of %s are live, no longer those of %s", after.model, before.model)
        return True

    def stop_filling(self) -> None:
        """Give back the names of what was to be embedded."""
        self._names, self._filled, self._names_are_of = {}, {}, ""

    async def release(self) -> None:
        """Give back the index that is held in memory, and the folder it works in."""
        await self._indexes.release()

    def _known(self, rebuild: Rebuild) -> dict[int, list[DocumentId]]:
        """The documents of the newest snapshot, by partition; those that are newer are embedded at the end."""
        before, _ = embedders_of(rebuild)
        found = snapshots.newest(self._folder, before.model, before.dimensions)
        if found is None:
            raise UnusableSnapshot(f"{self._folder} has no snapshot with vectors of {before.model} yet")
        names: dict[int, list[DocumentId]] = {}
        for name, partition in snapshots.places_of(found[0]):
            names.setdefault(partition, []).append(DocumentId(name))
        return names

    async def _queue_missing(self, candidate: Candidate) -> None:
        """Queue what has no vector of the live model: some was embedded by the other one until the last moment.

        A batch looks at the record behind its look at the queue, so what an old batch took was in the feeds before the
        record changed. Its place in the queue is another one now, from which the old batch does not take it.
        """
        candidate = await self._indexes.wait_for_own_writes(candidate)
        left = await asyncio.to_thread(missing, candidate)
        queued_at = to_ms(self._clock())
        for place in (place_of(candidate, ordinal) for ordinal in left):
            await Repairs(self._redis, PartitionKeys(place.partition), place.generation).embed(place.id, queued_at)
        if left:
            logger.info("embeddings: %d documents are queued once more", len(left))

    async def _verdict(self, live: Candidate, candidate: Candidate) -> Canaries:
        """Ask both indexes for documents all over them."""
        now_ms, trouble = to_ms(self._clock()), ""
        asked = await self._questions(live, candidate, now_ms)
        texts = [text for _, text, _ in asked]
        theirs = np.zeros((len(texts), 0), np.float32)
        try:
            theirs = await asyncio.to_thread(live.embedder.embed, texts)
        except ModelUnavailable as error:  # nothing asks by them any more
            logger.warning("embeddings: the live vectors are not compared: %s", error)
        except EmbeddingError as error:
            trouble = str(error)
        vectors = [theirs, await asyncio.to_thread(candidate.embedder.embed, texts)]
        return recall_verdict(await asyncio.to_thread(_ask, live, candidate, asked, vectors, now_ms), trouble)

    async def _questions(
        self, live: Candidate, candidate: Candidate, now_ms: int
    ) -> list[tuple[DocumentLocation, str, Filter]]:
        """Documents that both indexes have and a search may find, with some of their words, and where to search."""
        alive = ordinals(candidate.index.alive)
        picked: list[int] = alive[:: max(1, len(alive) // (2 * SOUGHT))].tolist()
        places = [place_of(candidate, ordinal) for ordinal in picked]
        documents = await self._vectors.documents(places)
        asked: list[tuple[DocumentLocation, str, Filter]] = []
        allowed: dict[str, tuple[Filter, BitMap]] = {}
        for place, document in zip(places, documents, strict=True):
            if not isinstance(document, Searched) or place.id not in live.index.ordinal_of:
                continue
            tenant = document.tenant
            if tenant not in allowed:
                within = Filter(tenant=tenant, operator=True)
                allowed[tenant] = within, await asyncio.to_thread(matches, candidate.index, within, now_ms)
            words = searchable_text(document).split()
            middle = max(0, (len(words) - WORDS) // 2)
            if words and candidate.index.ordinal_of[place.id] in allowed[tenant][1]:
                asked.append((place, " ".join(words[middle : middle + WORDS]), allowed[tenant][0]))
        return asked[:SOUGHT]


def embedders_of(rebuild: Rebuild) -> tuple[Choice, Choice]:
    """What is live before a rebuild, and what is to be."""
    assert rebuild.embedders is not None, "a rebuild of embeddings has them"
    return rebuild.embedders


def _ask(
    live: Candidate,
    candidate: Candidate,
    asked: Sequence[tuple[DocumentLocation, str, Filter]],
    vectors: Sequence[NDArray[np.float32]],
    now_ms: int,
) -> list[RecallProbe]:
    found: list[RecallProbe] = []
    for number, (place, text, allowed) in enumerate(asked):
        question = Question(text=text, vector=None, limit=FIRST, now_ms=now_ms)

        def best(side: Candidate, mode: Mode, of: NDArray[np.float32], question: Question = question,
                 allowed: Filter = allowed) -> set[str]:  # fmt: skip
            if mode == "vector" and not of.size:
                return set()
            hits = search(side.index, replace(question, vector=of, mode=mode), allowed)
            return {hit.id for hit in hits}

        mine, other = vectors[0][number], vectors[1][number]
        both = best(live, "hybrid", mine), best(candidate, "hybrid", other)
        found.append(
            RecallProbe(
                name=place.id,
                partition=place.partition,
                words=place.id in best(live, "lexical", mine),
                live=place.id in best(live, "vector", mine),
                candidate=place.id in best(candidate, "vector", other),
                overlap=len(both[0] & both[1]) / max(1, *map(len, both)),
            )
        )
    return found


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
