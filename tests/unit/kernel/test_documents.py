"""What compiled functions say of documents is what the reference says, of random documents."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.kernel.module import native
from projections.text.cues import DATE_TERMS
from projections.text.similarity import SAME_FROM, SMALLEST, TERMS, Distinct, distinct
from projections.vectors.columns import TermColumn, TermRows, hashed_text
from projections.vectors.static import MAX_TERMS, StaticTable

SEEDS = st.integers(0, 2**32 - 1)
WORDS = [f"w{number}" for number in range(12)]


def random_documents(dice: np.random.Generator, size: int, longest: int = 30) -> TermRows:
    """Documents of few words, many of them alike."""
    texts = [" ".join(dice.choice(WORDS, dice.integers(0, longest))) for _ in range(size)]
    numbers: list[int] = dice.integers(0, size, size).tolist()
    return TermRows.of([texts[number] for number in numbers])


def rows_of(documents: TermRows) -> list[list[int]]:
    """The terms of each document."""
    return [row.tolist() for row in np.split(documents.hashes, np.cumsum(documents.lengths))[:-1]]


def distinct_in_python(documents: TermRows, places: Sequence[int], limit: int) -> list[Distinct]:
    """Returns what `distinct` returns."""
    results: list[tuple[Distinct, frozenset[int]]] = []
    for place, row in zip(places, documents.beginnings(places, DATE_TERMS, TERMS), strict=True):
        terms = frozenset(row.tolist())
        same = next((result for result, other in results if alike(terms, other)), None)
        if same is not None:
            same.repeats.append(place)
        elif len(results) == limit:
            break
        else:
            results.append((Distinct(place, []), terms))
    return [result for result, _ in results]


def alike(terms: frozenset[int], other: frozenset[int]) -> bool:
    """Whether one of the smallest hashes is the same, and nearly all others."""
    both = terms & other
    smallest = {*sorted(terms)[:SMALLEST]} & {*sorted(other)[:SMALLEST]}
    return bool(smallest) and len(both) >= SAME_FROM * len(terms | other)


@given(size=st.integers(1, 20), wanted=st.integers(0, 30), seed=SEEDS)
def test_how_often_documents_say_terms(size: int, wanted: int, seed: int):
    dice = np.random.default_rng(seed)
    documents, terms = random_documents(dice, size), dice.choice([*WORDS, "unsaid"], wanted).tolist()
    hashes: list[int] = hashed_text(" ".join(terms)).tolist()
    expected = [[row.count(term) for term in hashes] for row in rows_of(documents)]
    assert documents.counts(terms).tolist() == expected


@given(size=st.integers(0, 20), wanted=st.integers(0, 3), last=st.integers(0, 4), seed=SEEDS)
def test_which_documents_say_terms_in_order(size: int, wanted: int, last: int, seed: int):
    dice = np.random.default_rng(seed)
    documents, terms = random_documents(dice, size), dice.choice(WORDS[:3], wanted).tolist()
    hashes: list[int] = hashed_text(" ".join(terms)).tolist()
    before_last = [row[: max(0, len(row) - last)] for row in rows_of(documents)]
    expected = [wanted > 0 and any(row[at : at + wanted] == hashes for at in range(len(row))) for row in before_last]
    assert documents.in_order(terms, last).tolist() == expected


@given(size=st.integers(1, 20), asked=st.integers(0, 30), seed=SEEDS)
def test_the_terms_of_some_documents_of_a_column(size: int, asked: int, seed: int):
    dice = np.random.default_rng(seed)
    column = TermColumn.made_of(random_documents(dice, size))
    column.clear(int(dice.integers(0, size)))
    ordinals = dice.integers(0, size, asked)
    assert rows_of(column.rows(ordinals)) == [column[ordinal].tolist() for ordinal in ordinals.tolist()]


@given(size=st.integers(1, 40), limit=st.integers(0, 12), seed=SEEDS)
def test_which_documents_repeat_an_earlier_one(size: int, limit: int, seed: int):
    dice = np.random.default_rng(seed)
    documents = random_documents(dice, size, int(dice.choice([6, 30])))
    places = dice.permutation(size).tolist()
    assert distinct(documents, places, limit) == distinct_in_python(documents, places, limit)


@given(size=st.integers(1, 20), width=st.integers(1, 20), seed=SEEDS)
def test_static_vectors(size: int, width: int, seed: int):
    dice = np.random.default_rng(seed)
    vectors = dice.standard_normal((8, width)).astype(np.float32)
    table, known = StaticTable("static-test", WORDS[:8], vectors), hashed_text(" ".join(WORDS[:8])).tolist()
    documents = random_documents(dice, size)
    counts = np.array([[row.count(term) for term in known] for row in rows_of(documents)])
    expected = counts @ vectors
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
