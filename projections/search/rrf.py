"""agent-memory's ranking: reciprocal ranks of two lists, lifted when recent."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from projections.search.candidates import by_vector, by_words
from projections.search.filters import BitMap
from projections.search.matching import Filter
from projections.search.order import best_first
from projections.search.question import Hit, Question, age_days, hits
from projections.search.ranking import Pool, required_terms, score
from projections.search.replica import IndexReplica
from projections.search.similar import waiting

K = 60
PER_RESULT = 2
"""From each list, for each result that is shown."""
WORDS = 10
"""Of the query, from its beginning, that the text list looks for: a document must say them all."""
RECENCY_DAYS = 10.0


def rrf(index: IndexReplica, question: Question, allowed: Filter, matching: BitMap) -> list[Hit]:
    """Sum of `1 / (60 + rank)` over the two lists, ranks from 0, times `1 + exp(-age_days / 10)`; unrounded.

    Vector and lexical mode have one list only, and without `recency_boost` age does not count.
    """
    count = PER_RESULT * question.depth
    said = [] if question.mode == "vector" else _by_text(index, question.text, allowed, matching, count)
    lists = {"vector": _near(index, question, allowed, matching, count, said), "text": said}
    documents = np.fromiter(dict.fromkeys([*lists["vector"], *lists["text"]]), np.int64)
    parts = {name: _reciprocal_ranks(ranked, documents) for name, ranked in lists.items()}
    scores = np.nansum(list(parts.values()), axis=0)
    if question.recency_boost:
        parts["recency"] = 1 + np.exp(-age_days(index, documents, question.now_ms) / RECENCY_DAYS)
        scores = scores * parts["recency"]
    return hits(index, documents, best_first(index, documents, scores, question.limit), scores, parts)


def _near(
    index: IndexReplica, question: Question, allowed: Filter, matching: BitMap, count: int, said: Sequence[int]
) -> list[int]:
    """The nearest `count`. What has no vector yet stands among them, or what was just written would be lost: by the
    share of the query's words that it says, unless it says them all, for then the text list has it.
    """
    near, cosine = by_vector(index, question.query_vector, matching, count)
    if question.mode == "vector" or question.query_vector is None:
        return near.tolist()
    unembedded, share = waiting(index, question, allowed, matching, count)
    joins = (share > 0) & ~np.isin(unembedded, np.asarray(said, np.int64))
    documents = np.concatenate([near, unembedded[joins]])
    scores = np.concatenate([cosine.astype(np.float64), share[joins]])
    return documents[best_first(index, documents, scores, count)].tolist()


def _by_text(index: IndexReplica, text: str, allowed: Filter, matching: BitMap, count: int) -> list[int]:
    """The best `count` that say all the words. BM25 over just these: the tail has no place in tantivy's order yet."""
    asked = list(dict.fromkeys(required_terms(" ".join(text.split()[:WORDS]))))
    found = np.asarray(by_words(index, asked, allowed, matching, count, every=True), np.int64)
    found = found[best_first(index, found, np.zeros(len(found)), len(found))]
    alone = np.full(len(found), -1, np.int32)
    said = [index.terms_of(ordinal) for ordinal in found.tolist()]
    pool = Pool(said, np.full(len(found), np.nan), alone, np.zeros_like(alone))
    lexical = np.round(score(asked, pool, mode="lexical").lexical, 9)
    return found[best_first(index, found, lexical, count)].tolist()


def _reciprocal_ranks(ranked: Sequence[int], documents: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a list gives each document; nan for one that is not in it."""
    given = {document: 1 / (K + rank) for rank, document in enumerate(ranked)}
    return np.array([given.get(document, np.nan) for document in documents.tolist()], np.float64)
