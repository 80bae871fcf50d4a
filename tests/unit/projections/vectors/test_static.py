from pathlib import Path

import numpy as np
import pytest

from projections.embedding.distill import by_stem, principal
from projections.search.columns import TermRows
from projections.vectors import static as module
from projections.vectors.static import StaticTable

TERMS = ["dog", "puppi", "car"]
ROWS = np.array([[1, 0.1], [0.9, 0.2], [-0.2, 1]], np.float32)


@pytest.fixture
def table() -> StaticTable:
    return StaticTable("static-test", TERMS, ROWS)


def alone(table: StaticTable, text: str) -> list[float]:
    return table.embed(TermRows.of([text]))[0].tolist()


def test_a_documents_vector_is_the_sum_of_its_terms_at_unit_length(table: StaticTable):
    (vector,) = table.embed(TermRows.of(["dog car dog"]))
    wanted = 2 * ROWS[0] + ROWS[2]
    assert vector == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-6)


def test_unknown_terms_add_nothing(table: StaticTable):
    assert alone(table, "dog xyzzy") == alone(table, "dog")


@pytest.mark.parametrize("text", ["", "xyzzy", "xyzzy plugh"], ids=["empty", "unknown", "all unknown"])
def test_a_document_without_a_known_term_gets_zeros(table: StaticTable, text: str):
    assert alone(table, text) == [0, 0]


def test_a_vector_does_not_depend_on_the_documents_embedded_with_it(
    table: StaticTable, monkeypatch: pytest.MonkeyPatch
):
    """Not on empty ones before, between and behind it, nor on where a part ends."""
    texts = ["", "dog", "", "", "car puppi", "xyzzy", "dog car", ""]
    together = table.embed(TermRows.of(texts)).tolist()
    assert together == [alone(table, text) for text in texts]
    monkeypatch.setattr(module, "_TERMS_AT_ONCE", 2)
    assert table.embed(TermRows.of(texts)).tolist() == together


def test_of_a_long_document_only_the_beginning_counts(table: StaticTable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_TERMS", 2)
    assert alone(table, "dog dog car car car") == alone(table, "dog")


def test_no_documents_give_no_rows(table: StaticTable):
    assert table.embed(TermRows.of([])).shape == (0, 2)


def test_words_of_one_stem_share_a_vector_and_rare_ones_count_more():
    words = ["dog", "run", "dogs", "running", "state-of", "2024", "7", "march", "february"]
    vectors = np.array([[1, 0], [0, 1], [0.5, 0.5], [0, 0.7], *[[9, 9]] * 5], np.float32)
    stems, rows = by_stem(words, vectors)
    assert stems == ["dog", "run"]
    assert rows[0].tolist() == [0, 0], "what is unknown"
    assert rows[1] == pytest.approx(np.log(2) * (np.array([1, 0]) + np.array([0.5, 0.5]) / 2) / 1.5)
    assert rows[2] == pytest.approx(np.log(3) * (np.array([0, 1]) + np.array([0, 0.7]) / 2) / 1.5)


def test_principal_components_keep_distances():
    rng = np.random.default_rng(1)
    flat = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 10)) + 5
    kept = principal(flat.astype(np.float32), 3)
    apart = np.linalg.norm(flat[:100] - flat[100:], axis=1)
    assert np.linalg.norm(kept[:100] - kept[100:], axis=1) == pytest.approx(apart, rel=1e-3)


def test_a_model_that_was_exported_without_a_table_has_none(tmp_path: Path):
    (tmp_path / "manifest.json").write_text(
        '{"model": "m", "dimensions": 3, "max_tokens": 8, "files": {}, "source_sha256": "", "exporter": 1,'
        '"mean_cosine": 1, "lowest_cosine": 1}'
    )
    assert module.load(tmp_path) is None
