"""An index with vectors of another embedder than the live one, made beside it.

It is made from the newest snapshot without its vectors, the vectors of an older snapshot of the new model, and the
cache. Only `save` makes it a snapshot.
"""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ingest.ids import DocumentId, new_event_id
from ingest.platform.connections import Client
from projections.embedding.embed_job import BATCH, DocumentLocation, DocumentVectors
from projections.embedding.live import Choice, chosen
from projections.search import snapshots
from projections.search.comparing import catch_up
from projections.search.question import ordinals
from projections.search.replica import FeedPosition, IndexReplica
from projections.search.snapshots import SnapshotJob, UnusableSnapshot, compacted
from projections.store.feed import Vectors
from projections.vectors.embedder import Embedder, Embedders, ModelUnavailable
from projections.vectors.static import StaticTable, table_of

logger = logging.getLogger(__name__)

KEPT = timedelta(days=1)
"""New vectors stay cached at least this long, whatever is configured: until the index is made from them."""
TRIES = 5


@dataclass
class Candidate:
    """An index that gets vectors of another embedder, its positions in the feeds, and which documents have no text."""

    choice: Choice
    index: IndexReplica
    embedder: Embedder
    folder: Path
    at: dict[int, FeedPosition]
    without_text: set[int]


class CandidateIndexes:
    """Makes indexes in `work`, a folder of this worker's own, and holds the last candidate in memory."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        embedders: Embedders,
        vectors: DocumentVectors,
        snapshot: SnapshotJob,
        folder: Path,
        work: Path,
        go_first: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._redis, self._partitions = redis, partitions
        self._embedders, self._vectors, self._snapshot = embedders, vectors, snapshot
        self._folder, self._work, self._go_first = folder, work, go_first
        self._held: Candidate | None = None

    async def release(self) -> None:
        """Free the index in memory and the work folder."""
        self._held = None
        if self._work.exists():
            await asyncio.to_thread(shutil.rmtree, self._work, True)

    async def candidate(self, choice: Choice) -> Candidate:
        """The index with vectors of a choice, complete or not; made where it is not in memory."""
        if self._held is None or self._held.choice != choice:
            self._held = None  # free its memory before the next one is loaded
            embedder = (
                await self._embedders.refresh()
                if await is_live(self._redis, choice)
                else await embedder_of(self._embedders, choice)
            )
            self._held = await self.loaded(choice, embedder, "candidate")
        return self._held

    async def loaded(self, choice: Choice, embedder: Embedder, name: str) -> Candidate:
        """The live index, up to date, in a folder of that name; it keeps its vectors if those are of the choice."""
        for _ in range(TRIES):
            record = await chosen(self._redis)
            live = record.live if record is not None else choice
            folder = self._work / name
            loaded = await asyncio.to_thread(self._read, live, choice, folder, table_of(embedder))
            if loaded is None:
                await self._snapshot.run(force=True)
                continue
            return await self.wait_for_own_writes(Candidate(choice, loaded[0], embedder, folder, loaded[1], set()))
        raise UnusableSnapshot(f"no snapshot of the index could be read in {TRIES} tries: look at the worker's log")

    def _read(
        self, live: Choice, choice: Choice, folder: Path, table: StaticTable | None
    ) -> tuple[IndexReplica, dict[int, FeedPosition]] | None:
        shutil.rmtree(folder, ignore_errors=True)
        source = folder.with_name(f"{folder.name}-source")
        same = (live.model, live.dimensions) == (choice.model, choice.dimensions)
        newest = snapshots.load_newest(
            self._folder, live.model, folder if same else source, live.dimensions, table=table
        )
        if newest is None:
            return None
        index, manifest = newest
        if not same:
            index = compacted(index, folder, without_vectors_for=(choice.model, choice.dimensions, table))
            shutil.rmtree(source, ignore_errors=True)
            earlier = snapshots.load_newest(self._folder, choice.model, source, choice.dimensions)
            if earlier is not None:  # in a rollback, or from an earlier attempt
                index.take_vectors(earlier[0])
                shutil.rmtree(source, ignore_errors=True)
        at = {partition: FeedPosition() for partition in range(self._partitions)}
        return index, at | manifest.partitions

    async def wait_for_own_writes(self, candidate: Candidate) -> Candidate:
        """The index with everything in the feeds. Missing vectors are made here, so nothing is queued."""
        for partition, at in candidate.at.items():
            candidate.at[partition] = await catch_up(
                self._redis, candidate.index, partition, at, asyncio.to_thread, queue=False
            )
        return candidate

    async def complete(self, candidate: Candidate) -> Candidate:
        """Follow the feeds and embed what has no vectors, until at most one batch was left."""
        while True:
            candidate = await self.wait_for_own_writes(candidate)
            left = await asyncio.to_thread(missing, candidate)
            for start in range(0, len(left), BATCH):
                await self._embed(candidate, left[start : start + BATCH])
            if len(left) <= BATCH:
                return candidate

    async def _embed(self, candidate: Candidate, batch: Sequence[int]) -> None:
        if self._go_first is not None:
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
            folder = self._work / "compacted"
            await asyncio.to_thread(shutil.rmtree, folder, True)
            candidate.index = await asyncio.to_thread(compacted, candidate.index, folder)
            candidate.without_text.clear()
        await asyncio.to_thread(candidate.index.link)  # otherwise replicas that start from it would score every vector
        name = str(new_event_id())
        manifest = await asyncio.to_thread(snapshots.save, candidate.index, candidate.at, self._folder, name)
        # of an earlier attempt: with one more, the live snapshot would be the third, and be deleted
        await asyncio.to_thread(snapshots.discard_older, self._folder, name, candidate.choice.model)
        logger.info("snapshot %s: %d documents, vectors of %s", name, manifest.documents, manifest.model)


async def is_live(redis: Client, choice: Choice) -> bool:
    """Whether the log's record names a choice."""
    record = await chosen(redis)
    return record is not None and record.live == choice


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
