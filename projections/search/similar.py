"""memex's ranking: the most similar, mixed with recency. Importance does not count."""

import numpy as np
from numpy.typing import NDArray

from projections.search.candidates import by_vector, by_words
from projections.search.filters import BitMap, bitmap, ordinals
from projections.search.matching import Filter
from projections.search.order import best_first
from projections.search.question import Hit, Question, age_days, hits
from projections.search.ranking import terms
from projections.search.replica import IndexReplica

ALPHA = 0.7
HALF_LIFE_DAYS = 30.0
CANDIDATES_PER_RESULT, MAX_CANDIDATES = 3, 150
READ_WITHOUT_VECTOR = 500
"""Documents without a vector whose words are looked at, newest first, besides those that the lexical index finds."""


def similar(index: IndexReplica, question: Question, allowed: Filter, matching: BitMap) -> list[Hit]:
    """`alpha * similarity + (1 - alpha) * exp(-ln 2 / half_life_days * age_days)`, unrounded; equals newest first.

    Candidates are the `min(3 * shown, 150)` most similar by cosine, or as many as are shown. Beside them stand as many
    of those that have no vector yet, or what was just written would be lost: theirs is the share of the query's words
    that they say.
    """
    count = max(min(CANDIDATES_PER_RESULT * question.depth, MAX_CANDIDATES), question.depth)
    near, cosine = by_vector(index, question.query_vector, matching, count)
    unembedded, said = waiting(index, question, allowed, matching, count)
    documents = np.concatenate([near, unembedded])
    similarity = np.concatenate([cosine.astype(np.float64), said])
    half_life = HALF_LIFE_DAYS if question.half_life_days is None else question.half_life_days
    alpha = ALPHA if question.alpha is None else question.alpha
    recency = np.exp(-np.log(2) / half_life * age_days(index, documents, question.now_ms))
    scores = alpha * similarity + (1 - alpha) * recency
    falling: list[float] = (-scores).tolist()
    ageing: list[int] = (-index.occurred_ms.values[documents]).tolist()
    places: list[int] = documents.tolist()
    names = [index.ids[place] for place in places]
    order = sorted(zip(falling, ageing, names, range(len(names)), strict=True))
    best = [place for *_, place in order[: question.limit]]
    parts = {"similarity": similarity, "recency": recency}
    return hits(index, documents, best, scores, parts)


def waiting(
    index: IndexReplica, question: Question, allowed: Filter, matching: BitMap, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The best `count` of the matching documents without a vector, and the share of the query's words each says.

    All of them when the query has none.
    """
    everything = ordinals(matching)
    found = everything if question.query_vector is None else everything[index.vectors.without(everything)]
    asked = set(terms(question.text))
    if len(found) > READ_WITHOUT_VECTOR:
        recorded = index.recorded_ms.values[found].astype(np.float64)
        newest = found[best_first(index, found, recorded, READ_WITHOUT_VECTOR)]
        saying = by_words(index, list(asked), allowed, bitmap(found), count)
        found = np.union1d(newest, np.asarray(saying, np.int64))
    said = [len(asked.intersection(index.terms_of(ordinal))) for ordinal in found.tolist()]
    share = np.asarray(said, np.float64) / max(1, len(asked))
    best = best_first(index, found, share, count)
    return found[best], share[best]
