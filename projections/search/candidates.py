"""The top of each leg: documents that match a filter and say the query's words, or are near its vector.

What is chosen depends on the documents alone, not on the order a replica read them in: equals at the cut are taken by
id. Two things keep that from being exact: the tail, which joins beside the best until it is committed, and deleted
documents, which tantivy counts in its statistics until it merges their segment.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from projections.search.filters import BitMap
from projections.search.matching import Filter, lexical_groups
from projections.search.order import best_first
from projections.search.replica import IndexReplica

SPARE = 50
"""Asked of tantivy beyond the count, so that equals at the cut are mostly all seen and can be taken by id."""
DEEPEST = 64
"""How many times the count tantivy is asked for, at most, while equals or what does not match fill the answer."""
NAMED_ONE_BY_ONE = 2_000
"""Up to so many matching documents are named to tantivy (4 ms), when filters it does not know leave too few."""


def by_words(
    index: IndexReplica,
    terms: Sequence[str],
    allowed: Filter,
    matching: BitMap,
    count: int,
    *,
    every: bool = False,
) -> list[int]:
    """The best `count` by BM25, best first, then whatever of the uncommitted tail says a word (with `every`: all)."""
    found = dict.fromkeys(_committed(index, terms, allowed, matching, count, every=every))
    asked = set(terms)
    for ordinal in sorted(index.tail):
        if ordinal in matching and asked:
            said = asked.intersection(index.terms_of(ordinal))
            if said == asked if every else said:
                found[ordinal] = None
    return list(found)


def by_vector(
    index: IndexReplica, vector: NDArray[np.float32] | None, matching: BitMap, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The nearest `count` with their cosines, best first; none without a vector."""
    if vector is None:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    documents, cosine = index.vectors.nearest_with_ties(vector, matching, count)
    best = best_first(index, documents, cosine, count)
    return documents[best], cosine[best]


def _committed(
    index: IndexReplica, terms: Sequence[str], allowed: Filter, matching: BitMap, count: int, *, every: bool
) -> list[int]:
    """Looks deeper while filters that tantivy does not know leave too few, or equals at the cut may go on."""
    if count <= 0 or not matching:
        return []
    groups, asked = lexical_groups(allowed), count + SPARE
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
