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

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import log
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from ingest.platform.files import toml_beside
from projections.kernel.module import native
from projections.text.cues import (
    NO_CUES,
    TRAITS,
    Cues,
    months,
)
from projections.vectors.columns import TermRows, hashed

Mode = Literal["hybrid", "lexical", "vector"]
Floats = NDArray[np.float64]

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
    read = toml_beside(__file__, "weights.toml")
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
    """(n, terms), 1 where the document, or one within two places of it, says the term."""
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
) -> Scores:
    """Returns the relevance of each document of a pool to the query. The pool must not be empty.

    Vector mode uses no words, lexical mode no vectors. `inside` (n,) is whether a document is of the time that the
    question names. Rarity is that in the pool: a count over all that the reader can read may be some minutes old, and
    indexes of the same documents would score differently.
    """
    weights, missing = shipped_weights(), np.empty(0)
    words, cues = ((), NO_CUES) if mode == "vector" else (query_terms, cues)
    times = Counter(words)
    author, other = _authors(words, pool)
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
        np.empty(0, np.bool_) if inside is None else inside,
        float(len(pool.names)),
        MODES.index(mode),
        hashed(term.encode() for term in times),
        np.array([*times.values()], np.float64),
        hashed(term.encode() for term in months(words)),
        float(len(query_terms)),
        np.array([getattr(cues, name) for name in CUES], np.float64),
        hashed(trait.encode() for trait in TRAITS),
        weights.features,
        weights.kind,
    )
    return Scores(features.T, kind, mixed, lexical, final, said, near, traits.T)


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


CORRECTED = 0.5
"""Trust in a corrected term: often the documents never said the question's word, but something like it."""
FEWEST = 1_000
"""Documents to compute rarity from, at least. Of three, one of which said "checkout" and none "fail", "fail" counted
twice as much, and "why did checkout fail?" found nothing on a new server."""


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
    columns = (np.ascontiguousarray(column, np.float64) for column in (trusted, static, cosine))
    return native.evidence(said, near, idf, in_table, *columns)


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
