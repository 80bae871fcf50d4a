"""mnemolog's own ranking: the top of both legs and their neighbours, scored exactly together (ranking.py)."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from projections.search.candidates import by_vector, by_words
from projections.search.filters import BitMap
from projections.search.lessons import decayed_confidence
from projections.search.matching import Filter
from projections.search.order import best_first
from projections.search.question import Hit, Question, age_days, hits
from projections.search.ranking import Pool, score, terms
from projections.search.replica import IndexReplica

Floats = NDArray[np.float64]

CANDIDATES = 100
"""From each leg; measured on LoCoMo: 30 costs 0.5 points of recall@10, more than 100 gives nothing."""
REACH = 1
"""Neighbours that join the pool on either side; two are no better (72.7 against 72.7 recall@5, measured on LoCoMo)."""
HALF_LIFE_ALPHA = 0.7
"""Weight of similarity against recency when a half-life is asked for and no weight is given."""
IMPORTANCE_LIFT = 0.02
"""A step of importance above or below 5 moves a memory by 2 %: among equals it decides, and nothing more. What an
observation's rules guess does not count."""
MAX_POOL = 2_000
"""Bound on what one search scores exactly (about 40 ms)."""
DIGITS = 6
"""Scores that differ by less are equal, and equals are ordered by id."""


def fused(index: IndexReplica, question: Question, allowed: Filter, matching: BitMap) -> list[Hit]:
    """The best by relevance (0..1), sureness and importance; by recency too, when a half-life is given."""
    query_terms = terms(question.text)
    pool = _pool(index, question, query_terms, allowed, matching)
    if not len(pool):
        return []
    vector = question.query_vector
    cosine = np.full(len(pool), np.nan, np.float32) if vector is None else index.vectors.cosine(vector, pool)
    scores = score(
        query_terms,
        Pool(
            terms=[index.terms_of(ordinal) for ordinal in pool.tolist()],
            cosine=cosine,
            episode=index.episode.values[pool],
            sequence=index.sequence.values[pool],
            author=index.author_terms(pool),
        ),
        mode=question.mode,
    )
    weighed, weights = _weigh(index, question, scores.relevance, pool)
    parts = {
        "lexical": scores.lexical,
        "cosine": cosine,
        "mix": scores.mix,
        "author": scores.author,
        "coverage": scores.coverage,
        "neighbours": scores.neighbours,
        "episode": scores.episode,
        "relevance": scores.relevance,
        **weights,
    }
    best = best_first(index, pool, np.round(weighed, DIGITS), question.limit)
    return hits(index, pool, best, weighed, parts, DIGITS)


def _pool(
    index: IndexReplica, question: Question, query_terms: Sequence[str], allowed: Filter, matching: BitMap
) -> NDArray[np.int64]:
    """The candidates and their matching neighbours, in the order of their ids: sums over the pool depend on it."""
    found: dict[int, None] = {}
    if question.mode != "vector":
        found.update(dict.fromkeys(by_words(index, query_terms, allowed, matching, CANDIDATES)))
    near, _ = by_vector(index, question.query_vector, matching, CANDIDATES)
    found.update(dict.fromkeys(near.tolist()))
    pool = list(_with_neighbours(index, found, matching))[:MAX_POOL]
    return np.array(sorted(pool, key=index.ids.__getitem__), np.int64)


def _with_neighbours(index: IndexReplica, candidates: Iterable[int], matching: BitMap) -> Iterable[int]:
    """The candidates, then their matching neighbours; distinct."""
    pool = dict.fromkeys(candidates)
    for ordinal in list(pool):
        pool.update(dict.fromkeys(other for other in index.around(ordinal, REACH) if other in matching))
    return pool


def _weigh(
    index: IndexReplica, question: Question, relevance: Floats, pool: NDArray[np.int64]
) -> tuple[Floats, dict[str, Floats]]:
    """Relevance (0..1) times how sure a lesson still is and how important a memory was called; with recency if asked.

    `alpha * relevance + (1 - alpha) * exp(-ln 2 / half_life * age)`, memex's formula; age from `occurred_at`.
    """
    confidence = decayed_confidence(index.confidence.values[pool], index.renewed_ms.values[pool], question.now_ms)
    importance = index.importance.values[pool].astype(np.float64)
    places: list[int] = pool.tolist()
    chosen = np.array([index.ids[place].startswith("mem_") for place in places])
    lift = np.where(chosen, 1 + IMPORTANCE_LIFT * (importance - 5), 1.0)
    weighed = relevance * (0.5 + 0.5 * confidence) * lift
    weights = {"confidence": confidence, "importance": importance}
    if question.half_life_days is not None:
        alpha = HALF_LIFE_ALPHA if question.alpha is None else question.alpha
        weights["recency"] = np.exp(-np.log(2) / question.half_life_days * age_days(index, pool, question.now_ms))
        weighed = alpha * weighed + (1 - alpha) * weights["recency"]
    return weighed, weights
