"""The postings of an index as plain lists: the oracle of the compiled ones."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from projections.index.lexical import Documents
from projections.search.candidates import edits
from projections.vectors.columns import Hashes

LONGEST_WORD = 64
"""Letters of a word that is compared with misspelled ones; a longer one is data."""


class Postings:
    """Which documents say which terms, as hashes, and the words near a misspelled one. Documents are only added; each
    question says which are `allowed`, by ordinal."""

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

    def frequencies(self, terms: Hashes, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """(terms,), how many allowed documents say each."""
        return np.array([len(self._of(term, allowed)[0]) for term in terms.tolist()], np.int64)

    def best(
        self,
        terms: Hashes,
        idf: NDArray[np.float64],
        allowed: NDArray[np.bool_],
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
        self, terms: Hashes, allowed: NDArray[np.bool_], lengths: NDArray[np.int64], least: int, times: int, beside: int
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

    def _of(self, term: int, allowed: NDArray[np.bool_]) -> tuple[Documents, NDArray[np.int64]]:
        rows = np.array(self._saying.get(term, []), np.int64).reshape(-1, 2)
        rows = rows[rows[:, 0] < len(allowed)]
        rows = rows[allowed[rows[:, 0]]]
        return rows[:, 0], rows[:, 1]
