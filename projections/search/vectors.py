"""Vector candidates: exact cosine over few documents, hnswlib over many. The one file that imports hnswlib.

A vector is stored as float16 in a packed matrix, for exact scores, and in the HNSW graph, if there is one, for search
among many. Vectors join the graph some time after they are put: until then each search scores them exactly. hnswlib
allows no search during an insert, so all of this belongs to the replica's one index thread.
"""

import time
from pathlib import Path
from typing import Any

import hnswlib
import numpy as np
from numpy.typing import NDArray

from projections.search.columns import Column
from projections.search.question import BitMap, among, ordinals

Floats = NDArray[np.float32]

EXACT_BELOW = 20_000
"""Matching documents up to which all are scored exactly: about 10 ms for 20,000 rows of 384 (float16)."""
EXACT_OF_MOST_BELOW = 2_000
"""About 1 ms. Above, the graph is used where most documents match, because few of its results are lost."""
MOST = 0.5
"""Share of all documents that counts as most of them."""
M, EF_CONSTRUCTION, EF_SEARCH = 16, 60, 100
"""40,000 static vectors: 117 microseconds to join the graph, 0.91 of the nearest 100 found in 0.7 ms. With
EF_CONSTRUCTION 100 184 and 0.94, with 40 94 and 0.88. What is near but not found is mostly a candidate by its words.
"""
OVER_FETCH = 4
"""Results of the graph for each requested: some do not match the filter, or are further chunks of one document."""
MOST_UNLINKED = 30_000
"""Above, they join the graph even while others arrive: scoring so many takes about 5 ms at 128 dimensions."""
UNLINKED = 256
"""Vectors that may wait to join the graph: each search scores them."""
LINKED_AT_ONCE = 32
"""Vectors that join between two checks of the clock: about 8 ms at 384 dimensions, 4 at 128."""
_ROWS_AT_ONCE = 50_000


class VectorIndex:
    """The vectors of all documents; a document has one a chunk. `dimensions` 0 means that there are none.

    Without a graph it scores what it is asked about, and finds the nearest only by scoring all that match.
    """

    def __init__(self, dimensions: int, *, graph: bool = True, of: type[np.generic] = np.float16) -> None:
        self.dimensions = dimensions
        self._matrix: Column[Any] = Column(of, max(1, dimensions))
        self._document: Column[np.int64] = Column(np.int64)
        self._first: Column[np.int64] = Column(np.int64)
        self._count: Column[np.int32] = Column(np.int32)
        self._graph: hnswlib.Index | None = None
        if graph:
            self._graph = hnswlib.Index(space="ip", dim=max(1, dimensions))
            self._graph.init_index(max_elements=1024, M=M, ef_construction=EF_CONSTRUCTION, random_seed=7)
            self._graph.set_num_threads(1)
        self._linked = 0
        """Rows before this one are in the graph, or removed."""
        self._documents = 0

    def __len__(self) -> int:
        return self._documents

    @property
    def has_graph(self) -> bool:
        """Whether it finds the nearest among many fast."""
        return self._graph is not None

    @property
    def unlinked(self) -> int:
        """Vectors that are not in the graph yet, removed ones among them; 0 without a graph."""
        return 0 if self._graph is None else len(self._matrix) - self._linked

    @property
    def to_link(self) -> int:
        """Vectors that were put to join the graph, since the index was made; 0 without one."""
        return 0 if self._graph is None else len(self._matrix)

    def put(self, ordinal: int, rows: NDArray[Any]) -> None:
        """Set a document's vectors, `(chunks, dimensions)`, rows of unit length; replaces those it had."""
        self.remove(ordinal)
        first = len(self._matrix)
        self._matrix.extend(rows)
        self._document.extend(np.full(len(rows), ordinal))
        self._first.extend_to(ordinal + 1)
        self._count.extend_to(ordinal + 1)
        self._first[ordinal], self._count[ordinal] = first, len(rows)
        self._documents += 1

    def put_each(
        self, ordinals: NDArray[np.int64], rows: NDArray[np.float16], counts: NDArray[np.int64] | None = None
    ) -> None:
        """Set the vectors of documents that have none, `(rows, dimensions) float16`: `counts` (n,) of each, or one."""
        if not len(ordinals):
            return
        counts = np.ones(len(ordinals), np.int64) if counts is None else counts
        first = len(self._matrix) + np.cumsum(counts) - counts
        self._matrix.extend(rows)
        self._document.extend(np.repeat(ordinals, counts))
        self._first.extend_to(int(ordinals.max()) + 1)
        self._count.extend_to(int(ordinals.max()) + 1)
        self._first.values[ordinals], self._count.values[ordinals] = first, counts
        self._documents += len(ordinals)

    def link(self, seconds: float | None = None) -> None:
        """Let vectors join the graph, in order, for about so long; None until all have."""
        if self._graph is None:
            return
        until = None if seconds is None else time.monotonic() + seconds
        while self._linked < len(self._matrix) and (until is None or time.monotonic() < until):
            rows = np.arange(self._linked, min(len(self._matrix), self._linked + LINKED_AT_ONCE))
            self._linked = int(rows[-1]) + 1
            rows = rows[self._document.values[rows] >= 0]
            if rows.size and int(rows[-1]) >= self._graph.get_max_elements():
                self._graph.resize_index(2 * int(rows[-1] + 1))
            if rows.size:
                # one thread: hnswlib allows no search beside an insert, and this is the index thread
                self._graph.add_items(self._matrix.values[rows].astype(np.float32), rows, num_threads=1)

    def remove(self, ordinal: int) -> None:
        """Forget a document's vectors; nothing happens when it has none."""
        if not self.has(ordinal):
            return
        first = int(self._first[ordinal])
        for row in range(first, first + int(self._count[ordinal])):
            if self._graph is not None and row < self._linked:
                self._graph.mark_deleted(row)
            self._matrix[row] = 0
            self._document[row] = -1
        self._count[ordinal] = 0
        self._documents -= 1

    def rows(self, ordinal: int) -> NDArray[Any]:
        """A document's vectors, `(chunks, dimensions)`, as they were put; no rows when it has none."""
        if not self.has(ordinal):
            return np.zeros((0, self.dimensions), np.float16)
        first = int(self._first[ordinal])
        return self._matrix.values[first : first + int(self._count[ordinal])].copy()

    def has(self, ordinal: int) -> bool:
        """True when the document has vectors."""
        return ordinal < len(self._count) and bool(self._count[ordinal])

    def cosine(self, query: Floats, documents: NDArray[np.int64]) -> Floats:
        """Cosine of each document's best chunk with the unit-length query: `(n,) float32`, nan without a vector."""
        cosines = np.full(len(documents), np.nan, np.float32)
        places, rows = self._rows_of(documents)
        if len(rows):
            # not `@`: BLAS sums a row in an order that depends on its place, so equal vectors would not score alike
            scores = np.empty(len(rows), np.float32)
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                part = rows[start : start + _ROWS_AT_ONCE]
                scores[start : start + len(part)] = np.vecdot(self._matrix.values[part].astype(np.float32), query)
            best = np.full(len(documents), -np.inf, np.float32)
            np.maximum.at(best, places, scores)
            scored = np.isfinite(best)
            cosines[scored] = best[scored]
        return cosines

    def max_similarity(self, query: NDArray[np.int8], documents: NDArray[np.int64]) -> NDArray[np.float64]:
        """For vectors of tokens, int8: of each token of a query the best product with a token of a document; their
        mean, `(n,)`, nan for a document without."""
        means = np.full(len(documents), np.nan)
        places, rows = self._rows_of(documents)
        if len(rows) and len(query):
            # exact, in whatever order BLAS sums: whole numbers below 2^24
            products = self._matrix.values[rows].astype(np.float32) @ query.astype(np.float32).T
            starts = np.flatnonzero(np.diff(places, prepend=-1))
            means[places[starts]] = np.maximum.reduceat(products, starts).mean(axis=1, dtype=np.float64)
        return means

    def nearest(self, query: Floats, matching: BitMap, count: int) -> NDArray[np.int64]:
        """Up to `count` of the matching documents, by cosine, best first. Exact unless very many match."""
        return self.nearest_with_ties(query, matching, count)[0][:count]

    def nearest_with_ties(
        self, query: Floats, matching: BitMap, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The nearest `count` documents and all that are as near as the last of them; with their cosines, best first.

        So the caller orders equal ones by something other than this replica's ordinals.
        """
        documents = self._worth_scoring(query, matching, count)
        scores = self.cosine(query, documents)
        scored = np.flatnonzero(~np.isnan(scores))
        if len(scored) > count > 0:
            least = np.partition(scores[scored], len(scored) - count)[len(scored) - count]
            scored = scored[scores[scored] >= least]
        best = scored[np.argsort(-scores[scored], kind="stable")] if count > 0 else scored[:0]
        return documents[best], scores[best]

    def without(self, documents: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the documents have no vector (yet): `(n,) bool`."""
        return self._counts(documents) == 0

    def renumbered(self, documents: NDArray[np.int64]) -> "VectorIndex":
        """The vectors of these documents alone, with their places in `documents` as their ordinals.

        They have to join a new graph: a deleted vector stays in the old one's memory and file.
        """
        places, rows = self._rows_of(documents)
        vectors = VectorIndex(self.dimensions, graph=self.has_graph)
        vectors._matrix = Column.of(self._matrix.values[rows])
        vectors._document = Column.of(places)
        counts = self._counts(documents)
        vectors._count = Column.of(counts.astype(np.int32))
        vectors._first = Column.of(np.cumsum(counts) - counts)
        vectors._documents = int(np.count_nonzero(counts))
        return vectors

    def _worth_scoring(self, query: Floats, matching: BitMap, count: int) -> NDArray[np.int64]:
        """All that match, or what the graph finds if that is too many to score."""
        if not len(self._matrix) or not matching:
            return np.empty(0, np.int64)
        exact_below = EXACT_OF_MOST_BELOW if len(matching) > MOST * len(self) else EXACT_BELOW
        if self._graph is not None and len(matching) > exact_below:
            depth = min(count * OVER_FETCH, self._linked)
            self._graph.set_ef(max(EF_SEARCH, depth))
            try:
                labels, _ = self._graph.knn_query(query, k=depth, num_threads=1)
                documents = among(self._document.values[labels[0].astype(np.int64)], matching)
            except RuntimeError:  # hnswlib raises when deletions leave it fewer than k
                documents = np.empty(0, np.int64)
            if len(documents) >= count:
                return np.union1d(documents, among(self._document.values[self._linked :], matching))
        return ordinals(matching)

    def _counts(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        counts = np.zeros(len(documents), np.int64)
        within = documents < len(self._count)
        counts[within] = self._count.values[documents[within]]
        return counts

    def _rows_of(self, documents: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        counts = self._counts(documents)
        places = np.repeat(np.arange(len(documents)), counts)
        ends = np.cumsum(counts)
        offsets = np.arange(len(places)) - np.repeat(ends - counts, counts)
        return places, self._first.values[documents[places]] + offsets

    def save(self, folder: Path, name: str = "vector") -> None:
        """Write the vectors into files of an existing folder that begin with `name`, and the graph as it is."""
        np.save(folder / f"{name}s.npy", self._matrix.values)
        np.save(folder / f"{name}-documents.npy", self._document.values)
        np.save(folder / f"{name}-first.npy", self._first.values)
        np.save(folder / f"{name}-count.npy", self._count.values)
        np.save(folder / f"{name}-linked.npy", np.int64(self._linked))
        if self._graph is not None:
            self._graph.save_index(str(folder / f"{name}s.hnsw"))

    @classmethod
    def load(
        cls, folder: Path, dimensions: int, name: str = "vector", *, graph: bool = True, saved: bool = True
    ) -> "VectorIndex":
        """Read what `save` wrote; a graph that was not `saved` is to be made. Raises OSError for a missing file."""
        vectors = cls(dimensions, graph=graph)
        vectors._matrix = Column.of(np.load(folder / f"{name}s.npy"))
        vectors._document = Column.of(np.load(folder / f"{name}-documents.npy"))
        vectors._first = Column.of(np.load(folder / f"{name}-first.npy"))
        vectors._count = Column.of(np.load(folder / f"{name}-count.npy"))
        vectors._documents = int(np.count_nonzero(vectors._count.values))
        if graph and saved:
            vectors._graph = hnswlib.Index(space="ip", dim=max(1, dimensions))
            try:
                vectors._graph.load_index(
                    str(folder / f"{name}s.hnsw"), max_elements=max(1024, 2 * len(vectors._matrix))
                )
            except RuntimeError as error:
                raise OSError(str(error)) from error
            vectors._graph.set_num_threads(1)
            vectors._linked = int(np.load(folder / f"{name}-linked.npy"))
        return vectors
