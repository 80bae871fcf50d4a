"""Scores a pool of candidates for one query, and how likely each is an answer. The one file that imports rank_bm25.

Guarantee: a pure function of the query's terms and the pool. The same input gives the same scores, every final score is
finite, and a leg without data (no query terms, no vectors yet) is left out instead of counting as a bad match.

Scores only compare the results of one question; `confidence` is absolute. It is a logistic model of how much of the
question is said around the result, how much of it any candidate says, how near the static and model vectors are, and
how much of it no candidate says and no model knows: a name or a number that was never mentioned. A word counts by how
rare it is among the documents that the reader can read. Fitted to questions that the sessions of two projects of agent
work (MIT) and of `benchmarks/coding.py` answer, and to others that they do not; `python -m benchmarks abstain` measures
it (decision 51).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from projections.search.columns import TermRows
from projections.search.cues import NO_CUES, Cues, speaker_lift, spread, time_lift

Mode = Literal["hybrid", "lexical", "vector"]
Floats = NDArray[np.float64]

# Recall figures below: LoCoMo, five conversations, categories 1-4, evidence turns in the first 10 of a pool of 319 on
# average; 81.1 as set here. The plateau is flat: of 70 settings, those best on four conversations give 79.8 on a fifth.
ALPHA = 0.5
"""Share of the lexical leg; 0.4 costs 0.5 points, 0.6 costs 0.7."""
COVERAGE = 0.3
"""Per standard deviation of the share of the query said within `WINDOW`; without it, recall@5 falls from 72.7 to
70.7."""
WINDOW = 2
"""Neighbors on either side, at least as many as `NEIGHBOR_LIFTS`; with 1 of each 79.7, 3 costs 0.2."""
NEIGHBOR_LIFTS = (0.3, 0.15)
"""Share of the scores of the documents one and two places away that is added; without 78.6, without the second 80.3."""
ALONE_LIFT = 0.5
"""Share of its own score that a document without neighbors gains, or memories would lose to observations. With a
quarter of the turns taken out of their sessions, recall of evidence among them is 52% at 0 and 65% at 0.5; of the rest
68 and 66."""
EPISODE_LIFT = 0.3
"""Share of the mean of the episode's best `EPISODE_BEST` that is added; without 80.0."""
EPISODE_BEST = 3
AUTHOR_LIFT = 1.5
"""In standard deviations of a leg, when the query names the author; without authors 78.9, at 2.0 the same."""
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
    """`terms(text) + date_terms(occurred_at)`, as an index keeps them; without dates 79.1."""
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


WEIGHTED = ("mix", "author", "coverage", "neighbours", "episode", "speaker", "time", "spread")
"""The columns of `Scores` that are summed, in this order: other orders round differently."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The features of each document of a pool; every column is (n,) float64, in the pool's order.

    `final` is the sum of the columns of WEIGHTED, in standard deviations of a leg; `relevance` is `final` stretched to
    0..1 over the pool, for weights that multiply.
    """

    lexical: Floats
    vector: Floats
    mix: Floats
    author: Floats
    coverage: Floats
    neighbours: Floats
    episode: Floats
    speaker: Floats
    time: Floats
    spread: Floats
    final: Floats
    relevance: Floats
    said: Floats
    """(n, terms), how often each document says each distinct term of the query."""
    near: Floats
    """(n, terms), 1 where the document, or one within `WINDOW` places of it, says the term."""


def score(
    query_terms: Sequence[str], pool: Pool, *, mode: Mode = "hybrid", alpha: float = ALPHA, cues: Cues = NO_CUES
) -> Scores:
    """Relevance of each document of the pool to the query.

    BM25 over the pool and cosine are standardized and mixed (`alpha` is the lexical share); then a document is lifted
    when the query names its author, by how much of the query is said around it, by its neighbors and by its episode;
    last by what the query's `cues` ask for. Vector mode uses no words, lexical mode no vectors.
    """
    cues = NO_CUES if mode == "vector" else cues
    words = () if mode == "vector" else query_terms
    around = _Surroundings.of(pool)
    bm25 = PoolBM25(pool.terms, words)
    lexical = np.asarray(bm25.get_scores(list(words)), np.float64)
    vector = np.full(len(pool.terms), np.nan) if mode == "lexical" else _meaning(pool)
    mix = _mix(lexical, vector, alpha if mode == "hybrid" else float(mode == "lexical"))
    named = _author_named(words, pool)
    author = AUTHOR_LIFT * named
    said = np.minimum(bm25.counts, 1.0)
    near: Floats = np.max([said, *(around.take(said, distance) for distance in around.places)], axis=0)
    coverage = COVERAGE * _standardized(_coverage(bm25, near))
    own = mix + author + coverage
    neighbors = around.lift(own)
    episode = EPISODE_LIFT * _episode_best(own + neighbors, pool.episode)
    speaker, time = speaker_lift(cues, pool.terms, named), time_lift(cues, pool.terms)
    lifted = own + neighbors + episode + speaker + time
    apart = spread(cues, lifted, pool.episode)
    final = lifted + apart
    return Scores(
        lexical, vector, mix, author, coverage, neighbors, episode, speaker, time, apart, final, stretched(final),
        bm25.counts, near,
    )  # fmt: skip


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

    def lift(self, own: Floats) -> Floats:
        """(n,), `NEIGHBOR_LIFTS` of the scores on either side, or `ALONE_LIFT` without neighbors."""
        lifted = np.zeros_like(own)
        for distance, share in enumerate(NEIGHBOR_LIFTS, start=1):
            lifted += share * (self.take(own, -distance) + self.take(own, distance))
        alone = np.all([place == own.size for place in self.places.values()], axis=0)
        return np.where(alone, ALONE_LIFT * own, lifted)


def _coverage(bm25: PoolBM25, near: Floats) -> Floats:
    """(n,), the idf-weighted share of the query's words said near each document."""
    idf = np.array([bm25.idf.get(term, 0.0) for term in bm25.distinct])
    if not idf.any() or not bm25.corpus_size:
        return np.zeros(bm25.corpus_size)
    return np.asarray(near @ idf / idf.sum(), np.float64)


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


def _mix(lexical: Floats, vector: Floats, alpha: float) -> Floats:
    """Standardized legs, mixed; without a vector a document counts by its words, or is last if no word matches."""
    words = _standardized(lexical)
    meaning = _standardized(vector)
    unknown = np.isnan(meaning)
    least = np.full_like(words, meaning[~unknown].min(initial=0.0))
    instead = words if alpha > 0 and words.any() else least
    return np.where(unknown, instead, alpha * words + (1 - alpha) * meaning)


def _standardized(column: Floats) -> Floats:
    """In standard deviations from the mean; nan stays nan, a constant becomes 0."""
    finite = column[~np.isnan(column)]
    spread = finite.std() if finite.size else 0.0
    return (column - finite.mean()) / spread if spread > 1e-12 else column * 0.0


def stretched(column: Floats) -> Floats:
    """Onto 0..1; a constant becomes 1."""
    if not column.size or column.max() - column.min() < 1e-12:
        return np.ones_like(column)
    return (column - column.min()) / (column.max() - column.min())


def _author_named(query_terms: Sequence[str], pool: Pool) -> Floats:
    """(n,), the share of the author's name that the query says."""
    words = frozenset(query_terms)
    if pool.author is None or not words:
        return np.zeros(len(pool.terms))
    shares = {author: sum(term in words for term in name) / max(1, len(name)) for author, name in pool.names.items()}
    authors: list[int] = pool.author.tolist()
    return np.array([shares[author] for author in authors], np.float64)


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


# fitted to the question sets of decision 51; `python -m benchmarks abstain` measures them
NEAR, SAID, UNKNOWN, STATIC, COSINE, CONSTANT = 5.3, 4.1, -4.5, 2.8, 2.8, -6.2
ANSWERED_FROM = 0.18
"""Below that the first result is no answer. Of all sets at most 0.9 points of recall@10 are below it, and three of four
unanswerable questions; at 0.2 the former are 1.4."""
EXPECTED_COSINE = 0.35
"""In place of the model's, until a document has its vector: about that of a result that is barely an answer."""
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


def confidence(
    said: Floats,
    near: Floats,
    idf: Floats,
    static: NDArray[np.floating],
    cosine: NDArray[np.floating],
    in_table: NDArray[np.bool_],
    trust: Floats | float = 1.0,
) -> Floats:
    """(n,) 0..1, of each document of a pool; a long question is judged by its best part.

    `said` and `near` (n, terms) are above 0 where a document, or one near it, says the term; `static` and `cosine` (n,)
    are nan for a document without the vector. `in_table` (terms,) are those with a static vector, `trust` (terms,) is
    the trust in each term's spelling.
    """
    if not len(said) or not idf.sum():
        return np.zeros(len(said))
    anywhere = np.asarray((said > 0).any(axis=0), np.bool_)
    weight, near, new = idf * trust, np.minimum(near, 1.0), idf * ~(in_table | anywhere)
    starts = range(0, len(idf) - STEP, STEP) if 2 * len(idf) > 3 * PART else ()
    words: list[Floats] = [
        (NEAR * near[:, part] @ weight[part] + SAID * anywhere[part] @ weight[part] + UNKNOWN * new[part].sum())
        / idf[part].sum()
        for part in (slice(0, len(idf)), *(slice(start, start + PART) for start in starts))
    ]
    meaning = STATIC * np.nan_to_num(static) + COSINE * np.where(np.isnan(cosine), EXPECTED_COSINE, cosine)
    return 1 / (1 + np.exp(-(np.max(words, axis=0) + meaning + CONSTANT)))


def confidence_by_words(terms: Sequence[str], near: Floats, idf: Floats) -> Floats:
    """(n,) 0..1, where no word of the question has a vector: half of them are enough, and all its numbers are needed.

    So a ticket, a version or an address that was never mentioned has no result, however similar others are.
    """
    near = np.minimum(near, 1.0)
    numbers = np.array([term.isalnum() and any(map(str.isdigit, term)) for term in terms], np.bool_)
    return np.minimum(1.0, 2 * near @ idf / idf.sum()) * near[:, numbers].all(axis=1)
