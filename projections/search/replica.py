"""The index of one process: every searchable document, packed; and the change feed that fills it.

All of the index belongs to one thread (see `ReplicaService`): a search sees it between two changes, never half of one.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ingest.errors import MnemologError
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.log.scripts import look_back
from ingest.platform.connections import Client, Transaction, past_memory_limit
from projections.documents.index_entry import IndexEntry
from projections.search.candidates import DocumentColumns
from projections.search.columns import Column, hashed_text
from projections.search.lexical import Lexical, Postings
from projections.search.question import BitMap, Facets, entry_facets, facet, lexical_facets
from projections.search.vectors import VectorIndex
from projections.store.feed import Cleared, FeedItem, Put, Remove, Switched, Vectors, read_entry
from projections.vectors.static import StaticTable

MAX_TAIL = 256
"""Documents not committed to tantivy yet; no slip is corrected to what they alone say, so they are few."""
EMBEDDED_AT_ONCE = 1_000
"""Documents whose terms become static vectors together."""
COLUMNS = (
    "id_key", "partition", "author", "episode", "sequence", "occurred_ms", "recorded_ms", "retired_ms", "expires_ms",
    "renewed_ms", "importance", "confidence",
)  # fmt: skip
"""The attributes of a replica that are columns, one row a document."""


class FeedPosition(Struct, frozen=True, kw_only=True):
    """Where a replica stands in one partition: feed entry read last, and the log position that covers."""

    generation: int = 1
    feed: str = "0-0"
    covers: str = str(START)

    @property
    def position(self) -> Position:
        """The log position covered."""
        return Position.parse(self.covers)


class Compared(NamedTuple):
    """Ids of documents that were new to an index, and of those that have no vectors in it."""

    inserted: list[str]
    without_vectors: list[str]


class IndexReplica(DocumentColumns):
    """Applies the change feed; answers which documents match, and who is near whom."""

    def __init__(self, folder: Path, dimensions: int, model: str, table: StaticTable | None = None) -> None:
        """`dimensions` are those of the vectors that `model` makes; `table` gives every document a static one.

        Then only the static ones have a graph: those of the model come later, and refine the scores.
        """
        static = VectorIndex(0 if table is None else table.dimensions)
        super().__init__(VectorIndex(dimensions, graph=table is None), static)
        self.model = model
        self.lexical = Lexical(folder)
        self.table = table
        self.facets = Facets()
        self.ordinal_of: dict[str, int] = {}
        self.facets_of: list[tuple[str, ...]] = []
        self.episode_of: dict[str, int] = {}
        self.episodes: list[list[int]] = []
        self.retired_ms: Column[np.int64] = Column(np.int64)
        self.expires_ms: Column[np.int64] = Column(np.int64)
        self.alive = BitMap()
        self.tail: set[int] = set()
        """Documents that are not committed to tantivy yet."""
        self.postings = Postings(self, self.lexical, self.tail)
        self.removed = 0
        """Documents removed since it was made or loaded; what they said is in its files until it is compacted."""
        self._uncommitted = False
        self._holes: set[int] = set()
        self._without_static: list[int] = []

    def __len__(self) -> int:
        return len(self.alive)

    def apply(self, partition: int, items: Iterable[FeedItem]) -> None:
        """Apply feed items in order. Applying an item twice changes nothing."""
        for item in items:
            match item:
                case Put(entry):
                    self._put(partition, entry)
                case Remove(name):
                    self._remove(name)
                case Vectors():
                    self._set_vectors(item)
                case Switched() | Cleared():
                    pass  # the follower's business: nothing of a document changes by itself
        self._settle()

    def commit(self) -> None:
        """Move the tail into the lexical index."""
        if self._uncommitted:
            self.lexical.commit()
            self.tail.clear()
            self._uncommitted = False

    @property
    def unlinked(self) -> int:
        """Vectors that every search scores, because they are not in the graph yet."""
        return max(self.static.unlinked, self.vectors.unlinked)

    @property
    def to_link(self) -> int:
        """Vectors that were put to join a graph, since the index was made."""
        return self.static.to_link + self.vectors.to_link

    def link(self, seconds: float | None = None) -> None:
        """Let vectors join the graph, for about so long; None until all have."""
        self.static.link(seconds)
        self.vectors.link(seconds)

    def embed_terms(self, ordinals: NDArray[np.int64]) -> None:
        """Give documents that have none their static vectors; one without a known term stays without."""
        if self.table is None:
            return
        for start in range(0, len(ordinals), EMBEDDED_AT_ONCE):
            some = ordinals[start : start + EMBEDDED_AT_ONCE]
            rows = self.table.embed(self.terms.rows(some))
            has_terms = rows.any(axis=1)
            self.static.put_each(some[has_terms], rows[has_terms].astype(np.float16))

    def take_vectors(self, other: "IndexReplica") -> int:
        """Take the vectors of documents that say the same there, as `Put` lets them keep theirs; returns how many."""
        taken = 0
        for name, ordinal in self.ordinal_of.items():
            place = other.ordinal_of.get(name)
            if (
                place is not None
                and np.array_equal(self.terms[ordinal], other.terms[place])
                and other.vectors.has(place)
            ):
                self.vectors.put(ordinal, other.vectors.rows(place))
                taken += 1
        return taken

    def put_unless(self, partition: int, entries: Iterable[IndexEntry], changed: Container[str]) -> Compared:
        """Put documents as they were read, but those that `changed` since."""
        inserted: list[str] = []
        without: list[str] = []
        for entry in entries:
            if entry.id in changed:
                continue
            if entry.id not in self.ordinal_of:
                inserted.append(entry.id)
            self._put(partition, entry)
            if not self.vectors.has(self.ordinal_of[entry.id]):
                without.append(entry.id)
        self._settle()
        return Compared(inserted, without)

    def give_vectors(self, terms_then: str, item: Vectors) -> None:
        """Set the vectors of a document that has none, if its terms are still those that they were made of."""
        ordinal = self.ordinal_of.get(item.id)
        if ordinal is None or self.vectors.has(ordinal):
            return
        if np.array_equal(self.terms[ordinal], hashed_text(terms_then)):
            self._set_vectors(item)

    def names_beyond(self, partition: int, known: Container[str]) -> list[str]:
        """The documents of a partition that are not among the known."""
        names = (self.ids[ordinal] for ordinal in self.facets.of(facet("partition", str(partition))))
        return [name for name in names if name not in known]

    def remove_unless(self, names: Iterable[str], changed: Container[str]) -> None:
        """Remove documents, but those that `changed` since they were looked for."""
        for name in names:
            if name not in changed:
                self._remove(name)
        self._settle()

    def sort_episodes(self, names: Iterable[str], rank: Mapping[str, int], done: set[int]) -> None:
        """Sort the episodes of these documents by rank; those without one are newer. What is sorted joins `done`."""
        for name in names:
            ordinal = self.ordinal_of.get(name)
            episode = -1 if ordinal is None else int(self.episode[ordinal])
            if episode < 0 or episode in done:
                continue
            done.add(episode)
            members = sorted(self.episodes[episode], key=lambda member: rank.get(self.ids[member], len(rank)))
            self.episodes[episode] = members
            self.sequence.values[members] = np.arange(len(members), dtype=np.int32)

    def partition_of(self, name: str) -> int | None:
        """The partition of a document; None when it is not here. The one question that any thread may ask."""
        ordinal = self.ordinal_of.get(name)
        return None if ordinal is None else int(self.partition[ordinal])

    def around(self, ordinals: NDArray[np.int64], distance: int) -> list[int]:
        """The documents up to `distance` places before and after each in its episode, without itself; in turn."""
        neighbors: list[int] = []
        episodes: list[int] = self.episode.values[ordinals].tolist()
        places: list[int] = self.sequence.values[ordinals].tolist()
        for episode, place in zip(episodes, places, strict=True):
            if episode >= 0:
                members = self.episodes[episode]
                neighbors += members[max(0, place - distance) : place]
                neighbors += members[place + 1 : place + 1 + distance]
        return neighbors

    def _settle(self) -> None:
        self._close_holes()
        if self._without_static:
            waiting = [ordinal for ordinal in self._without_static if ordinal in self.alive]
            self._without_static.clear()
            self.embed_terms(np.array(waiting, np.int64))
        if len(self.tail) > MAX_TAIL:
            self.commit()

    def _put(self, partition: int, entry: IndexEntry) -> None:
        existing = self.ordinal_of.get(entry.id)
        row = hashed_text(entry.terms)
        if existing is not None and np.array_equal(self.terms[existing], row):
            self._update(existing, entry)
            return
        if existing is not None:
            self._remove(entry.id)
        ordinal = self.append(partition, entry, row)
        self.ordinal_of[entry.id] = ordinal
        keys = self._shared(entry_facets(partition, entry), entry.episode)
        self.facets_of.append(keys)
        self._join_episode(ordinal, entry.episode, existing)
        self.retired_ms.append(entry.retired_ms)
        self.expires_ms.append(entry.expires_ms)
        self.alive.add(ordinal)
        self._without_static.append(ordinal)
        self.facets.add(ordinal, keys)
        self._file(ordinal, entry.terms)

    def _update(self, ordinal: int, entry: IndexEntry) -> None:
        """The same text: the vectors stay, and the lexical index hears only of facets that it knows."""
        self.author[ordinal] = self.author_number(entry.agent_id)
        self.occurred_ms[ordinal], self.recorded_ms[ordinal] = entry.occurred_ms, entry.recorded_ms
        self.retired_ms[ordinal], self.expires_ms[ordinal] = entry.retired_ms, entry.expires_ms
        self.renewed_ms[ordinal], self.confidence[ordinal] = entry.renewed_ms, entry.confidence
        self.importance[ordinal] = entry.importance
        before, keys = self.facets_of[ordinal], entry_facets(int(self.partition[ordinal]), entry)
        self.facets.remove(ordinal, before)
        self.facets.add(ordinal, keys)
        self.facets_of[ordinal] = keys
        if set(lexical_facets(before)) != set(lexical_facets(keys)):
            self.lexical.remove(ordinal)
            self._file(ordinal, entry.terms)

    def _shared(self, keys: tuple[str, ...], episode: str) -> tuple[str, ...]:
        # facet tuples of an episode are mostly equal: as one object they take a seventh of the memory
        members = self.episodes[self.episode_of[episode]] if episode in self.episode_of else []
        before = self.facets_of[members[-1]] if members else ()
        return before if before == keys else keys

    def _file(self, ordinal: int, terms: str) -> None:
        """Hand a document to the lexical index; until the next commit it is in the tail."""
        self.lexical.add(ordinal, terms, lexical_facets(self.facets_of[ordinal]))
        self.tail.add(ordinal)
        self._uncommitted = True

    def _remove(self, name: str) -> None:
        ordinal = self.ordinal_of.pop(name, None)
        if ordinal is None:
            return
        self.removed += 1
        self.alive.discard(ordinal)
        self.tail.discard(ordinal)
        self.facets.remove(ordinal, self.facets_of[ordinal])
        self.facets_of[ordinal] = ()
        self.ids[ordinal], self.id_key[ordinal] = "", 0
        self.terms.clear(ordinal)
        if (episode := int(self.episode[ordinal])) >= 0:
            self._holes.add(episode)
        self.vectors.remove(ordinal)
        self.static.remove(ordinal)
        self.lexical.remove(ordinal)
        self._uncommitted = True

    def _set_vectors(self, item: Vectors) -> None:
        """A document's vectors, unless it is gone or another model made them.

        The same ones again cost no insert: after a rebuild, all of them come again.
        """
        ordinal = self.ordinal_of.get(item.id)
        if ordinal is not None and item.model == self.model and item.dimensions == self.vectors.dimensions:
            rows = np.frombuffer(item.rows, dtype="<f2").reshape(-1, item.dimensions)
            if not np.array_equal(rows, self.vectors.rows(ordinal)):
                self.vectors.put(ordinal, rows.astype(np.float16))

    def _join_episode(self, ordinal: int, name: str, before: int | None) -> None:
        """Last in its episode; with another text than `before`, the ordinal it had, in its old place there."""
        if not name:
            self.episode.append(-1)
            self.sequence.append(0)
            return
        if name not in self.episode_of:
            self.episode_of[name] = len(self.episodes)
            self.episodes.append([])
        episode = self.episode_of[name]
        members = self.episodes[episode]
        place = len(members)
        if before is not None and int(self.episode[before]) == episode:
            place = int(self.sequence[before])
        members[place : place + 1] = [ordinal]
        self.episode.append(episode)
        self.sequence.append(place)

    def _close_holes(self) -> None:
        # those left become neighbors, as in an index that never had the removed documents
        for episode in self._holes:
            members = [member for member in self.episodes[episode] if member in self.alive]
            self.episodes[episode] = members
            self.sequence.values[members] = np.arange(len(members), dtype=np.int32)
        self._holes.clear()


ENTRIES_A_READ = 32
SLICE_S = 0.02
"""For so long the thread that owns an index applies at once, when it can be interrupted: a search waits behind it."""
InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments in the thread that owns an index."""


class FeedGap(MnemologError):
    """A feed cannot be followed from where its reader stands: what it has is to be compared with the documents."""


class FeedTrimmed(FeedGap):
    """The feed no longer holds what a follower has not read."""

    code = "feed_trimmed"


class FeedRewound(FeedGap):
    """The feed has not what a follower has read: the server lost writes that it had shown.

    A crash does that where the file is not synced before every answer, and so does a failover.
    """

    code = "feed_rewound"


class Read(NamedTuple):
    """Entries of a feed, and where its reader stands behind them."""

    entries: list[dict[bytes, bytes]]
    then: FeedPosition


async def read_feed(redis: Client, partition: int, at: FeedPosition, block_ms: int | None) -> Read:
    """The next entries behind `at`; none when there are none (within `block_ms`).

    Raises FeedTrimmed when entries behind `at` were trimmed away before they were read, and FeedRewound when the entry
    at `at` is gone though nobody trimmed it. Each read checks the last entry of the one before, so whatever was read of
    writes that the server lost is noticed, also when others took their place.
    """
    feed, last = PartitionKeys(partition).of_generation(at.generation), Position.parse(at.feed)
    # look back after the read: a trim or a loss between the two is noticed, because entries are only ever removed
    answer: Any = await redis.xread({feed.changes: at.feed}, count=ENTRIES_A_READ, block=block_ms)
    trimmed, is_there = await look_back(redis, feed, at.feed)
    rows: list[tuple[bytes, dict[bytes, bytes]]] = answer[0][1] if answer else []
    if trimmed > last:
        raise FeedTrimmed(f"partition {partition}: the feed is trimmed up to {trimmed} and was read up to {at.feed}")
    if not is_there and trimmed < last:
        raise FeedRewound(f"partition {partition}: the server lost what was read of the feed, up to {at.feed}")
    if not rows:
        return Read([], at)
    covers = at.covers
    for _, fields in rows:
        covers = fields[b"p"].decode() or covers
    then = FeedPosition(generation=at.generation, feed=rows[-1][0].decode(), covers=covers)
    return Read([fields for _, fields in rows], then)


async def end_of_feed(redis: Client | Transaction, keys: GenerationKeys) -> str:
    """The id of the last entry that a feed has had; "0-0" for none."""
    return newest_id(await redis.xrevrange(keys.changes, count=1), await redis.get(keys.trimmed))


def newest_id(rows: Sequence[tuple[bytes, Any]], trimmed: bytes | None) -> str:
    """The id of the last entry that a feed has had, by its last entry now and the note of where it is trimmed."""
    ids = [rows[0][0] if rows else None, trimmed]
    return str(max(Position.parse(one) if one else START for one in ids))


async def trim_feed(redis: Client, partition: int, at: FeedPosition) -> None:
    """Remove what is told up to `at`, and leave a note for followers that had not read it."""
    feed, last = PartitionKeys(partition).of_generation(at.generation), Position.parse(at.feed)
    async with past_memory_limit(redis) as pipe:  # it frees memory
        # in one transaction: whoever finds entries missing also finds the note that they were trimmed, not lost
        pipe.xtrim(feed.changes, minid=str(Position(last.ms, last.seq + 1)), approximate=False)
        pipe.set(feed.trimmed, str(last))
        await pipe.execute()


async def live_generation(redis: Client, partition: int) -> int:
    """The generation that readers of a partition use."""
    return int(await redis.get(PartitionKeys(partition).generation) or 1)


def steps_of(entries: Iterable[dict[bytes, bytes]]) -> deque[list[FeedItem]]:
    """The items of entries, as they may be applied with a search between any two: but for vectors, entry by entry."""
    steps: deque[list[FeedItem]] = deque()
    for fields in entries:
        items, _ = read_entry(fields)
        vectors: list[FeedItem] = [item for item in items if isinstance(item, Vectors)]
        if len(vectors) == len(items):
            steps.extend([item] for item in vectors)
        else:
            steps.append(items)
    return steps


def apply_entries(
    index: IndexReplica, partition: int, entries: Iterable[dict[bytes, bytes]], changed: set[str] | None
) -> tuple[deque[list[FeedItem]], Switched | None]:
    """Apply entries as far as `apply_steps` does in one go, unless they begin with vectors; returns what is left.

    Decoding them in the same turn of the thread spares the event loop a hand-over, which costs more than most entries.
    """
    steps = steps_of(entries)
    if not steps or isinstance(steps[0][0], Vectors):
        return steps, None
    return steps, apply_steps(index, partition, steps, changed)


def apply_steps(
    index: IndexReplica, partition: int, steps: deque[list[FeedItem]], changed: set[str] | None = None
) -> Switched | None:
    """Apply steps, in the thread that owns the index, and take them off: for SLICE_S, then searches have their turn.

    Returns what ends this generation, if anything does; nothing is applied behind that. What is put or removed joins
    `changed`.
    """
    until = time.monotonic() + SLICE_S
    while steps:
        items = steps.popleft()
        index.apply(partition, items)
        for item in items:
            match item:
                case Put(entry) if changed is not None:
                    changed.add(entry.id)
                case Remove(name) if changed is not None:
                    changed.add(name)
                case Switched():
                    steps.clear()
                    return item
                case _:
                    pass
        if time.monotonic() > until:
            break
    return None
