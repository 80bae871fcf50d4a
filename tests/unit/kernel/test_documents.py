"""What compiled functions say of documents is what the reference says, of random documents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.kernel.module import NATIVE, native
from projections.search.columns import TermColumn, TermRows, hashed_text
from projections.search.similarity import (
    _distinct,  # pyright: ignore[reportPrivateUsage]
    distinct,
)
from projections.vectors.static import MAX_TERMS, StaticTable

pytestmark = pytest.mark.skipif(not NATIVE, reason="mnemolog-kernel is not installed")
SEEDS = st.integers(0, 2**32 - 1)
WORDS = [f"w{number}" for number in range(12)]


def random_documents(dice: np.random.Generator, size: int, longest: int = 30) -> TermRows:
    """Documents of few words, many of them alike."""
    texts = [" ".join(dice.choice(WORDS, dice.integers(0, longest))) for _ in range(size)]
    numbers: list[int] = dice.integers(0, size, size).tolist()
    return TermRows.of([texts[number] for number in numbers])


@given(size=st.integers(1, 20), wanted=st.integers(0, 30), seed=SEEDS)
def test_how_often_documents_say_terms(size: int, wanted: int, seed: int):
    dice = np.random.default_rng(seed)
    documents, terms = random_documents(dice, size), dice.choice([*WORDS, "unsaid"], wanted).tolist()
    hashes = hashed_text(" ".join(terms))
    expected = documents._counts(hashes)  # pyright: ignore[reportPrivateUsage]
    assert documents.counts(terms).tolist() == expected.tolist()


@given(size=st.integers(0, 20), wanted=st.integers(0, 3), last=st.integers(0, 4), seed=SEEDS)
def test_which_documents_say_terms_in_order(size: int, wanted: int, last: int, seed: int):
    dice = np.random.default_rng(seed)
    documents, terms = random_documents(dice, size), dice.choice(WORDS[:3], wanted).tolist()
    expected = documents._in_order(hashed_text(" ".join(terms)), last)  # pyright: ignore[reportPrivateUsage]
    assert documents.in_order(terms, last).tolist() == expected.tolist()


@given(size=st.integers(1, 20), asked=st.integers(0, 30), seed=SEEDS)
def test_the_terms_of_some_documents_of_a_column(size: int, asked: int, seed: int):
    dice = np.random.default_rng(seed)
    column = TermColumn.made_of(random_documents(dice, size))
    column.clear(int(dice.integers(0, size)))
    ordinals = dice.integers(0, size, asked)
    rows, expected = column.rows(ordinals), column._rows(ordinals)  # pyright: ignore[reportPrivateUsage]
    assert rows.hashes.tolist() == expected.hashes.tolist()
    assert rows.lengths.tolist() == expected.lengths.tolist()


@given(size=st.integers(1, 40), limit=st.integers(0, 12), seed=SEEDS)
def test_which_documents_repeat_an_earlier_one(size: int, limit: int, seed: int):
    dice = np.random.default_rng(seed)
    documents = random_documents(dice, size, int(dice.choice([6, 30])))
    places = dice.permutation(size).tolist()
    assert distinct(documents, places, limit) == _distinct(documents, places, limit)


@given(size=st.integers(1, 20), width=st.integers(1, 20), seed=SEEDS)
def test_static_vectors(size: int, width: int, seed: int):
    dice = np.random.default_rng(seed)
    table = StaticTable("static-test", WORDS[:8], dice.standard_normal((8, width)).astype(np.float32))
    documents = random_documents(dice, size)
    expected = table._sums(documents)  # pyright: ignore[reportPrivateUsage]
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(
        table.embed(documents), expected / np.where(lengths > 0, lengths, 1), rtol=1e-5, atol=1e-6
    )


def test_of_a_long_document_only_the_first_terms_count():
    table = StaticTable("static-test", ["first", "last"], np.eye(2, dtype=np.float32))
    documents = TermRows.of([f"{'first ' * MAX_TERMS} last"])
    assert table.embed(documents).tolist() == [[1.0, 0.0]]


def test_terms_that_do_not_match_their_lengths_are_refused():
    terms, lengths = hashed_text("one two"), np.array([1, 2])
    with pytest.raises(ValueError, match="too few terms"):
        native.count_terms(terms, lengths, terms)
    with pytest.raises(ValueError, match="not in the column"):
        native.rows_of(terms, np.array([1]), np.array([2]), np.array([0]))
    with pytest.raises(ValueError, match="not in the pool"):
        native.distinct(terms, np.array([1, 1]), np.array([2]), 1, 0.97, 3, 1_000, 3)
