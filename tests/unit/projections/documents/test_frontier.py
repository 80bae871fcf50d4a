"""What can be worked on now."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from factories import NOW

from projections.documents.actions import (
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
