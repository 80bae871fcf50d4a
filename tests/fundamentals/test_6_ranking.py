"""Ranking: a pool of candidates is scored exactly, by words, by meaning, and by what was said around them."""

import numpy as np

from projections.search.columns import TermRows
from projections.search.ranking import Pool, score
from projections.search.terms import terms

SAID = [
    "Where are we with the invoices?",
    "They are in the archive",
    "Lunch was good",
    "It rained all day",
]


def test_what_says_the_words_comes_first_and_lifts_its_neighbours():
    """The four were said in this order in one session. Nothing has a vector yet, so words alone decide."""
    pool = Pool(
        terms=TermRows.of(" ".join(terms(text)) for text in SAID),
        cosine=np.full(len(SAID), np.nan),
        episode=np.zeros(len(SAID), np.int32),
        sequence=np.arange(len(SAID), dtype=np.int32),
    )

    scores = score(terms("invoices"), pool)

    best_first = sorted(range(len(SAID)), key=lambda place: -scores.final[place])
    assert SAID[best_first[0]] == "Where are we with the invoices?"
    assert SAID[best_first[1]] == "They are in the archive"  # the answer, which says no word of the question
    assert scores.relevance.max() == 1.0
    assert scores.relevance.min() == 0.0


def test_a_vector_finds_what_says_it_in_other_words():
    """Without a word in common the cosine decides."""
    pool = Pool(
        terms=TermRows.of(["own kitten", "own truck"]),
        cosine=np.array([0.8, 0.1]),
        episode=np.full(2, -1, np.int32),
        sequence=np.zeros(2, np.int32),
    )

    scores = score(terms("pets"), pool)

    assert scores.final[0] > scores.final[1]
