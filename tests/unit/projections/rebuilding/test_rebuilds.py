"""The steps of a rebuild: given one, when a step is taken, then it becomes another, or says why not."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from ingest.errors import WrongRebuildState
from ingest.ids import DocumentId
from projections.embedding.live import Choice
from projections.nouns.document import Document
from projections.nouns.tombstone import Tombstone
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import (
    LISTED,
    Answers,
    Difference,
    ListingAnswer,
    RecallProbe,
    answer_differences,
    recall_verdict,
    verdict,
)
from projections.rebuilding.rebuilds import Part, Rebuild, State, Switch, estimate

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
AGREE = verdict(40, [])
DIFFER = verdict(40, [Difference(partition=0, what="document", name="mem_1", said="not in the rebuilt data")])


def given(state: State = "running", switch: Switch = "auto", parts: int = 2) -> Rebuild:
    """A rebuild that began at NOW."""
    return Rebuild(
        id="r1",
        what="documents",
        switch=switch,
        state=state,
        parts=[Part(partition=n, before=1, generation=2) for n in range(parts)],
        started_at=NOW,
    )


def test_it_is_compared_once_every_partition_was_level():
    rebuild = steps.progressed(given(), 0, 10, 10, level=True, now=NOW)
    assert rebuild.state == "running"
    rebuild = steps.progressed(rebuild, 1, 5, 20, level=False, now=NOW)
    assert rebuild.state == "running"
    rebuild = steps.progressed(rebuild, 1, 15, 20, level=True, now=NOW + HOUR)
    assert (rebuild.state, rebuild.filled_at) == ("comparing", NOW + HOUR)
    assert [(part.done, part.total) for part in rebuild.parts] == [(10, 10), (20, 20)]


def test_a_partition_that_was_level_stays_so():
    rebuild = steps.progressed(given(), 0, 10, 10, level=True, now=NOW)
    assert steps.progressed(rebuild, 0, 1, 12, level=False, now=NOW).parts[0].level


def test_canaries_that_agree_lead_to_the_switch_unless_the_operator_orders_it():
    assert steps.compared(given("comparing"), AGREE).state == "switching"
    manual = steps.compared(given("comparing", "manual"), AGREE)
    assert (manual.state, manual.why) == ("ready", "waits for the command to switch")
    assert steps.to_switch(manual).state == "switching"


@pytest.mark.parametrize("switch", ["auto", "manual"])
def test_canaries_that_differ_wait_for_force(switch: Switch):
    ready = steps.compared(given("comparing", switch), DIFFER)
    assert (ready.state, ready.why) == ("ready", "1 of 40 canaries differ")
    with pytest.raises(WrongRebuildState, match="1 of 40 canaries differ"):
        steps.to_switch(ready)
    assert steps.to_switch(ready, force=True).state == "switching"


def test_a_switch_can_be_taken_back_for_as_long_as_what_was_read_is_kept():
    done = steps.switched(given("switching"), NOW, HOUR)
    assert (done.state, done.kept_until, done.way_back) == ("switched", NOW + HOUR, True)
    assert steps.unread(done) == [(0, 1), (1, 1)]
    back = steps.to_roll_back(done, NOW + HOUR / 2)
    assert (back.state, back.kept_until) == ("rolling_back", None)
    with pytest.raises(WrongRebuildState, match="a rollback is not possible"):
        steps.to_roll_back(done, NOW + HOUR)
    assert steps.unread(steps.rolled_back(back, NOW)) == [(0, 2), (1, 2)]


def test_the_way_back_ends_early_and_says_why_but_not_under_readers():
    """Who learned the generation just before the switch still reads it."""
    done = steps.switched(given("switching"), NOW, HOUR)
    at_once = steps.without_way_back(done, NOW, "documents were deleted")
    assert at_once.kept_until == NOW + steps.READERS_FINISH
    later = steps.without_way_back(done, NOW + HOUR / 2, "documents were deleted")
    assert later.kept_until == NOW + HOUR / 2
    with pytest.raises(WrongRebuildState, match="documents were deleted"):
        steps.to_roll_back(later, NOW + HOUR / 4)
    assert steps.without_way_back(given(), NOW, "why").kept_until is None


@pytest.mark.parametrize("state", ["running", "comparing", "ready"])
def test_what_has_not_begun_to_switch_can_be_cancelled(state: State):
    left = steps.cancelled(given(state), NOW)
    assert (left.state, left.kept_until, steps.unread(left)) == ("cancelled", NOW, [(0, 2), (1, 2)])


def test_a_rebuild_that_fails_leaves_every_generation_that_is_not_live():
    failed = steps.failed(given("switching"), "generation 7 is live", NOW)
    assert (failed.state, failed.why) == ("failed", "generation 7 is live")
    assert sorted(steps.unread(failed)) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert steps.failed(given("cancelled"), "late", NOW) == given("cancelled")


REFUSED: list[tuple[str, State, Callable[[Rebuild], Rebuild]]] = [
    ("progress", "cancelled", lambda rebuild: steps.progressed(rebuild, 0, 1, 1, level=False, now=NOW)),
    ("canaries", "cancelled", lambda rebuild: steps.compared(rebuild, AGREE)),
    ("switch", "running", lambda rebuild: steps.to_switch(rebuild, force=True)),
    ("switch", "cancelled", steps.to_switch),
    ("roll back", "ready", lambda rebuild: steps.to_roll_back(rebuild, NOW)),
    ("cancel", "switching", lambda rebuild: steps.cancelled(rebuild, NOW)),
    ("cancel", "switched", lambda rebuild: steps.cancelled(rebuild, NOW)),
]


@pytest.mark.parametrize(("order", "state", "step"), REFUSED, ids=[" ".join(case[:2]) for case in REFUSED])
def test_a_step_out_of_order_is_refused_with_the_state(order: str, state: State, step: Callable[[Rebuild], Rebuild]):
    with pytest.raises(WrongRebuildState, match=state):
        step(given(state))


AGAIN: list[tuple[State, Callable[[Rebuild], Rebuild]]] = [
    ("switching", steps.to_switch),
    ("switched", steps.to_switch),
    ("rolling_back", lambda rebuild: steps.to_roll_back(rebuild, NOW)),
    ("rolled_back", lambda rebuild: steps.to_roll_back(rebuild, NOW)),
    ("cancelled", lambda rebuild: steps.cancelled(rebuild, NOW)),
]


@pytest.mark.parametrize(("state", "step"), AGAIN)
def test_the_same_order_twice_changes_nothing(state: State, step: Callable[[Rebuild], Rebuild]):
    assert step(given(state)) == given(state)


def test_the_estimate_is_what_is_left_at_the_rate_so_far():
    rebuild = steps.progressed(given(), 0, 300, 1000, level=False, now=NOW)
    far = estimate(rebuild, NOW + timedelta(seconds=30))
    assert (far.done, far.total, far.rate, far.estimate_s) == (300, 1000, 10.0, 70.0)


def test_there_is_no_estimate_before_anything_is_done_and_nothing_left_once_it_is():
    assert estimate(given(), NOW).estimate_s is None
    assert estimate(given(), NOW + HOUR).estimate_s is None
    level = [Part(partition=0, before=1, generation=2, done=10, total=10, level=True)]
    ready = replace(given("ready"), parts=level, filled_at=NOW + timedelta(seconds=2))
    assert estimate(ready, NOW + HOUR).estimate_s == 0
    assert estimate(ready, NOW + HOUR).rate == 5.0, "waiting for the operator is not work"


def given_embeddings(state: State = "running") -> Rebuild:
    """Of embeddings: no generation is filled."""
    old, new = (Choice(spec=name, model=name, dimensions=8) for name in ("old", "new"))
    parts = [Part(partition=n, before=3, generation=3) for n in range(2)]
    return replace(given(state), what="embeddings", parts=parts, embedders=(old, new))


def test_documents_that_have_vectors_are_counted_as_they_are_and_never_less():
    rebuild = steps.embedded(given_embeddings(), 0, 64, 200, NOW)
    assert (rebuild.parts[0].done, rebuild.parts[0].total) == (64, 200)
    rebuild = steps.embedded(rebuild, 0, 10, 200, NOW)
    assert rebuild.parts[0].done == 64, "another worker begins anew, and finds them cached"
    rebuild = steps.embedded(rebuild, 0, 198, 198, NOW)
    assert (rebuild.parts[0].done, rebuild.parts[0].total, rebuild.parts[0].level) == (198, 198, True)
    rebuild = steps.embedded(rebuild, 1, 0, 0, NOW + HOUR)
    assert (rebuild.state, rebuild.filled_at) == ("comparing", NOW + HOUR)


@pytest.mark.parametrize("state", ["switched", "rolled_back", "cancelled", "failed"])
def test_no_generation_is_left_behind_by_embeddings(state: State):
    assert steps.unread(given_embeddings(state)) == []


GONE = Tombstone(id=DocumentId("mem_1"), position="1-0")


def answers(document: Document | None = GONE, count: int = 2, newest: tuple[bytes, ...] = (b"b", b"a")) -> Answers:
    return Answers({"mem_1": document}, {"memories": ListingAnswer(count, newest)})


def compared(live: Answers, candidate: Answers) -> list[tuple[str, str, str]]:
    return [(canary.what, canary.name, canary.said) for canary in answer_differences(3, live, candidate)]


@pytest.mark.parametrize(
    ("live", "candidate", "expected"),
    [
        (answers(), answers(), []),
        (answers(), answers(None), [("document", "mem_1", "not in the rebuilt data")]),
        (answers(None), answers(), [("document", "mem_1", "only in the rebuilt data")]),
        (
            answers(),
            answers(Tombstone(id=DocumentId("mem_1"), position="2-0", memory_version=3)),
            [("document", "mem_1", "other memory_version, position")],
        ),
        (answers(), answers(count=3), [("listing", "memories", "2 members, 3 in the rebuilt data")]),
        (answers(), answers(newest=(b"a", b"b")), [("listing", "memories", "different members or order")]),
    ],
    ids=["equal", "missing", "new", "other-fields", "more-members", "other-order"],
)
def test_documents_and_listings_that_differ_are_named_with_what_differs(
    live: Answers, candidate: Answers, expected: list[tuple[str, str, str]]
):
    assert compared(live, candidate) == expected


def test_with_other_folds_only_missing_documents_and_positions_count_as_damage():
    newer = [Difference(partition=0, what="document", name=f"mem_{n}", said="other trust") for n in range(LISTED)]
    newer.append(Difference(partition=0, what="listing", name="memories", said="2 members, 3 in the rebuilt data"))
    missing = Difference(partition=1, what="document", name="mem_x", said="not in the rebuilt data")
    behind = Difference(partition=2, what="position", name="checkpoint", said="not level")
    due = "rebuild due: documents were folded by version 8, this release folds 10"
    assert not verdict(100, newer).agree
    canaries = verdict(100, newer, due)
    assert (canaries.agree, canaries.differing) == (True, LISTED + 1)
    assert canaries.said == f"21 of 100 canaries differ; 21 of them may, because of a newer rule: {due}"
    damaged = verdict(100, [*newer, missing, behind], due)
    assert (damaged.agree, damaged.differences[:2]) == (False, [missing, behind])
    assert damaged.said.startswith("23 of 100 canaries differ; 21 of them may")


def test_every_difference_counts_and_the_first_are_listed():
    missing = [Difference(partition=n, what="document", name=f"mem_{n}", said="missing") for n in range(LISTED + 5)]
    canaries = verdict(100, missing)
    assert (canaries.agree, canaries.differing, len(canaries.differences)) == (False, LISTED + 5, LISTED)
    assert canaries.said == f"{LISTED + 5} of 100 canaries differ"
    assert (verdict(10, []).agree, verdict(10, []).said) == (True, "all 10 canaries agree")


def probes(n: int, *, words: int, live: int, candidate: int, overlap: float = 0.5) -> list[RecallProbe]:
    """So many documents, the first of which are found."""
    return [
        RecallProbe(
            name=f"mem_{k}", partition=0, words=k < words, live=k < live, candidate=k < candidate, overlap=overlap
        )
        for k in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "live", "candidate", "agree"),
    [
        (50, 48, 48, True),
        (50, 48, 43, True),
        (50, 48, 42, False),
        (50, 0, 25, True),
        (50, 0, 24, False),
        (12, 10, 6, True),
        (0, 0, 0, True),
    ],
    ids=["alike", "a-tenth-less", "less", "first-vectors", "vectors-of-nothing", "repetitive", "nothing-to-find"],
)
def test_new_vectors_must_find_about_what_the_live_ones_find(words: int, live: int, candidate: int, *, agree: bool):
    canaries = recall_verdict(probes(50, words=words, live=live, candidate=candidate))
    assert (canaries.agree, canaries.differing) == (agree, max(0, live - candidate))
    assert canaries.said == (
        f"by meaning, the new vectors find {candidate} of 50 documents among the first ten, the live ones {live}, "
        f"words {words}; overlap@10 0.50"
    )


def test_an_empty_log_has_nothing_to_be_found():
    assert recall_verdict([]).agree
