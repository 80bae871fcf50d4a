"""The compiled postings answer as the reference does, whatever was added."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.postings import LONGEST_WORD, Postings

from projections.kernel.module import native
from projections.vectors.columns import hashed

VOCABULARY = [
    "tea", "tae", "teas", "eat", "Tea", "tea1", "te-a", "thé", "the", "été", "étè", "ete", "чай", "чйа", "чаи", "茶道",
    "茶", "𝔱ea", "𝔱ae", "x" * LONGEST_WORD, "x" * (LONGEST_WORD + 1), "é" * LONGEST_WORD,
]  # fmt: skip
some_words = st.lists(st.sampled_from(VOCABULARY), max_size=12)


class Both(NamedTuple):
    """The same in either; and how many terms each document has."""

    compiled: native.Postings
    reference: Postings
    lengths: list[int]


def terms_of(words: list[str]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return hashed(word.encode() for word in words)


@st.composite
def filled(draw: st.DrawFn) -> Both:
    """Documents added one by one, with their words or without, or all at once as a snapshot has them."""
    both = Both(native.Postings(), Postings(), [])
    for _ in range(draw(st.integers(0, 4))):
        gap = draw(st.integers(0, 200))
        both.lengths.extend([0] * gap)
        rows = draw(st.lists(some_words, min_size=1, max_size=6))
        first, at_once = len(both.lengths), draw(st.booleans())
        for postings in (both.compiled, both.reference):
            if at_once:
                lengths = np.array([len(row) for row in rows], np.int64)
                postings.add_each(first, terms_of([word for row in rows for word in row]), lengths)
            else:
                for number, row in enumerate(rows):
                    postings.add(first + number, terms_of(row), " ".join(row) if number % 3 else "")
        both.lengths.extend(map(len, rows))
    for word in draw(some_words):
        for postings in (both.compiled, both.reference):
            postings.add_word(int(terms_of([word])[0]), word)
    return both


def allowed_of(both: Both, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Some documents; the mask may end before the last."""
    dice = np.random.default_rng(seed)
    return dice.random(dice.integers(0, len(both.lengths) + 1)) < dice.random()


SEEDS = st.integers(0, 2**32 - 1)


@given(both=filled())
def test_words(both: Both):
    assert sorted(both.compiled.words()) == sorted(both.reference.words())


@given(both=filled(), asked=some_words, seed=SEEDS)
def test_frequencies(both: Both, asked: list[str], seed: int):
    given = terms_of(asked), allowed_of(both, seed)
    assert both.compiled.frequencies(*given).tolist() == both.reference.frequencies(*given).tolist()


@given(both=filled(), asked=some_words, least=st.integers(0, 5), most=st.integers(0, 20), seed=SEEDS)
def test_the_best(both: Both, asked: list[str], least: int, most: int, seed: int):
    """Asked twice: the first question leaves nothing behind for the second."""
    idf = np.random.default_rng(seed).integers(1, 9, len(asked)) / 4
    lengths = np.array(both.lengths, np.int64)
    given = terms_of(asked), idf, allowed_of(both, seed), lengths, 1.2, 0.75, 3.5, least, most
    documents, scores = both.reference.best(*given)
    for _ in range(2):
        found, found_scores = both.compiled.best(*given)
        assert found.tolist() == documents.tolist()
        np.testing.assert_allclose(found_scores, scores, rtol=1e-12)


@given(
    both=filled(), asked=some_words, least=st.integers(0, 5), times=st.integers(0, 4), beside=st.integers(0, 4),
    seed=SEEDS,
)  # fmt: skip
def test_what_mostly_says_the_terms(both: Both, asked: list[str], least: int, times: int, beside: int, seed: int):
    given = terms_of(asked), allowed_of(both, seed), np.array(both.lengths, np.int64), least, times, beside
    assert both.compiled.mostly(*given).tolist() == both.reference.mostly(*given).tolist()


@given(both=filled(), word=st.sampled_from(VOCABULARY) | st.text("teaéч茶x", max_size=8), edits=st.integers(0, 3))
def test_similar_words(both: Both, word: str, edits: int):
    assert both.compiled.similar(word, edits) == both.reference.similar(word, edits)


def test_arrays_that_do_not_fit_together_are_refused():
    postings = native.Postings()
    terms, allowed, lengths = terms_of(["tea"]), np.ones(2, np.bool_), np.ones(2, np.int64)
    with pytest.raises(ValueError, match="too few terms"):
        postings.add_each(0, terms, np.array([2]))
    with pytest.raises(ValueError, match="needs a length"):
        postings.mostly(terms, allowed, lengths[:1], 1, 1, 1)
    with pytest.raises(ValueError, match="needs a weight"):
        postings.best(terms, np.ones(2), allowed, lengths, 1.2, 0.75, 1.0, 1, 1)
