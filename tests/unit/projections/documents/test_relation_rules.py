"""How sure a relation is, and the walk along relations."""

from collections.abc import Sequence

import pytest

from projections.documents.relations import Edge, RelatedMemory, Walk, confidence

MIDDLING = (30.0, 30.0)


@pytest.mark.parametrize(
    ("relation", "shared", "ages", "expected"),
    [
        ("related", 0, MIDDLING, 0.5),
        ("related", 2, MIDDLING, 0.7),
        ("related", 9, MIDDLING, 0.8),
        ("related", 0, (1.0, 6.9), 0.6),
        ("related", 0, (1.0, 7.0), 0.5),
        ("related", 0, (91.0, 400.0), 0.4),
        ("related", 0, (90.0, 400.0), 0.5),
        ("supersedes", 0, MIDDLING, 0.6),
        ("contradicts", 0, MIDDLING, 0.45),
        ("supersedes", 5, (0.0, 0.0), 1.0),
        ("contradicts", 0, (100.0, 100.0), 0.35),
    ],
)
def test_an_estimate_counts_shared_sessions_ages_and_the_relation(
    relation: str, shared: int, ages: tuple[float, float], expected: float
):
    assert confidence(None, relation, shared, ages) == expected


@pytest.mark.parametrize(("given", "expected"), [(0.33, 0.33), (0.0, 0.0), (-1.0, 0.0), (7.0, 1.0)])
def test_a_given_confidence_is_taken_within_its_bounds(given: float, expected: float):
    assert confidence(given, "supersedes", 3, (0.0, 0.0)) == expected


CHAIN = [Edge("a", "b", "extends", 0.9), Edge("c", "b", "derives", 0.4), Edge("c", "d", "related")]


def walked(walk: Walk, edges: Sequence[Edge]) -> Walk:
    while walk.frontier:
        walk = walk.step(edges)
    return walk


def test_a_walk_goes_both_ways_and_remembers_how():
    assert walked(Walk.start("a", max_hops=3), CHAIN).related() == [
        RelatedMemory("b", 1, 0.9, ("extends",)),
        RelatedMemory("d", 3, 0.5, ("extends", "derives", "related")),
        RelatedMemory("c", 2, 0.4, ("extends", "derives")),
    ]


def test_a_walk_asks_only_for_the_edges_of_what_it_just_reached():
    first = Walk.start("a")
    second = first.step(CHAIN[:1])
    assert (first.frontier, second.frontier) == (("a",), ("b",))
    assert second.step(CHAIN).frontier == ()


@pytest.mark.parametrize(("hops", "reached"), [(-1, 0), (0, 0), (1, 1), (2, 2), (5, 5), (99, 5)])
def test_a_walk_takes_at_most_five_hops(hops: int, reached: int):
    road = [Edge(str(n), str(n + 1), "related") for n in range(9)]
    assert len(walked(Walk.start("0", max_hops=hops), road).related()) == reached


def test_a_weak_relation_is_walked_but_not_shown():
    assert [one.id for one in walked(Walk.start("a", max_hops=3), CHAIN).related(0.5)] == ["b", "d"]


def test_a_circle_ends_where_it_began():
    circle = [Edge("a", "b", "related"), Edge("b", "a", "extends"), Edge("a", "a", "related")]
    assert [one.id for one in walked(Walk.start("a", max_hops=5), circle).related()] == ["b"]


def test_of_several_relations_the_surest_counts():
    twice = [Edge("a", "b", "related", 0.2), Edge("b", "a", "extends", 0.8), Edge("a", "b", "derives", 5.0)]
    assert walked(Walk.start("a"), twice).related() == [RelatedMemory("b", 1, 1.0, ("derives",))]


def test_of_many_related_memories_the_surest_are_visited():
    star = [Edge("a", f"b{n}", "related", n / 10) for n in range(10)]
    assert [one.id for one in walked(Walk.start("a", max_visited=4), star).related()] == ["b9", "b8", "b7"]


def test_equal_confidence_goes_by_hops_then_id():
    tie = [Edge("a", "z", "related"), Edge("a", "y", "related"), Edge("z", "b", "related")]
    assert [one.id for one in walked(Walk.start("a"), tie).related()] == ["y", "z", "b"]


def test_a_memory_without_relations_has_no_related_ones():
    assert walked(Walk.start("a"), []).related() == []
