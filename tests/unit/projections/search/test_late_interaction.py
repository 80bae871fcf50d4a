"""Late interaction in an index: how similar tokens are, what that changes, and that they go with their document."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from projections.search import snapshots
from projections.search.embedded import search
from projections.search.question import Filter, Hit, Question, ordinals
from projections.search.replica import FeedPosition, IndexReplica
from projections.search.vectors import VectorIndex
from projections.store.feed import Put, Remove, Vectors
from projections.vectors.tokens import MOST_TOKENS, TOKEN_DIMENSIONS, Tokens, compressed

MODEL = "test-model"
rows = st.lists(st.lists(st.integers(-127, 127), min_size=3, max_size=3), max_size=4)


def naive(query: Sequence[Sequence[int]], document: Sequence[Sequence[int]]) -> float:
    best = [max(sum(a * b for a, b in zip(token, other, strict=True)) for other in document) for token in query]
    return sum(best) / len(best)


@given(query=rows, documents=st.lists(rows, max_size=4), absent=st.integers(0, 2))
def test_the_similarity_is_the_mean_of_the_best_product_of_each_token(
    query: list[list[int]], documents: list[list[list[int]]], absent: int
):
    index = VectorIndex(3, search=False)
    for ordinal, document in enumerate(documents):
        if document:
            index.put(ordinal, np.array(document, np.int8))
    asked = list(range(len(documents) + absent))[::-1]
    similarity = index.max_similarity(np.array(query, np.int8).reshape(-1, 3), np.array(asked, np.int64))
    expected = [
        naive(query, documents[ordinal]) if query and ordinal < len(documents) and documents[ordinal] else np.nan
        for ordinal in asked
    ]
    np.testing.assert_allclose(similarity, expected, rtol=1e-12)


def test_tokens_are_cut_and_of_unit_length():
    tokens = compressed(np.random.default_rng(1).standard_normal((MOST_TOKENS + 3, 384)).astype(np.float32))
    assert tokens.shape == (MOST_TOKENS, TOKEN_DIMENSIONS)
    assert np.linalg.norm(tokens.astype(float), axis=1) == pytest.approx(127, rel=0.03)


def axis(*places: int) -> Tokens:
    """A token along each of these axes."""
    return (127 * np.eye(TOKEN_DIMENSIONS)[list(places)]).astype(np.int8)


def vectors(name: str, tokens: Tokens | None) -> Vectors:
    row = np.array([1, 0, 0, 0], "<f2").tobytes()
    return Vectors.of(name, MODEL, 4, [row + (b"" if tokens is None else tokens.tobytes())])


TEXTS = {"obs_1": "red tea", "obs_2": "blue tea", "obs_3": "green tea"}


def fill(index: IndexReplica, entry: Callable[..., object], tokens: dict[str, Tokens | None]) -> None:
    index.apply(0, [Put(entry(name, text)) for name, text in TEXTS.items()])  # pyright: ignore[reportArgumentType]
    index.apply(0, [vectors(name, tokens[name]) for name in TEXTS])


def ask(index: IndexReplica, tokens: Tokens | None) -> list[Hit]:
    vector: NDArray[np.float32] = np.array([1, 0, 0, 0], np.float32)
    return search(index, Question(text="tea", vector=vector, tokens=tokens, explain=True), Filter(tenant="default"))


def test_the_document_with_the_tokens_of_the_question_comes_first(index: IndexReplica, entry: Callable[..., object]):
    fill(index, entry, {"obs_1": axis(5, 6), "obs_2": axis(7, 8), "obs_3": None})
    for asked, first in ((axis(5, 6), "obs_1"), (axis(8), "obs_2")):
        hits = ask(index, asked)
        assert hits[0].id == first
        added = {hit.id: hit.explain["tokens"] for hit in hits}
        assert added[first] > 0
        assert added["obs_3"] == 0, "one without tokens counts as a mean one"


def test_without_tokens_nothing_changes(index: IndexReplica, entry: Callable[..., object], tmp_path: Path):
    fill(index, entry, {"obs_1": axis(5, 6), "obs_2": axis(7, 8), "obs_3": axis(9)})
    plain = IndexReplica(4, MODEL)
    fill(plain, entry, dict.fromkeys(TEXTS))
    assert ask(index, None) == ask(plain, None) == ask(plain, axis(5))
    assert len(plain.tokens) == 0


def test_snapshots_have_the_tokens_of_the_living_documents(
    index: IndexReplica, entry: Callable[..., object], tmp_path: Path
):
    fill(index, entry, {"obs_1": axis(5, 6), "obs_2": axis(7, 8), "obs_3": None})
    index.apply(0, [Remove("obs_1")])
    compacted = snapshots.compacted(index)
    for number, saved in enumerate((index, compacted)):
        folder = tmp_path / f"snapshots-{number}"
        manifest = snapshots.save(saved, {0: FeedPosition()}, folder, "01")
        assert not np.load(folder / "01" / "tokens.npy")[:, [5, 6]].any(), "those of the removed document"
        loaded = snapshots.load(folder / "01", manifest)
        living: list[int] = ordinals(loaded.alive).tolist()
        of_name = {loaded.ids[at]: loaded.tokens.rows(at).tolist() for at in living}
        assert of_name == {"obs_2": axis(7, 8).tolist(), "obs_3": []}
        assert ask(loaded, axis(8)) == ask(index, axis(8))


def test_the_tokens_of_several_chunks_are_cut_together():
    item = Vectors.of("obs_1", MODEL, 1, [b"ab" + axis(*range(40)).tobytes(), b"cd" + axis(*range(40)).tobytes()])
    assert item.rows == b"abcd"
    assert len(item.tokens) == MOST_TOKENS * TOKEN_DIMENSIONS
