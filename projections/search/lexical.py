"""Candidates by words: which documents say which terms, in memory, and the BM25 of those that a filter allows.

Guarantee: frequencies, scores and order are functions of the matching documents alone. Others in the same index, of
other tenants, projects or readers, change nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from projections.kernel.module import NATIVE, native
from projections.search.candidates import DocumentColumns, best_first, edits
from projections.search.columns import Hashes, TermRows, hashed
from projections.search.cues import BESIDE_TEXT, PROMPT, REPEATS_FROM, USER_TURN, having, says_only
from projections.search.question import Matching
from projections.search.ranking import idf_of

MAX_QUERY_TERMS, MOST_COUNTED = 64, 4_096
"""Distinct terms of a query that are searched: of more, the rarest of the first MOST_COUNTED. Their counts in
READ_DIRECTLY documents take 32 MiB."""
LONGEST_WORD = 64
"""Letters of a word that is compared with misspelled ones; a longer one is data."""
K1, B = 1.2, 0.75
"""Lucene's defaults."""
READ_DIRECTLY = 1_000
"""Matching documents whose terms are all read: then the documents of others cost no time."""
FREQUENCIES_CACHED = 4_096
"""Terms of questions to the same documents, whose frequencies are cached."""
ASKED_FROM = 4
"""A prompt that only asks says the question's words at least once for so many of its own."""

Documents = NDArray[np.int64]
Allowed = NDArray[np.bool_]


class Postings:
    """Which documents say which terms, as hashes, and the words near a misspelled one. Documents are only added; each
    question says which are `allowed`, by ordinal. The reference of `native.Postings`, which takes a fiftieth of the
    time and two bytes a posting."""

    def __init__(self) -> None:
        self._saying: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._words: dict[int, str] = {}

    def add(self, document: int, terms: Hashes, words: str) -> None:
        """Add a document, greater than all before. `words` are those of the terms, joined by spaces, or empty."""
        values, counts = np.unique(terms, return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self._saying[value].append((document, count))
        for value, word in zip(terms.tolist(), words.split(" ") if words else (), strict=False):
            self.add_word(value, word)

    def add_each(self, first: int, terms: Hashes, lengths: NDArray[np.int64]) -> None:
        """Add documents from `first` on, `lengths` terms each."""
        for number, row in enumerate(np.split(terms, np.cumsum(lengths))[:-1]):
            self.add(first + number, row, "")

    def add_word(self, term: int, word: str) -> None:
        """Add the word of a term, unless it has one, or the word has a digit or a sign."""
        if term in self._saying and 0 < len(word) <= LONGEST_WORD and all(letter >= "A" for letter in word):
            self._words.setdefault(term, word)

    def words(self) -> list[tuple[int, str]]:
        """All words, each with its term, in no order."""
        return list(self._words.items())

    def frequencies(self, terms: Hashes, allowed: Allowed) -> NDArray[np.int64]:
        """(terms,), how many allowed documents say each."""
        return np.array([len(self._of(term, allowed)[0]) for term in terms.tolist()], np.int64)

    def best(
        self,
        terms: Hashes,
        idf: NDArray[np.float64],
        allowed: Allowed,
        lengths: NDArray[np.int64],
        k1: float,
        b: float,
        average_length: float,
        least: int,
        most: int,
    ) -> tuple[Documents, NDArray[np.float64]]:
        """The best `most` allowed documents that say `least` of the terms, by BM25, and all that are as good as the
        last of them, ascending; and their scores."""
        scores, said = np.zeros(len(allowed)), np.zeros(len(allowed), np.int64)
        for term, weight in zip(terms.tolist(), idf.tolist(), strict=True):
            documents, counts = self._of(term, allowed)
            norm = k1 * (1 - b + b * lengths[documents] / average_length)
            scores[documents] += weight * counts / (counts + norm)
            said[documents] += 1
        saying = np.flatnonzero(said >= max(1, least))
        if 0 < most < len(saying):
            saying = saying[scores[saying] >= np.partition(scores[saying], len(saying) - most)[len(saying) - most]]
        return saying, scores[saying]

    def mostly(
        self, terms: Hashes, allowed: Allowed, lengths: NDArray[np.int64], least: int, times: int, beside: int
    ) -> Documents:
        """The allowed documents that say at least `least` of the terms, and have at most `times` as many terms as they
        say of these, and `beside`, ascending."""
        counted, said = np.zeros(len(allowed), np.int64), np.zeros(len(allowed), np.int64)
        for term in terms.tolist():
            documents, counts = self._of(term, allowed)
            counted[documents] += counts
            said[documents] += 1
        return np.flatnonzero((said >= max(1, least)) & (times * counted >= lengths[: len(allowed)] - beside))

    def similar(self, word: str, edits_: int) -> list[str]:
        """The words that at most so many letters distinguish from a word, with the same first letter, sorted."""
        if len(word) > LONGEST_WORD:
            return []
        words = (it for it in self._words.values() if it[0] == word[:1] and abs(len(it) - len(word)) <= edits_)
        return sorted(it for it in words if edits(word, it) <= edits_)

    def _of(self, term: int, allowed: Allowed) -> tuple[Documents, NDArray[np.int64]]:
        rows = np.array(self._saying.get(term, []), np.int64).reshape(-1, 2)
        rows = rows[rows[:, 0] < len(allowed)]
        rows = rows[allowed[rows[:, 0]]]
        return rows[:, 0], rows[:, 1]


def new_postings() -> "native.Postings | Postings":
    """Empty postings: compiled ones where the module is installed."""
    return native.Postings() if NATIVE else Postings()


class MatchingWords:
    """What the documents that a filter allows say, as long as the index does not change."""

    def __init__(self, rows: DocumentColumns, postings: "native.Postings | Postings", matching: Matching) -> None:
        self.matching = matching
        self._rows, self._postings = rows, postings
        self._frequencies: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.matching.documents)

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """How many of them say each term."""
        if new := [term for term in dict.fromkeys(terms) if term not in self._frequencies]:
            if len(self._frequencies) > FREQUENCIES_CACHED:
                self._frequencies.clear()
                new = list(dict.fromkeys(terms))
            self._frequencies.update(zip(new, self._count(new), strict=True))
        return [self._frequencies[term] for term in terms]

    def best(self, terms: Sequence[str], count: int, *, every: bool = False) -> list[int]:
        """The best `count` of those that say any of the terms (with `every`: all), by BM25, best first."""
        query_terms = list(dict.fromkeys(terms))[:MAX_QUERY_TERMS]
        if not query_terms or count <= 0 or not len(self):
            return []
        documents, lengths = self.matching.documents, self._rows.terms.lengths
        idf = idf_of(self.frequencies(query_terms), len(self))
        least = len(query_terms) if every else 1
        if self._is_small:
            counts = self._terms.counts(query_terms)
            norm = K1 * (1 - B + B * lengths[documents] / self._mean_length)
            scores = np.zeros(len(documents))
            for weight, column in zip(idf, counts.T, strict=True):
                scores += weight * column / (column + norm)
            saying = np.count_nonzero(counts, axis=1) >= least
            documents, scores = documents[saying], scores[saying]
        else:
            documents, scores = self._postings.best(
                _hashes(query_terms), idf, self.matching.mask, lengths, K1, B, self._mean_length, least, count
            )
        return documents[best_first(self._rows, documents, scores, count)].tolist()

    def repeating(self, question_terms: Sequence[str]) -> Documents:
        """The prompts among them that say nothing but these terms, `says_only`."""
        documents = self.matching.documents
        if not any(self.frequencies([PROMPT, USER_TURN])):
            return documents[:0]
        if not self._is_small:  # few remain to be read
            least = int(np.ceil(REPEATS_FROM * len(question_terms)))
            mask, lengths = self.matching.mask, self._rows.terms.lengths
            documents = self._postings.mostly(_hashes(question_terms), mask, lengths, least, ASKED_FROM, BESIDE_TEXT)
        if not len(documents):  # the usual case
            return documents
        documents = documents[having(self._rows.terms.rows(documents), PROMPT, USER_TURN).any(axis=1)]
        return documents[says_only(question_terms, self._rows.terms.rows(documents))]

    def similar(self, term: str, letters: int) -> dict[str, int]:
        """The words so many letters away that they say, and how many of them say each."""
        words = self._postings.similar(term, letters)
        return {word: count for word, count in zip(words, self.frequencies(words), strict=True) if count}

    def _count(self, terms: Sequence[str]) -> Iterable[int]:
        if self._is_small:
            return np.count_nonzero(self._terms.counts(terms), axis=0).tolist()
        return self._postings.frequencies(_hashes(terms), self.matching.mask).tolist()

    @property
    def _is_small(self) -> bool:
        return len(self) <= READ_DIRECTLY

    @cached_property
    def _mean_length(self) -> float:
        return max(1.0, float(self._rows.terms.lengths[self.matching.documents].mean()))

    @cached_property
    def _terms(self) -> TermRows:
        return self._rows.terms.rows(self.matching.documents)


def _hashes(terms: Sequence[str]) -> Hashes:
    return hashed(term.encode() for term in terms)
