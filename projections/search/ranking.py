"""Scores a pool of candidates for one query, and how likely each is an answer. The one file that imports rank_bm25.

Guarantee: a pure function of the query's terms and the pool. The same input gives the same scores, every final score is
finite, and a feature without data (no query terms, no vectors yet) is the same for all instead of counting as a bad
match.

The score is a sum of `FEATURES` times the weights of `weights.toml`, which `python -m benchmarks fit_ranking` makes:
listwise logistic regressions for two kinds of history, mixed by what the pool and the question look like (decision 59).
Scores only compare the results of one question; `confidence` is absolute: a logistic model of how much of the question
is said around the result, how much of it any candidate says, how near the static and model vectors are, and how much of
it no candidate says and no model knows: a name or a number that was never mentioned. A word counts by how rare it is
among the documents that the reader can read.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import log
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from projections.kernel.module import NATIVE, native
from projections.search.columns import TermRows, hashed
from projections.search.cues import (
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
    spread,
)

Mode = Literal["hybrid", "lexical", "vector"]
Floats = NDArray[np.float64]

WINDOW = 2
"""Neighbors on either side whose words count as said near a document."""
ALONE = 0.5
"""Share of its own score that stands in for the neighbors of a document that has none, or memories would lose to
observations. With a quarter of the turns taken out of their sessions, recall of evidence among them was 52% at 0 and 65
at 0.5; of the rest 68 and 66%."""
EPISODE_BEST = 3
"""Of an episode, as many of its best documents say how good it is."""
STRONGEST = 10
"""Of a pool: what is newer than these has not been replaced since."""
EXPECTED_COSINE = 0.3
"""In place of the model's, until a document has its vector."""
K1, B = 0.9, 0.4
"""Anserini's defaults; 0.6, 1.2 and B 0.2 within 0.1 of recall@10 (LoCoMo)."""


class PoolBM25(BM25Okapi):
    """BM25Okapi over the pool, reduced to the query's terms: other words only count towards length.

    Its idf is Lucene's, log(1 + (N - n + 0.5) / (n + 0.5)): rank_bm25's own is zero or negative for a word that half of
    a small pool holds. Measured equal otherwise.
    """

    def __init__(self, documents: TermRows, query_terms: Sequence[str]) -> None:
        self.idf: dict[str, float] = {}
        self.distinct = list(dict.fromkeys(query_terms))
        super().__init__(documents, k1=K1, b=B)

    def _initialize(self, corpus: TermRows) -> dict[str, int]:
        self.counts = corpus.counts(self.distinct)
        self.corpus_size = len(corpus)
        self.doc_freqs: list[dict[str, float]] = [{} for _ in range(len(corpus))]
        for place, column in zip(*(axis.tolist() for axis in np.nonzero(self.counts)), strict=True):
            self.doc_freqs[place][self.distinct[column]] = self.counts[place, column]
        self.doc_len: list[int] = corpus.lengths.tolist()
        self.avgdl = sum(self.doc_len) / max(1, self.corpus_size) or 1.0
        holding: list[int] = np.count_nonzero(self.counts, axis=0).tolist()
        return {term: n for term, n in zip(self.distinct, holding, strict=True) if n}

    def _calc_idf(self, nd: Mapping[str, int]) -> None:
        self.idf = {term: log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in nd.items()}


@dataclass(frozen=True, slots=True)
class Pool:
    """The documents to rank, one column per attribute; every column is as long as `terms`."""

    terms: TermRows
    """`index_terms` of each, as an index keeps them: text, traits, and the terms of its date."""
    cosine: Floats | NDArray[np.float32]
    """(n,), of the model's vectors to the query's; nan where the document has none yet."""
    episode: NDArray[np.int32]
    """(n,), -1 for a document outside any episode."""
    sequence: NDArray[np.int32]
    """(n,), place in the episode, one document each; neighbors differ by 1."""
    static: Floats | NDArray[np.float32] | None = None
    """(n,), of static vectors; nan where the document has none, None when the index has none."""
    author: NDArray[np.int32] | None = None
    """(n,), who said it, a key of `names`; None when authors are unknown."""
    names: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """`terms(name)` of each author in the pool."""
    occurred_ms: NDArray[np.int64] | None = None
    """(n,), ms since the epoch; None: all at once."""
    importance: NDArray[np.floating[Any]] | None = None
    """(n,), 0 to 10; None: 5 each."""


class Weights(NamedTuple):
    """What `weights.toml` says, as arrays."""

    features: Floats
    """(2, len(FEATURES)), of each kind of history."""
    kind: Floats
    """(len(KIND),), of the log odds that a question is about the first kind."""
    answerable: Floats
    """(len(ANSWERABLE),), of the log odds that the question has an answer, by what speaks for a result."""
    share: Floats
    """(2,), of the log odds that it is this result, if there is one: of its log share of the answer, and a constant."""


GROUPS = {
    "words": ("bm25", "bm25_rank", "coverage", "near_coverage", "raw_near_coverage"),
    "meaning": ("relative_cosine", "raw_cosine", "cosine_rank", "relative_static", "raw_static"),
    "neighbors": ("before", "after", "two_away", "coverage_before", "coverage_after", "after_question"),
    "session": (
        "episode", "episode_cosine", "episode_best", "episode_coverage", "raw_episode_coverage",
        "first", "turn_number", "late", "alone", "spread",
    ),
    "author": ("author", "other_author", "named_first_person", "user_first_person"),
    "kind": ("user", "tool", "result", "asks", "user_asks", "importance"),
    "time": ("tells_time", "time_asked", "number", "number_asked", "month", "named_time"),
    "newness": ("new", "new_asked", "new_past", "new_present", "newer_strong"),
    "length": ("length", "raw_length"),
}  # fmt: skip
"""The features, described in docs/concepts/recall.md, by what they tell; `explain` shows the sums of groups."""
FEATURES = tuple(name for names in GROUPS.values() for name in names)
"""The columns of `Scores.features`."""
KIND = (
    "always", "tool", "user", "length", "asks", "first_person", "question_mark", "question_word", "cosine", "words",
    "episodes", "authors",
)  # fmt: skip
"""What tells the kind of history: shares of the pool, and how the question is put."""
ANSWERABLE = ("near", "said", "unknown", "static", "best_cosine", "always")
SHARE = ("share", "always")
MODES: tuple[Mode, ...] = ("hybrid", "lexical", "vector")
CUES = ("first_person", "time", "several", "number", "past", "now", "present", "question_word", "question_mark")
"""Those that features depend on, in the order of `native.score`."""


@cache
def shipped_weights() -> Weights:
    """The weights of `weights.toml`, read once. Raises KeyError for a file that lacks some."""
    read = tomllib.loads(Path(__file__).with_name("weights.toml").read_text())
    return Weights(
        np.array([read["features"][name] for name in FEATURES]).T,
        np.array([read["kind"][name] for name in KIND]),
        np.array([read["answerable"][name] for name in ANSWERABLE]),
        np.array([read["share"][name] for name in SHARE]),
    )


@dataclass(frozen=True, slots=True)
class Scores:
    """The features of each document of a pool, in the pool's order.

    `final` is their weighted sum, a log probability up to a constant; `relevance` is `final` stretched to 0..1 over the
    pool, for weights that multiply.
    """

    features: Floats
    """(n, len(FEATURES))."""
    kind: Floats
    """(len(KIND),)."""
    weights: Floats
    """(len(FEATURES),), as mixed for this question."""
    lexical: Floats
    """(n,), BM25 over the pool."""
    final: Floats
    said: Floats
    """(n, terms), how often each document says each distinct term of the query."""
    near: Floats
    """(n, terms), 1 where the document, or one within `WINDOW` places of it, says the term."""
    traits: Floats
    """(n, len(TRAITS)), 1 where the document has the trait."""

    @property
    def relevance(self) -> Floats:
        """(n,), `final` on 0..1."""
        return stretched(self.final)

    def having(self, trait: str) -> Floats:
        """(n,), 1 for each document that has the trait."""
        return self.traits[:, TRAITS.index(trait)]

    def groups(self) -> dict[str, Floats]:
        """What each of GROUPS adds to a document's score, (n,), against the mean of the pool."""
        parts = self.features * self.weights
        starts = np.cumsum([0, *map(len, GROUPS.values())])[:-1]
        sums = np.add.reduceat(parts - parts.mean(axis=0), starts, axis=1)
        return dict(zip(GROUPS, sums.T, strict=True))


def score(
    query_terms: Sequence[str],
    pool: Pool,
    *,
    mode: Mode = "hybrid",
    cues: Cues = NO_CUES,
    inside: NDArray[np.bool_] | None = None,
    weights: Weights | None = None,
) -> Scores:
    """Relevance of each document of the pool to the query. Vector mode uses no words, lexical mode no vectors.

    `inside` (n,) is whether a document is of the time that the question names. Rarity is that in the pool: a count over
    all that the reader can read may be some minutes old, and indexes of the same documents would score differently.
    """
    weights = shipped_weights() if weights is None else weights
    without_words = mode == "vector"
    query = _Query(
        mode, () if without_words else query_terms, len(query_terms), NO_CUES if without_words else cues, inside
    )
    return _native_score(query, pool, weights) if NATIVE and len(pool.terms) else _score(query, pool, weights)


class _Query(NamedTuple):
    """A question to a pool."""

    mode: Mode
    words: Sequence[str]
    """Those that documents are compared with; none in vector mode."""
    number: int
    """Of all words."""
    cues: Cues
    inside: NDArray[np.bool_] | None


def _native_score(query: _Query, pool: Pool, weights: Weights) -> Scores:
    times = Counter(query.words)
    author, other = _authors(query.words, pool)
    missing = np.empty(0)
    features, kind, mixed, lexical, final, said, near, traits = native.score(
        pool.terms.hashes,
        pool.terms.lengths,
        np.asarray(pool.cosine, np.float64),
        missing if pool.static is None else np.asarray(pool.static, np.float64),
        pool.episode,
        pool.sequence,
        np.empty(0, np.int64) if pool.occurred_ms is None else pool.occurred_ms,
        missing if pool.importance is None else pool.importance.astype(np.float64),
        author,
        other,
        np.empty(0, np.bool_) if query.inside is None else query.inside,
        float(len(pool.names)),
        MODES.index(query.mode),
        hashed(term.encode() for term in times),
        np.array([*times.values()], np.float64),
        hashed(term.encode() for term in months(query.words)),
        float(query.number),
        np.array([getattr(query.cues, name) for name in CUES], np.float64),
        hashed(trait.encode() for trait in TRAITS),
        weights.features,
        weights.kind,
    )
    return Scores(features.T, kind, mixed, lexical, final, said, near, traits.T)


def _score(query: _Query, pool: Pool, weights: Weights) -> Scores:
    """The reference of `native.score`."""
    mode, words, number, cues, inside = query
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
    columns["spread"] = spread(cues, matched.mix + columns["episode"], pool.episode)
    features = np.stack([columns[name] for name in FEATURES], axis=1)
    kind = _kind(columns, pool, cues, number)
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
        bm25 = standardized(lexical)
        if mode == "lexical":
            return cls(bm25, bm25, none, none, bm25, coverage, near_coverage)
        own = np.asarray(pool.cosine, np.float64)
        static = none if pool.static is None else np.nan_to_num(np.asarray(pool.static, np.float64))
        meaning = standardized(_meaning(pool))
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
        "relative_static": standardized(matched.static),
        "raw_static": matched.static,
        "bm25_rank": _reciprocal_rank(matched.bm25),
        "cosine_rank": _reciprocal_rank(matched.vector),
        "coverage": matched.coverage,
        "near_coverage": standardized(matched.near_coverage),
        "raw_near_coverage": matched.near_coverage,
    }


def _episodes(
    matched: _Matches, pool: Pool, around: "_Surroundings", contained: Floats, idf: Floats
) -> dict[str, Floats]:
    """What the turns around a document and its session say of it. A document that is alone is its own session."""
    mix, share = matched.mix, standardized(matched.coverage)
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
        "episode_coverage": standardized(in_episode),
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
    lengths, (named, other) = np.log1p(pool.terms.lengths), _authors(words, pool)
    return {
        "length": standardized(lengths),
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
    n = len(pool.terms)
    if not n:
        return np.zeros(len(KIND))
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
        "episodes": log(1 + len(np.unique(pool.episode)) / n),
        "authors": float(min(len(pool.names), MOST_AUTHORS)),
    }
    return np.array([values[name] for name in KIND])


MOST_AUTHORS = 8
"""That count: more of them say nothing new about the kind of history."""
RANK_K = 3
"""Of a reciprocal rank: the first is worth 4/3 of the second."""


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
    static = standardized(np.asarray(pool.static, np.float64))
    both = ~np.isnan(own) & ~np.isnan(static)
    own = standardized(own)
    if np.isnan(own).any() and both.any():
        own = own * static[both].std() + static[both].mean()
    return np.where(np.isnan(own), static, own)


def standardized(column: Floats) -> Floats:
    """In standard deviations from the mean; nan stays nan, a constant becomes 0."""
    finite = column[~np.isnan(column)]
    spread = finite.std() if finite.size else 0.0
    return (column - finite.mean()) / spread if spread > 1e-12 else column * 0.0


def lowered(column: Floats, weight: float) -> Floats:
    """What `stretched` times a weight is on the scale of the column."""
    lowest = column.min(initial=np.inf)
    return lowest + weight * (column - lowest)


def stretched(column: Floats) -> Floats:
    """Onto 0..1; a constant becomes 1."""
    if not column.size or column.max() - column.min() < 1e-12:
        return np.ones_like(column)
    return (column - column.min()) / (column.max() - column.min())


def _authors(query_terms: Sequence[str], pool: Pool) -> tuple[Floats, Floats]:
    """(n,), the share of the author's name that the query says; and (n,), 1 if it says the whole name of another, and
    of no second one."""
    words = frozenset(query_terms)
    named = other = np.zeros(len(pool.terms))
    shares = {
        author: sum(term in words for term in name) / len(name)
        for author, name in pool.names.items()
        if not words.isdisjoint(name)
    }
    if pool.author is None or not shares:
        return named, other
    for author, share in shares.items():
        named = np.where(pool.author == author, share, named)
    whole = [author for author, share in shares.items() if share == 1]
    return named, np.where(pool.author != whole[0], 1.0, other) if len(whole) == 1 else other


def _episode_best(values: Floats, episode: NDArray[np.int32]) -> Floats:
    """(n,), mean of the best `EPISODE_BEST` of each document's episode; outside any, a document is its own."""
    if not values.size:
        return values.copy()
    order = np.lexsort((-values, episode))
    starts = np.flatnonzero(np.diff(episode[order], prepend=episode[order[0]] - 1))
    sizes = np.diff(starts, append=len(order))
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    best = np.add.reduceat(np.where(place < EPISODE_BEST, values[order], 0.0), starts)
    means = np.empty_like(values)
    means[order] = np.repeat(best / np.minimum(sizes, EPISODE_BEST), sizes)
    return np.where(episode >= 0, means, values)


CORRECTED = 0.5
"""Trust in a corrected term: often the documents never said the question's word, but something like it."""
FEWEST = 1_000
"""Documents to compute rarity from, at least. Of three, one of which said "checkout" and none "fail", "fail" counted
twice as much, and "why did checkout fail?" found nothing on a new server."""
PART, STEP = 16, 8
"""Terms of a part of a long question, and from one part to the next. Of questions with 90 words around them, 37 % were
withheld without parts and none with them; of those without an answer 33 % are, and 80 % were."""


def idf_of(frequencies: Sequence[int], documents: int) -> Floats:
    """(terms,), Lucene's log(1 + (N - n + 0.5) / (n + 0.5)), of how many of the documents say each."""
    n = np.minimum(np.asarray(frequencies, np.float64), documents)
    return np.log(1 + (max(documents, FEWEST) - n + 0.5) / (n + 0.5))


def evidence(
    said: Floats,
    near: Floats,
    idf: Floats,
    static: NDArray[np.floating],
    cosine: NDArray[np.floating],
    in_table: NDArray[np.bool_],
    trust: Floats | float = 1.0,
) -> Floats:
    """(n, len(ANSWERABLE)), what speaks for each document of a pool; a long question counts by its best part.

    `said` and `near` (n, terms) are above 0 where a document, or one near it, says the term; `static` and `cosine` (n,)
    are nan for a document without the vector. `in_table` (terms,) are those with a static vector, `trust` (terms,)
    is the trust in each term's spelling.
    """
    trusted = np.broadcast_to(np.asarray(trust, np.float64), len(idf))
    if not NATIVE:
        return _evidence(said, near, idf, static, cosine, in_table, trusted)
    columns = (np.ascontiguousarray(column, np.float64) for column in (trusted, static, cosine))
    return native.evidence(said, near, idf, in_table, *columns)


def _evidence(
    said: Floats,
    near: Floats,
    idf: Floats,
    static: NDArray[np.floating],
    cosine: NDArray[np.floating],
    in_table: NDArray[np.bool_],
    trust: Floats,
) -> Floats:
    """The reference of `native.evidence`."""
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


class Confidence(NamedTuple):
    """Of each document of a pool, (n,) 0..1: that the question has an answer, as far as this document tells, and that
    this document answers it."""

    answerable: Floats
    answers: Floats


def confidence(columns: Floats, final: Floats, weights: Weights | None = None) -> Confidence:
    """Of documents with these columns of `evidence` and these scores, whose softmax is a share of the answer."""
    weights = shipped_weights() if weights is None else weights
    return shared(_probability(columns @ weights.answerable), final, weights)


BY_COSINE = (12.0, -5.9)
"""Of the log odds that a question has an answer: of its best cosine, and a constant. Measured on agents' work and a
coding life of other people, where the first results are code: their AUC rises from .58 to .96, and from .83 to .96."""


def confidence_by_cosine(cosine: Floats | NDArray[np.float32]) -> float:
    """0..1, how likely a question has an answer, by the best of these cosines of the model (nan: not embedded yet)."""
    slope, constant = BY_COSINE
    best = np.fmax.reduce(cosine, initial=-1.0)  # ignores nan
    return float(_probability(np.float64(slope * best + constant)))


def shared(answerable: Floats, final: Floats, weights: Weights | None = None) -> Confidence:
    """Of documents with these scores, where the question has an answer with this probability."""
    return Confidence(answerable, answerable * share_of(final, weights))


def share_of(final: Floats, weights: Weights | None = None) -> Floats:
    """(n,), how likely each document with these scores is the answer, if there is one."""
    weights = shipped_weights() if weights is None else weights
    relative = final - final.max(initial=-np.inf)
    return _probability(weights.share[0] * (relative - np.log(np.exp(relative).sum() or 1.0)) + weights.share[1])


def _probability(log_odds: Any) -> Any:
    return 1 / (1 + np.exp(-log_odds))


def confidence_by_words(terms: Sequence[str], near: Floats, idf: Floats) -> Floats:
    """(n,) 0..1, where no word of the question has a vector: half of them are enough, and all its numbers are needed.

    So a ticket, a version or an address that was never mentioned has no result, however similar others are.
    """
    near = np.minimum(near, 1.0)
    numbers = np.array([term.isalnum() and any(map(str.isdigit, term)) for term in terms], np.bool_)
    return np.minimum(1.0, 2 * near @ idf / idf.sum()) * near[:, numbers].all(axis=1)
