from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from projections.search.columns import TermColumn, TermRows, hashed_text

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
