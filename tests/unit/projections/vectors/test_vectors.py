"""Chunks of long texts, the order of the embedding queue, cached vectors, static vectors."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from projections.embedding.embed_job import PART_CHARACTERS, parts_of
from projections.vectors import embedder
from projections.vectors import static as module
from projections.vectors.columns import TermRows
from projections.vectors.embedder import (
    MAX_CHUNKS,
    MAX_TOKENS,
    OVERLAP,
    Urgency,
    WrongVectorLength,
    cache_key,
    chunk,
    estimated_tokens,
    pack,
    place,
    unit_rows,
    unpack,
    waiting_since_ms,
)
from projections.vectors.static import StaticTable
from tools.minilm.static_table import by_stem, principal

SENTENCE = "The lease was lost and another worker took the partition over within ten seconds. "


def numbered_words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


def test_a_short_text_comes_back_unchanged():
    assert chunk("  likes tea\n") == ["  likes tea\n"]


@pytest.mark.parametrize("blank", ["", " ", "\n\t \n"])
def test_a_blank_text_has_no_chunk(blank: str):
    assert chunk(blank) == []


def test_every_word_of_a_long_text_is_in_a_chunk_and_the_order_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedder, "MAX_WORDS", 50)
    words = numbered_words(700).split()
    parts = [part.split() for part in chunk(" ".join(words))]
    assert list(dict.fromkeys(word for part in parts for word in part)) == words
    assert all(len(part) <= 50 for part in parts)


def test_neighbouring_chunks_overlap_a_little():
    first, second, *_ = (part.split() for part in chunk(SENTENCE * 60))
    shared = next(size for size in range(OVERLAP, 0, -1) if first[-size:] == second[:size])
    assert 0 < shared <= OVERLAP


def test_a_chunk_ends_with_a_sentence_where_it_can():
    assert all(part.endswith("seconds.") for part in chunk(SENTENCE * 60))


def test_a_chunk_ends_with_a_line_where_it_can():
    line = "step done and no full stop here"
    assert all(part.endswith("here") for part in chunk("\n".join([line] * 100)))


def test_text_without_spaces_is_split_by_characters():
    parts = chunk("x" * 5_000)
    assert len(parts) > 1
    assert set("".join(parts)) == {"x"}
    assert len("".join(parts)) >= 5_000


def test_dense_text_is_cut_earlier_than_prose():
    """A word of code is several tokens: what counts is the model's window, not the number of words."""
    dense = " ".join(f"/srv/app-{number:04x}/v1.2.{number}/config.json" for number in range(200))
    parts = chunk(dense)
    assert max(len(part.split()) for part in parts) < 40
    assert all(sum(estimated_tokens(word) for word in part.split()) <= MAX_TOKENS for part in parts)


@pytest.mark.parametrize(
    "text", [SENTENCE * 100_000, "x" * 5_000_000, "语" * 100_000, "\0 " * 50_000, "\ud800" * 9_000]
)
def test_a_document_has_at_most_32_chunks(text: str):
    assert len(chunk(text)) == MAX_CHUNKS


@pytest.mark.parametrize("max_words", [1, 2, 5])
def test_tiny_chunks_still_make_progress(max_words: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedder, "MAX_WORDS", max_words)
    assert chunk("a b c d e f g h")[-1].endswith("h")


@pytest.mark.parametrize("count", [6_000, 20_000, 200_000])
def test_the_parts_of_a_long_text_are_spread_from_its_beginning_to_its_end(count: int):
    text = " ".join(f"w{number:06}" for number in range(count))
    parts = [[int(word[1:]) for word in part.split()] for part in chunk(text)]
    assert len(parts) == MAX_CHUNKS
    assert (parts[0][0], parts[-1][-1]) == (0, count - 1)
    starts = [part[0] for part in parts]
    assert all(part == list(range(part[0], part[-1] + 1)) for part in parts), "each is a stretch of whole words"
    gaps = [after - before for before, after in pairwise(starts)]
    assert max(gaps) < 1.2 * count / MAX_CHUNKS
    assert all(sum(estimated_tokens(f"w{word:06}") for word in part) <= MAX_TOKENS for part in parts)


NOW = 1_790_000_000_000


def test_memories_come_first_then_statements_then_summaries_then_tool_output_the_newest_first():
    order = [
        place(Urgency.KEPT, NOW + 1),
        place(Urgency.KEPT, 0),
        place(Urgency.SAID, NOW),
        place(Urgency.SAID, NOW - 0.5),
        place(Urgency.SUMMARIZED, NOW),
        place(Urgency.TOOL_OUTPUT, NOW + 1),
        place(Urgency.TOOL_OUTPUT, 0),
    ]
    assert order == sorted(order)
    assert len(set(order)) == len(order)


@pytest.mark.parametrize("urgency", list(Urgency))
@pytest.mark.parametrize("at_ms", [0, NOW, NOW + 0.5])
def test_a_place_says_since_when_it_waits(urgency: Urgency, at_ms: float):
    assert waiting_since_ms(place(urgency, at_ms)) == at_ms


def test_texts_are_divided_into_parts_of_like_length():
    lengths = [10, 900, 500, 20, 490, 50_000, 30]
    assert parts_of(lengths) == [[5], [1], [2, 4], [6, 3, 0]]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0], [PART_CHARACTERS] * 3, [1] * 20_000])
def test_every_text_is_in_one_part_and_no_part_is_too_long(lengths: list[int]):
    parts = parts_of(lengths)
    assert sorted(number for part in parts for number in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or len(part) * max(lengths[n] for n in part) <= PART_CHARACTERS for part in parts)


UNITS = unit_rows(np.random.default_rng(7).standard_normal((200, 384)).astype(np.float32))


def test_a_key_is_32_bytes_and_differs_by_model_and_text():
    keys = {cache_key(model, text) for model in ("a", "ab") for text in ("b", "", "bb", "b\0", "\ud800", "é")}
    assert len(keys) == 12
    assert {len(key) for key in keys} == {32}


def test_a_key_never_changes():
    """Keys are stored: another way to compute them would throw every cached vector away."""
    assert cache_key("m", "likes tea").hex() == "b6c8040b9fa8728033f8a4eeecc7b0cfcca885e7758057a558520d73b719ed91"


def test_a_model_with_nul_in_its_name_is_refused():
    with pytest.raises(ValueError, match="NUL"):
        cache_key("a\0b", "c")


def test_packing_keeps_the_direction():
    """float16 costs a cosine of less than 1e-6, a thousandth of what is allowed."""
    back = np.array([unpack(pack(vector), 384) for vector in UNITS])
    assert back.dtype == np.float32
    assert np.allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)
    assert (1 - (back * UNITS).sum(axis=1)).max() < 1e-6


def test_a_vector_takes_two_bytes_a_dimension():
    assert len(pack(UNITS[0])) == 768


@pytest.mark.parametrize("packed", [b"", b"\0" * 767, b"\0" * 770])
def test_bytes_of_another_length_are_refused(packed: bytes):
    with pytest.raises(WrongVectorLength, match=f"expected 768 bytes, got {len(packed)}$"):
        unpack(packed, 384)


def test_a_vector_of_no_dimensions_survives():
    assert unpack(pack(np.zeros(0, dtype=np.float32)), 0).shape == (0,)


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


def test_a_vector_does_not_depend_on_the_documents_embedded_with_it(table: StaticTable):
    """Not on empty ones before, between and behind it."""
    texts = ["", "dog", "", "", "car puppi", "xyzzy", "dog car", ""]
    together = table.embed(TermRows.of(texts)).tolist()
    assert together == [alone(table, text) for text in texts]


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


def test_a_model_without_a_table_has_none(tmp_path: Path):
    (tmp_path / "manifest.json").write_text(
        '{"models": {"m.onnx": "m"}, "dimensions": 3, "max_tokens": 8, "files": {}, "source_sha256": ""}'
    )
    assert module.load(tmp_path) is None
