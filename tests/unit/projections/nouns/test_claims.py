"""Claims of actions: who holds one, by the log's order and clock."""

from collections.abc import Callable
from typing import Any

import pytest
from factories import forgotten, place, said
from folding import apply, contents, folded, one_by_one, replayed
from hypothesis import given
from hypothesis import strategies as st

from ingest.events.envelope import EventData, Recorded
from ingest.ids import DocumentId
from ingest.nouns.action import (
    ActionClaimed,
    ActionCreated,
    ActionEdge,
    ActionExpired,
    ActionReleased,
    ActionRenewed,
    ActionUpdated,
)
from projections.nouns.action import Action, action_id, is_ready, queue
from projections.nouns.batch import mark_of
from projections.nouns.tombstone import Outcome, SupersededEvent
from projections.store.protocol import MemoryStore

LEASE = 60


def created(n: int, title: str = "Dig", **data: Any) -> Recorded:
    return said(n, ActionCreated(title=title, **data))


def claimed(n: int, *events: Recorded, agent: str = "ada", lease: int = LEASE) -> Recorded:
    data = ActionClaimed(actions=[str(action_id(event)) for event in events], lease_seconds=lease)
    return said(n, data, agent_id=agent)


def outcome(store: MemoryStore, event: Recorded) -> Outcome:
    mark = store.documents[mark_of(event)]
    assert isinstance(mark, SupersededEvent)
    assert mark.outcome
    return mark.outcome


def action(store: MemoryStore, event: Recorded) -> Action:
    existing = store.documents[action_id(event)]
    assert isinstance(existing, Action)
    return existing


def test_first_claim_in_the_log_gets_the_action_and_later_ones_are_refused_with_its_holder():
    task = created(1)
    events = [task, *(claimed(n, task, agent=f"agent-{n}") for n in range(2, 22))]
    store = folded(events)
    held = action(store, task)
    assert (held.holder, held.token, held.status) == ("agent-2", str(place(2)), "active")
    refused = [outcome(store, event) for event in events[2:]]
    assert {(one.refused, one.changed_by, one.until_ms) for one in refused} == {("claimed", "agent-2", held.expires_ms)}
    assert contents(one_by_one(events)) == contents(store)


def test_claim_is_free_again_only_when_its_lease_has_ended_by_the_log():
    task = created(0)
    early, late = claimed(LEASE, task, agent="bob"), claimed(LEASE + 1, task, agent="eve")
    store = one_by_one([task, claimed(1, task), early, late])
    assert outcome(store, early).refused == "claimed"
    assert (outcome(store, late).refused, action(store, task).holder) == ("", "eve")


def test_token_of_an_earlier_claim_is_refused_by_every_change():
    task = created(0)
    name, token = str(action_id(task)), str(place(1))
    stale: list[EventData] = [
        ActionUpdated(action=name, status="done", token=token),
        ActionRenewed(action=name, token=token, lease_seconds=LEASE),
        ActionReleased(action=name, token=token),
    ]
    later = [said(100 + n, data) for n, data in enumerate(stale)]
    store = one_by_one([task, claimed(1, task), claimed(90, task, agent="bob"), *later])
    assert {outcome(store, event).refused for event in later} == {"stale_token"}
    assert (action(store, task).holder, action(store, task).status) == ("bob", "active")


def test_expired_token_is_refused_even_if_nobody_claimed_the_action_since():
    task = created(0)
    done = said(90, ActionUpdated(action=str(action_id(task)), status="done", token=str(place(1))))
    store = one_by_one([task, claimed(1, task), done])
    assert (outcome(store, done).refused, action(store, task).status) == ("stale_token", "active")


def test_renewal_extends_the_lease_from_its_own_time():
    task = created(0)
    renewed = said(50, ActionRenewed(action=str(action_id(task)), token=str(place(1)), lease_seconds=LEASE))
    store = one_by_one([task, claimed(1, task), renewed])
    assert action(store, task).expires_ms == place(50).ms + LEASE * 1000
    assert outcome(store, renewed).until_ms == action(store, task).expires_ms


TASK = created(0)
TASK_ID = str(action_id(TASK))


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (ActionReleased(action=TASK_ID, token=str(place(1))), "pending"),
        (ActionUpdated(action=TASK_ID, status="done", token=str(place(1))), "done"),
        (ActionUpdated(action=TASK_ID, status="cancelled"), "cancelled"),
    ],
    ids=["released", "done", "canceled"],
)
def test_released_or_finished_action_has_no_holder(end: EventData, status: str):
    ended = action(one_by_one([TASK, claimed(1, TASK), said(2, end)]), TASK)
    assert (ended.holder, ended.token, ended.expires_ms, ended.status) == ("", "", 0, status)


def test_expiry_ends_a_claim_after_its_lease_and_does_nothing_to_a_renewed_or_newer_one():
    task = created(0)
    name = str(action_id(task))
    expired = ActionExpired(action=name, token=str(place(1)), holder="ada")
    early = one_by_one([task, claimed(1, task), said(30, expired)])
    assert action(early, task).holder == "ada"
    renewed = said(50, ActionRenewed(action=name, token=str(place(1)), lease_seconds=LEASE))
    assert action(one_by_one([task, claimed(1, task), renewed, said(70, expired)]), task).holder == "ada"
    assert (
        action(one_by_one([task, claimed(1, task), claimed(80, task, agent="bob"), said(81, expired)]), task).holder
        == "bob"
    )
    late = action(one_by_one([task, claimed(1, task), said(70, expired)]), task)
    assert (late.holder, late.status, late.assigned_to) == ("", "pending", "")


def test_claim_of_several_actions_gets_the_first_free_one():
    first, second, third = created(0), created(1, "Plant"), created(2, "Water")
    asked = claimed(4, first, second, third, agent="bob")
    store = one_by_one([first, second, third, claimed(3, first), asked])
    assert action(store, second).holder == "bob"
    mark = store.documents[mark_of(asked)]
    assert isinstance(mark, SupersededEvent)
    assert mark.subject == action(store, second).id


def test_action_that_waits_or_conflicts_is_not_ready():
    dig = created(0)
    plant = created(1, "Plant", requires=[str(action_id(dig))])
    dance = created(2, "Dance", edges=[ActionEdge(type="conflicts_with", target=str(action_id(dig)))])

    def ready(*events: Recorded, of: Recorded) -> bool:
        store = one_by_one([dig, plant, dance, *events])
        others = [action(store, event) for event in (dig, plant, dance) if event != of]
        return is_ready(action(store, of), others, place(10).ms)

    done = said(4, ActionUpdated(action=str(action_id(dig)), status="done"))
    assert (ready(of=plant), ready(done, of=plant)) == (False, True)
    assert (ready(of=dance), ready(claimed(3, dig), of=dance)) == (True, False)
    assert not ready(claimed(3, dance), of=dig), "only the other action names the conflict"


def test_claim_is_decided_the_same_after_what_it_waited_for_is_forgotten():
    dig = created(0)
    plant = created(1, "Plant", requires=[str(action_id(dig))])
    events = [dig, plant, claimed(3, plant), forgotten(4, "action", str(action_id(dig)))]
    store = one_by_one(events)
    assert action(store, plant).token == str(place(3))
    assert contents(replayed(events, store)) == contents(store)


@pytest.mark.parametrize("fold", [folded, one_by_one], ids=["one batch", "several"])
def test_claim_outlives_another_candidate_that_is_forgotten(fold: Callable[[list[Recorded]], MemoryStore]):
    first, second = created(0), created(1, "Plant")
    asked = claimed(4, first, second, agent="bob")
    events = [first, second, claimed(3, first), asked, forgotten(5, "action", str(action_id(first)))]
    store = fold(events)
    assert action(store, second).token == str(place(4))
    assert asked.position not in store.erased
    assert contents(replayed(events, store)) == contents(store)


def test_refused_claim_of_several_is_about_the_first_of_them_and_replays_the_same_without_the_others():
    first, second = created(0), created(1, "Plant")
    asked = claimed(5, first, second, agent="bob")
    events = [first, second, claimed(3, first, agent="ann"), claimed(4, second, agent="carl"), asked]
    events.append(forgotten(6, "action", str(action_id(second))))
    store = one_by_one(events)
    assert outcome(store, asked).changed_by == "ann"
    assert contents(replayed(events, store)) == contents(store)


def test_finished_action_and_unknown_one_cannot_be_claimed():
    task = created(0)
    done = said(1, ActionUpdated(action=str(action_id(task)), status="done"))
    asked = claimed(2, task)
    store = one_by_one([task, done, asked])
    assert outcome(store, asked).refused == "finished"
    assert outcome(one_by_one([asked]), asked).refused == "not_found"


def test_repeated_claim_changes_nothing_and_is_erased_from_the_log():
    task, first = created(0), claimed(1, created(0))
    again = first._replace(position=place(200))
    store = one_by_one([task, first, again])
    assert action(store, task).token == str(place(1))
    assert list(store.erased) == [again.position]
    assert contents(replayed([task, first, again], store)) == contents(store)


def test_forgotten_action_leaves_no_claim():
    task = created(0)
    events = [task, claimed(1, task), forgotten(2, "action", str(action_id(task)))]
    store = one_by_one(events)
    assert action_id(task) not in store.documents
    assert not [name for name, members in store.listings.items() if members and name.startswith(("claimed", "queue"))]
    assert contents(replayed(events, store)) == contents(store)


def test_queue_has_free_open_actions_by_priority_then_age_and_by_tag():
    low, high, old = (
        created(2, "low", priority=1, tags=["go"]),
        created(3, "high", priority=9),
        created(1, "old", priority=1),
    )
    store = one_by_one([low, high, old, claimed(4, high)])
    queued = sorted(store.listings[queue("default", "atlas", "")])
    assert [member.rpartition("|")[2] for member in queued] == [action_id(old), action_id(low)]
    assert len(store.listings[queue("default", "atlas", "go")]) == 1


@given(st.lists(st.tuples(st.sampled_from("cruxd"), st.integers(0, 3), st.integers(0, 4), st.integers(1, 90))))
def test_claims_agree_with_a_naive_model(steps: list[tuple[str, int, int, int]]):
    """One action, four agents, any mix of claims, renewals, releases, expiries and completions with any known token."""
    task = created(0)
    name = str(action_id(task))
    store = one_by_one([task])
    tokens, holder, ends, at, finished = ["1-0"], "", 0, 1, False
    for what, agent, which, seconds in steps:
        at += seconds
        token = tokens[which % len(tokens)]
        is_valid = holder != "" and token == tokens[-1] and at < ends
        data: dict[str, EventData] = {
            "c": ActionClaimed(actions=[name], lease_seconds=LEASE),
            "r": ActionRenewed(action=name, token=token, lease_seconds=LEASE),
            "u": ActionReleased(action=name, token=token),
            "x": ActionExpired(action=name, token=token, holder="whoever"),
            "d": ActionUpdated(action=name, status="done", token=token),
        }
        apply(store, [said(at, data[what], agent_id=f"agent-{agent}")])
        if what == "c" and not finished and not (holder and at < ends):
            holder, ends = f"agent-{agent}", at + LEASE
            tokens.append(str(place(at)))
        elif what == "r" and is_valid:
            ends = at + LEASE
        elif (what == "u" and is_valid) or (what == "x" and holder and token == tokens[-1] and at >= ends):
            holder = ""
        elif what == "d" and is_valid:
            holder, finished = "", True
        held = store.documents[DocumentId(name)]
        assert isinstance(held, Action)
        assert (held.holder, held.status == "done") == (holder, finished)
        if holder:
            assert (held.token, held.expires_ms) == (tokens[-1], place(ends).ms)
