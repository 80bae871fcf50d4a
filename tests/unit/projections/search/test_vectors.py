from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from projections.search import vectors as module
from projections.search.question import BitMap
from projections.search.vectors import VectorIndex

SEED = 20_260_131
Rows = NDArray[np.float32]


def unit(rows: NDArray[np.float64]) -> Rows:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def random_rows(n: int, dimensions: int, seed: int = SEED) -> Rows:
    return unit(np.random.default_rng(seed).standard_normal((n, dimensions)))


def axis(*values: float) -> Rows:
    return unit(np.asarray([values], np.float64))


def filled(rows: Rows) -> VectorIndex:
    vectors = VectorIndex(rows.shape[1])
    for ordinal, row in enumerate(rows):
        vectors.put(ordinal, row[None].astype(np.float16))
    return vectors


def truth(rows: Rows, query: Rows, allowed: set[int], count: int) -> list[int]:
    order = np.argsort(-(rows @ query), kind="stable").tolist()
    return [ordinal for ordinal in order if ordinal in allowed][:count]


@pytest.fixture(scope="module")
def crowd() -> tuple[Rows, VectorIndex]:
    """3,000 random vectors of 32 dimensions, a document each."""
    rows = random_rows(3000, 32)
    return rows, filled(rows)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1], ids=["all match", "half", "a tenth"])
def test_the_approximate_search_finds_what_the_exact_one_finds(
    crowd: tuple[Rows, VectorIndex], share: float, monkeypatch: pytest.MonkeyPatch
):
    """recall@10 of 50 queries is at least 0.95, whatever share of the documents matches."""
    _, vectors = crowd
    allowed = set(np.random.default_rng(1).permutation(3000)[: int(3000 * share)].tolist())
    queries = random_rows(50, 32, SEED + 1)
    exact = [vectors.nearest(query, BitMap(allowed), 10).tolist() for query in queries]
    monkeypatch.setattr(module, "EXACT_BELOW", 5)
    approximate = [vectors.nearest(query, BitMap(allowed), 10).tolist() for query in queries]
    assert all(len(found) == 10 and allowed.issuperset(found) for found in approximate)
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(approximate, exact, strict=True)])
    assert recall >= 0.95


def test_the_exact_search_is_exact(crowd: tuple[Rows, VectorIndex]):
    """Up to float16: no document left out is better than one found by more than half precision can tell."""
    rows, vectors = crowd
    allowed = set(range(0, 3000, 3))
    for query in random_rows(20, 32, SEED + 2):
        found = vectors.nearest(query, BitMap(allowed), 10).tolist()
        scores = rows @ query
        wanted = truth(rows, query, allowed, 10)
        assert np.allclose(scores[found], scores[wanted], atol=2e-3)
        assert np.all(np.diff(scores[found]) <= 2e-3)


def test_deleted_vectors_never_come_back(monkeypatch: pytest.MonkeyPatch):
    """Neither through the graph nor exactly, not after others were added, not when everything nearest is deleted."""
    rows = random_rows(600, 8)
    vectors = filled(rows)
    query = rows[0]
    near = truth(rows, query, set(range(600)), 300)
    for ordinal in near:
        vectors.remove(ordinal)
    for ordinal in range(600, 650):
        vectors.put(ordinal, random_rows(1, 8, ordinal).astype(np.float16))
    left = set(range(650)) - set(near)
    assert len(vectors) == len(left)
    for exact_below in (20_000, 5):
        monkeypatch.setattr(module, "EXACT_BELOW", exact_below)
        found = vectors.nearest(query, BitMap(range(650)), 100).tolist()
        assert len(found) == len(set(found)) == 100
        assert left.issuperset(found)


def test_when_deletions_leave_the_graph_too_few_the_exact_search_answers(monkeypatch: pytest.MonkeyPatch):
    """hnswlib raises when it has fewer than asked for."""
    monkeypatch.setattr(module, "EXACT_BELOW", 1)
    vectors = filled(random_rows(50, 8))
    for ordinal in range(47):
        vectors.remove(ordinal)
    assert sorted(vectors.nearest(axis(*[1.0] * 8)[0], BitMap(range(50)), 10).tolist()) == [47, 48, 49]


def test_few_matches_far_from_the_query_are_found_among_many(monkeypatch: pytest.MonkeyPatch):
    """The graph's nearest all fail the filter: the exact search takes over."""
    monkeypatch.setattr(module, "EXACT_BELOW", 5)
    rows = random_rows(1000, 8)
    vectors = filled(rows)
    far = truth(rows, rows[0], set(range(1000)), 1000)[-20:]
    found = vectors.nearest(rows[0], BitMap(far), 10).tolist()
    assert found == truth(rows.astype(np.float16).astype(np.float32), rows[0], set(far), 10)


def test_a_document_of_several_chunks_scores_by_its_best():
    vectors = VectorIndex(3)
    vectors.put(0, np.vstack([axis(0, 1, 0), axis(1, 0, 0), axis(0, 0, 1)]).astype(np.float16))
    vectors.put(1, axis(1, 1, 0).astype(np.float16))
    query = axis(1, 0, 0)[0]
    assert vectors.cosine(query, np.array([0, 1])).tolist() == pytest.approx([1.0, 0.7071], abs=1e-3)
    assert vectors.nearest(query, BitMap([0, 1]), 10).tolist() == [0, 1]
    assert len(vectors) == 2


def test_several_chunks_count_once_in_the_graph_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "EXACT_BELOW", 1)
    vectors = VectorIndex(3)
    for ordinal in range(40):
        vectors.put(ordinal, np.vstack([axis(1, ordinal / 100, 0), axis(1, 0, ordinal / 100)]).astype(np.float16))
    found = vectors.nearest(axis(1, 0, 0)[0], BitMap(range(40)), 10).tolist()
    assert len(set(found)) == len(found) == 10
    assert 0 in found
    assert max(found) < 15


def test_putting_again_replaces_all_chunks():
    vectors = VectorIndex(3)
    vectors.put(0, np.vstack([axis(1, 0, 0), axis(0, 1, 0)]).astype(np.float16))
    vectors.put(0, axis(0, 0, 1).astype(np.float16))
    assert vectors.cosine(axis(1, 0, 0)[0], np.array([0])).tolist() == [0]
    assert vectors.cosine(axis(0, 0, 1)[0], np.array([0])).tolist() == [1]
    assert len(vectors) == 1


def test_a_document_without_vectors_has_no_cosine_and_is_not_found():
    """Also one behind the last that has any, and one in between."""
    vectors = VectorIndex(3)
    vectors.put(2, axis(1, 0, 0).astype(np.float16))
    cosine = vectors.cosine(axis(1, 0, 0)[0], np.array([0, 2, 999]))
    assert np.isnan(cosine).tolist() == [True, False, True]
    assert vectors.nearest(axis(1, 0, 0)[0], BitMap([0, 2, 999]), 10).tolist() == [2]
    assert [vectors.has(n) for n in (0, 2, 999)] == [False, True, False]


def test_removing_what_is_not_there_does_nothing():
    vectors = filled(axis(1, 0, 0))
    vectors.remove(5)
    vectors.remove(0)
    vectors.remove(0)
    assert len(vectors) == 0
    assert vectors.nearest(axis(1, 0, 0)[0], BitMap([0]), 10).tolist() == []


def test_without_vectors_nothing_is_near():
    vectors = VectorIndex(0)
    assert len(vectors) == 0
    empty = np.empty(0, np.float32)
    assert vectors.nearest(empty, BitMap([1, 2]), 10).tolist() == []
    assert np.isnan(vectors.cosine(empty, np.array([1, 2]))).all()
    assert not vectors.has(0)


def test_nothing_matching_nothing_found():
    assert filled(axis(1, 0, 0)).nearest(axis(1, 0, 0)[0], BitMap(), 10).tolist() == []


@pytest.mark.parametrize("dimensions", [0, 8])
def test_vectors_survive_a_snapshot(tmp_path: Path, dimensions: int, monkeypatch: pytest.MonkeyPatch):
    """Scores, deletions and the graph; and it grows on from there."""
    rows = random_rows(200, dimensions) if dimensions else np.zeros((0, 0), np.float32)
    vectors = filled(rows) if dimensions else VectorIndex(0)
    for ordinal in range(0, len(rows), 4):
        vectors.remove(ordinal)
    vectors.save(tmp_path)
    loaded = VectorIndex.load(tmp_path, dimensions)
    assert len(loaded) == len(vectors)
    if not dimensions:
        assert loaded.nearest(np.empty(0, np.float32), BitMap([1]), 10).tolist() == []
        return
    everything = np.arange(210)
    for exact_below in (20_000, 5):
        monkeypatch.setattr(module, "EXACT_BELOW", exact_below)
        mine, other = (one.nearest(rows[0], BitMap(range(200)), 20).tolist() for one in (vectors, loaded))
        assert mine == other
        assert all(n % 4 for n in mine)
    for ordinal in range(200, 1500):
        loaded.put(ordinal, random_rows(1, dimensions, ordinal).astype(np.float16))
    assert np.array_equal(
        vectors.cosine(rows[0], everything[:200]), loaded.cosine(rows[0], everything[:200]), equal_nan=True
    )
    assert loaded.nearest(random_rows(1, dimensions, 1234)[0], BitMap(range(1500)), 1).tolist() == [1234]
