"""Orders a pool of recalled documents for one query.

Guarantee: a pure function of the query's terms and the pool. The same input gives the same scores, every final score is
finite, and a leg with nothing to say (no query terms, no vectors yet) is left out instead of counting as a bad match.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from itertools import chain
from typing import Literal

import numpy as np
import Stemmer
from numpy.typing import NDArray

from projections.compression.words import MOST_KEPT, PerWord
from projections.search.bm25 import PoolBM25
from projections.search.cues import NO_CUES, Cues, speaker_lift, spread, time_lift
from projections.search.term_rows import TermRows

Mode = Literal["hybrid", "lexical", "vector"]
Floats = NDArray[np.float64]

# Recall figures below: LoCoMo, five conversations, categories 1-4, evidence turns in the first 10 of a pool of 319 on
# average; 81.1 as set here. The plateau is flat: of 70 settings, those best on four conversations give 79.8 on a fifth.
ALPHA = 0.5
"""Share of the lexical leg; 0.4 costs 0.5, 0.6 costs 0.7."""
COVERAGE = 0.3
"""Per standard deviation of the share of the query said within `WINDOW`; without, recall@5 falls from 72.7 to 70.7."""
WINDOW = 2
"""Places on either side, at least as many as `NEIGHBOUR_LIFTS`; with 1 (of both) 79.7, 3 costs 0.2."""
NEIGHBOUR_LIFTS = (0.3, 0.15)
"""Gained from the documents one and two places away, on either side; without 78.6, without the second 80.3."""
ALONE_LIFT = 0.5
"""Gained by a document with no neighbours from its own score, or memories would lose to observations: with a quarter of
the turns taken out of their sessions, 52% of the evidence among them is found at 0 and 65% at 0.5; of the rest 68, 66.
"""
EPISODE_LIFT = 0.3
"""Of the mean of the episode's best `EPISODE_BEST`; without 80.0."""
EPISODE_BEST = 3
AUTHOR_LIFT = 1.5
"""In standard deviations of a leg, when the query says the author's name; without authors 78.9, at 2.0 the same."""

# Lucene's English stop words, then the pronouns, auxiliaries and question words that questions are made of:
# without a list 78.9; with Snowball's own list half a point less, with modal verbs added the same.
_STOP_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with i me my we us our you your he him his she her hers its them what which who whom whose when where why how do
does did has have had been being am were from about
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
OPERATORS = frozenset(("and", "or", "not"))
"""Stop words that are no names in capitals either: people write queries with them."""
LONGEST_NAME = 12
"""Characters; a longer text that is all in capitals is shouted."""
LEADING_CHARACTERS = 80
"""Of a text, some fourteen words: what a title or a short statement says. Their stop words are indexed, so that "The
Who" and "who are we" find them: some 20 bytes a document, where those of whole texts would be a third of all terms."""
NAME = "="
"""Stands before a stop word that is written as a name, in index terms."""
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip

LONGEST_WORD = 128
"""Longer runs are data (base64, hashes in a row), not words: cut here and left whole."""

# Python's \w leaves out the vowel signs of Indic and South-East Asian scripts.
_LETTER = r"(?:[^\W_]|[\u0900-\u0963\u0966-\u0fff\u1000-\u1049\u1780-\u17d3])"
_RUN = re.compile(rf"{_LETTER}+(?:(?:_+|::|[.\-/\\:@#]){_LETTER}+)*")
_ASCII_RUN = re.compile(r"[A-Za-z0-9]++(?:(?:[.\-/\\:@#_]|::|__++)[A-Za-z0-9]++)*+")
_PART = re.compile(rf"{_LETTER}+")
_ASCII_PART = re.compile(r"[A-Za-z0-9]+")
_LETTERS = re.compile(r"[a-z]+")
_PLAIN = re.compile(r"[A-Za-z]?[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u1049\u1780-\u17d3\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
"""Scripts that set no spaces between words."""
_ACCENTS = re.compile(r"[\u0300-\u036f\u0591-\u05c7\u064b-\u065f]")
_CLITICS = re.compile(r"(?<=\w)(?:['\u2019](?:s|re|ve|ll|d|m)|n['\u2019]t)\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:T.*)?")
_VERSION = re.compile(r"[vV]\d+\.\d")
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")


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
    """(n,), place in the episode, one document each; neighbours differ by 1."""
    static: Floats | NDArray[np.float32] | None = None
    """(n,), of static vectors; nan where the document has none, None when the index has none."""
    author: NDArray[np.int32] | None = None
    """(n,), who said it, a key of `names`; None when authors are unknown."""
    names: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """`terms(name)` of each author in the pool."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What each document got and why; every column is (n,) float64, in the pool's order.

    `final` is the sum of `mix`, `author`, `coverage`, `neighbours`, `episode`, `speaker`, `time` and `spread`, in
    standard deviations of a leg; `relevance` is `final` stretched to 0..1 over the pool, for weights that multiply.
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


def terms(text: str) -> list[str]:
    """Index terms of a text or a query, in reading order: folded, without stop words, stemmed (Snowball English).

    An identifier or path gives itself and its parts, an ISO date also its `date_terms`, unspaced scripts their bigrams.
    A stop word in capitals, as "IT" is, is a name, unless all of a longer text is in capitals. A text of nothing but
    stop words keeps them, each also as a name.
    """
    runs = _runs(text.lower() if text.isupper() and len(text) > LONGEST_NAME else text)
    found = [*chain.from_iterable(map(_stems_of, runs))]
    return found or [form for run in runs for word in _words(run) for form in (word, NAME + word)]


def leading_stop_words(text: str) -> list[str]:
    """The stop words with which a text begins, each once: a question of nothing else finds it by them."""
    # not `_runs`: every text is looked at, and stop words have nothing but letters
    words = dict.fromkeys(_LETTERS.findall(text[:LEADING_CHARACTERS].lower()))
    return [word for word in words if word in STOP_WORDS]


def required_terms(text: str) -> list[str]:
    """The terms of a query whose every word must be said: of an identifier or a path only the parts.

    A text may say them with another joiner, or as the end of a longer path.
    """
    return _stemmed([word for run in _runs(text) for word in _without_whole(run, _words(run))])


def wholes(text: str) -> list[list[str]]:
    """The terms of the parts of each identifier, path, version or address of a query, in their order."""
    parts = [
        [_stem(word) for word in _without_whole(run, _words(run)) if word not in STOP_WORDS] for run in _runs(text)
    ]
    return [part for part in parts if len(part) > 1]


def date_terms(when: date) -> list[str]:
    """Terms by which a question can name the day: 8 May 2023 gives `8`, `may`, `2023`."""
    return [str(when.day), _stem(MONTHS[when.month - 1]), str(when.year)]


def score(
    query_terms: Sequence[str], pool: Pool, *, mode: Mode = "hybrid", alpha: float = ALPHA, cues: Cues = NO_CUES
) -> Scores:
    """Relevance of each document of the pool to the query.

    BM25 over the pool and cosine are standardised and mixed (`alpha` is the lexical share); then a document is lifted
    when the query names its author, by how much of the query is said around it, by its neighbours and by its episode;
    last by what the query's `cues` want. Vector mode uses no words, lexical mode no vectors.
    """
    cues = NO_CUES if mode == "vector" else cues
    asked = () if mode == "vector" else query_terms
    around = _Surroundings.of(pool)
    bm25 = PoolBM25(pool.terms, asked)
    lexical = np.asarray(bm25.get_scores(list(asked)), np.float64)
    vector = np.full(len(pool.terms), np.nan) if mode == "lexical" else _meaning(pool)
    mix = _mix(lexical, vector, alpha if mode == "hybrid" else float(mode == "lexical"))
    named = _author_named(asked, pool)
    author = AUTHOR_LIFT * named
    near = _near(bm25, around)
    coverage = COVERAGE * _standardised(_coverage(bm25, near))
    own = mix + author + coverage
    neighbours = around.lift(own)
    episode = EPISODE_LIFT * _episode_best(own + neighbours, pool.episode)
    speaker, time = speaker_lift(cues, pool.terms, named), time_lift(cues, pool.terms)
    lifted = own + neighbours + episode + speaker + time
    apart = spread(cues, lifted, pool.episode)
    final = lifted + apart
    return Scores(
        lexical, vector, mix, author, coverage, neighbours, episode, speaker, time, apart, final, stretched(final),
        bm25.counts, near,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Where in the pool each document's neighbours are."""

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
        for distance in (d for key_scope in range(1, WINDOW + 1) for d in (-key_scope, key_scope)):
            found = np.searchsorted(ordered[:-1], keys + distance)
            present = (ordered[found] == keys + distance) & (np.asarray(pool.episode) >= 0)
            places[distance] = np.where(present, order[found], n)
        return cls(places)

    def take(self, column: Floats, distance: int) -> Floats:
        """The column's values that far away; 0 where there is no document."""
        padded = np.concatenate([column, np.zeros((1, *column.shape[1:]))])
        return np.asarray(padded[self.places[distance]], np.float64)

    def lift(self, own: Floats) -> Floats:
        """(n,), `NEIGHBOUR_LIFTS` of the scores on either side, or `ALONE_LIFT` where nothing is near."""
        lifted = np.zeros_like(own)
        for key_scope, share in enumerate(NEIGHBOUR_LIFTS, start=1):
            lifted += share * (self.take(own, -key_scope) + self.take(own, key_scope))
        alone = np.all([place == own.size for place in self.places.values()], axis=0)
        return np.where(alone, ALONE_LIFT * own, lifted)


def _near(bm25: PoolBM25, around: _Surroundings) -> Floats:
    """(n, terms), 1 for each term of the query that is said within `WINDOW` places of each document."""
    said = np.minimum(bm25.counts, 1.0)
    return np.max([said, *(around.take(said, places) for places in around.places)], axis=0)


def _coverage(bm25: PoolBM25, near: Floats) -> Floats:
    """(n,), the idf-weighted share of the query's words said near each document."""
    idf = np.array([bm25.idf.get(term, 0.0) for term in bm25.distinct])
    if not idf.any() or not bm25.corpus_size:
        return np.zeros(bm25.corpus_size)
    return np.asarray(near @ idf / idf.sum(), np.float64)


def _meaning(pool: Pool) -> Floats:
    """(n,), the model's cosines, standardised; where there is none the static one, standardised by itself.

    The model's are put where the static ones of the same documents lie, or those that have them already would be
    compared among themselves: of a pool's best half, half would be below the mean.
    """
    own = np.asarray(pool.cosine, np.float64)
    if pool.static is None:
        return own
    static = _standardised(np.asarray(pool.static, np.float64))
    both = ~np.isnan(own) & ~np.isnan(static)
    own = _standardised(own)
    if np.isnan(own).any() and both.any():
        own = own * static[both].std() + static[both].mean()
    return np.where(np.isnan(own), static, own)


def _mix(lexical: Floats, vector: Floats, alpha: float) -> Floats:
    """Standardised legs, mixed; without a vector a document is judged by its words, or is last if those are silent."""
    words = _standardised(lexical)
    meaning = _standardised(vector)
    unknown = np.isnan(meaning)
    least = np.full_like(words, meaning[~unknown].min(initial=0.0))
    instead = words if alpha > 0 and words.any() else least
    return np.where(unknown, instead, alpha * words + (1 - alpha) * meaning)


def _standardised(column: Floats) -> Floats:
    """In standard deviations from the mean; nan stays nan, a constant becomes 0."""
    known = column[~np.isnan(column)]
    spread = known.std() if known.size else 0.0
    return (column - known.mean()) / spread if spread > 1e-12 else column * 0.0


def stretched(column: Floats) -> Floats:
    """Onto 0..1; a constant becomes 1."""
    if not column.size or column.max() - column.min() < 1e-12:
        return np.ones_like(column)
    return (column - column.min()) / (column.max() - column.min())


def _author_named(query_terms: Sequence[str], pool: Pool) -> Floats:
    """(n,), the share of the author's name that the query says."""
    asked = frozenset(query_terms)
    if pool.author is None or not asked:
        return np.zeros(len(pool.terms))
    shares = {author: sum(term in asked for term in name) / max(1, len(name)) for author, name in pool.names.items()}
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


def _unaccented(text: str) -> str:
    """Compatibility forms unified, accents (and Hebrew and Arabic points) dropped."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _runs(text: str) -> list[str]:
    if text.isascii():  # most text, in half the time
        return _ASCII_RUN.findall(_CLITICS.sub("", text) if "'" in text else text)
    return _RUN.findall(_CLITICS.sub("", _unaccented(text)))


def _stems(run: str) -> tuple[str, ...]:
    """Stems of the words of a run that are no stop words: what a word becomes depends on nothing around it."""
    if run.isupper() and len(run) > 1 and run.lower() in STOP_WORDS - OPERATORS:
        return (NAME + run.lower(),)
    return tuple([_stem(word) for word in _words(run) if word not in STOP_WORDS])


_stems_of = PerWord(_stems).__getitem__


def _stemmed(words: Sequence[str]) -> list[str]:
    kept = [word for word in words if word not in STOP_WORDS]
    return [_stem(word) for word in kept or words]


def _words(run: str) -> Sequence[str]:
    """Lower-case words of a run of letters, digits and joiners: itself, and its parts when it has any.

    A version with a "v" before it is also one without.
    """
    if run[0] in "vV" and _VERSION.match(run):
        return [run.lower()[:LONGEST_WORD], *_words(run[1:])]
    if _PLAIN.fullmatch(run):
        return [run.lower()[:LONGEST_WORD]]
    if run[:1].isdigit():
        if iso_date := _ISO_DATE.fullmatch(run):
            return [iso_date[1], *_named_day(iso_date[1])]
        if ordinal := _ORDINAL.fullmatch(run):
            return [ordinal[1]]
    if run.isascii():  # most, at a third of the price
        pieces, whole, is_unspaced = _ASCII_PART.findall(run), run.lower(), False
    else:
        pieces, whole, is_unspaced = _PART.findall(run), run.casefold(), UNSPACED.search(run) is not None
    parts: list[str] = []
    for piece in pieces:
        if piece.isascii() and (piece.islower() or piece.isdigit()) and len(piece) <= LONGEST_WORD:
            parts.append(piece)
        else:
            parts += _parts(piece)
    return parts if len(whole) > LONGEST_WORD or is_unspaced or parts == [whole] else [whole, *parts]


def _without_whole(run: str, words: Sequence[str]) -> Sequence[str]:
    return words[1:] if len(words) > 1 and words[0] == run.casefold() else words


def _parts(piece: str) -> list[str]:
    if len(piece) > LONGEST_WORD:
        return [piece.casefold()[:LONGEST_WORD]]
    if UNSPACED.search(piece):
        return _bigrams(piece.casefold())
    return [part.casefold()[:LONGEST_WORD] for part in _CAMEL.split(piece)]


def _bigrams(word: str) -> list[str]:
    return [word[at : at + 2] for at in range(max(1, len(word) - 1))]


def _named_day(iso_date: str) -> list[str]:
    try:
        day = date.fromisoformat(iso_date)
    except ValueError:
        return iso_date.split("-")
    return [str(day.day), MONTHS[day.month - 1], str(day.year)]


@lru_cache(maxsize=MOST_KEPT)
def _stem(word: str) -> str:
    return _local.stem(word)


class _StemOf(threading.local):
    # a Snowball stemmer works in a buffer of its own: one per thread, or two threads overwrite each other's word
    def __init__(self) -> None:
        self.stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord  # it keeps nothing: `_stem` does


_local = _StemOf()
