"""Which documents match a filter, the candidates of a search among them, and the order they come in.

Functions of an index run in its thread."""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projections.search.candidates import STATIC_CANDIDATES, Meaning, Near, best_first, nearest_first
from projections.search.filters import LEXICAL, BitMap, among, bitmap, facet, ordinals
from projections.search.question import Filter
from projections.search.replica import IndexReplica
from projections.search.vectors import EXACT_OF_MOST_BELOW


def matches(index: IndexReplica, allowed: Filter, now_ms: int) -> BitMap:
    """The documents that a filter allows."""
    matching = index.alive.copy()
    for name, values in allowed.required():
        matching &= index.facets.any_of(facet(name, value) for value in values)
    if allowed.any_of:
        matching &= index.facets.any_of(facet(name, value) for name, value in allowed.any_of)
    matching -= index.facets.any_of(facet(name, value) for name, value in allowed.without)
    if allowed.importance_to is not None:
        _drop(matching, matching, index.importance.values, above=allowed.importance_to)
    if allowed.from_ms is not None or allowed.to_ms is not None:
        _drop(matching, matching, index.occurred_ms.values, below=allowed.from_ms, above=allowed.to_ms)
    if allowed.retired:
        matching &= index.facets.of(facet("retired", "yes"))
    else:
        _keep_in_use(index, matching, allowed, now_ms)
    if allowed.embedded is not None:
        documents = ordinals(matching)
        matching -= bitmap(documents[index.vectors.without(documents) == allowed.embedded])
    return matching


def _keep_in_use(index: IndexReplica, matching: BitMap, allowed: Filter, now_ms: int) -> None:
    """Take out what the reader may not see, and what was not in use at the moment that is asked about."""
    restricted = BitMap() if allowed.operator else index.facets.of(facet("restricted", "yes"))
    matching -= restricted - index.facets.of(facet("reader", allowed.reader)) if allowed.reader else restricted
    as_of = allowed.as_of_ms
    if as_of is None:
        matching -= index.facets.of(facet("retired", "yes"))
    else:
        _drop(matching, matching, index.recorded_ms.values, above=as_of)
        retired = matching & index.facets.of(facet("retired", "yes"))
        _drop(matching, retired, index.retired_ms.values, below=as_of + 1)
    expiring, then_ms = matching & index.facets.of(facet("expiring", "yes")), now_ms if as_of is None else as_of
    if allowed.expired:
        matching &= expiring
        _drop(matching, expiring, index.expires_ms.values, above=then_ms)
    else:
        _drop(matching, expiring, index.expires_ms.values, below=then_ms + 1)


def lexical_groups(allowed: Filter) -> list[list[str]]:
    """Facet values of each group of which a document must have one, as far as the lexical index knows them."""
    return [[facet(name, value) for value in values] for name, values in allowed.required() if name in LEXICAL]


def _drop(
    matching: BitMap,
    among: BitMap,
    column: NDArray[np.int64] | NDArray[np.float32],
    *,
    below: float | None = None,
    above: float | None = None,
) -> None:
    """Take those of `among` out of `matching` whose value is under `below` or over `above`."""
    if not among:
        return
    members = ordinals(among)
    values = column[members]
    out = np.zeros(len(members), bool)
    if below is not None:
        out |= values < below
    if above is not None:
        out |= values > above
    matching -= bitmap(members[out])


READ_WITHOUT_VECTOR = 500
"""Documents without a vector whose words are looked at, newest first, besides those that the lexical index finds."""
LIKE = 50
"""Documents in which a word like another one is looked for."""
SPARE = 50
"""Asked of tantivy beyond the count, so that equals at the cut are mostly all seen and can be taken by id."""
DEEPEST = 64
"""How many times the count tantivy is asked for, at most, while equals or what does not match fill the answer."""
MOST = 0.5
"""Share of all documents from which tantivy is not told the filter: without one it skips what cannot be among the best
(100,000 documents that all match: 0.8 instead of 2.6 ms), and what does not match is left out behind it.
"""
NAMED_ONE_BY_ONE = 2_000
"""Up to so many matching documents are named to tantivy (4 ms), when filters it does not know leave too few."""


class EmbeddedCandidates:
    """The candidates of an embedded index. Runs in its thread."""

    def __init__(self, index: IndexReplica, allowed: Filter, now_ms: int) -> None:
        self.rows = self._index = index
        self._allowed, self._matching = allowed, matches(index, allowed, now_ms)
        self._now_ms = now_ms

    def static_vector(self, terms: Sequence[str]) -> NDArray[np.float32] | None:
        """The static vector of a query."""
        return self._index.static_vector(terms)

    def by_words(self, terms: Sequence[str], count: int, *, every: bool = False) -> list[int]:
        """The best `count` by BM25, then whatever of the uncommitted tail says a word (with `every`: all)."""
        return by_words(self._index, terms, self._allowed, self._matching, count, every=every)

    def by_meaning(self, asked: Meaning, count: int) -> Near:
        """The nearest `count`. Candidates are the nearest by static vectors, where the index has them.

        By the model's too where those have a graph, or where so few match that all are scored anyway.
        """
        index, matching = self._index, self._matching
        found = [np.empty(0, np.int64)]
        if asked.static is not None and count > 0:
            found.append(index.static.nearest_with_ties(asked.static, matching, max(count, STATIC_CANDIDATES))[0])
        if asked.vector is not None and (index.vectors.has_graph or len(matching) <= EXACT_OF_MOST_BELOW):
            found.append(index.vectors.nearest_with_ties(asked.vector, matching, count)[0])
        return nearest_first(index, asked, np.unique(np.concatenate(found)), count)

    def within(self, from_ms: int, to_ms: int) -> "EmbeddedCandidates":
        """Those of a time."""
        return EmbeddedCandidates(self._index, replace(self._allowed, from_ms=from_ms, to_ms=to_ms - 1), self._now_ms)

    def newest(self, count: int, importance: float = 0.0) -> list[int]:
        """Those that occurred last."""
        index, found = self._index, ordinals(self._matching)
        found = found[index.importance.values[found] >= importance]
        occurred = index.occurred_ms.values[found].astype(np.float64)
        return found[best_first(index, found, occurred, count)].tolist()

    def beside(self, documents: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
        """The matching neighbours."""
        return among(np.array(self._index.around(documents, reach), np.int64), self._matching)

    def without_vectors(self, asked: Meaning, terms: Sequence[str], count: int) -> NDArray[np.int64]:
        """Those without the vectors; of more than READ_WITHOUT_VECTOR the newest, and what the lexical index finds."""
        index, found = self._index, ordinals(self._matching)
        if asked.vector is not None:
            found = found[index.vectors.without(found)]
        if asked.static is not None:
            found = found[index.static.without(found)]
        if len(found) > READ_WITHOUT_VECTOR:
            recorded = index.recorded_ms.values[found].astype(np.float64)
            newest = found[best_first(index, found, recorded, READ_WITHOUT_VECTOR)]
            saying = by_words(index, terms, self._allowed, bitmap(found), count)
            found = np.union1d(newest, np.asarray(saying, np.int64))
        return found

    def like(self, term: str, edits: int) -> list[set[str]]:
        """The terms of up to LIKE committed documents."""
        near = self._index.lexical.near(term, edits, lexical_groups(self._allowed), LIKE)
        return [set(text.split()) for ordinal, text in near if ordinal in self._matching]

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        """As `Lexical.frequencies`, and the number of documents."""
        return self._index.lexical.frequencies(terms), len(self._index)


def by_words(
    index: IndexReplica, terms: Sequence[str], allowed: Filter, matching: BitMap, count: int, *, every: bool = False
) -> list[int]:
    """The best `count` by BM25, best first, then whatever of the uncommitted tail says a word (with `every`: all)."""
    found = dict.fromkeys(_committed(index, terms, allowed, matching, count, every=every))
    tail = np.array([ordinal for ordinal in sorted(index.tail) if ordinal in matching], np.int64)
    if len(tail) and terms:
        said = index.said(tail, list(dict.fromkeys(terms)))
        found.update(dict.fromkeys(tail[said.all(axis=1) if every else said.any(axis=1)].tolist()))
    return list(found)


def _committed(
    index: IndexReplica, terms: Sequence[str], allowed: Filter, matching: BitMap, count: int, *, every: bool
) -> list[int]:
    """Looks deeper while filters that tantivy does not know leave too few, or equals at the cut may go on."""
    if count <= 0 or not matching:
        return []
    groups, asked = lexical_groups(allowed), count + SPARE
    if len(matching) > MOST * len(index):
        groups, asked = [], asked * len(index) // len(matching)
    while True:
        scored = index.lexical.scored(terms, groups, asked, every=every)
        kept = [(ordinal, score) for ordinal, score in scored if ordinal in matching]
        exhausted = len(scored) < asked
        if exhausted or asked >= DEEPEST * count or (len(kept) > count and kept[-1][1] < kept[count - 1][1]):
            break
        if len(kept) < count and len(matching) <= NAMED_ONE_BY_ONE:
            kept = index.lexical.scored(terms, [], len(matching), every=every, among=list(matching))
            kept = [(ordinal, score) for ordinal, score in kept if ordinal in matching]
            break
        asked *= 4
    documents = np.fromiter((ordinal for ordinal, _ in kept), np.int64, len(kept))
    scores = np.fromiter((score for _, score in kept), np.float64, len(kept))
    return documents[best_first(index, documents, scores, count)].tolist()
