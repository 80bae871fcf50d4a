"""What a ranking knows of documents: one row of columns for each, named by its ordinal."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from projections.documents.index_entry import IndexEntry
from projections.search.columns import Column
from projections.search.terms import terms
from projections.search.term_rows import Hashes, TermColumn, TermRows
from projections.search.vectors import VectorIndex


class DocumentColumns:
    """The documents of an index, or those that a question has met."""

    def __init__(self, vectors: VectorIndex, static: VectorIndex) -> None:
        """`vectors` are to hold those of the model, `static` the static ones."""
        self.vectors, self.static = vectors, static
        self.ids: list[str] = []
        self.terms = TermColumn()
        self.authors: list[str] = []
        self.author_of: dict[str, int] = {}
        self.id_key: Column[np.uint64] = Column(np.uint64)
        """The first eight bytes of the id, big endian: sorts as the ids do, as far as it goes."""
        self.partition: Column[np.int16] = Column(np.int16)
        self.author: Column[np.int32] = Column(np.int32)
        self.episode: Column[np.int32] = Column(np.int32)
        """-1 for a document outside any."""
        self.sequence: Column[np.int32] = Column(np.int32)
        """The place in the episode; neighbours differ by 1."""
        self.occurred_ms: Column[np.int64] = Column(np.int64)
        self.recorded_ms: Column[np.int64] = Column(np.int64)
        self.renewed_ms: Column[np.int64] = Column(np.int64)
        self.importance: Column[np.float32] = Column(np.float32)
        self.confidence: Column[np.float64] = Column(np.float64)

    def append(self, partition: int, entry: IndexEntry, row: Hashes) -> int:
        """The next document's ordinal; `row` are its terms. Its place in an episode is not set."""
        self.ids.append(entry.id)
        self.id_key.append(packed(entry.id))
        self.terms.append(row)
        self.partition.append(partition)
        self.author.append(self.author_number(entry.agent_id))
        self.occurred_ms.append(entry.occurred_ms)
        self.recorded_ms.append(entry.recorded_ms)
        self.renewed_ms.append(entry.renewed_ms)
        self.importance.append(entry.importance)
        self.confidence.append(entry.confidence)
        return len(self.ids) - 1

    def extend(self, partitions: Sequence[int], entries: Sequence[IndexEntry], rows: TermRows) -> NDArray[np.int64]:
        """The ordinals of the next documents; `rows` are their terms. Their places in episodes are not set."""
        first = len(self.ids)
        self.ids += [entry.id for entry in entries]
        self.terms.extend(rows)
        self.id_key.extend(np.array([packed(entry.id) for entry in entries], np.uint64))
        self.partition.extend(np.array(partitions, np.int16))
        self.author.extend(np.array([self.author_number(entry.agent_id) for entry in entries], np.int32))
        self.occurred_ms.extend(np.array([entry.occurred_ms for entry in entries], np.int64))
        self.recorded_ms.extend(np.array([entry.recorded_ms for entry in entries], np.int64))
        self.renewed_ms.extend(np.array([entry.renewed_ms for entry in entries], np.int64))
        self.importance.extend(np.array([entry.importance for entry in entries], np.float32))
        self.confidence.extend(np.array([entry.confidence for entry in entries], np.float64))
        return np.arange(first, len(self.ids))

    def author_number(self, name: str) -> int:
        """The number of an author in `author`; a new one gets the next."""
        if name not in self.author_of:
            self.author_of[name] = len(self.authors)
            self.authors.append(name)
        return self.author_of[name]

    def author_terms(self, ordinals: NDArray[np.int64]) -> dict[int, Sequence[str]]:
        """The terms of the name of each author (agent) of these documents, by its number."""
        authors: list[int] = np.unique(self.author.values[ordinals]).tolist()
        return {author: _name_terms(self.authors[author]) for author in authors}

    def said(self, ordinals: NDArray[np.int64], terms: Sequence[str]) -> NDArray[np.bool_]:
        """(n, terms), which of the terms each document says."""
        return self.terms.rows(ordinals).counts(terms) > 0

    def is_of(self, prefix: str, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,), which of the documents have ids with this prefix, of four characters."""
        return self.id_key.values[ordinals] >> np.uint64(32) == packed(prefix) >> 32


def packed(name: str) -> int:
    """The first eight bytes of a name as a number."""
    return int.from_bytes(name.encode()[:8].ljust(8, b"\0"))


@lru_cache(maxsize=4_096)
def _name_terms(name: str) -> Sequence[str]:
    return tuple(terms(name)) if name else ()
