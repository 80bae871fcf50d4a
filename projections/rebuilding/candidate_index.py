"""An index with vectors of another embedder than the live one, made beside it.

It is made from the newest snapshot without its vectors, those that an older snapshot of the new model has, and the
cache; it becomes a snapshot only when it is saved.
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
from projections.search.replica import IndexReplica
from projections.search.snapshot_job import SnapshotJob
from projections.search.snapshots import FeedPosition, UnusableSnapshot, compacted
from projections.store.feed import Vectors
from projections.vectors.embedder import Embedder, Embedders, ModelUnavailable
from projections.vectors.static import StaticTable, table_of

logger = logging.getLogger(__name__)

KEPT = timedelta(days=1)
"""What is made stays cached for at least so long, whatever is configured: until the index is made of it."""
TRIES = 5


@dataclass
class Candidate:
    """An index that gets vectors of another embedder, its places in the feeds, and who has nothing to embed."""

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
        """Give back the index that is held in memory, and the folder it works in."""
        self._held = None
        if self._work.exists():
            await asyncio.to_thread(shutil.rmtree, self._work, True)

    async def candidate(self, choice: Choice) -> Candidate:
        """The index with vectors of a choice, as far as it is; made where it is not held."""
        if self._held is None or self._held.choice != choice:
            self._held = None  # before the next one takes as much memory
            embedder = (
                await self._embedders.refresh()
                if await is_live(self._redis, choice)
                else await embedder_of(self._embedders, choice)
            )
            self._held = await self.loaded(choice, embedder, "candidate")
        return self._held

    async def loaded(self, choice: Choice, embedder: Embedder, name: str) -> Candidate:
        """The live index, up to date, in a folder of that name: with its vectors, if those are of the choice."""
        for _ in range(TRIES):
            known = await chosen(self._redis)
            live = known.live if known is not None else choice
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
        found = snapshots.load_newest(
            self._folder, live.model, folder if same else source, live.dimensions, table=table
        )
        if found is None:
            return None
        index, manifest = found
        if not same:
            index = compacted(index, folder, without_vectors_for=(choice.model, choice.dimensions, table))
            shutil.rmtree(source, ignore_errors=True)
            earlier = snapshots.load_newest(self._folder, choice.model, source, choice.dimensions)
            if earlier is not None:  # on the way back, or of an earlier try
                index.take_vectors(earlier[0])
                shutil.rmtree(source, ignore_errors=True)
        at = {partition: FeedPosition() for partition in range(self._partitions)}
        return index, at | manifest.partitions

    async def wait_for_own_writes(self, candidate: Candidate) -> Candidate:
        """The index with all that the feeds have. What it lacks is embedded here, so nothing is queued."""
        for partition, at in candidate.at.items():
            candidate.at[partition] = await catch_up(
                self._redis, candidate.index, partition, at, asyncio.to_thread, queue=False
            )
        return candidate

    async def complete(self, candidate: Candidate) -> Candidate:
        """Follow the feeds and embed what has no vectors, until that is next to nothing; the index as it is then."""
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
        places = [place_of(candidate, ordinal) for ordinal in batch]
        vectors = await self._vectors.of(embedder, places, KEPT)
        items: dict[int, list[Vectors]] = {}
        for ordinal, place, rows in zip(batch, places, vectors, strict=True):
            if rows:
                item = Vectors(place.id, embedder.model, embedder.dimensions, rows)
                items.setdefault(place.partition, []).append(item)
            else:  # without text, or changed: the feed tells of that
                candidate.without_text.add(ordinal)
        for partition, made in items.items():
            await asyncio.to_thread(index.apply, partition, made)

    async def save(self, candidate: Candidate) -> None:
        """Write the snapshot that replicas start from; nothing that was removed is in it."""
        if candidate.index.removed:
            folder = self._work / "compacted"
            await asyncio.to_thread(shutil.rmtree, folder, True)
            candidate.index = await asyncio.to_thread(compacted, candidate.index, folder)
            candidate.without_text.clear()
        await asyncio.to_thread(candidate.index.link)  # or the replicas that start from it would score all of them
        name = str(new_event_id())
        manifest = await asyncio.to_thread(snapshots.save, candidate.index, candidate.at, self._folder, name)
        # those of an earlier try: with one more, what is live would be the third snapshot, and go
        await asyncio.to_thread(snapshots.discard_older, self._folder, name, candidate.choice.model)
        logger.info("snapshot %s: %d documents, vectors of %s", name, manifest.documents, manifest.model)


async def is_live(redis: Client, choice: Choice) -> bool:
    """Whether the log's record names a choice."""
    known = await chosen(redis)
    return known is not None and known.live == choice


async def embedder_of(embedders: Embedders, choice: Choice) -> Embedder:
    """The embedder of a choice; raises ModelUnavailable where this machine has another one by its name."""
    embedder = await embedders.built(choice.spec)
    if (embedder.model, embedder.dimensions) != (choice.model, choice.dimensions):
        raise ModelUnavailable(
            choice.model,
            f"{choice.spec} makes vectors of {embedder.model} with {embedder.dimensions} dimensions on this "
            f"machine, not with {choice.dimensions}",
        )
    return embedder


def place_of(candidate: Candidate, ordinal: int) -> DocumentLocation:
    """Where the document of an ordinal is."""
    index, partition = candidate.index, int(candidate.index.partition[ordinal])
    return DocumentLocation(partition, candidate.at[partition].generation, DocumentId(index.ids[ordinal]))


def missing(candidate: Candidate) -> list[int]:
    """The living documents that have no vectors yet and may have some."""
    if not candidate.index.vectors.dimensions:
        return []
    alive = ordinals(candidate.index.alive)
    without: list[int] = alive[candidate.index.vectors.without(alive)].tolist()
    return [ordinal for ordinal in without if ordinal not in candidate.without_text]
