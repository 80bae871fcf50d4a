from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.vectors.columns import Column, TermColumn, TermRows, hashed_text


def test_rows_are_kept_in_order_past_every_doubling():
    column = Column(np.int64)
    for n in range(5000):
        column.append(3 * n)
    assert len(column) == 5000
    assert column.values.tolist() == [3 * n for n in range(5000)]


def test_a_column_of_rows_keeps_their_width():
    column = Column(np.float16, 3)
    for n in range(1500):
        column.append([n, 0, 1])
    assert column.values.shape == (1500, 3)
    assert column[1499].tolist() == [1499, 0, 1]


def test_a_row_may_be_overwritten():
    column = Column(np.int32)
    column.append(1)
    column.append(2)
    column[0] = 9
    assert column.values.tolist() == [9, 2]


@pytest.mark.parametrize("place", [0, 5])
def test_rows_beyond_the_length_cannot_be_read_or_written(place: int):
    """The array is longer than what is stored; the rest of it is no row."""
    column = Column(np.int32)
    with pytest.raises(IndexError):
        column[place]
    with pytest.raises(IndexError):
        column[place] = 1


def test_extending_adds_zeros_up_to_a_length_and_never_shortens():
    column = Column(np.int64)
    column.append(7)
    column.extend_to(3)
    column.extend_to(2)
    assert column.values.tolist() == [7, 0, 0]


def test_a_column_goes_on_from_a_stored_array():
    column = Column[np.int16].of(np.arange(3, dtype=np.int16))
    column.append(9)
    assert column.values.tolist() == [0, 1, 2, 9]
    assert column.values.dtype == np.int16


def test_a_column_goes_on_from_an_empty_stored_array():
    column = Column[np.float16].of(np.zeros((0, 4), np.float16))
    assert len(column) == 0
    column.append([1, 2, 3, 4])
    assert column.values.tolist() == [[1, 2, 3, 4]]


def test_going_on_leaves_the_rows_of_the_first_column_alone_when_it_grows():
    first = Column(np.int64)
    for n in range(1024):
        first.append(n)
    second = Column[np.int64].of(first.values.copy())
    second.append(-1)
    second[0] = -2
    assert first[0] == 0
    assert len(first) == 1024


WORDS = ["tea", "coffee", "+i", "src/app.py", "grün"]
DOCUMENTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=8)


def column_of(documents: list[str]) -> TermColumn:
    column = TermColumn()
    for document in documents:
        column.append(hashed_text(document))
    return column


@given(DOCUMENTS, st.lists(st.sampled_from([*WORDS, "unheard"]), unique=True))
def test_terms_are_counted_by_document(documents: list[str], terms: list[str]):
    counts = TermRows.of(documents).counts(terms)
    assert counts.shape == (len(documents), len(terms))
    assert counts.tolist() == [[document.split().count(term) for term in terms] for document in documents]


@given(DOCUMENTS, st.data())
def test_a_column_gives_the_rows_of_any_documents(documents: list[str], data: st.DataObject):
    """In the order asked for, twice where asked for twice."""
    asked = data.draw(st.lists(st.integers(0, len(documents) - 1))) if documents else []
    found = column_of(documents).rows(np.array(asked, np.int64))
    wanted = TermRows.of(documents[place] for place in asked)
    assert found.hashes.tolist() == wanted.hashes.tolist()
    assert found.lengths.tolist() == wanted.lengths.tolist()


def test_a_cleared_document_has_no_terms_and_the_others_keep_theirs():
    column = column_of(["tea coffee", "tea", "coffee"])
    column.clear(1)
    assert [column[place].tolist() for place in range(3)] == [
        hashed_text("tea coffee").tolist(), [], hashed_text("coffee").tolist(),
    ]  # fmt: skip


def test_a_saved_column_goes_on_where_it_was(tmp_path: Path):
    column_of(["tea coffee", "", "tea"]).save(tmp_path)
    loaded = TermColumn.load(tmp_path)
    loaded.append(hashed_text("coffee"))
    assert [loaded[place].tolist() for place in range(len(loaded))] == [
        hashed_text(document).tolist() for document in ["tea coffee", "", "tea", "coffee"]
    ]


@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=8), max_size=5),
    st.lists(st.sampled_from("abc"), max_size=3),
    st.integers(0, 3),
)
def test_terms_in_order_are_found_within_one_document_before_its_last_ones(
    documents: list[list[str]], sought: list[str], last: int
):
    def says(document: list[str]) -> bool:
        ends = range(len(sought), len(document) - last + 1)
        return bool(sought) and any(document[end - len(sought) : end] == sought for end in ends)

    rows = TermRows.of(" ".join(document) for document in documents)
    assert rows.in_order(sought, last).tolist() == [says(document) for document in documents]
