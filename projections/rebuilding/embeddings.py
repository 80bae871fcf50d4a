"""A rebuild with another embedder: fill the cache with its vectors, make an index of them, switch.

Workers share the filling by partition, and cached vectors stay: a worker that resumes after a crash finds them. One
worker makes the index, from the newest snapshot without its vectors, the vectors of an older snapshot of the new model,
and the cache. Then one record names the live embedder. Replicas follow it, load the snapshot beside the index that they
have, and switch, each in one step.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.ids import DocumentId, new_event_id
from ingest.log.keys import SNAPSHOT_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from ingest.platform.tasks import nothing
from projections.embedding.embed_job import BATCH, DocumentLocation, DocumentVectors
from projections.embedding.live import Choice, announce, chosen, make_live
from projections.index import snapshots
from projections.index.comparing import catch_up
from projections.index.embedded import matches, search
from projections.index.replica import FeedPosition, IndexReplica, live_generation
from projections.index.snapshots import SnapshotJob, UnusableSnapshot, compacted
from projections.maintenance.reconciling import Repairs
from projections.nouns.document import Searched, searchable_text
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import Canaries, RecallProbe, recall_verdict
from projections.rebuilding.job import ALONE, REPORT_EVERY_S, PartitionProgress, Strategy, is_live
from projections.rebuilding.rebuilds import Part, Rebuild
from projections.search.question import Filter, Question
from projections.search.ranking import Mode
from projections.store.feed import Vectors
from projections.store.redis_store import scanned
from projections.vectors.bitmaps import Matching, ordinals
from projections.vectors.embedder import Embedder, Embedders, EmbeddingError, ModelUnavailable, embed_questions
from projections.vectors.static import StaticTable, table_of

logger = logging.getLogger(__name__)

PROBES = 50
"""Documents that canaries search for."""
WORDS = 12
"""Of a document, from its middle, that it is searched for with."""
FIRST = 10
SNAPSHOT_WITHIN_S = 60.0
"""To wait for a snapshot that another worker is writing."""
KEPT = timedelta(days=1)
"""New vectors stay cached at least this long, whatever is configured: until the index is made from them."""
TRIES = 5
"""At loading a snapshot, which another worker may just be replacing."""


@dataclass
class Candidate:
    """An index that gets vectors of another embedder, its positions in the feeds, and which documents have no text."""

    choice: Choice
    index: IndexReplica
    embedder: Embedder
    at: dict[int, FeedPosition]
    without_text: set[int]


@dataclass
class CandidateIndexes:
    """Makes indexes, and holds the last candidate in memory."""

    _redis: Client
    _partitions: int
    _embedders: Embedders
    _vectors: DocumentVectors
    _snapshot: SnapshotJob
    _folder: Path
    _go_first: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        self._held: Candidate | None = None

    def release(self) -> None:
        """Free the index in memory."""
        self._held = None

    async def candidate(self, choice: Choice) -> Candidate:
        """The index with vectors of a choice, complete or not; made where it is not in memory."""
        if self._held is None or self._held.choice != choice:
            self._held = None  # free its memory before the next one is loaded
            is_current = await is_live(self._redis, choice)
            embedder = await (self._embedders.refresh() if is_current else embedder_of(self._embedders, choice))
            self._held = await self.loaded(choice, embedder)
        return self._held

    async def loaded(self, choice: Choice, embedder: Embedder) -> Candidate:
        """The live index, up to date; it keeps its vectors if those are of the choice."""
        for _ in range(TRIES):
            record = await chosen(self._redis)
            live = record.live if record is not None else choice
            loaded = await asyncio.to_thread(self._read, live, choice, table_of(embedder))
            if loaded is None:
                await self._snapshot.run(force=True)
                continue
            return await self.follow(Candidate(choice, loaded[0], embedder, loaded[1], set()))
        raise UnusableSnapshot(f"no snapshot of the index could be read in {TRIES} tries: see the worker's log")

    def _read(
        self, live: Choice, choice: Choice, table: StaticTable | None
    ) -> tuple[IndexReplica, dict[int, FeedPosition]] | None:
        same = (live.model, live.dimensions) == (choice.model, choice.dimensions)
        newest = snapshots.load_newest(self._folder, live.model, live.dimensions, table=table)
        if newest is None:
            return None
        index, manifest = newest
        if not same:
            index = compacted(index, without_vectors_for=(choice.model, choice.dimensions, table))
            earlier = snapshots.load_newest(self._folder, choice.model, choice.dimensions)
            if earlier is not None:  # in a rollback, or from an earlier attempt
                index.take_vectors(earlier[0])
        at = {partition: FeedPosition() for partition in range(self._partitions)}
        return index, at | manifest.partitions

    async def follow(self, candidate: Candidate) -> Candidate:
        """The index with everything in the feeds. Missing vectors are made here, so nothing is queued."""
        for partition, at in candidate.at.items():
            candidate.at[partition] = await catch_up(
                self._redis, candidate.index, partition, at, asyncio.to_thread, queue=False
            )
        return candidate

    async def complete(self, candidate: Candidate) -> Candidate:
        """Follow the feeds and embed what has no vectors, until at most one batch was left."""
        while True:
            candidate = await self.follow(candidate)
            remaining = await asyncio.to_thread(missing, candidate)
            for start in range(0, len(remaining), BATCH):
                await self._embed(candidate, remaining[start : start + BATCH])
            if len(remaining) <= BATCH:
                return candidate

    async def _embed(self, candidate: Candidate, batch: Sequence[int]) -> None:
        await self._go_first()
        index, embedder = candidate.index, candidate.embedder
        locations = [location_of(candidate, ordinal) for ordinal in batch]
        vectors = await self._vectors.of(embedder, locations, KEPT)
        items: dict[int, list[Vectors]] = {}
        for ordinal, location, rows in zip(batch, locations, vectors, strict=True):
            if rows:
                item = Vectors(location.id, embedder.model, embedder.dimensions, rows)
                items.setdefault(location.partition, []).append(item)
            else:  # without text, or changed: the feed has the change
                candidate.without_text.add(ordinal)
        for partition, vectors_of_it in items.items():
            await asyncio.to_thread(index.apply, partition, vectors_of_it)

    async def save(self, candidate: Candidate) -> None:
        """Write the snapshot that replicas start from, without removed documents."""
        if candidate.index.removed:
            candidate.index = await asyncio.to_thread(compacted, candidate.index)
            candidate.without_text.clear()
        await asyncio.to_thread(candidate.index.link)  # otherwise replicas that start from it would score every vector
        name = str(new_event_id())
        manifest = await asyncio.to_thread(snapshots.save, candidate.index, candidate.at, self._folder, name)
        # of an earlier attempt: with one more, the live snapshot would be the third, and be deleted
        await asyncio.to_thread(snapshots.discard_older, self._folder, name, candidate.choice.model)
        logger.info("snapshot %s: %d documents, vectors of %s", name, manifest.documents, manifest.model)


async def embedder_of(embedders: Embedders, choice: Choice) -> Embedder:
    """The embedder of a choice; raises ModelUnavailable where this machine has another one by that name."""
    embedder = await embedders.built(choice.spec)
    if (embedder.model, embedder.dimensions) != (choice.model, choice.dimensions):
        raise ModelUnavailable(
            choice.model,
            f"{choice.spec} makes vectors of {embedder.model} with {embedder.dimensions} dimensions on this "
            f"machine, not with {choice.dimensions}",
        )
    return embedder


def location_of(candidate: Candidate, ordinal: int) -> DocumentLocation:
    """The location of the document of an ordinal."""
    index, partition = candidate.index, int(candidate.index.partition[ordinal])
    return DocumentLocation(partition, candidate.at[partition].generation, DocumentId(index.ids[ordinal]))


def missing(candidate: Candidate) -> list[int]:
    """The living documents that still need vectors; those without text are left out."""
    if not candidate.index.vectors.dimensions:
        return []
    alive = ordinals(candidate.index.alive)
    without: list[int] = alive[candidate.index.vectors.without(alive)].tolist()
    return [ordinal for ordinal in without if ordinal not in candidate.without_text]


@dataclass
class _VectorRebuild(Strategy):
    """What both kinds of index share: fill the cache with the new vectors, then make the other embedder live.

    `go_first` lets other work go first.
    """

    _redis: Client
    _embedders: Embedders
    _vectors: DocumentVectors
    _go_first: Callable[[], Awaitable[None]] = nothing

    def __post_init__(self) -> None:
        self._names: dict[int, list[DocumentId]] = {}
        self._filled: dict[int, int] = {}
        self._names_are_of = ""

    async def fill(self, rebuild: Rebuild, part: Part) -> PartitionProgress:
        """Make vectors of a partition's documents, for about REPORT_EVERY_S.

        Raises EmbeddingError; UnusableSnapshot while no snapshot lists the documents.
        """
        until = time.monotonic() + REPORT_EVERY_S
        partition, (_, after) = part.partition, embedders_of(rebuild)
        embedder = await embedder_of(self._embedders, after)
        if self._names_are_of != rebuild.id:
            await announce(self._redis, after)
            self._names, self._filled = await self._all_names(rebuild), {}
            self._names_are_of = rebuild.id
        generation = await live_generation(self._redis, partition)
        if partition not in self._names:
            self._names[partition] = await self._names_in(partition, generation)
        names, done = self._names[partition], self._filled.get(partition, 0)
        if not embedder.dimensions:
            done = len(names)
        while done < len(names) and time.monotonic() < until:
            await self._go_first()
            locations = [DocumentLocation(partition, generation, name) for name in names[done : done + BATCH]]
            await self._vectors.of(embedder, locations, KEPT)
            done += len(locations)
            self._filled[partition] = done

        def step(current: Rebuild, now: datetime) -> Rebuild:
            return steps.embedded(current, partition, done, len(names), now)

        return PartitionProgress(step, done >= len(names))

    async def switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Make the other embedder the live one; false while another worker writes a snapshot.

        Raises WrongRebuildState when neither is live, and, before that is decided, EmbeddingError when the other one is
        not available here, UnusableSnapshot when there is no snapshot to start from, LeaseLost when it took too long.
        """
        before, after = reversed(embedders_of(rebuild)) if back else embedders_of(rebuild)
        if not await is_live(self._redis, after):
            candidate = await self._prepare(before, after)
            worker = str(new_event_id())
            # while this lease is held feeds are not trimmed, so the snapshot below is not older than their beginning
            async with lease(self._redis, SNAPSHOT_LEASE, worker, wait_s=SNAPSHOT_WITHIN_S) as mine:
                if not mine:
                    return False
                await self._save(candidate)
                await make_live(self._redis, before, after, worker)
            logger.info("the live embedding model is now %s, no longer %s", after.model, before.model)
        await self._switched(after)
        return True

    async def discard(self, rebuild: Rebuild | None) -> bool:
        """Free the names of the documents to embed unless partitions are being filled. An ended one leaves nothing."""
        if rebuild is None or (rebuild.under_way and rebuild.state != "running"):
            self._names, self._filled, self._names_are_of = {}, {}, ""
        return True

    async def _all_names(self, rebuild: Rebuild) -> dict[int, list[DocumentId]]:
        return {}

    async def _names_in(self, partition: int, generation: int) -> list[DocumentId]:
        return []

    async def _prepare(self, before: Choice, after: Choice) -> Candidate | None:
        await embedder_of(self._embedders, after)

    async def _save(self, candidate: Candidate | None) -> None:
        pass

    async def _switched(self, after: Choice) -> None:
        pass


class EngineEmbeddingRebuild(_VectorRebuild):
    """One worker's part where the index is on a search engine.

    The engine's index is not made here. Once the record names the other embedder, the workers fill an index of its
    vectors beside the one that readers use, from the cache, and switch when it has caught up: see
    `projections.search_engine`.
    """

    async def compare(self, rebuild: Rebuild) -> Canaries:
        """There is no index to search before the switch, so an operator decides."""
        return recall_verdict([], "the search engine's index gets the new vectors after the switch")

    async def _names_in(self, partition: int, generation: int) -> list[DocumentId]:
        keys = PartitionKeys(partition).of_generation(generation)
        return [name async for names in scanned(self._redis, keys, BATCH) for name in names]


class EmbeddingRebuild(_VectorRebuild):
    """One worker's part where replicas hold the index: one worker makes it, and replicas load its snapshot."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        embedders: Embedders,
        vectors: DocumentVectors,
        snapshot: SnapshotJob,
        folder: Path,
        go_first: Callable[[], Awaitable[None]] = nothing,
        clock: Clock = system_clock,
    ) -> None:
        """`folder` has the snapshots; `go_first` lets other work go first."""
        super().__init__(redis, embedders, vectors, go_first)
        self._snapshot, self._folder, self._clock = snapshot, folder, clock
        self._indexes = CandidateIndexes(redis, partitions, embedders, vectors, snapshot, folder, go_first)

    async def compare(self, rebuild: Rebuild) -> Canaries:
        """Search the live index and the new one for documents, each with vectors of its own model.

        Raises EmbeddingError, and UnusableSnapshot when there is no snapshot to start from.
        """
        before, after = embedders_of(rebuild)
        candidate = await self._indexes.complete(await self._indexes.candidate(after))
        live = await self._indexes.loaded(before, await self._embedders.refresh())
        now_ms, trouble = to_ms(self._clock()), ""
        questions = await self._questions(live, candidate, now_ms)
        texts = [text for _, text, _ in questions]
        live_vectors = np.zeros((len(texts), 0), np.float32)
        try:
            live_vectors = await asyncio.to_thread(embed_questions, live.embedder, texts)
        except ModelUnavailable as error:  # no search can use them any more
            logger.warning("embeddings: the live vectors could not be compared: %s", error)
        except EmbeddingError as error:
            trouble = str(error)
        vectors = [live_vectors, await asyncio.to_thread(embed_questions, candidate.embedder, texts)]
        return recall_verdict(await asyncio.to_thread(_probes, live, candidate, questions, vectors, now_ms), trouble)

    async def discard(self, rebuild: Rebuild | None) -> bool:
        """See `Strategy`; the index in memory is freed unless it is compared or switched to."""
        if rebuild is None or (rebuild.under_way and rebuild.state not in ALONE):
            self._indexes.release()
        return await super().discard(rebuild)

    async def _all_names(self, rebuild: Rebuild) -> dict[int, list[DocumentId]]:
        """The documents of the newest snapshot, by partition; newer ones are embedded at the end."""
        before, _ = embedders_of(rebuild)
        await self._snapshot.run(force=True)
        newest = await asyncio.to_thread(snapshots.newest, self._folder, before.model, before.dimensions)
        if newest is None:
            raise UnusableSnapshot(f"{self._folder} has no snapshot with vectors of {before.model} yet")
        names: dict[int, list[DocumentId]] = {}
        for name, partition in await asyncio.to_thread(snapshots.places_of, newest[0]):
            names.setdefault(partition, []).append(DocumentId(name))
        return names

    async def _prepare(self, before: Choice, after: Choice) -> Candidate | None:
        if (before.model, before.dimensions) == (after.model, after.dimensions):
            return None
        return await self._indexes.complete(await self._indexes.candidate(after))

    async def _save(self, candidate: Candidate | None) -> None:
        if candidate is not None:
            await self._indexes.save(await self._indexes.complete(candidate))

    async def _switched(self, after: Choice) -> None:
        """Queue documents without a vector of the live model: the other one embedded some until the last moment.

        A batch reads the record after it has read the queue, so whatever an old batch took was in the feeds before the
        record changed. The document has a new score in the queue now, so the old batch does not remove it.
        """
        candidate = await self._indexes.follow(await self._indexes.candidate(after))
        ordinals_left = await asyncio.to_thread(missing, candidate)
        queued_at = to_ms(self._clock())
        for ordinal in ordinals_left:
            location = location_of(candidate, ordinal)
            repairs = Repairs(self._redis, PartitionKeys(location.partition), location.generation)
            await repairs.embed(location.id, queued_at)
        if ordinals_left:
            logger.info("embeddings: %d documents were queued again", len(ordinals_left))
        self._indexes.release()

    async def _questions(
        self, live: Candidate, candidate: Candidate, now_ms: int
    ) -> list[tuple[DocumentLocation, str, Filter]]:
        """Documents that both indexes have and a search can find, each with some of its words and a filter."""
        alive = ordinals(candidate.index.alive)
        picked: list[int] = alive[:: max(1, len(alive) // (2 * PROBES))].tolist()
        locations = [location_of(candidate, ordinal) for ordinal in picked]
        documents = await self._vectors.documents(locations)
        questions: list[tuple[DocumentLocation, str, Filter]] = []
        allowed: dict[str, tuple[Filter, Matching]] = {}
        for location, document in zip(locations, documents, strict=True):
            if not isinstance(document, Searched) or location.id not in live.index.ordinal_of:
                continue
            tenant = document.tenant
            if tenant not in allowed:
                within = Filter(tenant=tenant, now_ms=now_ms, operator=True)
                allowed[tenant] = within, await asyncio.to_thread(matches, candidate.index, within)
            words = searchable_text(document).split()
            middle = max(0, (len(words) - WORDS) // 2)
            if words and candidate.index.ordinal_of[location.id] in allowed[tenant][1].bitmap:
                questions.append((location, " ".join(words[middle : middle + WORDS]), allowed[tenant][0]))
        return questions[:PROBES]


def embedders_of(rebuild: Rebuild) -> tuple[Choice, Choice]:
    """The live embedder at the start of a rebuild, and the new one."""
    assert rebuild.embedders is not None, "a rebuild of embeddings has them"
    return rebuild.embedders


def _probes(
    live: Candidate,
    candidate: Candidate,
    questions: Sequence[tuple[DocumentLocation, str, Filter]],
    vectors: Sequence[NDArray[np.float32]],
    now_ms: int,
) -> list[RecallProbe]:
    probes: list[RecallProbe] = []
    for number, (location, text, allowed) in enumerate(questions):
        question = Question(text=text, vector=None, limit=FIRST, now_ms=now_ms)

        def best(side: Candidate, mode: Mode, vector: NDArray[np.float32], question: Question = question,
                 allowed: Filter = allowed) -> set[str]:  # fmt: skip
            if mode == "vector" and not vector.size:
                return set()
            hits = search(side.index, replace(question, vector=vector, mode=mode), allowed)
            return {hit.id for hit in hits}

        mine, other = vectors[0][number], vectors[1][number]
        both = best(live, "hybrid", mine), best(candidate, "hybrid", other)
        probes.append(
            RecallProbe(
                name=location.id,
                partition=location.partition,
                words=location.id in best(live, "lexical", mine),
                live=location.id in best(live, "vector", mine),
                candidate=location.id in best(candidate, "vector", other),
                overlap=len(both[0] & both[1]) / max(1, *map(len, both)),
            )
        )
    return probes
