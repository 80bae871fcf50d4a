"""Snapshots of the index, which a replica starts from instead of reading the whole feed, and the job that writes them.

Always disposable. A snapshot is a folder, complete once it has its final name: it is written under another name and
renamed. Its manifest has the model of its vectors and its position in every partition's feed; an altered file is
detected by its hash.

A compacting run of the job is what erases for good: the snapshot has nothing of removed documents, older ones are
deleted, the feeds that contain them are trimmed, and replicas start again from it.
"""

import asyncio
import hashlib
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import zstandard
from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import ResponseError

from ingest.errors import MnemologError
from ingest.ids import new_event_id
from ingest.log.keys import PURGED, SNAPSHOT_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.log.position import Position, stored_position
from ingest.platform.connections import Client, past_memory_limit
from ingest.platform.tasks import end
from projections.index.comparing import catch_up
from projections.index.replica import COLUMNS, FeedPosition, IndexReplica, live_generation, trim_feed
from projections.search.candidates import keys_of
from projections.search.question import Facets
from projections.vectors.bitmaps import BitMap, bitmap, ordinals
from projections.vectors.columns import Column, TermColumn
from projections.vectors.embedder import Embedder, Embedders
from projections.vectors.model_files import sha256_of
from projections.vectors.static import StaticTable, table_of
from projections.vectors.vectors import VectorIndex

logger = logging.getLogger(__name__)

FORMAT = 6
"""Others are skipped: the index is then made from the documents."""
KEPT = 2
"""Snapshots: the newest, and one more for a replica that is reading it."""
_TEXTS = "texts.msgpack.zst"


class UnusableSnapshot(MnemologError):
    """A snapshot is of another format or model, torn, or altered; it is skipped."""

    code = "unusable_snapshot"


class SnapshotManifest(Struct, frozen=True, kw_only=True):
    """What a snapshot is. `files` maps each file to the SHA-256 of its bytes, `digest` is that of all the rest here."""

    format: int
    name: str
    model: str
    dimensions: int
    documents: int
    partitions: dict[int, FeedPosition]
    files: dict[str, str]
    digest: str = ""

    @property
    def signed(self) -> "SnapshotManifest":
        """The manifest with its digest."""
        plain = msgspec.json.encode(replace(self, digest=""))
        return replace(self, digest=hashlib.sha256(plain).hexdigest())


LoadedSnapshot: TypeAlias = tuple[IndexReplica, SnapshotManifest]


class _Texts(Struct, array_like=True):
    ids: list[str]
    facets_of: list[tuple[str, ...]]
    authors: list[str]
    episode_names: list[str]
    episodes: list[list[int]]
    facets: dict[str, bytes]
    alive: bytes
    words: list[tuple[int, str]]


def unwritable(folder: Path) -> str | None:
    """Why no snapshot can be written into a folder; None where one can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{folder} is not writable: {error}"


def save(index: IndexReplica, at: Mapping[int, FeedPosition], folder: Path, name: str) -> SnapshotManifest:
    """Write the index as snapshot `name` below `folder`. Runs in the thread that owns the index."""
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / f".writing-{name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    index.vectors.save(work)
    if index.table is not None:
        index.static.save(work, f"{index.table.name}-vector")
    for column in COLUMNS:
        np.save(work / f"{column}.npy", getattr(index, column).values)
    index.terms.save(work)
    texts = _Texts(
        index.ids, index.facets_of, index.authors, list(index.episode_of), index.episodes,
        index.facets.dump(), index.alive.serialize(), index.postings.words(),
    )  # fmt: skip
    (work / _TEXTS).write_bytes(zstandard.compress(msgspec.msgpack.encode(texts)))
    manifest = SnapshotManifest(
        format=FORMAT,
        name=name,
        model=index.model,
        dimensions=index.vectors.dimensions,
        documents=len(index),
        partitions=dict(at),
        files={str(path.relative_to(work)): sha256_of(path) for path in sorted(work.rglob("*")) if path.is_file()},
    ).signed
    (work / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    # atomic: a reader sees a whole snapshot or none; a crash leaves `.writing-…`, which `prune` removes
    work.rename(folder / name)
    return manifest


def newest(
    folder: Path,
    model: str,
    dimensions: int | None = None,
    without: Container[Path] = (),
    partitions: int | None = None,
) -> tuple[Path, SnapshotManifest] | None:
    """The newest snapshot made with `model`, with vectors of `dimensions`, of a log of `partitions`, if given; or None.

    Those in `without` are skipped.
    """
    for path in sorted(folder.glob("[!.]*"), reverse=True):
        if path in without or (manifest := _manifest(path)) is None:
            continue
        alike = manifest.model == model and dimensions in (None, manifest.dimensions)
        of_this_log = partitions is None or manifest.partitions.keys() == set(range(partitions))
        if manifest.format == FORMAT and alike and of_this_log:
            return path, manifest
    return None


def _manifest(path: Path) -> SnapshotManifest | None:
    try:
        manifest = msgspec.json.decode((path / "manifest.json").read_bytes(), type=SnapshotManifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return manifest if manifest.digest in ("", manifest.signed.digest) else None


def damage(path: Path, manifest: SnapshotManifest) -> str | None:
    """What is wrong with the files of a snapshot; None for nothing. Reads all of it."""
    try:
        altered = (path / name for name, expected in manifest.files.items() if sha256_of(path / name) != expected)
        return next((f"{file} was altered" for file in altered), None)
    except OSError as error:
        return f"{path} is incomplete: {error}"


def load(
    path: Path,
    manifest: SnapshotManifest,
    *,
    model: str = "",
    dimensions: int | None = None,
    table: StaticTable | None = None,
) -> IndexReplica:
    """The index of a snapshot; static vectors of another `table` are made again.

    Raises UnusableSnapshot for an altered file, when the snapshot is pruned at the same time, and when its vectors are
    not of `model` and `dimensions`: vectors of two models must never be compared.
    """
    required = model or manifest.model, manifest.dimensions if dimensions is None else dimensions
    if required != (manifest.model, manifest.dimensions):
        raise UnusableSnapshot(
            f"{path} has vectors of {manifest.model} with {manifest.dimensions} dimensions, "
            f"not of {required[0]} with {required[1]}"
        )
    try:
        if (trouble := damage(path, manifest)) is not None:
            raise UnusableSnapshot(trouble)
        texts = _texts(path)
        index = IndexReplica(manifest.dimensions, manifest.model, table)
        for column in COLUMNS:
            setattr(index, column, Column.of(np.load(path / f"{column}.npy")))
        index.terms = TermColumn.load(path)
        _fill_postings(index, texts.words)
        index.vectors = VectorIndex.load(path, manifest.dimensions)
        has_static = table is not None and f"{table.name}-vectors.npy" in manifest.files
        if table is not None and has_static:
            index.static = VectorIndex.load(path, table.dimensions, f"{table.name}-vector", graph=False)
    except UnusableSnapshot:
        raise
    except Exception as error:  # a damaged file makes each library raise something else
        raise UnusableSnapshot(f"{path} is incomplete or damaged: {error!r}") from error
    index.ids, index.id_key = texts.ids, keys_of(texts.ids)
    index.facets_of = _shared(texts.facets_of)
    index.ordinal_of = {name: ordinal for ordinal, name in enumerate(texts.ids) if name}
    index.episodes = texts.episodes
    for name in texts.authors:
        index.author_number(name)
    index.episode_of = {name: place for place, name in enumerate(texts.episode_names)}
    index.link_episodes()
    index.facets, index.alive = Facets.load(texts.facets), BitMap.deserialize(texts.alive)
    if not has_static:
        index.embed_terms(ordinals(index.alive))
    return index


def _shared(facets_of: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The tuples, equal ones as one object: those of an episode are mostly equal, and take a seventh of the memory."""
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    for facets in facets_of:
        if facets not in shared:
            interned = tuple(map(sys.intern, facets))
            shared[interned] = interned
    return [shared[facets] for facets in facets_of]


def _fill_postings(index: IndexReplica, words: Iterable[tuple[int, str]]) -> None:
    rows = index.terms.rows(np.arange(len(index.terms)))
    index.postings.add_each(0, rows.hashes, rows.lengths)
    for term, word in words:  # those that no document says any more are left out
        index.postings.add_word(term, word)


def _texts(path: Path) -> _Texts:
    return msgspec.msgpack.decode(zstandard.decompress((path / _TEXTS).read_bytes()), type=_Texts)


def names_of(path: Path) -> list[str]:
    """The document ids in a snapshot, by ordinal; empty for one that is gone. Raises what a damaged file raises."""
    return _texts(path).ids


def places_of(path: Path) -> list[tuple[str, int]]:
    """The living documents of a snapshot with their partitions, by ordinal. Raises what a damaged file raises."""
    names, partitions = names_of(path), np.load(path / "partition.npy").tolist()
    return [(name, number) for name, number in zip(names, partitions, strict=True) if name]


def load_newest(
    folder: Path,
    model: str,
    dimensions: int | None = None,
    least: str = "",
    table: StaticTable | None = None,
    partitions: int | None = None,
) -> LoadedSnapshot | None:
    """The index of the newest usable snapshot made with `model`; None without one.

    Those of a log of another number of `partitions`, if that is given, or with names before `least`, are ignored. A
    damaged one is skipped; so is one that was pruned while it was read, because there is a newer one.
    """
    tried: set[Path] = set()
    while (candidate := newest(folder, model, dimensions, tried, partitions)) is not None:
        path, manifest = candidate
        if manifest.name < least:
            return None
        try:
            return load(path, manifest, model=model, dimensions=dimensions, table=table), manifest
        except UnusableSnapshot as error:
            logger.warning("index: %s; skipping it", error)
            tried.add(path)
    return None


def discard_older(folder: Path, name: str, model: str) -> None:
    """Delete the snapshots of a model that are older than the one of that name."""
    for path in sorted(folder.glob("[!.]*")):
        if path.name < name and (manifest := _manifest(path)) is not None and manifest.model == model:
            shutil.rmtree(path.rename(path.with_name(f".pruned-{path.name}")), ignore_errors=True)


def prune(folder: Path, kept: int = KEPT) -> None:
    """Delete all but the newest snapshots, and what an interrupted one left."""
    complete = sorted(folder.glob("[!.]*"))
    for path in complete[: max(0, len(complete) - kept)]:
        # renamed first, so that no replica starts to read a folder that is half deleted
        path.rename(path.with_name(f".pruned-{path.name}"))
    for path in [*folder.glob(".writing-*"), *folder.glob(".pruned-*")]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


WORTHWHILE = 0.2
"""Share of dead ordinals from which compacting pays: below, they cost less than building the graph again."""


def is_worthwhile(index: IndexReplica) -> bool:
    """True when more than `WORTHWHILE` of the ordinals are dead."""
    return len(index.ids) - len(index) > WORTHWHILE * len(index.ids)


# an index only hides what was removed: postings and graph keep it, and the names of its sessions and agents remain
def compacted(
    index: IndexReplica, *, without_vectors_for: tuple[str, int, StaticTable | None] | None = None
) -> IndexReplica:
    """A fresh index of the living documents; it answers as `index` does, which stays as it is.

    Ordinals are new, in the same order. Needs as much memory again.

    With `without_vectors_for` a model, its dimensions and table, it has only static vectors, and the caller puts those
    of that model.
    """
    living = ordinals(index.alive)
    places: list[int] = living.tolist()
    model, dimensions, table = without_vectors_for or (index.model, index.vectors.dimensions, index.table)
    fresh = IndexReplica(dimensions, model, table)
    fresh.ids = [index.ids[place] for place in places]
    fresh.id_key = keys_of(fresh.ids)
    fresh.ordinal_of = {name: ordinal for ordinal, name in enumerate(fresh.ids)}
    fresh.terms = TermColumn.made_of(index.terms.rows(living))
    _fill_postings(fresh, index.postings.words())
    fresh.facets_of = [index.facets_of[place] for place in places]
    fresh.facets = index.facets.renumbered(living)
    fresh.alive = bitmap(np.arange(len(living)))
    for name in COLUMNS:
        setattr(fresh, name, Column.of(getattr(index, name).values[living]))
    authors, author = np.unique(fresh.author.values, return_inverse=True)
    former: list[int] = authors.tolist()
    for number in former:
        fresh.author_number(index.authors[number])
    fresh.author = Column.of(author.astype(np.int32))
    # episodes with any document left, in their order; sequences have no holes, so they stay
    episodes, names = np.unique(fresh.episode.values), list(index.episode_of)
    episodes = episodes[episodes >= 0]
    numbers: list[int] = episodes.tolist()
    fresh.episode_of = {names[number]: new for new, number in enumerate(numbers)}
    fresh.episodes = [[fresh.ordinal_of[index.ids[member]] for member in index.episodes[number]] for number in numbers]
    fresh.link_episodes()
    outside = fresh.episode.values < 0
    fresh.episode = Column.of(np.where(outside, -1, np.searchsorted(episodes, fresh.episode.values)).astype(np.int32))
    if without_vectors_for is None:
        fresh.vectors = index.vectors.renumbered(living)
    if table is not None and index.table is not None and table.name == index.table.name:
        fresh.static = index.static.renumbered(living)
    else:
        fresh.embed_terms(ordinals(fresh.alive))
    return fresh


LINK_S = 0.2
"""Vectors join the graph for so long between two looks at what is more urgent."""
MIN_FEED_BYTES, MAX_FEED_BYTES = 8 << 20, 64 << 20
"""Feeds are also trimmed when they take this much memory together, however few entries that is: an entry of a batch can
have hundreds of documents. A process that starts reads 8 MiB in about two seconds."""
FEED_BYTES_PER_DOCUMENT = 100
"""Between the two: a twentieth of what a snapshot takes, so that writing snapshots takes no more than following."""


class SnapshotJob:
    """Writes snapshots into `folder`."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        folder: Path,
        embedders: Embedders,
        every: int,
        pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        """`pressed` says whether more urgent work waits: then new vectors join the graph of a later snapshot."""
        self._pressed = pressed
        self._redis, self._partitions = redis, partitions
        self._folder = folder
        self._embedders, self._every = embedders, every
        self._id = str(new_event_id())
        self._checked: dict[Path, str | None] = {}
        self._tasks: set[asyncio.Task[SnapshotManifest | None]] = set()
        self._one_at_a_time = asyncio.Lock()

    async def run(self, force: bool = False, *, compact: bool = False) -> SnapshotManifest | None:
        """Write a snapshot if the feeds have grown enough (or `force`); returns its manifest, else None.

        With `compact` in any case, without what was removed, as the only one left; then PURGED names it. A crash at any
        point leaves the earlier snapshots and the feeds as they were, or less of them: running again does the rest.

        A canceled caller stops waiting, but the snapshot is still written: making the index of a million documents
        takes longer than a job may. Until it is done, only `force` writes another.
        """
        if self._one_at_a_time.locked() and not force and not compact:
            return None
        task = asyncio.create_task(self._run(force=force, compact=compact), name="snapshot")
        self._tasks.add(task)

        def ended(task: asyncio.Task[SnapshotManifest | None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.warning("the snapshot could not be written: %r", error)

        task.add_done_callback(ended)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Abandon what is being written."""
        await end(*self._tasks)

    async def _run(self, *, force: bool, compact: bool) -> SnapshotManifest | None:
        async with self._one_at_a_time:
            if not force and not compact and not await self._worthwhile():
                return None
            # of two concurrent writers the older could win after the newer trimmed the feeds
            async with lease(self._redis, SNAPSHOT_LEASE, self._id) as mine:
                if not mine:
                    logger.info("another worker is writing a snapshot")
                elif (trouble := await asyncio.to_thread(unwritable, self._folder)) is not None:
                    logger.error("snapshots cannot be written and feeds cannot be trimmed: %s", trouble)
                else:
                    return await self.write(compact=compact)
        return None

    async def write(self, *, compact: bool) -> SnapshotManifest:
        """Write one; the caller holds the lease."""
        index, at = await self._start(await self._embedders.refresh())
        for partition in range(self._partitions):
            at[partition] = await catch_up(self._redis, index, partition, at[partition], asyncio.to_thread)
        if compact or is_worthwhile(index):
            index = await asyncio.to_thread(compacted, index)
        while index.unlinked and not self._pressed():
            await asyncio.to_thread(index.link, LINK_S)
        manifest = await asyncio.to_thread(save, index, at, self._folder, str(new_event_id()))
        # only now: a feed must not lose entries before a complete snapshot covers them
        for partition, position in at.items():
            await trim_feed(self._redis, partition, position)
        await asyncio.to_thread(prune, self._folder, 1 if compact else KEPT)
        if compact:  # last: replicas reload when they see it, and the older snapshots are gone by then
            async with past_memory_limit(self._redis) as pipe:
                pipe.set(PURGED, manifest.name)
                await pipe.execute()
        logger.info("snapshot %s: %d documents%s", manifest.name, manifest.documents, ", compacted" * compact)
        return manifest

    async def _worthwhile(self) -> bool:
        """Whether the feeds have grown enough, or a replica that starts now would have to read all documents: another
        generation is live, or the feed was trimmed by a snapshot that is gone or damaged."""
        entries = size = 0
        embedder = await self._embedders.refresh()
        manifest = await asyncio.to_thread(self._newest, embedder.model, embedder.dimensions)
        at = {} if manifest is None else manifest.partitions
        most = FEED_BYTES_PER_DOCUMENT * (0 if manifest is None else manifest.documents)
        for partition in range(self._partitions):
            keys = PartitionKeys(partition)
            feed = keys.of_generation(await live_generation(self._redis, partition))
            changes, covered = feed.changes, at.get(partition, FeedPosition())
            trimmed = stored_position(await self._redis.get(feed.trimmed))
            if covered.generation != feed.generation or trimmed > Position.parse(covered.feed):
                logger.info("no usable snapshot covers partition %d with its current feed", partition)
                return True
            entries += int(await self._redis.xlen(changes))
            try:
                size += int(await self._redis.memory_usage(changes, samples=5) or 0)
            except ResponseError:  # some managed services forbid MEMORY; entries alone decide
                pass
        return entries >= self._every or size >= min(MAX_FEED_BYTES, max(MIN_FEED_BYTES, most))

    def _newest(self, model: str, dimensions: int) -> SnapshotManifest | None:
        """The newest usable snapshot. Each is read completely once, to check it."""
        damaged: set[Path] = set()
        self._checked = {path: error for path, error in self._checked.items() if path.exists()}
        while (candidate := newest(self._folder, model, dimensions, damaged, self._partitions)) is not None:
            path, manifest = candidate
            if path not in self._checked:
                self._checked[path] = damage(path, manifest)
            if (error := self._checked[path]) is None:
                return manifest
            logger.warning("%s", error)
            damaged.add(path)
        return None

    async def _start(self, embedder: Embedder) -> tuple[IndexReplica, dict[int, FeedPosition]]:
        at = {partition: FeedPosition() for partition in range(self._partitions)}
        model, dimensions, table = embedder.model, embedder.dimensions, table_of(embedder)
        candidate = await asyncio.to_thread(load_newest, self._folder, model, dimensions, "", table, self._partitions)
        if candidate is not None:
            return candidate[0], at | candidate[1].partitions
        return IndexReplica(dimensions, model, table), at
