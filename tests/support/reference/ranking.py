"""The features of a pool and the evidence for its documents, in numpy: the oracle of the compiled functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from reference.pools import Pool, Scores, authors

from projections.search.ranking import FEATURES, KIND, Floats, Mode, PoolBM25, shipped_weights
from projections.text.cues import (
    ASKS,
    CALL,
    FIRST_PERSON,
    NO_CUES,
    NUMBER,
    PROMPT,
    RESULT,
    TELLS_TIME,
    TOOL_OUTPUT,
    TRAITS,
    USER_TURN,
    Cues,
    having,
    months,
)  # fmt: skip

# explained by the constants of the same names in projections/kernel/native/src/ranking.cpp
WINDOW = 2
ALONE = 0.5
EPISODE_BEST = 3
STRONGEST = 10
EXPECTED_COSINE = 0.3
RANK_K = 3
AUTHORS = 8
SPREAD_OVER = 10
PART, STEP = 16, 8


def score(
    query_terms: Sequence[str], pool: Pool, *, mode: Mode, cues: Cues, inside: NDArray[np.bool_] | None
) -> Scores:
    """Return what `reference.pools.score` returns."""
    weights = shipped_weights()
    words, cues = ((), NO_CUES) if mode == "vector" else (query_terms, cues)
    bm25 = PoolBM25(pool.terms, words)
    around = _Surroundings.of(pool)
    lexical = np.asarray(bm25.get_scores(list(words)), np.float64)
    contained = np.minimum(bm25.counts, 1.0)
    near: Floats = np.max([contained, *(around.take(contained, distance) for distance in around.places)], axis=0)
    idf = np.array([bm25.idf.get(term, 0.0) for term in bm25.distinct])
    idf = idf / (idf.sum() or 1.0)
    matched = _Matches.of(lexical, pool, mode, contained @ idf, near @ idf)
    has_traits = having(pool.terms, *TRAITS)
    traits: dict[str, Floats] = dict(zip(TRAITS, has_traits.T, strict=True))
    columns = {
        **_own(matched),
        **_episodes(matched, pool, around, contained, idf),
        **_texts(words, pool, traits, cues, around),
        **_times(words, pool, traits, cues, matched.mix, inside),
    }
    columns["spread"] = _spread(cues, matched.mix + columns["episode"], pool.episode)
    features = np.stack([columns[name] for name in FEATURES], axis=1)
    kind = _kind(columns, pool, cues, len(query_terms))
    first = 1 / (1 + np.exp(-kind @ weights.kind))
    mixed = first * weights.features[0] + (1 - first) * weights.features[1]
    final = np.vecdot(features, mixed)  # not `@`: BLAS sums a row in an order that depends on its place
    return Scores(features, kind, mixed, lexical, final, bm25.counts, near, has_traits)


class _Matches(NamedTuple):
    """How well each document matches, without its neighbors, (n,) each."""

    bm25: Floats
    vector: Floats
    raw_cosine: Floats
    static: Floats
    mix: Floats
    """Mean of the standardized legs."""
    coverage: Floats
    """Share of the query that it says; rare words count more."""
    near_coverage: Floats
    """Share that it or one within WINDOW places of it says."""

    @classmethod
    def of(cls, lexical: Floats, pool: Pool, mode: Mode, coverage: Floats, near_coverage: Floats) -> "_Matches":
        none = np.zeros(len(lexical))
        bm25 = _standardized(lexical)
        if mode == "lexical":
            return cls(bm25, bm25, none, none, bm25, coverage, near_coverage)
        own = np.asarray(pool.cosine, np.float64)
        static = none if pool.static is None else np.nan_to_num(np.asarray(pool.static, np.float64))
        meaning = _standardized(_meaning(pool))
        has_vector, embedded = ~np.isnan(meaning), ~np.isnan(own)
        # without any vector a document counts by its words, or is last if there are none
        vector = np.where(has_vector, meaning, bm25 if bm25.any() else meaning[has_vector].min(initial=0.0))
        # a document that the model has not embedded yet: as far from the mean of the others as its static vector is
        present = own[embedded]
        expected = present.mean() + present.std() * meaning if len(present) else np.full(len(own), EXPECTED_COSINE)
        raw = np.where(embedded, own, np.where(has_vector, expected, present.min(initial=1.0) if len(present) else 0.0))
        return cls(bm25, vector, raw, static, (bm25 + vector) / 2, coverage, near_coverage)


def _own(matched: _Matches) -> dict[str, Floats]:
    return {
        "bm25": matched.bm25,
        "relative_cosine": matched.vector,
        "raw_cosine": matched.raw_cosine,
        "relative_static": _standardized(matched.static),
        "raw_static": matched.static,
        "bm25_rank": _reciprocal_rank(matched.bm25),
        "cosine_rank": _reciprocal_rank(matched.vector),
        "coverage": matched.coverage,
        "near_coverage": _standardized(matched.near_coverage),
        "raw_near_coverage": matched.near_coverage,
    }


def _episodes(
    matched: _Matches, pool: Pool, around: "_Surroundings", contained: Floats, idf: Floats
) -> dict[str, Floats]:
    """What the turns around a document and its session say of it. A document that is alone is its own session."""
    mix, share = matched.mix, _standardized(matched.coverage)
    alone = np.all([places == len(mix) for places in around.places.values()], axis=0)
    outside = pool.episode < 0
    _, episode = np.unique(pool.episode, return_inverse=True)

    def beside(column: Floats, *distances: int) -> Floats:
        total = np.sum([around.take(column, distance) for distance in distances], axis=0) / len(distances)
        return np.where(alone, ALONE * column, total)

    def best(column: Floats) -> Floats:
        highest = np.full((episode.max(initial=0) + 1, *column.shape[1:]), -np.inf)
        np.maximum.at(highest, episode, column)
        return np.where(outside.reshape(-1, *[1] * (column.ndim - 1)), column, highest[episode])

    in_episode = best(contained) @ idf
    sequence = pool.sequence.astype(np.float64)
    return {
        "before": beside(mix, -1),
        "after": beside(mix, 1),
        "two_away": beside(mix, -2, 2),
        "episode": _episode_best(mix, pool.episode),
        "episode_cosine": best(matched.vector),
        "episode_best": best(mix),
        "episode_coverage": _standardized(in_episode),
        "raw_episode_coverage": in_episode,
        "coverage_before": beside(share, -1),
        "coverage_after": beside(share, 1),
        "first": (sequence == 0) * (1.0 - outside),
        "alone": outside.astype(np.float64),
        "turn_number": np.log1p(np.where(outside, 0.0, sequence)),
        "late": np.where(outside, 0.0, best(sequence) - sequence < 1.5),
    }


def _texts(
    words: Sequence[str], pool: Pool, traits: Mapping[str, Floats], cues: Cues, around: "_Surroundings"
) -> dict[str, Floats]:
    """Who said it, and what kind of text it is."""
    asks, user = traits[ASKS], np.maximum(traits[PROMPT], traits[USER_TURN])
    lengths, (named, other) = np.log1p(pool.terms.lengths), authors(words, pool)
    return {
        "length": _standardized(lengths),
        "raw_length": lengths,
        "author": named,
        "other_author": other,
        "named_first_person": traits[FIRST_PERSON] * named,
        "user_first_person": user * cues.first_person,
        "user": user,
        "tool": np.maximum(traits[TOOL_OUTPUT], traits[CALL]),
        "result": traits[RESULT],
        "asks": asks,
        "after_question": around.take(asks, -1),
        "user_asks": asks * user,
        "importance": np.zeros(len(named)) if pool.importance is None else pool.importance.astype(np.float64) - 5,
    }


def _times(
    words: Sequence[str],
    pool: Pool,
    traits: Mapping[str, Floats],
    cues: Cues,
    mix: Floats,
    inside: NDArray[np.bool_] | None,
) -> dict[str, Floats]:
    n, named = len(mix), months(words)
    occurred = np.zeros(n, np.int64) if pool.occurred_ms is None else pool.occurred_ms
    tells_time, number = traits[TELLS_TIME], traits[NUMBER]
    new = np.searchsorted(np.sort(occurred), occurred) / max(1, n - 1)
    strongest = np.sort(occurred[np.argsort(-mix, kind="stable")[:STRONGEST]])
    return {
        "tells_time": tells_time,
        "time_asked": tells_time * cues.time,
        "number": number,
        "number_asked": number * cues.number,
        "month": np.minimum(1.0, pool.terms.counts(named).sum(axis=1)) if named else np.zeros(n),
        "named_time": np.zeros(n) if inside is None else inside.astype(np.float64),
        "new": new,
        "new_asked": new * cues.now,
        "new_past": new * cues.past,
        "new_present": new * cues.present,
        "newer_strong": 1 - np.searchsorted(strongest, occurred, side="right") / max(1, len(strongest)),
    }


def _kind(columns: Mapping[str, Floats], pool: Pool, cues: Cues, words: int) -> Floats:
    best = np.sort(columns["raw_cosine"])[-10:].mean()
    values = {
        "always": 1.0,
        **{name: columns[name].mean() for name in ("tool", "user", "asks")},
        "length": columns["raw_length"].mean(),
        "first_person": float(cues.first_person),
        "question_mark": float(cues.question_mark),
        "question_word": float(cues.question_word),
        "cosine": best,
        "words": log(1 + words),
        "episodes": log(1 + len(np.unique(pool.episode)) / len(pool.terms)),
        "authors": float(min(len(pool.names), AUTHORS)),
    }
    return np.array([values[name] for name in KIND])


def _reciprocal_rank(column: Floats) -> Floats:
    """(n,), of the number of documents that are better; of equal ones the same."""
    return 1 / (RANK_K + len(column) - np.searchsorted(np.sort(column), column, side="right"))


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Where in the pool each document's neighbors are."""

    places: Mapping[int, NDArray[np.intp]]
    """Distance (negative: earlier) to (n,) index in the pool, n where there is no such document."""

    @classmethod
    def of(cls, pool: Pool) -> "_Surroundings":
        n = len(pool.terms)
        keys = (np.asarray(pool.episode, np.int64) << 33) + np.asarray(pool.sequence, np.int64)
        order = np.argsort(keys, kind="stable")
        ordered = np.append(keys[order], np.iinfo(np.int64).max)
        order = np.append(order, n)
        places: dict[int, NDArray[np.intp]] = {}
        for distance in (sign * away for away in range(1, WINDOW + 1) for sign in (-1, 1)):
            at = np.searchsorted(ordered[:-1], keys + distance)
            present = (ordered[at] == keys + distance) & (np.asarray(pool.episode) >= 0)
            places[distance] = np.where(present, order[at], n)
        return cls(places)

    def take(self, column: Floats, distance: int) -> Floats:
        """The column's values that far away; 0 where there is no document."""
        padded = np.concatenate([column, np.zeros((1, *column.shape[1:]))])
        return np.asarray(padded[self.places[distance]], np.float64)


def _meaning(pool: Pool) -> Floats:
    """(n,), the model's cosines, standardized; without one the static cosine, standardized separately.

    The model's are shifted to the mean and deviation of the static ones of the same documents, or those that have them
    already would be compared among themselves: of a pool's best half, half would be below the mean.
    """
    own = np.asarray(pool.cosine, np.float64)
    if pool.static is None:
        return own
    static = _standardized(np.asarray(pool.static, np.float64))
    both = ~np.isnan(own) & ~np.isnan(static)
    own = _standardized(own)
    if np.isnan(own).any() and both.any():
        own = own * static[both].std() + static[both].mean()
    return np.where(np.isnan(own), static, own)


def _standardized(column: Floats) -> Floats:
    """In standard deviations from the mean; nan stays nan, a constant becomes 0."""
    finite = column[~np.isnan(column)]
    spread = finite.std() if finite.size else 0.0
    return (column - finite.mean()) / spread if spread > 1e-12 else column * 0.0


def _episode_best(values: Floats, episode: NDArray[np.int32]) -> Floats:
    """(n,), mean of the best `EPISODE_BEST` of each document's episode; outside any, a document is its own."""
    order = np.lexsort((-values, episode))
    starts = np.flatnonzero(np.diff(episode[order], prepend=episode[order[0]] - 1))
    sizes = np.diff(starts, append=len(order))
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    best = np.add.reduceat(np.where(place < EPISODE_BEST, values[order], 0.0), starts)
    means = np.empty_like(values)
    means[order] = np.repeat(best / np.minimum(sizes, EPISODE_BEST), sizes)
    return np.where(episode >= 0, means, values)


def _spread(cues: Cues, scores: Floats, episode: NDArray[np.int32]) -> Floats:
    """(n,), minus the number of better documents of the same episode, up to SPREAD_OVER, when the question counts."""
    lost = np.zeros(len(scores))
    if not cues.several:
        return lost
    order = np.lexsort((-scores, episode))
    starts = np.flatnonzero(np.diff(episode[order], prepend=episode[order[0]] - 1))
    better = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    lost[order] = -np.minimum(better, SPREAD_OVER)
    return np.where(episode >= 0, lost, 0.0)


def evidence(
    said: Floats,
    near: Floats,
    idf: Floats,
    static: NDArray[np.floating],
    cosine: NDArray[np.floating],
    in_table: NDArray[np.bool_],
    trust: Floats,
) -> Floats:
    """Return what `reference.pools.evidence` returns."""
    n = len(said)
    anywhere = np.asarray((said > 0).any(axis=0), np.bool_)
    weight, near, new = idf * trust, np.minimum(near, 1.0), idf * ~(in_table | anywhere)
    starts = range(0, len(idf) - STEP, STEP) if 2 * len(idf) > 3 * PART else ()
    parts = [
        np.stack([near[:, part] @ weight[part], np.full(n, anywhere[part] @ weight[part]), np.full(n, new[part].sum())])
        / (idf[part].sum() or 1.0)
        for part in (slice(0, len(idf)), *(slice(start, start + PART) for start in starts))
    ]
    by_part = np.stack(parts)  # (parts, 3, n)
    words = by_part[(by_part[:, 0] + by_part[:, 1] - by_part[:, 2]).argmax(axis=0), :, np.arange(n)]
    own = np.where(np.isnan(cosine), EXPECTED_COSINE, cosine)
    columns = [words, np.nan_to_num(static), np.full(n, own.max(initial=0.0)), np.ones(n)]
    return np.column_stack(columns).astype(np.float64)
