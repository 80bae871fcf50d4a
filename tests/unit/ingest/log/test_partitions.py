"""Routing is stable for ever: these values may not change, or streams would be split between partitions."""

import pytest

from ingest.log.position import partition_of, project_route, session_route


@pytest.mark.parametrize(
    ("route", "of_16", "of_7"),
    [
        (project_route("default", ""), 8, 6),
        (project_route("default", "atlas"), 3, 2),
        (project_route("acme", "atlas"), 3, 2),
        (session_route("default", "atlas", "s1"), 12, 3),
        (session_route("default", "atlas", "s2"), 6, 2),
        (session_route("default", "", "s1"), 4, 6),
        (session_route("default", "проект", "🚀"), 9, 4),
    ],
)
def test_a_route_keeps_its_partition_for_ever(route: str, of_16: int, of_7: int):
    assert (partition_of(route, 16), partition_of(route, 7)) == (of_16, of_7)


def test_the_parts_of_a_route_cannot_run_into_each_other():
    assert session_route("t", "ab", "c") != session_route("t", "a", "bc")
    assert project_route("ta", "b") != project_route("t", "ab")


def test_the_sessions_of_a_project_are_spread_over_the_partitions():
    used = {partition_of(session_route("default", "atlas", f"session-{n}"), 16) for n in range(200)}
    assert used == set(range(16))


def test_the_only_partition_takes_everything():
    assert {partition_of(project_route("default", f"p{n}"), 1) for n in range(20)} == {0}
