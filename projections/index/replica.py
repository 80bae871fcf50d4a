"""The index of one process: every searchable document, packed, with lexical and vector candidates and exact scoring.

All of it belongs to one thread (see `ReplicaService`): a search sees the index between two changes, never half of one.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from projections.documents.document import IndexEntry
from projections.feed import FeedItem, Put, Remove, Switched, Vectors
from projections.index.columns import Column
from projections.index.filters import BitMap, Facets, facet
from projections.index.lexical import Lexical
from projections.index.vectors import Vectors as VectorIndex
from projections.ranking import terms

MAX_TAIL = 256
"""Documents not committed to tantivy yet; a search looks at each of them, so they are few."""


class IndexReplica:
    """Applies the change feed; answers which documents match, and who is near whom."""

    def __init__(self, folder: Path, dimensions: int, model: str) -> None:
        self.model = model
        self.lexical = Lexical(folder)
        self.vectors = VectorIndex(dimensions)
        self.facets = Facets()
        self.ids: list[str] = []
        self.ordinal_of: dict[str, int] = {}
        self.terms: list[bytes] = []
        self.facets_of: list[tuple[str, ...]] = []
        self.authors: list[str] = []
        self.author_of: dict[str, int] = {}
        self.episode_of: dict[str, int] = {}
        self.episodes: list[list[int]] = []
        self.partition: Column[np.int16] = Column(np.int16)
        self.author: Column[np.int32] = Column(np.int32)
        self.episode: Column[np.int32] = Column(np.int32)
        self.sequence: Column[np.int32] = Column(np.int32)
        self.occurred_ms: Column[np.int64] = Column(np.int64)
        self.recorded_ms: Column[np.int64] = Column(np.int64)
        self.retired_ms: Column[np.int64] = Column(np.int64)
        self.expires_ms: Column[np.int64] = Column(np.int64)
        self.importance: Column[np.float32] = Column(np.float32)
        self.confidence: Column[np.float32] = Column(np.float32)
        self.alive = BitMap()
        self.tail: set[int] = set()
        self._uncommitted = False

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
                case Switched():
                    self.drop_partition(partition)
        if len(self.tail) > MAX_TAIL:
            self.commit()

    def commit(self) -> None:
        """Move the tail into the lexical index."""
        if self._uncommitted:
            self.lexical.commit()
            self.tail.clear()
            self._uncommitted = False

    def drop_partition(self, partition: int) -> None:
        """Remove every document of a partition (its feed starts again from the beginning)."""
        for ordinal in list(self.facets.of(facet("partition", str(partition)))):
            self._remove(self.ids[ordinal])

    def terms_of(self, ordinal: int) -> list[str]:
        """The document's terms, in order."""
        return self.terms[ordinal].decode().split()

    def author_terms(self, ordinals: NDArray[np.int64]) -> list[list[str]]:
        """The terms of each document's author (its agent)."""
        authors: list[int] = self.author.values[ordinals].tolist()
        return [_name_terms(self.authors[author]) for author in authors]

    def around(self, ordinal: int, reach: int) -> list[int]:
        """The documents up to `reach` places before and after it in its episode, without itself."""
        episode = int(self.episode[ordinal])
        if episode < 0:
            return []
        members, place = self.episodes[episode], int(self.sequence[ordinal])
        near = members[max(0, place - reach) : place] + members[place + 1 : place + 1 + reach]
        return [other for other in near if other in self.alive]

    def _put(self, partition: int, entry: IndexEntry) -> None:
        known = self.ordinal_of.get(entry.id)
        encoded = entry.terms.encode()
        if known is not None:
            if self.terms[known] == encoded:
                self._update(known, entry)
                return
            self._remove(entry.id)
        ordinal = len(self.ids)
        self.ids.append(entry.id)
        self.ordinal_of[entry.id] = ordinal
        self.terms.append(encoded)
        keys = _facets(partition, entry)
        self.facets_of.append(keys)
        self.partition.append(partition)
        self.author.append(self._author(entry.agent_id))
        self._join_episode(ordinal, entry.episode)
        self.occurred_ms.append(entry.occurred_ms)
        self.recorded_ms.append(entry.recorded_ms)
        self.retired_ms.append(entry.retired_ms)
        self.expires_ms.append(entry.expires_ms)
        self.importance.append(entry.importance)
        self.confidence.append(entry.confidence)
        self.alive.add(ordinal)
        self.facets.add(ordinal, keys)
        self.lexical.add(ordinal, entry.terms, keys)
        self.tail.add(ordinal)
        self._uncommitted = True

    def _update(self, ordinal: int, entry: IndexEntry) -> None:
        """The same text, so only numbers and bitmaps change; who may read is not in the lexical index."""
        self.retired_ms[ordinal], self.expires_ms[ordinal] = entry.retired_ms, entry.expires_ms
        self.importance[ordinal], self.confidence[ordinal] = entry.importance, entry.confidence
        keys = _facets(int(self.partition[ordinal]), entry)
        self.facets.remove(ordinal, self.facets_of[ordinal])
        self.facets.add(ordinal, keys)
        self.facets_of[ordinal] = keys

    def _remove(self, name: str) -> None:
        ordinal = self.ordinal_of.pop(name, None)
        if ordinal is None:
            return
        self.alive.discard(ordinal)
        self.tail.discard(ordinal)
        self.facets.remove(ordinal, self.facets_of[ordinal])
        self.facets_of[ordinal] = ()
        self.ids[ordinal], self.terms[ordinal] = "", b""
        self.vectors.remove(ordinal)
        self.lexical.remove(ordinal)
        self._uncommitted = True

    def _set_vectors(self, item: Vectors) -> None:
        """A document's vectors, unless it is gone or another model made them."""
        ordinal = self.ordinal_of.get(item.id)
        if ordinal is not None and item.model == self.model and item.dimensions == self.vectors.dimensions:
            rows = np.frombuffer(item.rows, dtype="<f2").reshape(-1, item.dimensions)
            self.vectors.put(ordinal, rows.astype(np.float16))

    def _author(self, name: str) -> int:
        if name not in self.author_of:
            self.author_of[name] = len(self.authors)
            self.authors.append(name)
        return self.author_of[name]

    def _join_episode(self, ordinal: int, name: str) -> None:
        if not name:
            self.episode.append(-1)
            self.sequence.append(0)
            return
        if name not in self.episode_of:
            self.episode_of[name] = len(self.episodes)
            self.episodes.append([])
        episode = self.episode_of[name]
        self.episode.append(episode)
        self.sequence.append(len(self.episodes[episode]))
        self.episodes[episode].append(ordinal)


def _name_terms(name: str) -> list[str]:
    return terms(name) if name else []


def _facets(partition: int, entry: IndexEntry) -> tuple[str, ...]:
    """The facet values of a document. A memory for some readers only has `restricted` and a value for each of them."""
    named: list[tuple[str, str]] = [
        ("partition", str(partition)),
        ("tenant", entry.tenant),
        ("project", entry.project),
        ("kind", entry.kind),
        ("session", entry.session_id),
        ("agent", entry.agent_id),
        ("user", entry.user_id),
        ("retired", "yes" if entry.retired_ms else ""),
        ("expiring", "yes" if entry.expires_ms else ""),
        ("restricted", "yes" if entry.audience else ""),
    ]
    keys = [facet(name, value) for name, value in named if value or name == "project"]
    keys += [facet("tag", tag) for tag in entry.tags]
    keys += [facet("reader", reader) for reader in entry.audience if reader]
    return tuple(keys)


def group(name: str, values: Sequence[str]) -> list[str]:
    """One filter group: the facet has any of the values."""
    return [facet(name, value) for value in values]
