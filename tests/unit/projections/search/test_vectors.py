from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from indexes import nearest
from numpy.typing import NDArray
from reference.pools import Pool, score

from projections.index import snapshots
from projections.index.embedded import search
from projections.index.replica import FeedPosition, IndexReplica
from projections.index.snapshots import compacted
from projections.nouns.index_entry import IndexEntry
from projections.search.question import Filter, Hit, Question
from projections.store.feed import Put, Remove, Vectors
from projections.vectors import vectors as module
from projections.vectors.bitmaps import BitMap, Matching
from projections.vectors.columns import TermRows
from projections.vectors.static import StaticTable
from projections.vectors.vectors import VectorIndex

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


def among(members: Iterable[int]) -> Matching:
    return Matching(BitMap(members))


def truth(rows: Rows, query: Rows, allowed: set[int], count: int) -> list[int]:
    order = np.argsort(-(rows @ query), kind="stable").tolist()
    return [ordinal for ordinal in order if ordinal in allowed][:count]


@pytest.fixture(scope="module")
def clusters() -> Rows:
    """6,000 vectors of 128 dimensions around 60 centers."""
    dice = np.random.default_rng(SEED)
    centers = dice.standard_normal((60, 128))
    return unit(centers[dice.integers(60, size=6_000)] + 0.5 * dice.standard_normal((6_000, 128)))


@pytest.fixture(scope="module", params=[False, True], ids=["codes", "graph"])
def clustered(request: pytest.FixtureRequest, clusters: Rows) -> VectorIndex:
    """All but the last 50 of the clusters' vectors."""
    vectors = VectorIndex(128, graph=request.param)
    vectors.put_each(np.arange(5_950), clusters[:-50])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GRAPH_FROM", 2)
        vectors.link()
    return vectors


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1], ids=["all match", "half", "a tenth"])
def test_the_approximate_search_finds_what_the_exact_one_finds(
    clusters: Rows, clustered: VectorIndex, share: float, monkeypatch: pytest.MonkeyPatch
):
    """At least 98 % of the nearest 50 of 50 queries, whatever share of the documents matches."""
    allowed = set(np.random.default_rng(1).permutation(5_950)[: int(5_950 * share)].tolist())
    queries = clusters[-50:]
    monkeypatch.setattr(module, "EXACT_BELOW", 6_000)
    exact = [nearest(clustered, query, among(allowed), 50).tolist() for query in queries]
    monkeypatch.setattr(module, "EXACT_BELOW", 5)
    if clustered.has_graph and share > module.GRAPH_SHARE:
        monkeypatch.setattr(VectorIndex, "_by_codes", None)  # the graph answers
    approximate = [nearest(clustered, query, among(allowed), 50).tolist() for query in queries]
    assert all(len(near) == 50 and allowed.issuperset(near) for near in approximate)
    recall = np.mean([len(set(a) & set(b)) / 50 for a, b in zip(approximate, exact, strict=True)])
    assert recall >= 0.98


def test_deleted_vectors_never_come_back(monkeypatch: pytest.MonkeyPatch):
    """Neither through the graph nor exactly, not after others were added, not when everything nearest is deleted."""
    rows = random_rows(600, 8)
    monkeypatch.setattr(module, "GRAPH_FROM", 2)
    monkeypatch.setattr(module, "IN_GRAPH", 100)
    vectors = filled(rows)
    vectors.link()
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
        found = nearest(vectors, query, among(range(650)), 100).tolist()
        assert len(found) == len(set(found)) == 100
        assert left.issuperset(found)


def test_a_damaged_graph_is_an_error_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "GRAPH_FROM", 0)
    vectors = filled(random_rows(50, 8))
    vectors.link()
    vectors.save(tmp_path)
    (tmp_path / "vectors.hnsw").write_bytes(b"no graph")
    with pytest.raises(OSError, match="Index seems to be corrupted"):
        VectorIndex.load(tmp_path, 8)


def test_when_deletions_leave_the_graph_too_few_the_exact_search_answers(monkeypatch: pytest.MonkeyPatch):
    """hnswlib raises when it has fewer than asked for."""
    monkeypatch.setattr(module, "EXACT_BELOW", 1)
    monkeypatch.setattr(module, "GRAPH_FROM", 0)
    vectors = filled(random_rows(50, 8))
    vectors.link()
    for ordinal in range(47):
        vectors.remove(ordinal)
    assert sorted(nearest(vectors, axis(*[1.0] * 8)[0], among(range(50)), 10).tolist()) == [47, 48, 49]


def test_few_matches_far_from_the_query_are_found_among_many(monkeypatch: pytest.MonkeyPatch):
    """The graph's nearest all fail the filter: the exact search takes over."""
    monkeypatch.setattr(module, "EXACT_BELOW", 5)
    rows = random_rows(1000, 8)
    vectors = filled(rows)
    far = truth(rows, rows[0], set(range(1000)), 1000)[-20:]
    found = nearest(vectors, rows[0], among(far), 10).tolist()
    assert set(found[:9]) <= set(truth(rows, rows[0], set(far), 10))


def test_a_document_of_several_chunks_scores_by_its_best():
    vectors = VectorIndex(3)
    vectors.put(0, np.vstack([axis(0, 1, 0), axis(1, 0, 0), axis(0, 0, 1)]).astype(np.float16))
    vectors.put(1, axis(1, 1, 0).astype(np.float16))
    query = axis(1, 0, 0)[0]
    assert vectors.cosine(query, np.array([0, 1])).tolist() == pytest.approx([1.0, 0.7071], abs=1e-3)
    assert nearest(vectors, query, among([0, 1]), 10).tolist() == [0, 1]
    assert len(vectors) == 2


def test_several_chunks_count_once_in_the_graph_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "EXACT_BELOW", 1)
    vectors = VectorIndex(3)
    for ordinal in range(40):
        vectors.put(ordinal, np.vstack([axis(1, ordinal / 100, 0), axis(1, 0, ordinal / 100)]).astype(np.float16))
    found = nearest(vectors, axis(1, 0, 0)[0], among(range(40)), 10).tolist()
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
    assert nearest(vectors, axis(1, 0, 0)[0], among([0, 2, 999]), 10).tolist() == [2]
    assert [vectors.has(n) for n in (0, 2, 999)] == [False, True, False]


@pytest.mark.parametrize("component", [np.nan, np.inf, -np.inf])
def test_a_component_that_is_no_number_counts_as_zero(component: float):
    vectors = VectorIndex(3)
    vectors.put(0, np.array([[1, component, 0]], np.float16))
    assert vectors.cosine(axis(1, 0, 0)[0], np.array([0])).tolist() == [1]


def test_removing_what_is_not_there_does_nothing():
    vectors = filled(axis(1, 0, 0))
    vectors.remove(5)
    vectors.remove(0)
    vectors.remove(0)
    assert len(vectors) == 0
    assert nearest(vectors, axis(1, 0, 0)[0], among([0]), 10).tolist() == []


def test_without_vectors_nothing_is_near():
    vectors = VectorIndex(0)
    assert len(vectors) == 0
    empty = np.empty(0, np.float32)
    assert nearest(vectors, empty, among([1, 2]), 10).tolist() == []
    assert np.isnan(vectors.cosine(empty, np.array([1, 2]))).all()
    assert not vectors.has(0)


def test_nothing_matching_nothing_found():
    assert nearest(filled(axis(1, 0, 0)), axis(1, 0, 0)[0], among([]), 10).tolist() == []


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
        assert nearest(loaded, np.empty(0, np.float32), among([1]), 10).tolist() == []
        return
    everything = np.arange(210)
    for exact_below in (20_000, 5):
        monkeypatch.setattr(module, "EXACT_BELOW", exact_below)
        mine, other = (nearest(one, rows[0], among(range(200)), 20).tolist() for one in (vectors, loaded))
        assert mine == other
        assert all(n % 4 for n in mine)
    for ordinal in range(200, 1500):
        loaded.put(ordinal, random_rows(1, dimensions, ordinal).astype(np.float16))
    assert np.array_equal(
        vectors.cosine(rows[0], everything[:200]), loaded.cosine(rows[0], everything[:200]), equal_nan=True
    )
    assert nearest(loaded, random_rows(1, dimensions, 1234)[0], among(range(1500)), 1).tolist() == [1234]


MODEL, DIMENSIONS = "test-model", 4
TABLE = StaticTable(
    "static-one",
    ["dog", "puppi", "bark", "car", "engin"],
    np.array([[1, 0, 0.1], [0.9, 0.1, 0], [0.8, 0, 0.3], [0, 1, 0], [0.1, 0.9, 0.1]], np.float32),
)
OTHER = StaticTable("static-two", ["dog", "car"], np.array([[1, 0], [0, 1]], np.float32))
AT = {0: FeedPosition()}
ALL = Filter(tenant="default", now_ms=0)
MakeEntry = Callable[..., IndexEntry]


@pytest.fixture
def index(tmp_path: Path) -> IndexReplica:
    return IndexReplica(DIMENSIONS, MODEL, TABLE)


@pytest.fixture
def dogs_and_cars(index: IndexReplica, entry: MakeEntry) -> IndexReplica:
    index.apply(
        0,
        [
            Put(entry("obs_1", "the puppy")),
            Put(entry("obs_2", "an engine")),
            Put(entry("obs_3", "nothing of that")),
            Put(entry("obs_4", "xyzzy")),
        ],
    )
    return index


def ask(index: IndexReplica, text: str, vector: list[float] | None = None, **fields: object) -> list[Hit]:
    given = None if vector is None else np.asarray(vector, np.float32)
    return search(index, Question(text=text, vector=given, **fields), ALL)  # type: ignore[arg-type]


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


def test_explain_says_which_vectors_were_used(dogs_and_cars: IndexReplica):
    dogs_and_cars.apply(0, [vectors("obs_1", [1, 0, 0, 0])])
    explained = {hit.id: hit.explain for hit in ask(dogs_and_cars, "dogs", [1, 0, 0, 0])}
    assert explained["obs_1"]["cosine"] == 1
    assert explained["obs_1"]["static"] == pytest.approx(0.99, abs=0.01)
    assert "cosine" not in explained["obs_2"]
    assert "static" in explained["obs_2"]


def vectors(name: str, row: list[float]) -> Vectors:
    return Vectors(name, MODEL, DIMENSIONS, np.asarray(row, "<f2").tobytes())


def test_lexical_mode_uses_no_static_vectors(dogs_and_cars: IndexReplica):
    assert ids(ask(dogs_and_cars, "dogs", mode="lexical")) == []


def test_a_changed_text_changes_the_vector(dogs_and_cars: IndexReplica, entry: MakeEntry):
    dogs_and_cars.apply(0, [Put(entry("obs_1", "the car"))])
    best = ask(dogs_and_cars, "dogs", mode="vector")
    assert {hit.id: hit.explain["static"] for hit in best}["obs_1"] == pytest.approx(0, abs=0.01)


def test_a_removed_document_has_no_static_vector(dogs_and_cars: IndexReplica, entry: MakeEntry):
    dogs_and_cars.apply(0, [Put(entry("obs_5", "a dog barks")), Remove("obs_5"), Remove("obs_1")])
    assert len(dogs_and_cars.static) == 1
    assert not {"obs_1", "obs_5"} & set(ids(ask(dogs_and_cars, "dogs", mode="vector")))


@pytest.mark.usefixtures("with_graph")
def test_vectors_of_the_model_that_join_the_graph_are_found_as_before(
    index: IndexReplica, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
):
    rows = random_rows(3000, DIMENSIONS)
    index.apply(0, [Put(entry(f"obs_{n:04}", "dog")) for n in range(3000)])
    index.apply(0, [vectors(f"obs_{n:04}", row) for n, row in enumerate(rows.tolist())])
    everything = Matching(index.alive)
    before = nearest(index.vectors, rows[7], everything, 10).tolist()
    index.link(0.0)
    assert (index.unlinked, index.static.unlinked) == (3000, 0)
    index.link()
    assert index.unlinked == 0
    monkeypatch.setattr(module, "EXACT_BELOW", 5)
    assert nearest(index.vectors, rows[7], everything, 10).tolist() == before


@pytest.mark.usefixtures("with_graph")
class TestSnapshots:
    def test_vectors_come_back_and_those_outside_the_graph_are_still_to_join_it(
        self, dogs_and_cars: IndexReplica, entry: MakeEntry, tmp_path: Path
    ):
        dogs_and_cars.apply(0, [vectors("obs_1", [0, 1, 0, 0]), vectors("obs_2", [0, 0, 1, 0])])
        dogs_and_cars.link()
        dogs_and_cars.apply(0, [Put(entry("obs_5", "a dog barks")), vectors("obs_5", [1, 0, 0, 0])])
        snapshots.save(dogs_and_cars, AT, tmp_path / "snapshots", "01")
        loaded = load(tmp_path, TABLE)
        assert (len(loaded.static), len(loaded.vectors), loaded.unlinked) == (3, 3, 1)
        before = ask(dogs_and_cars, "dogs", [1, 0, 0, 0], mode="vector")
        assert ask(loaded, "dogs", [1, 0, 0, 0], mode="vector") == before
        loaded.link()
        assert ask(loaded, "dogs", [1, 0, 0, 0], mode="vector") == before

    def test_those_of_another_table_are_made_anew(self, dogs_and_cars: IndexReplica, entry: MakeEntry, tmp_path: Path):
        dogs_and_cars.apply(0, [Put(entry("obs_5", "dogs"))])
        snapshots.save(dogs_and_cars, AT, tmp_path / "snapshots", "01")
        loaded = load(tmp_path, OTHER)
        assert loaded.static.dimensions == 2
        assert ids(ask(loaded, "dogs", mode="vector"))[0] == "obs_5"

    def test_without_a_table_there_are_only_the_models_vectors(self, dogs_and_cars: IndexReplica, tmp_path: Path):
        dogs_and_cars.apply(0, [vectors("obs_2", [1, 0, 0, 0])])
        snapshots.save(dogs_and_cars, AT, tmp_path / "snapshots", "01")
        loaded = load(tmp_path, None)
        assert len(loaded.static) == 0
        assert ids(ask(loaded, "dogs", [1, 0, 0, 0], mode="vector"))[0] == "obs_2"

    @pytest.mark.parametrize("table", [TABLE, OTHER], ids=["the same table", "another one"])
    def test_a_compacted_index_has_them(self, dogs_and_cars: IndexReplica, table: StaticTable, tmp_path: Path):
        dogs_and_cars.apply(0, [Remove("obs_2")])
        fresh = compacted(dogs_and_cars, without_vectors_for=(MODEL, DIMENSIONS, table))
        assert fresh.table is table
        assert ids(ask(fresh, "dogs", mode="vector"))[:1] == (["obs_1"] if table is TABLE else [])


def load(tmp_path: Path, table: StaticTable | None) -> IndexReplica:
    found = snapshots.load_newest(tmp_path / "snapshots", MODEL, table=table)
    assert found is not None
    return found[0]


class TestTableOfAnotherModel:
    """Its words are English, the model's vectors know other languages too."""

    table = StaticTable(TABLE.name, ["dog", "puppi", "bark"], np.eye(3, dtype=np.float32), of_model=False)

    @pytest.fixture
    def index(self, tmp_path: Path) -> IndexReplica:
        return IndexReplica(DIMENSIONS, MODEL, self.table)

    @pytest.mark.parametrize(("asked", "sure"), [("собака лает", False), ("dogs bark", True)])
    def test_it_says_how_sure_it_is_of_english_only(
        self, index: IndexReplica, entry: MakeEntry, asked: str, sure: bool
    ):
        index.apply(0, [Put(entry("obs_1", "the puppy barks at dogs")), vectors("obs_1", [1, 0, 0, 0])])
        (hit,) = ask(index, asked, [1, 0, 0, 0])
        assert (hit.confidence is not None) == sure


class TestMixing:
    """Documents with and without the model's vectors in one pool."""

    def pool(self, cosine: list[float], static: list[float] | None) -> Pool:
        n = len(cosine)
        apart = np.full(n, -1, np.int32)
        given = None if static is None else np.asarray(static, np.float64)
        return Pool(TermRows.of([""] * n), np.asarray(cosine, np.float64), apart, np.zeros(n, np.int32), given)

    def order(self, cosine: list[float], static: list[float] | None) -> list[int]:
        return np.argsort(-score([], self.pool(cosine, static), mode="vector").final, kind="stable").tolist()

    def test_with_all_of_them_the_static_ones_count_for_nothing(self):
        assert self.order([0.1, 0.5, 0.3], [0.9, 0.0, 0.5]) == self.order([0.1, 0.5, 0.3], None) == [1, 2, 0]

    def test_with_none_of_them_the_static_ones_decide(self):
        assert self.order([np.nan] * 3, [0.9, 0.0, 0.5]) == [0, 2, 1]

    def test_embedded_ones_are_not_put_below_others_because_they_are_all_good(self):
        """The first three have vectors, and are the best by static ones: the fourth does not pass them."""
        assert self.order([0.5, 0.6, 0.7, np.nan, np.nan, np.nan], [0.9, 0.85, 0.95, 0.3, 0.2, 0.1])[:3] == [2, 1, 0]

    def test_a_single_embedded_one_is_judged_by_its_static_vector(self):
        assert self.order([0.2, np.nan, np.nan], [0.5, 0.9, 0.1]) == [1, 0, 2]
