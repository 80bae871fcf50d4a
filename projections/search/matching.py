"""Which documents match a filter, the candidates of a search among them, and the order they come in.

Functions of an index run in its thread."""

from collections.abc import Sequence
from copy import copy

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projections.search.candidates import STATIC_CANDIDATES, Meaning, Near, best_first, nearest_first
from projections.search.filters import LEXICAL, BitMap, among, bitmap, facet, ordinals
from projections.search.postings import MatchingWords
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
"""Documents without a vector whose words are looked at, newest first, besides the best by words."""
LIKE = 50
"""Documents in which a word like another one is looked for."""


class EmbeddedCandidates:
    """The candidates of an embedded index. Runs in its thread."""

    def __init__(self, index: IndexReplica, allowed: Filter, now_ms: int) -> None:
        self.rows, self.table, self._index = index, index.table, index
        self._allowed, self._matching = allowed, matches(index, allowed, now_ms)
        self._words = MatchingWords(index, index.postings, self._matching)
        self._now_ms = now_ms

    def leave_out_prompts(self, asked: Sequence[str]) -> None:
        """Find no prompt any more that says nothing but what is asked."""
        if len(repeating := self._words.repeating(asked)):
            self._matching -= bitmap(repeating)
            self._words = MatchingWords(self._index, self._index.postings, self._matching)

    def by_words(self, terms: Sequence[str], count: int, *, every: bool = False) -> list[int]:
        """The best `count` by BM25."""
        return self._words.best(terms, count, every=every)

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
        narrowed = copy(self)
        narrowed._allowed = replace(self._allowed, from_ms=from_ms, to_ms=to_ms - 1)
        # not of the index again: prompts may be left out of these
        narrowed._matching = self._matching & matches(self._index, narrowed._allowed, self._now_ms)
        narrowed._words = MatchingWords(self._index, self._index.postings, narrowed._matching)
        return narrowed

    def newest(self, count: int, importance: float = 0.0) -> list[int]:
        """Those that occurred last."""
        index, found = self._index, ordinals(self._matching)
        found = found[index.importance.values[found] >= importance]
        occurred = index.occurred_ms.values[found].astype(np.float64)
        return found[best_first(index, found, occurred, count)].tolist()

    def beside(self, documents: NDArray[np.int64], key_scope: int) -> NDArray[np.int64]:
        """The matching neighbours."""
        return among(np.array(self._index.around(documents, key_scope), np.int64), self._matching)

    def without_vectors(self, asked: Meaning, terms: Sequence[str], count: int) -> NDArray[np.int64]:
        """Those without the vectors; of more than READ_WITHOUT_VECTOR the newest, and the best by words."""
        index, found = self._index, ordinals(self._matching)
        if asked.vector is not None:
            found = found[index.vectors.without(found)]
        if asked.static is not None:
            found = found[index.static.without(found)]
        if len(found) > READ_WITHOUT_VECTOR:
            recorded = index.recorded_ms.values[found].astype(np.float64)
            newest = found[best_first(index, found, recorded, READ_WITHOUT_VECTOR)]
            saying = MatchingWords(index, index.postings, bitmap(found)).best(terms, count)
            found = np.union1d(newest, np.asarray(saying, np.int64))
        return found

    def like(self, term: str, edits: int) -> list[set[str]]:
        """The terms of up to LIKE committed documents."""
        near = self._index.lexical.near(term, edits, lexical_groups(self._allowed), self._matching, LIKE)
        return [set(text.split()) for text in near]

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        """How many of them say each term, and how many there are."""
        return self._words.frequencies(terms), len(self._words)
