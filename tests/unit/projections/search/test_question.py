from collections.abc import Callable

import numpy as np
import pytest

from projections.nouns.index_entry import IndexEntry
from projections.search.question import Facets, certainty, entry_facets, facet
from projections.vectors.bitmaps import BitMap, bitmap, ordinals


def test_a_document_is_found_under_each_of_its_facet_values():
    facets = Facets()
    facets.add(3, [facet("tag", "a"), facet("tag", "b")])
    facets.add(1, [facet("tag", "a")])
    assert list(facets.of(facet("tag", "a"))) == [1, 3]
    assert list(facets.of(facet("tag", "b"))) == [3]
    assert list(facets.of(facet("tag", "c"))) == []


def test_a_name_and_a_value_do_not_run_into_each_other():
    assert facet("tag", "sx") != facet("tags", "x")


def test_any_of_is_a_union_and_leaves_what_it_joins_alone():
    facets = Facets()
    facets.add(1, ["a"])
    facets.add(2, ["b"])
    assert list(facets.any_of(["a", "b", "unknown"])) == [1, 2]
    assert list(facets.any_of([])) == []
    assert list(facets.of("a")) == [1]
    assert list(facets.any_of(["unknown"])) == []


def test_the_union_of_one_value_is_a_copy():
    """A search narrows the bitmap it gets; the facet must not narrow with it."""
    facets = Facets()
    facets.add(1, ["a"])
    found = facets.any_of(["a"])
    found.discard(1)
    assert list(facets.of("a")) == [1]


def test_removing_touches_only_the_document_and_values_named():
    facets = Facets()
    facets.add(1, ["a", "b"])
    facets.add(2, ["a"])
    facets.remove(1, ["a", "unknown"])
    facets.remove(7, ["a"])
    assert list(facets.of("a")) == [2]
    assert list(facets.of("b")) == [1]


def test_adding_and_removing_twice_changes_nothing():
    facets = Facets()
    for _ in range(2):
        facets.add(1, ["a"])
    for _ in range(2):
        facets.remove(1, ["a"])
    assert list(facets.of("a")) == []
    assert facets.dump() == {}


def test_facets_survive_a_snapshot():
    facets = Facets()
    for n in range(0, 70_000, 7):
        facets.add(n, ["many", f"mod{n % 3}"])
    loaded = Facets.load(facets.dump())
    assert loaded.of("many") == facets.of("many")
    assert len(loaded.of("mod1")) == len(facets.of("mod1")) > 0
    loaded.add(1, ["many"])
    assert 1 not in facets.of("many")


def test_ordinals_are_the_members_ascending():
    found = ordinals(BitMap([70_000, 3, 2**31]))
    assert found.tolist() == [3, 70_000, 2**31]
    assert found.dtype == np.int64
    assert ordinals(BitMap()).tolist() == []


def test_renumbering_keeps_the_kept_alone():
    facets = Facets()
    for n in (1, 3, 4, 9):
        facets.add(n, ["all", f"only{n}"])
    fresh = facets.renumbered(np.asarray([1, 4, 9]))
    assert list(fresh.of("all")) == [0, 1, 2]
    assert list(fresh.of("only9")) == [2]
    assert "only3" not in fresh.dump()
    assert list(facets.of("all")) == [1, 3, 4, 9]


def test_a_bitmap_of_ordinals_and_back():
    assert ordinals(bitmap(np.asarray([5, 1, 2**31]))).tolist() == [1, 5, 2**31]


def test_the_facets_of_a_document_are_the_values_that_it_has(entry: Callable[..., IndexEntry]):
    one = entry(
        "mem_1", "tea", tags=["hot"], agent_id="ada", audience=["bob", ""], retired_ms=5, expires_ms=6,
        types=["semantic"], files=["a.py"], concepts=["tea"],
    )  # fmt: skip
    keys = entry_facets(3, one)
    assert len(keys) == len(set(keys))
    for name, value in (
        ("partition", "3"), ("tenant", "default"), ("kind", "memory"), ("agent", "ada"), ("tag", "hot"),
        ("type", "semantic"), ("file", "a.py"), ("concept", "tea"), ("retired", "yes"), ("reader", "bob"),
    ):  # fmt: skip
        assert facet(name, value) in keys
    assert facet("reader", "") not in keys


def test_the_values_of_a_facet_are_those_that_documents_have_also_after_loading_and_compaction():
    facets = Facets()
    facets.add(0, [facet("project", "shop"), facet("agent", "ada"), facet("session", "s1")])
    facets.add(1, [facet("project", ""), facet("agent", "ada")])
    facets.add(2, [facet("project", "gone")])
    facets.remove(2, [facet("project", "gone")])
    assert sorted(facets.values("project")) == ["", "shop"]
    loaded = Facets.load(facets.dump())
    assert sorted(loaded.values("project")) == ["", "shop"]
    assert loaded.values("agent") == ["ada"]
    assert loaded.renumbered(np.array([1])).values("project") == [""]


@pytest.mark.parametrize(
    ("confidence", "word"),
    [
        (None, None),
        (0.0, "probably not recorded"),
        (0.149, "probably not recorded"),
        (0.15, "uncertain"),
        (0.399, "uncertain"),
        (0.4, "recorded"),
        (1.0, "recorded"),
    ],
)
def test_a_confidence_has_a_word(confidence: float | None, word: str | None):
    assert certainty(confidence) == word
