"""Documents are found by meaning from the moment they are in the index, and the model's vectors refine that."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from projections.documents.index_entry import IndexEntry
from projections.search import snapshots
from projections.search.columns import TermRows
from projections.search.embedded import search
from projections.search.question import Filter, Hit, Question, bitmap, ordinals
from projections.search.ranking import Pool, score
from projections.search.replica import IndexReplica
from projections.search.snapshots import FeedPosition, compacted
from projections.store.feed import Put, Remove, Vectors
from projections.vectors.static import StaticTable

MODEL, DIMENSIONS = "test-model", 4
TABLE = StaticTable(
    "static-one",
    ["dog", "puppi", "bark", "car", "engin"],
    np.array([[1, 0, 0.1], [0.9, 0.1, 0], [0.8, 0, 0.3], [0, 1, 0], [0.1, 0.9, 0.1]], np.float32),
)
OTHER = StaticTable("static-two", ["dog", "car"], np.array([[1, 0], [0, 1]], np.float32))
AT = {0: FeedPosition()}
ALL = Filter(tenant="default")
MakeEntry = Callable[..., IndexEntry]


@pytest.fixture
def index(tmp_path: Path) -> IndexReplica:
    return IndexReplica(tmp_path / "index", DIMENSIONS, MODEL, TABLE)


@pytest.fixture
def filled(index: IndexReplica, entry: MakeEntry) -> IndexReplica:
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


@pytest.mark.parametrize("ranking", ["fused", "similarity", "rrf"])
def test_a_document_is_found_by_meaning_before_its_vectors_are_made(filled: IndexReplica, ranking: str):
    assert ids(ask(filled, "dogs", ranking=ranking, mode="vector"))[0] == "obs_1"
    assert ids(ask(filled, "cars", ranking=ranking, mode="vector"))[0] == "obs_2"


def test_explain_says_which_vectors_were_used(filled: IndexReplica):
    filled.apply(0, [vectors("obs_1", [1, 0, 0, 0])])
    explained = {hit.id: hit.explain for hit in ask(filled, "dogs", [1, 0, 0, 0])}
    assert explained["obs_1"]["cosine"] == 1
    assert explained["obs_1"]["static"] == pytest.approx(0.99, abs=0.01)
    assert "cosine" not in explained["obs_2"]
    assert "static" in explained["obs_2"]


def vectors(name: str, row: list[float]) -> Vectors:
    return Vectors(name, MODEL, DIMENSIONS, np.asarray(row, "<f2").tobytes())


def test_the_models_vectors_outweigh_the_static_ones(filled: IndexReplica):
    """The model says that the engine is meant, the table that the puppy is."""
    filled.apply(0, [vectors("obs_1", [0, 1, 0, 0]), vectors("obs_2", [1, 0, 0, 0])])
    assert ids(ask(filled, "dogs", [1, 0, 0, 0], mode="vector"))[0] == "obs_2"


def test_lexical_mode_uses_no_static_vectors(filled: IndexReplica):
    assert ids(ask(filled, "dogs", mode="lexical")) == []


def test_a_changed_text_changes_the_vector(filled: IndexReplica, entry: MakeEntry):
    filled.apply(0, [Put(entry("obs_1", "the car"))])
    best = ask(filled, "dogs", mode="vector")
    assert {hit.id: hit.explain["static"] for hit in best}["obs_1"] == pytest.approx(0, abs=0.01)


def test_a_removed_document_is_gone_from_the_graph_and_from_what_waits_for_it(filled: IndexReplica, entry: MakeEntry):
    filled.static.link()
    filled.apply(0, [Put(entry("obs_5", "a dog barks")), Remove("obs_5"), Remove("obs_1")])
    assert len(filled.static) == 1
    assert not {"obs_1", "obs_5"} & set(ids(ask(filled, "dogs", mode="vector")))


def test_what_joins_the_graph_is_found_as_before(index: IndexReplica, entry: MakeEntry):
    """3,000 documents, more than are scored one by one; the query's own terms are nearest."""
    texts = ["dog bark", "puppy bark dog", "car", "engine car engine", "dog car"]
    index.apply(0, [Put(entry(f"obs_{n:04}", f"{texts[n % 5]} {'engine ' * (n % 7)}")) for n in range(3000)])
    everything = bitmap(ordinals(index.alive))
    assert index.table is not None
    query = index.table.embed_query(["dog", "bark"])
    assert query is not None
    before = index.static.nearest_with_ties(query, everything, 10)
    index.link(0.0)
    assert index.unlinked == 3000
    index.static.link()
    assert index.unlinked == 0
    after = index.static.nearest_with_ties(query, everything, 10)
    assert after[1][:10].tolist() == before[1][:10].tolist()


class TestSnapshots:
    def test_static_vectors_come_back_and_those_outside_the_graph_are_still_to_join_it(
        self, filled: IndexReplica, entry: MakeEntry, tmp_path: Path
    ):
        filled.link()
        filled.apply(0, [Put(entry("obs_5", "a dog barks"))])
        snapshots.save(filled, AT, tmp_path / "snapshots", "01")
        loaded = load(tmp_path, TABLE)
        assert (len(loaded.static), loaded.unlinked) == (3, 1)
        assert ask(loaded, "dogs", mode="vector") == ask(filled, "dogs", mode="vector")
        loaded.link()
        assert ask(loaded, "dogs", mode="vector") == ask(filled, "dogs", mode="vector")

    def test_those_of_another_table_are_made_anew(self, filled: IndexReplica, entry: MakeEntry, tmp_path: Path):
        filled.apply(0, [Put(entry("obs_5", "dogs"))])
        snapshots.save(filled, AT, tmp_path / "snapshots", "01")
        loaded = load(tmp_path, OTHER)
        assert loaded.static.dimensions == 2
        assert ids(ask(loaded, "dogs", mode="vector"))[0] == "obs_5"

    def test_without_a_table_the_models_own_vectors_are_searched(self, filled: IndexReplica, tmp_path: Path):
        filled.apply(0, [vectors("obs_2", [1, 0, 0, 0])])
        snapshots.save(filled, AT, tmp_path / "snapshots", "01")
        loaded = load(tmp_path, None)
        assert loaded.vectors.has_graph
        assert loaded.vectors.unlinked == 1
        assert ids(ask(loaded, "dogs", [1, 0, 0, 0], mode="vector"))[0] == "obs_2"

    @pytest.mark.parametrize("table", [TABLE, OTHER], ids=["the same table", "another one"])
    def test_a_compacted_index_has_them(self, filled: IndexReplica, table: StaticTable, tmp_path: Path):
        filled.apply(0, [Remove("obs_2")])
        fresh = compacted(filled, tmp_path / "fresh", without_vectors_for=(MODEL, DIMENSIONS, table))
        assert fresh.table is table
        assert ids(ask(fresh, "dogs", mode="vector"))[:1] == (["obs_1"] if table is TABLE else [])


def load(tmp_path: Path, table: StaticTable | None) -> IndexReplica:
    found = snapshots.load_newest(tmp_path / "snapshots", MODEL, tmp_path / "work", table=table)
    assert found is not None
    return found[0]


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
