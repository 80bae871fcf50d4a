"""The index of one process: every searchable document, packed; and the change feed that fills it.

All of the index belongs to one thread (see `ReplicaService`): a search sees it between two changes, never half of one.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ingest.errors import MnemologError
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position, stored_position
from ingest.log.scripts import look_back
from ingest.platform.connections import Client, Transaction, past_memory_limit
from projections.index.lexical import MatchingWords
from projections.kernel.module import native
from projections.nouns.index_entry import IndexEntry
from projections.search.candidates import OF_ENTRY, DocumentColumns
from projections.search.question import Facets, entry_facets, facet
from projections.store.feed import Cleared, FeedItem, Put, Remove, Switched, Vectors, read_entry
from projections.vectors.bitmaps import BitMap
from projections.vectors.columns import Column, TermRows, hashed_text
from projections.vectors.static import StaticTable
from projections.vectors.vectors import VectorIndex

EMBEDDED_AT_ONCE = 1_000
"""Documents whose terms become static vectors together."""
MATCHING_CACHED = 8
"""Filters whose documents are cached until the next change: at most 9 bytes a document each."""
CHANGING = (*OF_ENTRY, "retired_ms", "expires_ms")
"""The columns that are fields of an index entry."""
COLUMNS = ("partition", "author", "episode", "sequence", *CHANGING)
"""The attributes of a replica that are columns, one row a document, and saved."""


class FeedPosition(Struct, frozen=True, kw_only=True):
    """A position in one partition's feed: the last entry that was read, and the log position that it covers."""

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
    """Applies the change feed; holds which documents match what, and their neighbors."""

    def __init__(self, dimensions: int, model: str, table: StaticTable | None = None) -> None:
        """`dimensions` are those of the model's vectors; `table` gives every document a static one.

        By that, a document is found until it has the model's.
        """
        super().__init__(VectorIndex(dimensions), VectorIndex(0 if table is None else table.dimensions, graph=False))
        self.model = model
        self.table = table
        self.facets = Facets()
        self.ordinal_of: dict[str, int] = {}
        self.facets_of: list[tuple[str, ...]] = []
        self.episode_of: dict[str, int] = {}
        self.episodes: list[list[int]] = []
        self.earlier: Column[np.int32] = Column(np.int32)
        """The document before each in its episode, -1 for none; a search reads it for some hundred at once."""
        self.later: Column[np.int32] = Column(np.int32)
        """The document after each."""
        self.retired_ms: Column[np.int64] = Column(np.int64)
        self.expires_ms: Column[np.int64] = Column(np.int64)
        self.alive = BitMap()
        self.postings = native.Postings()
        self.matching: dict[bytes, MatchingWords] = {}
        """The documents of filters that were asked last (`embedded.matches`), and what they say."""
        self.removed = 0
        """Documents removed since it was made or loaded; their words are in its memory until it is compacted."""
        self._holes: set[int] = set()
        self._without_static: list[int] = []

    def __len__(self) -> int:
        return len(self.alive)

    def apply(self, partition: int, items: Iterable[FeedItem]) -> None:
        """Apply feed items in order. Applying an item twice changes nothing."""
        entries: dict[str, IndexEntry] = {}
        vectors: dict[str, Vectors] = {}
        for item in items:
            match item:
                case Put(entry):
                    if entry.id in entries:
                        self._put_each(partition, entries)
                    if entry.id in vectors:  # they are of the text before
                        self._set_vectors([vectors.pop(entry.id)])
                    entries[entry.id] = entry
                case Remove(name):
                    self._put_each(partition, entries)
                    vectors.pop(name, None)
                    self._remove(name)
                case Vectors():
                    if item.model == self.model and item.dimensions == self.vectors.dimensions:
                        self._put_each(partition, entries)
                        vectors[item.id] = item
                case Switched() | Cleared():
                    pass  # the follower handles these: they change no document
        self._put_each(partition, entries)
        self._set_vectors(vectors.values())
        self._settle()

    @property
    def unlinked(self) -> int:
        """Vectors that every search scores, because they are not in the graph yet."""
        return self.vectors.unlinked

    @property
    def to_link(self) -> int:
        """Vectors that were put to join a graph, since the index was made."""
        return self.vectors.to_link

    def link(self, seconds: float | None = None) -> None:
        """Let vectors join the graph, for about so long; None until all have."""
        self.vectors.link(seconds)

    def embed_terms(self, ordinals: NDArray[np.int64]) -> None:
        """Give documents that have none their static vectors; one without a known term stays without."""
        if self.table is None:
            return
        for start in range(0, len(ordinals), EMBEDDED_AT_ONCE):
            some = ordinals[start : start + EMBEDDED_AT_ONCE]
            rows = self.table.embed(self.terms.rows(some))
            has_terms = rows.any(axis=1)
            self.static.put_each(some[has_terms], rows[has_terms])

    def take_vectors(self, other: "IndexReplica") -> int:
        """Take the vectors of documents that say the same there, as `Put` lets them keep theirs; returns how many."""
        taken = 0
        for name, ordinal in self.ordinal_of.items():
            theirs = other.ordinal_of.get(name)
            if theirs is None or not other.vectors.has(theirs):
                continue
            if np.array_equal(self.terms[ordinal], other.terms[theirs]):
                self.vectors.take(ordinal, other.vectors, theirs)
                taken += 1
        return taken

    def put_unless(self, partition: int, entries: Iterable[IndexEntry], changed: Container[str]) -> Compared:
        """Put documents as they were read, except those that `changed` since."""
        inserted: list[str] = []
        put: dict[str, IndexEntry] = {}
        for entry in entries:
            if entry.id in changed:
                continue
            if entry.id not in self.ordinal_of and entry.id not in put:
                inserted.append(entry.id)
            put[entry.id] = entry
        names = list(put)
        self._put_each(partition, put)
        self._settle()
        without = [name for name in names if not self.vectors.has(self.ordinal_of[name])]
        return Compared(inserted, without)

    def give_vectors(self, terms_then: str, item: Vectors) -> None:
        """Set the vectors of a document that has none, if it still has the terms that they were made of."""
        ordinal = self.ordinal_of.get(item.id)
        if ordinal is None or self.vectors.has(ordinal):
            return
        if np.array_equal(self.terms[ordinal], hashed_text(terms_then)):
            self._set_vectors([item])

    def names_beyond(self, partition: int, existing: Container[str]) -> list[str]:
        """The documents of a partition that are not among the existing ones."""
        names = (self.ids[ordinal] for ordinal in self.facets.of(facet("partition", str(partition))))
        return [name for name in names if name not in existing]

    def remove_unless(self, names: Iterable[str], changed: Container[str]) -> None:
        """Remove documents, except those that `changed` in between."""
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
            self._set_members(episode, members)

    def partition_of(self, name: str) -> int | None:
        """The partition of a document; None when it is not here. Any thread may call this, and nothing else."""
        ordinal = self.ordinal_of.get(name)
        return None if ordinal is None else int(self.partition[ordinal])

    def link_episodes(self) -> None:
        """Make `earlier` and `later` of `episodes`."""
        for column in (self.earlier, self.later):
            column.extend_to(len(self.ids))
            column.values[:] = -1
        for members in self.episodes:
            self._link_members(members)

    def _link_members(self, members: Sequence[int]) -> None:
        if members:
            self.earlier.values[members] = [-1, *members[:-1]]
            self.later.values[members] = [*members[1:], -1]

    def _set_members(self, episode: int, members: list[int]) -> None:
        self.episodes[episode] = members
        self.sequence.values[members] = np.arange(len(members), dtype=np.int32)
        self._link_members(members)

    def _settle(self) -> None:
        # the remaining documents become neighbors, as in an index that never had the removed ones
        for episode in self._holes:
            self._set_members(episode, [member for member in self.episodes[episode] if member in self.alive])
        self._holes.clear()
        if self._without_static:
            waiting = [ordinal for ordinal in self._without_static if ordinal in self.alive]
            self._without_static.clear()
            self.embed_terms(np.array(waiting, np.int64))

    def _put_each(self, partition: int, entries: dict[str, IndexEntry]) -> None:
        """Put documents, each named once, and forget the entries."""
        rows = TermRows.of(entry.terms for entry in entries.values())
        ends = np.cumsum(rows.lengths).tolist()
        new: list[tuple[IndexEntry, int | None]] = []
        selected: list[bool] = []
        for entry, end, length in zip(entries.values(), ends, rows.lengths.tolist(), strict=True):
            existing = self.ordinal_of.get(entry.id)
            has_text = existing is not None and np.array_equal(self.terms[existing], rows.hashes[end - length : end])
            if existing is not None and has_text:
                self._update(existing, entry)
            else:
                new.append((entry, existing))
            selected.append(not has_text)
        if new:
            of_new = np.array(selected, np.bool_)
            hashes = rows.hashes[np.repeat(of_new, rows.lengths)]
            self._add_each(partition, new, TermRows(hashes, rows.lengths[of_new]))
        if entries:
            self.matching.clear()
        entries.clear()

    def _add_each(self, partition: int, new: Sequence[tuple[IndexEntry, int | None]], rows: TermRows) -> None:
        """Add documents, each with the ordinal of its text before, if it has one; `rows` are their terms."""
        entries = [entry for entry, _ in new]
        for entry, existing in new:
            if existing is not None:
                self._remove(entry.id)
        ordinals = self.extend([partition] * len(entries), entries, rows)
        self.retired_ms.extend(np.array([entry.retired_ms for entry in entries], np.int64))
        self.expires_ms.extend(np.array([entry.expires_ms for entry in entries], np.int64))
        first = int(ordinals[0])
        for ordinal, (entry, existing) in enumerate(new, first):
            self.ordinal_of[entry.id] = ordinal
            # facet tuples of an episode are mostly equal: as one object they take a seventh of the memory
            keys = entry_facets(partition, entry)
            members = self.episodes[self.episode_of[entry.episode]] if entry.episode in self.episode_of else []
            keys = self.facets_of[members[-1]] if members and self.facets_of[members[-1]] == keys else keys
            self.facets_of.append(keys)
            self._join_episode(ordinal, entry.episode, existing)
            self.facets.add(ordinal, keys)
        self.alive.add_range(first, first + len(new))
        self._without_static += ordinals.tolist()
        self.postings.add_each(first, rows.hashes, rows.lengths, [entry.terms for entry in entries])

    def _update(self, ordinal: int, entry: IndexEntry) -> None:
        """The same text: the vectors stay."""
        self.author[ordinal] = self.author_number(entry.agent_id)
        for name in CHANGING:
            getattr(self, name)[ordinal] = getattr(entry, name)
        before, keys = self.facets_of[ordinal], entry_facets(int(self.partition[ordinal]), entry)
        self.facets.remove(ordinal, before)
        self.facets.add(ordinal, keys)
        self.facets_of[ordinal] = keys

    def _remove(self, name: str) -> None:
        ordinal = self.ordinal_of.pop(name, None)
        if ordinal is None:
            return
        self.removed += 1
        self.matching.clear()
        self.alive.discard(ordinal)
        self.facets.remove(ordinal, self.facets_of[ordinal])
        self.facets_of[ordinal] = ()
        self.ids[ordinal], self.id_key[ordinal] = "", 0
        self.terms.clear(ordinal)
        if (episode := int(self.episode[ordinal])) >= 0:
            self._holes.add(episode)
            self.earlier[ordinal] = self.later[ordinal] = -1
        self.vectors.remove(ordinal)
        self.static.remove(ordinal)

    def _set_vectors(self, items: Iterable[Vectors]) -> None:
        """The vectors of documents, each named once, unless one is gone or another model made them."""
        ordinals: list[int] = []
        rows: list[NDArray[np.float16]] = []
        for item in items:
            ordinal = self.ordinal_of.get(item.id)
            if ordinal is not None and item.model == self.model and item.dimensions == self.vectors.dimensions:
                ordinals.append(ordinal)
                rows.append(np.frombuffer(item.rows, dtype="<f2").reshape(-1, item.dimensions))
        if ordinals:
            counts = np.array([len(row) for row in rows], np.int64)
            self.vectors.put_each(np.array(ordinals, np.int64), np.concatenate(rows), counts)

    def _join_episode(self, ordinal: int, name: str, before: int | None) -> None:
        """Last in its episode; with a new text, in the place there of `before`, the ordinal it had."""
        episode, place, earlier, later = -1, 0, -1, -1
        if name:
            episode = self.episode_of.setdefault(name, len(self.episodes))
            if episode == len(self.episodes):
                self.episodes.append([])
            members = self.episodes[episode]
            same = before is not None and int(self.episode[before]) == episode
            place = int(self.sequence[before]) if before is not None and same else len(members)
            members[place : place + 1] = [ordinal]
            if place > 0:
                earlier = members[place - 1]
                self.later[earlier] = ordinal
            if place + 1 < len(members):
                later = members[place + 1]
                self.earlier[later] = ordinal
        self.episode.append(episode)
        self.sequence.append(place)
        self.earlier.append(earlier)
        self.later.append(later)


ENTRIES_A_READ = 32
SLICE_S = 0.02
"""For so long the thread that owns an index applies changes at a time: a search waits for it."""
InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments in the thread that owns an index."""


class FeedGap(MnemologError):
    """A feed cannot be followed from a position: the index has to be compared with the documents."""


class FeedTrimmed(FeedGap):
    """The feed no longer holds what a follower has not read."""

    code = "feed_trimmed"


class FeedRewound(FeedGap):
    """The feed lacks what a follower has read: the server lost writes.

    A crash does that if the file is not synced before every answer, and so does a failover.
    """

    code = "feed_rewound"


class Read(NamedTuple):
    """Entries of a feed, and the position after them."""

    entries: list[dict[bytes, bytes]]
    then: FeedPosition


async def read_feed(redis: Client, partition: int, at: FeedPosition, block_ms: int | None) -> Read:
    """The next entries after `at`; an empty list without any (within `block_ms`).

    Raises FeedTrimmed when entries after `at` were trimmed away before they were read, and FeedRewound when the entry
    at `at` is gone though it was not trimmed. Each read checks the last entry of the previous read, so a loss of writes
    that were read is noticed, also when others took their place.
    """
    feed, last = PartitionKeys(partition).of_generation(at.generation), Position.parse(at.feed)
    # look back after the read: a trim or a loss between the two is noticed, because entries are only ever removed
    answer: Any = await redis.xread({feed.changes: at.feed}, count=ENTRIES_A_READ, block=block_ms)
    trimmed, is_there = await look_back(redis, feed, at.feed)
    rows: list[tuple[bytes, dict[bytes, bytes]]] = answer[0][1] if answer else []
    if trimmed > last:
        raise FeedTrimmed(f"partition {partition}: the feed is trimmed up to {trimmed}, but only read up to {at.feed}")
    if not is_there and trimmed < last:
        raise FeedRewound(f"partition {partition}: the server lost feed entries already read, up to {at.feed}")
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
    return str(max(stored_position(rows[0][0] if rows else trimmed), stored_position(trimmed)))


async def trim_feed(redis: Client, partition: int, at: FeedPosition) -> None:
    """Remove the entries up to `at`, and leave a note for followers that had not read them."""
    feed, last = PartitionKeys(partition).of_generation(at.generation), Position.parse(at.feed)
    async with past_memory_limit(redis) as pipe:  # it frees memory
        # in one transaction: a reader that misses entries also sees the note that they were trimmed, not lost
        pipe.xtrim(feed.changes, minid=str(Position(last.ms, last.seq + 1)), approximate=False)
        pipe.set(feed.trimmed, str(last))
        await pipe.execute()


async def live_generation(redis: Client | Transaction, partition: int) -> int:
    """The generation that readers of a partition use."""
    return int(await redis.get(PartitionKeys(partition).generation) or 1)


def steps_of(entries: Iterable[dict[bytes, bytes]]) -> deque[list[FeedItem]]:
    """The items of entries, in steps between which a search may run."""
    return deque(items for items, _ in map(read_entry, entries) if items)


def apply_entries(
    index: IndexReplica, partition: int, entries: Iterable[dict[bytes, bytes]], changed: set[str] | None
) -> tuple[deque[list[FeedItem]], Switched | None]:
    """Apply entries as far as `apply_steps` does in one go, unless they begin with vectors; returns the other steps.

    Decoding them in the same turn of the thread spares the event loop a hand-over, which costs more than most entries.
    """
    steps = steps_of(entries)
    if not steps or isinstance(steps[0][0], Vectors):
        return steps, None
    return steps, apply_steps(index, partition, steps, changed)


def apply_steps(
    index: IndexReplica, partition: int, steps: deque[list[FeedItem]], changed: set[str] | None = None
) -> Switched | None:
    """Apply steps, in the thread that owns the index, and remove them: for SLICE_S, then searches have their turn.

    Returns what ends this generation, if anything does; nothing is applied after that. What is put or removed is added
    to `changed`.
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
