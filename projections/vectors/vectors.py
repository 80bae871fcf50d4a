"""Vector candidates: exact cosine over few documents, an hnswlib graph over many. Alone imports hnswlib.

A vector is stored as int8 with a scale, in a packed matrix. From GRAPH_FROM vectors on, they join an HNSW graph by
their first GRAPH_DIMENSIONS principal components; what it finds is scored exactly. They join some time after they are
put: until then each search scores them. A filter that few documents match, and many vectors that wait for the graph,
are searched by sign codes (one bit a component, of the vector minus the mean), in time proportional to all vectors.
hnswlib allows no search during an insert, so all of this belongs to the replica's one index thread.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import hnswlib
import numpy as np
from numpy.typing import NDArray

from projections.kernel.module import native
from projections.vectors.bitmaps import BitMap, Matching, among, bitmap
from projections.vectors.columns import Column, ascending, with_room

Floats = NDArray[np.float32]
Bytes = NDArray[np.int8]

EXACT_BELOW = 5_000
"""Matching documents up to which all are scored exactly: 0.1 ms for 5,000 rows of 384."""
GRAPH_FROM = 20_000
"""Vectors from which the graph is used: of 31,000 (dev sets, 384 dimensions) it finds the nearest in 0.26 ms and the
codes in 0.27; scoring all takes 0.64."""
GRAPH_SHARE = 0.25
"""Share of the documents that match, at least, for the graph: of fewer it finds too few."""
FILTERED_BELOW = 0.9
"""Share of the documents that match from which the others are dropped after a search, not during it."""
GRAPH_DIMENSIONS = 96
"""A vector takes some 500 bytes in the graph, and would take 1,700 with its 384 components."""
M, EF_CONSTRUCTION = 12, 60
IN_GRAPH = 600
"""Results of the graph that are scored. Of the nearest 50 of 31,000, 98.5 % are among them (with 400: 97.5)."""
SCORED = 1_000
"""Nearest codes that are scored: of the nearest 50 of 31,000, 99.6 % are among them."""
MEAN_OF = 10_000
"""Vectors whose mean is the zero of the codes. It is taken again when there are twice as many. Also those whose
principal components the graph uses."""
MOST_UNLINKED = 5_000
"""Above, they join the graph even while others arrive: scoring so many takes 0.1 ms."""
UNLINKED = 256
"""Vectors that may wait to join the graph: each search scores them."""
LINKED_AT_ONCE = 128
"""Vectors that join between two checks of the clock: about 4 ms."""
_ROWS_AT_ONCE = 50_000


def quantized(rows: NDArray[Any]) -> tuple[Bytes, Floats]:
    """(n, dimensions) int8 of rows of unit length, and (n,) the scale that makes each of unit length again."""
    # a model that divides by zero must not stop the index
    rows = np.nan_to_num(rows.astype(np.float32), posinf=0.0, neginf=0.0)
    return native.quantize(rows)


class VectorColumns(NamedTuple):
    """The vectors of all documents, packed."""

    matrix: Bytes
    """(vectors, dimensions)"""
    scale: Floats
    """(vectors,), what makes each of unit length again."""
    first: NDArray[np.int64]
    """(documents,), a document's first vector."""
    counts: NDArray[np.int32]
    """(documents,), how many it has."""


class VectorIndex:
    """The vectors of all documents; a document has one a chunk. `dimensions` 0 means that there are none."""

    def __init__(self, dimensions: int, *, graph: bool = True) -> None:
        """Without `graph` many are searched by codes: where most have left, because they have better vectors."""
        self.dimensions, self.has_graph = dimensions, graph
        self.documents = BitMap()
        """Those that have vectors."""
        self._matrix: Column[np.int8] = Column(np.int8, max(1, dimensions))
        self._scale: Column[np.float32] = Column(np.float32)
        self._document: Column[np.int64] = Column(np.int64)
        self._first: Column[np.int64] = Column(np.int64)
        self._count: Column[np.int32] = Column(np.int32)
        self._codes: Column[np.uint64] = Column(np.uint64, self._words)
        self._mean: Floats = np.zeros(max(1, dimensions), np.float32)
        self._mean_of = 0
        """How many vectors there were when the mean was taken."""
        self._graph: hnswlib.Index | None = None
        self._components: Floats = np.zeros((max(1, dimensions), 0), np.float32)
        """(dimensions, GRAPH_DIMENSIONS), of the graph."""
        self._linked = 0
        """Rows before this one are in the graph, or removed."""

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def _words(self) -> int:
        return -(-max(1, self.dimensions) // 64)

    @property
    def _needs_graph(self) -> bool:
        return self.has_graph and len(self._matrix) >= GRAPH_FROM

    @property
    def unlinked(self) -> int:
        """Vectors that are not in the graph yet, removed ones among them; 0 where none is needed."""
        return len(self._matrix) - self._linked if self._needs_graph else 0

    @property
    def to_link(self) -> int:
        """Vectors that were put to join the graph, since the index was made; 0 where none is needed."""
        return len(self._matrix) if self._needs_graph else 0

    def put(self, ordinal: int, rows: NDArray[Any]) -> None:
        """Set a document's vectors, `(chunks, dimensions)`, rows of unit length; replaces those it had."""
        self.put_each(np.array([ordinal]), rows, np.array([len(rows)]))

    def put_each(
        self, ordinals: NDArray[np.int64], rows: NDArray[Any], counts: NDArray[np.int64] | None = None
    ) -> None:
        """Set the vectors of documents, each named once, `(rows, dimensions)`: `counts` (n,) of each, or one.

        Replaces those they had; the same again change nothing: after a rebuild, all of them come again.
        """
        if not len(ordinals):
            return
        counts = np.ones(len(ordinals), np.int64) if counts is None else counts
        packed, scale = quantized(rows)
        if (had := ~self.without(ordinals)).any():
            starts = np.cumsum(counts) - counts
            for place in np.flatnonzero(had).tolist():
                given = packed[starts[place] : starts[place] + counts[place]]
                had[place] = np.array_equal(given, self.rows(ordinals[place]))
                if not had[place]:
                    self.remove(ordinals[place])
            new = np.repeat(~had, counts)
            ordinals, counts, packed, scale = ordinals[~had], counts[~had], packed[new], scale[new]
        if len(ordinals):
            self._extend(ordinals, packed, scale, counts)

    def _extend(self, ordinals: NDArray[np.int64], rows: Bytes, scale: Floats, counts: NDArray[np.int64]) -> None:
        first = len(self._matrix) + np.cumsum(counts) - counts
        self._matrix.extend(rows)
        self._scale.extend(scale)
        self._document.extend(np.repeat(ordinals, counts))
        self._first.extend_to(int(ordinals.max()) + 1)
        self._count.extend_to(int(ordinals.max()) + 1)
        self._first.values[ordinals], self._count.values[ordinals] = first, counts
        self.documents |= bitmap(ordinals)

    def link(self, seconds: float | None = None) -> None:
        """Let vectors join the graph, in order, for about so long; None until all have. Nothing if none is needed."""
        if not self._needs_graph:
            return
        if self._graph is None:
            self._components = self._principal_components()
            self._graph = hnswlib.Index(space="ip", dim=self._components.shape[1])
            self._graph.init_index(max_elements=1024, M=M, ef_construction=EF_CONSTRUCTION, random_seed=7)
            self._graph.set_num_threads(1)
        until = None if seconds is None else time.monotonic() + seconds
        while self._linked < len(self._matrix) and (until is None or time.monotonic() < until):
            rows = np.arange(self._linked, min(len(self._matrix), self._linked + LINKED_AT_ONCE))
            self._linked = int(rows[-1]) + 1
            rows = rows[self._document.values[rows] >= 0]
            if rows.size and int(rows[-1]) >= self._graph.get_max_elements():
                self._graph.resize_index(with_room(int(rows[-1]) + LINKED_AT_ONCE))
            if rows.size:
                # one thread: hnswlib allows no search beside an insert, and this is the index thread
                self._graph.add_items(self._unit(rows) @ self._components, rows, num_threads=1)

    def _principal_components(self) -> Floats:
        rows = np.arange(0, len(self._matrix), -(-len(self._matrix) // MEAN_OF))
        _, vectors = np.linalg.eigh(np.cov(self._unit(rows).T).reshape(self.dimensions, self.dimensions))
        return np.ascontiguousarray(vectors[:, : -GRAPH_DIMENSIONS - 1 : -1], np.float32)

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
            if row < len(self._codes):
                self._codes[row] = 0
        self._count[ordinal] = 0
        self.documents.discard(int(ordinal))

    def rows(self, ordinal: int) -> Bytes:
        """A document's vectors, `(chunks, dimensions)`, as they are kept; no rows when it has none."""
        first, count = (int(self._first[ordinal]), int(self._count[ordinal])) if self.has(ordinal) else (0, 0)
        return self._matrix.values[first : first + count].copy()

    def take(self, ordinal: int, other: "VectorIndex", theirs: int) -> None:
        """Set a document's vectors to those of a document of another index of the same model."""
        first, rows = int(other._first[theirs]), other.rows(theirs)
        self.remove(ordinal)
        scale = other._scale.values[first : first + len(rows)]
        self._extend(np.array([ordinal]), rows, scale, np.array([len(rows)]))

    def has(self, ordinal: int) -> bool:
        """True when the document has vectors."""
        return ordinal < len(self._count) and bool(self._count[ordinal])

    def cosine(self, query: Floats, documents: NDArray[np.int64]) -> Floats:
        """Cosine of each document's best chunk with the unit-length query: `(n,) float32`, nan without a vector.

        The products are of whole numbers, so equal vectors score alike, on every machine.
        """
        if not self.dimensions:
            return np.full(len(documents), np.nan, np.float32)
        return native.cosines(*self.columns, documents, query)

    @property
    def columns(self) -> VectorColumns:
        """What compiled code reads; valid until the next change."""
        return VectorColumns(self._matrix.values, self._scale.values, self._first.values, self._count.values)

    def without(self, documents: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the documents have no vector (yet): `(n,) bool`."""
        return _counts(self._count.values, documents) == 0

    def renumbered(self, documents: NDArray[np.int64]) -> "VectorIndex":
        """The vectors of these documents alone, with their places in `documents` as their ordinals.

        They have to join a new graph: a deleted vector stays in the old one's memory and file.
        """
        places, rows = _rows_of(self._first.values, self._count.values, documents)
        vectors = VectorIndex(self.dimensions, graph=self.has_graph)
        vectors._matrix, vectors._scale = Column.of(self._matrix.values[rows]), Column.of(self._scale.values[rows])
        vectors._document = Column.of(places)
        counts = _counts(self._count.values, documents)
        vectors._count = Column.of(counts.astype(np.int32))
        vectors._first = Column.of(np.cumsum(counts) - counts)
        vectors.documents = bitmap(np.flatnonzero(counts))
        return vectors

    def worth_scoring(self, query: Floats, matching: Matching, count: int) -> NDArray[np.int64]:
        """(n,), documents among which the nearest `count` are: all that match, or what the graph or the codes find."""
        if not self.dimensions or count <= 0 or not len(self._matrix) or not len(matching):
            return np.empty(0, np.int64)
        if len(matching) <= EXACT_BELOW:
            return matching.documents
        if self._graph is not None and self.unlinked <= MOST_UNLINKED and len(matching) > GRAPH_SHARE * len(self):
            documents = self._in_graph(query, matching, max(IN_GRAPH, count))
            if len(documents) >= count:
                return np.union1d(documents, among(self._document.values[self._linked :], matching.bitmap))
        return self._by_codes(query, matching, max(SCORED, count))

    def _in_graph(self, query: Floats, matching: Matching, count: int) -> NDArray[np.int64]:
        assert self._graph is not None
        mask, document = matching.mask, self._document.values
        most = len(matching) >= FILTERED_BELOW * len(self)

        def allowed(row: int) -> bool:
            number = document[row]
            return bool(0 <= number < len(mask) and mask[number])

        depth = min(count, self._linked)
        self._graph.set_ef(depth)
        try:
            labels, _ = self._graph.knn_query(
                query @ self._components, k=depth, num_threads=1, filter=None if most else allowed
            )
        except RuntimeError:  # hnswlib raises when deletions or the filter leave it fewer than k
            return np.empty(0, np.int64)
        near = document[labels[0].astype(np.int64)]
        near = near[(near >= 0) & (near < len(mask))]
        return ascending(near[mask[near]])

    def _by_codes(self, query: Floats, matching: Matching, count: int) -> NDArray[np.int64]:
        self._encode()
        code = native.sign_codes(quantized(query[None])[0], self._mean)[0]
        rows = native.nearest_codes(self._codes.values, self._document.values, matching.mask, code, count)
        return ascending(self._document.values[rows])

    def _encode(self) -> None:
        """Make the codes of rows that have none; of all of them again when there are twice as many."""
        rows = self._matrix.values
        if len(rows) >= 2 * self._mean_of:
            self._mean_of = len(rows)
            self._mean = rows[:: -(-len(rows) // MEAN_OF)].mean(axis=0, dtype=np.float64).astype(np.float32)
            self._codes = Column(np.uint64, self._words)
        for start in range(len(self._codes), len(rows), _ROWS_AT_ONCE):
            self._codes.extend(native.sign_codes(rows[start : start + _ROWS_AT_ONCE], self._mean))

    def _unit(self, rows: NDArray[np.int64]) -> Floats:
        return self._matrix.values[rows].astype(np.float32) * self._scale.values[rows][:, None]

    def save(self, folder: Path, name: str = "vector") -> None:
        """Write the vectors into files of an existing folder that begin with `name`, and the graph as it is."""
        np.save(folder / f"{name}s.npy", self._matrix.values)
        np.save(folder / f"{name}-scale.npy", self._scale.values)
        np.save(folder / f"{name}-documents.npy", self._document.values)
        np.save(folder / f"{name}-first.npy", self._first.values)
        np.save(folder / f"{name}-count.npy", self._count.values)
        np.save(folder / f"{name}-linked.npy", np.int64(self._linked))
        if self._graph is not None:
            np.save(folder / f"{name}-components.npy", self._components)
            self._graph.save_index(str(folder / f"{name}s.hnsw"))

    @classmethod
    def load(cls, folder: Path, dimensions: int, name: str = "vector", *, graph: bool = True) -> "VectorIndex":
        """Read what `save` wrote; a graph that was not saved is to be made. Raises OSError for a missing file."""
        vectors = cls(dimensions, graph=graph)
        vectors._matrix = Column.of(np.load(folder / f"{name}s.npy"))
        vectors._scale = Column.of(np.load(folder / f"{name}-scale.npy"))
        vectors._document = Column.of(np.load(folder / f"{name}-documents.npy"))
        vectors._first = Column.of(np.load(folder / f"{name}-first.npy"))
        vectors._count = Column.of(np.load(folder / f"{name}-count.npy"))
        vectors.documents = bitmap(np.flatnonzero(vectors._count.values))
        components = folder / f"{name}-components.npy"  # missing: of an earlier version, whose graph is no longer used
        if graph and components.exists():
            saved, vectors._components = folder / f"{name}s.hnsw", np.load(components)
            vectors._graph = hnswlib.Index(space="ip", dim=vectors._components.shape[1])
            try:
                vectors._graph.load_index(str(saved), max_elements=with_room(len(vectors._matrix)))
            except RuntimeError as error:
                raise OSError(str(error)) from error
            vectors._graph.set_num_threads(1)
            vectors._linked = int(np.load(folder / f"{name}-linked.npy"))
        return vectors


def _counts(count: NDArray[np.int32], documents: NDArray[np.int64]) -> NDArray[np.int64]:
    counts = np.zeros(len(documents), np.int64)
    within = documents < len(count)
    counts[within] = count[documents[within]]
    return counts


def _rows_of(
    first: NDArray[np.int64], count: NDArray[np.int32], documents: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of documents, and for each the place of its document in `documents`."""
    counts = _counts(count, documents)
    places = np.repeat(np.arange(len(documents)), counts)
    ends = np.cumsum(counts)
    offsets = np.arange(len(places)) - np.repeat(ends - counts, counts)
    return places, first[documents[places]] + offsets
