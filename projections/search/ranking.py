"""Scores a pool of candidates for one query, and how likely each is an answer.

The one file that imports rank_bm25, which scores the list by words of the ranking `rrf` (`PoolBM25`). All other BM25 is
compiled, or NumPy's for few documents; tests compare it with rank_bm25.

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

from collections.abc import Mapping, Sequence
from functools import cache
from math import log
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from ingest.platform.files import toml_beside
from projections.kernel.module import native
from projections.vectors.columns import Hashes, TermRows

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
        np.ascontiguousarray(np.array([read["features"][name] for name in FEATURES]).T),
        np.array([read["kind"][name] for name in KIND]),
        np.array([read["answerable"][name] for name in ANSWERABLE]),
        np.array([read["share"][name] for name in SHARE]),
    )


class Criteria(NamedTuple):
    """What decides between the documents of a pool: the argument `criteria` of `native.results`.

    An array (terms,) has a value for each distinct term of the question, in the order of `terms`.
    """

    mode: int
    """Its place in MODES."""
    terms: Hashes
    """(terms,), without repetitions; of no terms in the mode that uses no words."""
    times: Floats
    """(terms,), how often the question says each."""
    months: Hashes
    """The months among them."""
    words: float
    """How many terms the question has, with repetitions."""
    cues: Floats
    """(len(CUES),)"""
    traits: Hashes
    """(len(TRAITS),)"""
    features: Floats
    """As in Weights, like the next three."""
    kind: Floats
    answerable: Floats
    share: Floats
    vector: NDArray[np.float32]
    """The model's of the question, of unit length; empty: none."""
    static_vector: NDArray[np.float32]
    """The static one; empty: none."""
    idf: Floats
    """(terms,), rarity among the documents that the reader can read."""
    in_table: NDArray[np.bool_]
    """(terms,), which have a static vector."""
    trust: Floats
    """(terms,), in the spelling: CORRECTED or 1."""
    counted: NDArray[np.bool_]
    """(terms,), which do not name the time that the question names."""
    numbers: NDArray[np.bool_]
    """(terms,), which have a digit."""
    from_ms: int
    """The time that the question names, up to and without `to_ms`; both are 0 for none."""
    to_ms: int
    dates: TermRows
    """Terms by which a text names a date of it."""
    identifiers: TermRows
    """Of the identifiers, paths, versions and addresses in the question."""
    identifiers_share: float
    """Of the question's terms."""
    names: TermRows
    """Of which a result has to say one: of a question that is nothing but names."""
    exact: bool
    lookup: bool
    word_or_two: bool
    remark: bool
    """It names a time and asks nothing."""
    lists_parts: bool
    fold: bool
    limit: int
    half_life_ms: float
    """0: recency does not count."""
    alpha: float
    """Weight of relevance against recency."""
    now_ms: int
    confidence_known: bool
    english: bool
    surely_english: bool
    of_model: bool
    """Whether the static vectors are of the model."""
    is_name: bool
    language_terms: Hashes
    """Of known language, ascending."""
    language_values: NDArray[np.int64]
    """(2 * terms,), whether each is English, and whether it is a function word of another language."""


def groups_of(results: native.Results) -> dict[str, Floats]:
    """What each of GROUPS adds to a document's score, (n,), against the mean of the pool."""
    adds = results.features * results.weights.T
    starts = np.cumsum([0, *map(len, GROUPS.values())])[:-1]
    sums = np.add.reduceat(adds - adds.mean(axis=1, keepdims=True), starts)
    return dict(zip(GROUPS, sums, strict=True))


CORRECTED = 0.5
"""Trust in a corrected term: often the documents never said the question's word, but something like it."""
FEWEST = 1_000
"""Documents to compute rarity from, at least. Of three, one of which said "checkout" and none "fail", "fail" counted
twice as much, and "why did checkout fail?" found nothing on a new server."""


def idf_of(frequencies: Sequence[int], documents: int) -> Floats:
    """(terms,), Lucene's log(1 + (N - n + 0.5) / (n + 0.5)), of how many of the documents say each."""
    n = np.minimum(np.asarray(frequencies, np.float64), documents)
    return np.log(1 + (max(documents, FEWEST) - n + 0.5) / (n + 0.5))
