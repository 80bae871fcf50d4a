"""One search of the index: filter, candidates, pool, exact scores. Runs in the index thread; never waits."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from projections.index.filters import BitMap, facet, ordinals
from projections.index.replica import IndexReplica, group
from projections.ranking import Mode, Pool, score, terms

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
_DAY_MS = 86_400_000


class Filter(Struct, frozen=True, kw_only=True):
    """Which documents may be found; empty sequences and None do not restrict. Times are ms since the epoch.

    `reader` is who asks: memories for some readers only are found by those alone.
    """

    tenant: str
    project: str | None = None
    agent_id: str = ""
    session_id: str = ""
    user_id: str = ""
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    as_of_ms: int | None = None
    reader: str = ""


class Question(Struct, frozen=True, kw_only=True):
    """What is searched for, and how results are weighed."""

    text: str
    vector: NDArray[np.float32] | None
    mode: Mode = "hybrid"
    limit: int = 10
    now_ms: int = 0
    half_life_days: float | None = None
    alpha: float | None = None


class Hit(Struct, frozen=True):
    """One found document: where it is, its score, and how the score came about."""

    id: str
    partition: int
    kind: Literal["observation", "memory", "lesson", "summary"]
    score: float
    explain: dict[str, float]


def search(index: IndexReplica, question: Question, allowed: Filter) -> list[Hit]:
    """The best documents for a question, best first, at most `limit`."""
    matching = matches(index, allowed, question.now_ms)
    query_terms = terms(question.text)
    vector = question.vector if question.mode != "lexical" else None
    candidates = _candidates(index, question, query_terms, allowed, matching)
    if not candidates:
        return []
    pool_ordinals = np.fromiter(_with_neighbours(index, candidates, matching), np.int64)[:MAX_POOL]
    cosine = (
        index.vectors.cosine(vector, pool_ordinals)
        if vector is not None and vector.size
        else np.full(len(pool_ordinals), np.nan, np.float32)
    )
    pool = Pool(
        terms=[index.terms_of(ordinal) for ordinal in pool_ordinals.tolist()],
        cosine=cosine,
        episode=index.episode.values[pool_ordinals],
        sequence=index.sequence.values[pool_ordinals],
        author=index.author_terms(pool_ordinals),
    )
    scores = score(query_terms, pool, mode=question.mode)
    weighed, weights = _weigh(index, question, scores.relevance, pool_ordinals)
    best = np.argsort(-weighed, kind="stable")[: question.limit]
    parts = {
        "lexical": scores.lexical,
        "cosine": np.asarray(cosine, np.float64),
        "mix": scores.mix,
        "author": scores.author,
        "coverage": scores.coverage,
        "neighbours": scores.neighbours,
        "episode": scores.episode,
        "relevance": scores.relevance,
        **weights,
    }
    return [
        Hit(
            id=index.ids[ordinal],
            partition=int(index.partition[ordinal]),
            kind=_kind(index, ordinal),
            score=round(float(weighed[place]), 6),
            explain={
                name: round(float(column[place]), 6) for name, column in parts.items() if column[place] == column[place]
            },
        )
        for place, ordinal in ((int(place), int(pool_ordinals[place])) for place in best)
    ]


def matches(index: IndexReplica, allowed: Filter, now_ms: int) -> BitMap:
    """The documents that a filter allows."""
    matching = index.alive.copy()
    for keys in _groups(allowed):
        matching &= index.facets.any_of(keys)
    restricted = index.facets.of(facet("restricted", "yes"))
    matching -= restricted - index.facets.of(facet("reader", allowed.reader)) if allowed.reader else restricted
    as_of = allowed.as_of_ms
    if as_of is None:
        matching -= index.facets.of(facet("retired", "yes"))
    else:
        _drop(matching, matching, index.recorded_ms.values, above=as_of)
        retired = matching & index.facets.of(facet("retired", "yes"))
        _drop(matching, retired, index.retired_ms.values, below=as_of + 1)
    expiring = matching & index.facets.of(facet("expiring", "yes"))
    _drop(matching, expiring, index.expires_ms.values, below=(as_of or now_ms) + 1)
    if allowed.from_ms is not None or allowed.to_ms is not None:
        _drop(matching, matching, index.occurred_ms.values, below=allowed.from_ms, above=allowed.to_ms)
    return matching


def _groups(allowed: Filter) -> list[list[str]]:
    """Facet groups of which a document must have one value each."""
    wanted: list[tuple[str, Sequence[str]]] = [
        ("tenant", [allowed.tenant]),
        ("project", [] if allowed.project is None else [allowed.project]),
        ("agent", [allowed.agent_id] if allowed.agent_id else []),
        ("session", [allowed.session_id] if allowed.session_id else []),
        ("user", [allowed.user_id] if allowed.user_id else []),
        ("kind", allowed.kinds),
    ]
    return [group(name, values) for name, values in wanted if values] + [group("tag", [tag]) for tag in allowed.tags]


def _drop(
    matching: BitMap, among: BitMap, column: NDArray[np.int64], *, below: int | None = None, above: int | None = None
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
    matching -= BitMap(members[out].astype(np.uint32))


def _candidates(
    index: IndexReplica, question: Question, query_terms: Sequence[str], allowed: Filter, matching: BitMap
) -> list[int]:
    """The top of each leg, and whatever of the uncommitted tail says a word of the query; distinct, best first."""
    found: dict[int, None] = {}
    if question.mode != "vector":
        found.update(dict.fromkeys(_lexical_candidates(index, query_terms, allowed, matching)))
        asked = set(query_terms)
        for ordinal in index.tail & set(matching) if len(matching) < len(index.tail) else index.tail:
            if ordinal in matching and not asked.isdisjoint(index.terms_of(ordinal)):
                found[ordinal] = None
    if question.mode != "lexical" and question.vector is not None and question.vector.size:
        found.update(dict.fromkeys(index.vectors.nearest(question.vector, matching, CANDIDATES).tolist()))
    return list(found)


def _lexical_candidates(
    index: IndexReplica, query_terms: Sequence[str], allowed: Filter, matching: BitMap
) -> Iterable[int]:
    """The top CANDIDATES of BM25 that match; looks deeper while filters that tantivy does not know leave too few."""
    count = CANDIDATES
    while True:
        hits = index.lexical.search(query_terms, _groups(allowed), count)
        kept = [ordinal for ordinal in hits if ordinal in matching]
        if len(kept) >= CANDIDATES or len(hits) < count or count >= 64 * CANDIDATES:
            return kept[:CANDIDATES]
        count *= 4


def _with_neighbours(index: IndexReplica, candidates: Iterable[int], matching: BitMap) -> Iterable[int]:
    """The candidates, then their matching neighbours; distinct."""
    pool = dict.fromkeys(candidates)
    for ordinal in list(pool):
        pool.update(dict.fromkeys(other for other in index.around(ordinal, REACH) if other in matching))
    return pool


def _weigh(
    index: IndexReplica, question: Question, relevance: NDArray[np.float64], pool: NDArray[np.int64]
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Relevance (0..1) times how sure a lesson is and how important a memory was called; mixed with recency if asked.

    `alpha * relevance + (1 - alpha) * exp(-ln 2 / half_life * age)`, memex's formula; age from `occurred_at`.
    """
    confidence = index.confidence.values[pool].astype(np.float64)
    importance = index.importance.values[pool].astype(np.float64)
    places: list[int] = pool.tolist()
    chosen = np.array([index.ids[place].startswith("mem_") for place in places])
    lift = np.where(chosen, 1 + IMPORTANCE_LIFT * (importance - 5), 1.0)
    weighed = relevance * (0.5 + 0.5 * confidence) * lift
    weights = {"confidence": confidence, "importance": importance}
    if question.half_life_days is not None:
        alpha = HALF_LIFE_ALPHA if question.alpha is None else question.alpha
        age_days = np.maximum(0, question.now_ms - index.occurred_ms.values[pool]) / _DAY_MS
        weights["recency"] = np.exp(-np.log(2) / question.half_life_days * age_days)
        weighed = alpha * weighed + (1 - alpha) * weights["recency"]
    return weighed, weights


def _kind(index: IndexReplica, ordinal: int) -> Literal["observation", "memory", "lesson", "summary"]:
    prefix = index.ids[ordinal].partition("_")[0]
    return {"obs": "observation", "mem": "memory", "lsn": "lesson"}.get(prefix, "summary")  # type: ignore[return-value]
