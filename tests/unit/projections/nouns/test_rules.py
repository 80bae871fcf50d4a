"""The rules of documents: the frontier of actions, confidence and triggers of lessons, relations, tool output."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from factories import NOW
from hypothesis import given
from hypothesis import strategies as st

from projections.nouns.action import (
    WorkItem,
    blockers,
    cycles,
    effective_status,
    frontier,
    is_active,
    is_dropped,
    is_finished,
    same_status,
    score,
)
from projections.nouns.lesson import (
    PREVIEW_CHARS,
    SEVERITIES,
    decayed,
    fades_at,
    is_retired,
    matches,
    recall_score,
    severity_rank,
    strengthened,
    weeks_since,
)
from projections.nouns.observation import Observation
from projections.nouns.relation import Edge, RelatedMemory, Walk, confidence
from projections.text.cues import TOOL_OUTPUT
from tests.support.condensing import called, saw


def item(name: str, status: str = "pending", **fields: Any) -> WorkItem:
    """An action of priority 0, created NOW, that knows no other."""
    edges: dict[str, Any] = {edge: [] for edge in ("requires", "gated_by", "conflicts_with", "unlocks", "spawned_by")}
    given: dict[str, Any] = {"title": name, "priority": 0.0, "created_at": NOW, "assigned_to": "", **edges, **fields}
    return WorkItem(id=name, status=status, **given)


def items(*some: WorkItem) -> dict[str, WorkItem]:
    return {one.id: one for one in some}


def ready(*some: WorkItem, now: datetime = NOW, **asked: Any) -> list[str]:
    return [one.item.id for one in frontier(items(*some), now, **asked)]


def test_statuses_are_compared_by_meaning():
    assert all(map(is_finished, ["done", "completed", " Done "]))
    assert all(map(is_dropped, ["cancelled", "canceled", "discarded", "dropped"]))
    assert all(map(is_active, ["active", "in_progress", "In Progress", "in-progress"]))
    assert not any(check("pending") for check in (is_finished, is_dropped, is_active))


def test_an_action_waits_for_what_it_requires_and_for_its_gates():
    waiting = item("c", requires=["a"], gated_by=["b", "a"])
    assert blockers(waiting, items(item("a"), item("b", "active"), waiting)) == ["a", "b"]
    assert ready(item("a"), item("b"), waiting) == ["a", "b"]


@pytest.mark.parametrize("status", ["done", "completed", "cancelled"])
def test_what_is_finished_dropped_or_unknown_holds_nothing_up(status: str):
    assert ready(item("a", status), item("b", requires=["a", "gone"])) == ["b"]


def test_what_another_action_unlocks_does_not_wait_for_it():
    assert ready(item("a", unlocks=["b"]), item("b")) == ["a", "b"]


def test_finished_and_dropped_actions_are_not_ready():
    assert ready(item("a", "done"), item("b", "discarded"), item("c", "reviewing")) == ["c"]


def test_an_action_that_waits_is_shown_blocked_and_one_that_no_longer_waits_pending():
    blocked, freed, gate = item("b", requires=["a"]), item("c", "blocked", requires=["gone"]), item("a")
    everything = items(gate, blocked, freed)
    assert effective_status(blocked, everything) == "blocked"
    assert effective_status(freed, everything) == "pending"
    assert effective_status(item("d", "blocked"), everything) == "blocked"
    assert effective_status(item("d", "blocked", requires=["a"]), everything) == "blocked"
    assert effective_status(item("d", "todo"), everything) == "todo"
    assert effective_status(item("d", "active", requires=["a"]), everything) == "active"
    assert effective_status(item("d", "done", requires=["a"]), everything) == "done"


def test_a_freed_action_is_ready_though_it_is_stored_blocked():
    assert ready(item("a", "blocked", requires=["gone"])) == ["a"]


def test_an_active_conflict_holds_up_the_other_side_whoever_names_it():
    assert ready(item("a", "active"), item("b", conflicts_with=["a"])) == ["a"]
    assert ready(item("a", "active", conflicts_with=["b"]), item("b")) == ["a"]


def test_a_conflict_with_what_is_idle_unknown_or_oneself_holds_nothing_up():
    assert ready(item("a"), item("b", conflicts_with=["a", "gone"])) == ["a", "b"]
    assert ready(item("a", "active", conflicts_with=["a"])) == ["a"]


def test_what_another_agent_works_on_is_not_ready():
    leased = item("a", "active", assigned_to="bob")
    assert ready(leased, agent_id="ada") == []
    assert ready(leased, agent_id="bob") == ["a"]
    assert ready(leased) == ["a"]
    assert ready(item("b", assigned_to="bob"), agent_id="ada") == ["b"]
    assert [one.leased for one in frontier(items(leased, item("b", "active")), NOW)] == [True, False]


def test_the_frontier_goes_by_priority_then_age_then_id():
    old = NOW - timedelta(days=1)
    some = (item("d"), item("c"), item("b", created_at=old), item("a", priority=-1), item("e", priority=11))
    assert ready(*some) == ["e", "b", "c", "d", "a"]
    assert ready(*some, limit=2) == ["e", "b"]
    assert ready(*some, limit=-1) == []
    assert ready() == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 10),
        ({"priority": 5.0}, 50),
        ({"priority": 99.0}, 100),
        ({"created_at": NOW - timedelta(hours=3)}, 11.5),
        ({"created_at": NOW - timedelta(days=9)}, 30),
        ({"created_at": NOW + timedelta(days=9)}, 10),
        ({"unlocks": ["x", "y"]}, 20),
        ({"spawned_by": ["x", "y"]}, 13),
        ({"status": "active"}, 25),
    ],
)
def test_a_score_counts_priority_age_what_it_unlocks_its_origin_and_being_under_way(
    fields: dict[str, Any], expected: float
):
    assert score(item("a", **fields), NOW) == expected


def test_actions_that_wait_for_one_another_stay_blocked_and_are_found():
    a, b, c = item("a", requires=["b"]), item("b", gated_by=["c"]), item("c", requires=["a"])
    own, free = item("d", requires=["d"]), item("e", requires=["a"])
    everything = items(c, b, a, own, free, item("f"))
    assert ready(*everything.values()) == ["f"]
    assert cycles(everything) == [["a", "b", "c"], ["d"]]
    assert len(cycles(everything, limit=1)) == 1


def test_a_circle_is_broken_once_one_of_it_is_finished():
    assert cycles(items(item("a", "done", requires=["b"]), item("b", requires=["a"]))) == []


def test_statuses_of_one_meaning_are_the_same():
    assert same_status("completed", "Done")
    assert same_status("to do", "pending")
    assert same_status("on hold", "On-Hold")
    assert not same_status("done", "cancelled")
    assert not same_status("on hold", "pending")


CONFIDENCES = st.floats(0, 1)
T0 = datetime(2025, 1, 1, tzinfo=UTC)


def test_a_reinforcement_removes_a_tenth_of_the_doubt():
    assert strengthened(0.5) == pytest.approx(0.55)


@given(st.floats(), st.datetimes(timezones=st.just(UTC)))
def test_whatever_an_event_says_a_lesson_fades_some_time(confidence: float, last: datetime):
    """Doors take a confidence from 0 to 1; a log may hold what no door took."""
    assert fades_at(confidence, 0.05, last) >= last


@given(CONFIDENCES)
def test_reinforcing_never_lowers_confidence_nor_passes_one(confidence: float):
    assert confidence <= strengthened(confidence) <= 1


@pytest.mark.parametrize(
    ("confidence", "weeks", "expected"),
    [(0.5, 0.99, 0.5), (0.5, 1, 0.45), (0.5, 2.5, 0.375), (0.5, 100, 0.05), (0.12345, 0.5, 0.12345)],
)
def test_confidence_fades_by_the_week_down_to_a_floor(confidence: float, weeks: float, expected: float):
    assert decayed(confidence, 0.05, weeks) == expected


def test_weeks_keep_their_fraction_and_are_never_negative():
    assert weeks_since(T0, T0 + timedelta(days=10, hours=12)) == 1.5
    assert weeks_since(T0, T0 - timedelta(days=1)) == 0


@pytest.mark.parametrize(
    ("confidence", "reinforcements", "retired"), [(0.1, 0, True), (0.101, 0, False), (0.05, 1, False)]
)
def test_only_a_faded_lesson_nobody_confirmed_is_retired(confidence: float, reinforcements: int, retired: bool):
    assert is_retired(confidence, reinforcements) is retired


def test_an_older_lesson_ranks_lower():
    assert recall_score(0.8, 0.5, timedelta(0)) == 0.4
    assert recall_score(0.8, 0.5, timedelta(days=100)) == 0.2


@pytest.mark.parametrize(
    ("tool", "pattern", "expected"),
    [
        ("", "", True),
        ("Bash", "", True),
        ("bash", "", False),
        ("Edit", "", False),
        ("", "PUSH.*--force", True),
        ("Bash", "rebase", False),
        ("Edit", "push", False),
    ],
)
def test_a_lesson_is_about_a_call_when_its_tool_and_its_pattern_are(tool: str, pattern: str, expected: bool):
    assert matches(tool, pattern, "Bash", "git push --force") is expected


def test_a_stored_pattern_that_does_not_compile_matches_nothing():
    assert not matches("", "(", "Bash", "(")


def test_a_preview_is_searched_as_far_as_hooks_send_it():
    assert matches("", "end", "Bash", "end".rjust(PREVIEW_CHARS))
    assert not matches("", "end", "Bash", "end".rjust(PREVIEW_CHARS + 1))


def test_critical_comes_first_and_an_unknown_severity_last():
    assert sorted(["odd", "info", "critical", "warning"], key=severity_rank) == [*SEVERITIES, "odd"]


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


@pytest.mark.parametrize(
    "call",
    [
        called(1, "Read", {"file_path": "src/a.py"}, "import os"),
        called(1, "Grep", {"pattern": "retry"}, "src/a.py:1: retry"),
        called(1, "Bash", {"command": "make"}, "done"),
        called(1, "Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}),
    ],
    ids=lambda call: call.data["tool_name"],
)
def test_a_call_with_what_it_answered_is_the_output_of_a_tool(call: Observation):
    assert TOOL_OUTPUT in call.index_entry().terms.split()


@pytest.mark.parametrize(
    "observation",
    [
        called(1, "Bash", {"command": "make"}, error="no rule to make target"),
        called(1, "search_note", "We use Kafka", "We use Kafka"),
        saw(1, kind="file_read", content="The module retries three times"),
        saw(1, kind="prompt_submit", data={"prompt": "Why does it retry?"}),
    ],
    ids=["failed", "says its input", "content of its own", "prompt"],
)
def test_what_tells_something_is_not(observation: Observation):
    assert TOOL_OUTPUT not in observation.index_entry().terms.split()
