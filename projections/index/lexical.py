"""Candidates by words: which documents say which terms, in memory, and the BM25 of those that a filter allows.

Guarantee: frequencies, scores and order are functions of the matching documents alone. Others in the same index, of
other tenants, projects or readers, change nothing.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from projections.kernel.module import native
from projections.search.candidates import DocumentColumns, best_first
from projections.search.question import MAX_QUERY_TERMS
from projections.search.ranking import idf_of
from projections.text.cues import BESIDE_TEXT, PROMPT, REPEATS_FROM, USER_TURN, having, says_only
from projections.vectors.bitmaps import Matching
from projections.vectors.columns import Hashes, TermRows, hashed

K1, B = 1.2, 0.75
"""Lucene's defaults."""
READ_DIRECTLY = 1_000
"""Matching documents whose terms are all read: then the documents of others cost no time."""
FREQUENCIES_CACHED = 4_096
"""Terms of questions to the same documents, whose frequencies are cached."""
ASKED_FROM = 4
"""A prompt that only asks says the question's words at least once for so many of its own."""

Documents = NDArray[np.int64]


class MatchingWords:
    """What the documents that a filter allows say, as long as the index does not change."""

    def __init__(self, rows: DocumentColumns, postings: native.Postings, matching: Matching) -> None:
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
        if self.is_small:
            counts = self._terms.counts(query_terms)
            norm = K1 * (1 - B + B * lengths[documents] / self.mean_length)
            scores = np.zeros(len(documents))
            for weight, column in zip(idf, counts.T, strict=True):
                scores += weight * column / (column + norm)
            saying = np.count_nonzero(counts, axis=1) >= least
            documents, scores = documents[saying], scores[saying]
        else:
            documents, scores = self._postings.best(
                _hashes(query_terms), idf, self.matching.mask, lengths, K1, B, self.mean_length, least, count
            )
        return documents[best_first(self._rows, documents, scores, count)].tolist()

    def repeating(self, question_terms: Sequence[str]) -> Documents:
        """The prompts among them that say nothing but these terms, `says_only`."""
        documents = self.matching.documents
        if not any(self.frequencies([PROMPT, USER_TURN])):
            return documents[:0]
        if not self.is_small:  # few remain to be read
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
        if self.is_small:
            return np.count_nonzero(self._terms.counts(terms), axis=0).tolist()
        return self._postings.frequencies(_hashes(terms), self.matching.mask).tolist()

    @property
    def is_small(self) -> bool:
        """Whether their terms are all read."""
        return len(self) <= READ_DIRECTLY

    @cached_property
    def mean_length(self) -> float:
        """Of their terms, at least 1."""
        return float(self._rows.terms.lengths[self.matching.documents].sum()) / max(1, len(self)) or 1.0

    @cached_property
    def _terms(self) -> TermRows:
        return self._rows.terms.rows(self.matching.documents)


def _hashes(terms: Sequence[str]) -> Hashes:
    return hashed(term.encode() for term in terms)
