"""The steps of a rebuild under another embedder: fill the cache with its vectors, make an index of them, change over.

Filling is shared, by partitions, and what is cached stays: who goes on after a crash finds it. The index is made by one
worker, from the newest snapshot without its vectors, those that an older snapshot of the new model has, and the cache;
it becomes a snapshot only for the change-over. Then one record names the live embedder. Replicas hear of it, load the
snapshot beside the index that they have, and change over, each in one step.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.ids import DocumentId, new_event_id
from ingest.log.keys import JOB_LEASE_TTL, SNAPSHOT_LEASE, PartitionKeys
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.documents.document import Searched
from projections.documents.searchable import searchable_text
from projections.embedding.embedder import Embedder, EmbeddingError, ModelUnavailable
from projections.embedding.live import Choice, Embedders, announce, chosen, make_live
from projections.maintenance.rebuilds.canaries import Canaries, Sought, recall_verdict
from projections.maintenance.rebuilds.rebuild import Rebuild
from projections.maintenance.reconciling.repairs import Repairs
from projections.search import snapshots
from projections.search.comparing import catch_up
from projections.search.filters import BitMap, ordinals
from projections.search.ranking import Mode
from projections.search.reading import live_generation
from projections.search.replica import IndexReplica
from projections.search.search import Filter, Question, matches, search
from projections.search.snapshots import FeedPosition, UnusableSnapshot, compacted
from projections.store.feed import Vectors
from workers.document_vectors import DocumentVectors, Place
from workers.jobs.snapshot import SnapshotJob
from workers.lease import lease

logger = logging.getLogger(__name__)

BATCH = 64
KEPT = timedelta(days=1)
"""What is made stays cached for at least so long, whatever is configured: until the index is made of it."""
SOUGHT = 50
"""Documents that canaries ask for."""
WORDS = 12
"""Of a document, from its middle, that it is asked for with."""
FIRST = 10
SNAPSHOT_WITHIN_S = 60.0
"""For the snapshot that another worker writes."""
TRIES = 5


class Filled(NamedTuple):
    """How many documents of a partition have vectors, and how many there are."""

    done: int
    total: int


@dataclass
class _Candidate:
    """An index that gets vectors of another embedder, its places in the feeds, and who has nothing to embed."""

    choice: Choice
    index: IndexReplica
    embedder: Embedder
    folder: Path
    at: dict[int, FeedPosition]
    without_text: set[int]


class EmbeddingRebuild:
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
        self._redis, self._partitions = redis, partitions
        self._embedders, self._vectors, self._snapshot = embedders, vectors, snapshot
        self._folder, self._work, self._go_first, self._clock = folder, work, go_first, clock
        self._names: dict[int, list[DocumentId]] = {}
        self._filled: dict[int, int] = {}
        self._of = ""
        self._held: _Candidate | None = None

    async def fill(self, rebuild: Rebuild, partition: int, slice_s: float) -> Filled:
        """Make vectors of a partition's documents, for about `slice_s` seconds.

        Raises EmbeddingError, and UnusableSnapshot while no snapshot names the documents.
        """
        until = time.monotonic() + slice_s
        _, after = _embedders(rebuild)
        embedder = await self._embedder(after)
        if self._of != rebuild.id:
            await announce(self._redis, after)
            await self._snapshot.run(force=True)
            self._names, self._filled = await asyncio.to_thread(self._known, rebuild), {}
            self._of = rebuild.id
        names = self._names.get(partition, [])
        if not embedder.dimensions:
            return Filled(len(names), len(names))
        generation = await live_generation(self._redis, partition)
        done = self._filled.get(partition, 0)
        while done < len(names) and time.monotonic() < until:
            if self._go_first is not None:
                await self._go_first()
            places = [Place(partition, generation, name) for name in names[done : done + BATCH]]
            await self._vectors.of(embedder, places, KEPT)
            done += len(places)
            self._filled[partition] = done
        return Filled(done, len(names))

    async def compare(self, rebuild: Rebuild) -> Canaries:
        """Ask the live index and the new one for documents, each with vectors of its own model.

        Raises EmbeddingError, and UnusableSnapshot when there is nothing to begin with.
        """
        before, after = _embedders(rebuild)
        candidate = await self._complete(await self._candidate(after))
        live = await self._loaded(before, await self._embedders.refresh(), "live")
        try:
            return await self._verdict(live, candidate)
        finally:
            await asyncio.to_thread(shutil.rmtree, live.folder, True)

    async def change_over(self, before: Choice, after: Choice) -> bool:
        """Make `after` the live embedder in the place of `before`; false while another worker writes a snapshot.

        What the other one embedded until the last moment, and nobody would embed again, is queued again. Raises
        WrongRebuildState when neither is live, and, before that is decided, EmbeddingError when `after` cannot be had
        here, UnusableSnapshot when there is nothing to begin with, LeaseLost when it took too long.
        """
        if not await self.is_live(after) and not await self._switch(before, after):
            return False
        await self._queue_missing(await self._candidate(after))
        await self.let_go()
        return True

    async def is_live(self, choice: Choice) -> bool:
        """Whether the log's record names a choice."""
        known = await chosen(self._redis)
        return known is not None and known.live == choice

    async def _switch(self, before: Choice, after: Choice) -> bool:
        same = (before.model, before.dimensions) == (after.model, after.dimensions)
        candidate = None if same else await self._complete(await self._candidate(after))
        worker = str(new_event_id())
        async with lease(self._redis, SNAPSHOT_LEASE, worker, JOB_LEASE_TTL, wait_s=SNAPSHOT_WITHIN_S) as mine:
            if not mine:  # who trims the feeds meanwhile would trim them before what is written here
                return False
            if candidate is not None:
                await self._save(await self._complete(candidate))
            await make_live(self._redis, before, after, worker)
        logger.info("vectors of %s are live, no longer those of %s", after.model, before.model)
        return True

    def forget_names(self) -> None:
        """Give back the names of what was to be embedded."""
        self._names, self._filled, self._of = {}, {}, ""

    async def let_go(self) -> None:
        """Give back the index that is held in memory, and the folder it works in."""
        self._held = None
        if self._work.exists():
            await asyncio.to_thread(shutil.rmtree, self._work, True)

    async def _embedder(self, choice: Choice) -> Embedder:
        embedder = await self._embedders.built(choice.spec)
        if (embedder.model, embedder.dimensions) != (choice.model, choice.dimensions):
            raise ModelUnavailable(
                choice.model,
                f"{choice.spec} makes vectors of {embedder.model} with {embedder.dimensions} dimensions on this "
                f"machine, not with {choice.dimensions}",
            )
        return embedder

    def _known(self, rebuild: Rebuild) -> dict[int, list[DocumentId]]:
        """The documents of the newest snapshot, by partition; those that are newer are embedded at the end."""
        before, _ = _embedders(rebuild)
        found = snapshots.newest(self._folder, before.model, before.dimensions)
        if found is None:
            raise UnusableSnapshot(f"{self._folder} has no snapshot with vectors of {before.model} yet")
        names: dict[int, list[DocumentId]] = {}
        for name, partition in snapshots.places_of(found[0]):
            names.setdefault(partition, []).append(DocumentId(name))
        return names

    async def _candidate(self, choice: Choice) -> _Candidate:
        """The index with vectors of a choice, as far as it is; made where it is not held."""
        if self._held is None or self._held.choice != choice:
            self._held = None  # before the next one takes as much memory
            embedder = await self._embedders.refresh() if await self.is_live(choice) else await self._embedder(choice)
            self._held = await self._loaded(choice, embedder, "candidate")
        return self._held

    async def _loaded(self, choice: Choice, embedder: Embedder, name: str) -> _Candidate:
        """The live index, up to date, in a folder of that name: with its vectors, if those are of the choice."""
        for _ in range(TRIES):
            known = await chosen(self._redis)
            live = known.live if known is not None else choice
            folder = self._work / name
            loaded = await asyncio.to_thread(self._read, live, choice, folder)
            if loaded is None:
                await self._snapshot.run(force=True)
                continue
            return await self._caught_up(_Candidate(choice, loaded[0], embedder, folder, loaded[1], set()))
        raise UnusableSnapshot(f"no snapshot of the index could be read in {TRIES} tries: look at the worker's log")

    def _read(self, live: Choice, choice: Choice, folder: Path) -> tuple[IndexReplica, dict[int, FeedPosition]] | None:
        shutil.rmtree(folder, ignore_errors=True)
        source = folder.with_name(f"{folder.name}-source")
        same = (live.model, live.dimensions) == (choice.model, choice.dimensions)
        found = snapshots.load_newest(self._folder, live.model, folder if same else source, live.dimensions)
        if found is None:
            return None
        index, manifest = found
        if not same:
            index = compacted(index, folder, without_vectors_for=(choice.model, choice.dimensions))
            shutil.rmtree(source, ignore_errors=True)
            earlier = snapshots.load_newest(self._folder, choice.model, source, choice.dimensions)
            if earlier is not None:  # on the way back, or of an earlier try
                index.take_vectors(earlier[0])
                shutil.rmtree(source, ignore_errors=True)
        at = {partition: FeedPosition() for partition in range(self._partitions)}
        return index, at | manifest.partitions

    async def _caught_up(self, candidate: _Candidate) -> _Candidate:
        """The index with all that the feeds have. What it lacks is embedded here, so nothing is queued."""
        for partition, at in candidate.at.items():
            candidate.at[partition] = await catch_up(
                self._redis, candidate.index, partition, at, asyncio.to_thread, queue=False
            )
        return candidate

    async def _complete(self, candidate: _Candidate) -> _Candidate:
        """Follow the feeds and embed what has no vectors, until that is next to nothing; the index as it is then."""
        while True:
            candidate = await self._caught_up(candidate)
            missing = await asyncio.to_thread(_missing, candidate)
            for start in range(0, len(missing), BATCH):
                await self._embed(candidate, missing[start : start + BATCH])
            if len(missing) <= BATCH:
                return candidate

    async def _queue_missing(self, candidate: _Candidate) -> None:
        """Queue what has no vector of the live model: some was embedded by the other one until the last moment.

        A batch looks at the record behind its look at the queue, so what an old batch took was in the feeds before the
        record changed. Its place in the queue is another one now, from which the old batch does not take it.
        """
        candidate = await self._caught_up(candidate)
        missing = await asyncio.to_thread(_missing, candidate)
        queued_at = to_ms(self._clock()) + 0.5  # events come at whole milliseconds
        for place in (_place(candidate, ordinal) for ordinal in missing):
            await Repairs(self._redis, PartitionKeys(place.partition), place.generation).embed(place.id, queued_at)
        if missing:
            logger.info("embeddings: %d documents are queued once more", len(missing))

    async def _embed(self, candidate: _Candidate, missing: Sequence[int]) -> None:
        if self._go_first is not None:
            await self._go_first()
        index, embedder = candidate.index, candidate.embedder
        places = [_place(candidate, ordinal) for ordinal in missing]
        vectors = await self._vectors.of(embedder, places, KEPT)
        items: dict[int, list[Vectors]] = {}
        for ordinal, place, rows in zip(missing, places, vectors, strict=True):
            if rows:
                item = Vectors(place.id, embedder.model, embedder.dimensions, rows)
                items.setdefault(place.partition, []).append(item)
            else:  # without text, or changed: the feed tells of that
                candidate.without_text.add(ordinal)
        for partition, made in items.items():
            await asyncio.to_thread(index.apply, partition, made)

    async def _save(self, candidate: _Candidate) -> None:
        """Write the snapshot that replicas start from; nothing that was removed is in it."""
        if candidate.index.removed:
            folder = self._work / "compacted"
            await asyncio.to_thread(shutil.rmtree, folder, True)
            candidate.index = await asyncio.to_thread(compacted, candidate.index, folder)
            candidate.without_text.clear()
        name = str(new_event_id())
        manifest = await asyncio.to_thread(snapshots.save, candidate.index, candidate.at, self._folder, name)
        # those of an earlier try: with one more, what is live would be the third snapshot, and go
        await asyncio.to_thread(snapshots.discard_older, self._folder, name, candidate.choice.model)
        logger.info("snapshot %s: %d documents, vectors of %s", name, manifest.documents, manifest.model)

    async def _verdict(self, live: _Candidate, candidate: _Candidate) -> Canaries:
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

    async def _questions(self, live: _Candidate, candidate: _Candidate, now_ms: int) -> list[tuple[Place, str, Filter]]:
        """Documents that both indexes have and a search may find, with some of their words, and where to search."""
        alive = ordinals(candidate.index.alive)
        picked: list[int] = alive[:: max(1, len(alive) // (2 * SOUGHT))].tolist()
        places = [_place(candidate, ordinal) for ordinal in picked]
        documents = await self._vectors.documents(places)
        asked: list[tuple[Place, str, Filter]] = []
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


def _embedders(rebuild: Rebuild) -> tuple[Choice, Choice]:
    assert rebuild.embedders is not None, "a rebuild of embeddings has them"
    return rebuild.embedders


def _place(candidate: _Candidate, ordinal: int) -> Place:
    index, partition = candidate.index, int(candidate.index.partition[ordinal])
    return Place(partition, candidate.at[partition].generation, DocumentId(index.ids[ordinal]))


def _missing(candidate: _Candidate) -> list[int]:
    """The living documents that have no vectors yet and may have some."""
    if not candidate.index.vectors.dimensions:
        return []
    alive = ordinals(candidate.index.alive)
    without: list[int] = alive[candidate.index.vectors.without(alive)].tolist()
    return [ordinal for ordinal in without if ordinal not in candidate.without_text]


def _ask(
    live: _Candidate,
    candidate: _Candidate,
    asked: Sequence[tuple[Place, str, Filter]],
    vectors: Sequence[NDArray[np.float32]],
    now_ms: int,
) -> list[Sought]:
    found: list[Sought] = []
    for number, (place, text, allowed) in enumerate(asked):
        question = Question(text=text, vector=None, limit=FIRST, now_ms=now_ms)

        def best(side: _Candidate, mode: Mode, of: NDArray[np.float32], question: Question = question,
                 allowed: Filter = allowed) -> set[str]:  # fmt: skip
            if mode == "vector" and not of.size:
                return set()
            hits = search(side.index, replace(question, vector=of, mode=mode), allowed)
            return {hit.id for hit in hits}

        mine, other = vectors[0][number], vectors[1][number]
        both = best(live, "hybrid", mine), best(candidate, "hybrid", other)
        found.append(
            Sought(
                name=place.id,
                partition=place.partition,
                words=place.id in best(live, "lexical", mine),
                live=place.id in best(live, "vector", mine),
                candidate=place.id in best(candidate, "vector", other),
                overlap=len(both[0] & both[1]) / max(1, *map(len, both)),
            )
        )
    return found
