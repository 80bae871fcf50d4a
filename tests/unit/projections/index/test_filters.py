import numpy as np

from projections.index.filters import BitMap, Facets, facet, ordinals


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
