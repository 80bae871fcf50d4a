"""Memories that are revised, condensed and shown to others; and what of that survives forgetting."""

from datetime import UTC, datetime
from typing import Any

import pytest
from factories import forgotten, minute, place, remembered, said
from folding import contents
from given import given, later

from ingest.events.envelope import Recorded
from ingest.events.subject import EventErased
from ingest.nouns.memory import (
    MemoryCondensed,
    MemoryConfirmed,
    MemoryRecorded,
    MemoryRevised,
    MemoryVisibilityChanged,
)
from ingest.platform.clock import to_ms
from projections.nouns.memory import EXPIRING, Memory, confirmed_importance, memory_id
from projections.nouns.tombstone import Tombstone, entries, inheritance

TEA = "ada likes green tea in the morning with lemon and honey"
TEA_AGAIN = "Ada likes green tea in the mornings, with lemon and honey!"
COFFEE = "bob drinks black coffee after lunch every single weekday"
CAKE = "eve bakes carrot cake whenever somebody has a birthday"


def revised(n: int, old: Recorded, content: str, **data: Any) -> Recorded:
    return said(n, MemoryRevised(memory=memory_id(old), content=content, **data))


def revised_by(n: int, agent: str, old: Recorded, content: str) -> Recorded:
    return said(n, MemoryRevised(memory=memory_id(old), content=content, creator="ada"), agent_id=agent)


def condensed(n: int, *originals: Recorded, content: str = "all of it", **data: Any) -> Recorded:
    return said(n, MemoryCondensed(originals=[memory_id(original) for original in originals], content=content, **data))


def confirmed(n: int, memory: Recorded) -> Recorded:
    return said(n, MemoryConfirmed(memory=memory_id(memory)))


def shown(n: int, memory: Recorded, visibility: Any, shared_with: list[str] | None = None) -> Recorded:
    return said(n, MemoryVisibilityChanged(memory=memory_id(memory), visibility=visibility, shared_with=shared_with))


def forget(n: int, *memories: Recorded) -> Recorded:
    return forgotten(n, "memory", memory_id(memories[0]), documents=[memory_id(memory) for memory in memories])


class TestRevising:
    def test_a_revision_is_a_new_version_and_retires_the_old_one(self):
        old = remembered(1, TEA)
        new = revised(2, old, COFFEE, tags=["drinks"], importance=8)
        found = given(old).when(new)
        assert (found.memory(new).version, found.memory(new).parent_id) == (2, memory_id(old))
        assert (found.memory(new).content, found.memory(new).tags, found.memory(new).importance) == (
            COFFEE, ["drinks"], 8,
        )  # fmt: skip
        assert (found.memory(old).is_latest, found.memory(old).superseded_by) == (False, memory_id(new))
        assert found.memory(old).superseded_at == place(2).recorded_at

    def test_revising_an_old_version_attaches_to_the_newest(self):
        old = remembered(1, TEA)
        second, third = revised(2, old, COFFEE), revised(3, old, CAKE)
        found = given(old, second).when(third)
        assert (found.memory(third).version, found.memory(third).parent_id) == (3, memory_id(second))
        assert [found.memory(one).is_latest for one in (old, second, third)] == [False, False, True]

    def test_two_revisions_at_once_do_not_fork(self):
        """Both callers saw the same version; the log orders them, in one batch or two."""
        old = remembered(1, TEA)
        found = given(old).when(revised(2, old, COFFEE), revised(3, old, CAKE))
        assert [memory.version for memory in _memories(found.store.documents.values()) if memory.is_latest] == [3]
        found.then_replay_is_the_same()

    def test_a_revision_of_many_versions_finds_the_newest(self):
        old = remembered(1, TEA)
        chain = [revised(n, old, f"{CAKE} {n}") for n in range(2, 9)]
        found = given(old)
        for one in chain:
            found.when(one)
        assert [found.memory(one).version for one in chain] == list(range(2, 9))

    def test_a_memory_that_supersedes_is_revised_in_its_turn(self):
        old, new = remembered(1, TEA), remembered(2, TEA_AGAIN)
        found = given(old, new).when(revised(3, old, CAKE))
        assert found.memory(revised(3, old, "")).parent_id == memory_id(new)

    def test_a_revision_supersedes_nothing_else_that_is_alike(self):
        """It was said of which memory it is a version."""
        alike, old = remembered(1, TEA), remembered(2, COFFEE)
        found = given(alike, old).when(revised(3, old, TEA_AGAIN))
        assert found.memory(alike).is_latest

    def test_a_repeated_revision_changes_nothing_and_is_erased(self):
        old = remembered(1, TEA)
        found = given(old, revised(2, old, COFFEE)).when(later(revised(2, old, COFFEE), 9))
        found.then_nothing()
        assert found.erased() == [place(9)]

    def test_a_revision_of_a_forgotten_memory_follows_it(self):
        """It says all of the new version itself; the number goes on."""
        old = remembered(1, TEA)
        found = given(old, forget(2, old)).when(revised(3, old, COFFEE))
        new = found.memory(revised(3, old, ""))
        assert (new.version, new.parent_id, new.is_latest) == (2, memory_id(old), True)
        assert found.tombstone(old).superseded_by == new.id
        found.then_replay_is_the_same()

    def test_forgetting_the_old_version_leaves_the_new_one(self):
        old = remembered(1, TEA)
        found = given(old, revised(2, old, COFFEE)).when(forget(3, old))
        assert found.memory(revised(2, old, "")).version == 2
        found.then_replay_is_the_same()

    def test_forgetting_the_new_version_leaves_the_old_one_retired(self):
        old = remembered(1, TEA)
        found = given(old, revised(2, old, COFFEE)).when(forget(3, revised(2, old, "")))
        assert not found.memory(old).is_latest
        found.then_replay_is_the_same()

    def test_a_revision_of_what_never_was_is_a_first_version(self):
        new = revised(2, remembered(1, TEA), COFFEE)
        assert (given().when(new).memory(new).version, given(new).memory(new).parent_id) == (1, "")


class TestValidity:
    @pytest.mark.parametrize("stated", [None, minute(1), minute(9)])
    def test_a_newer_version_ends_the_older_one_and_its_stated_end_comes_back(self, stated: datetime | None):
        """By a revision or by saying the same; the newer one, of another agent, is then forgotten."""
        old = remembered(1, TEA, valid_until=stated)
        for new in (revised_by(2, "bob", old, COFFEE), remembered(2, TEA_AGAIN)):
            found = given(old).when(new)
            ended = min(filter(None, (stated, minute(2))))
            assert (found.memory(old).valid_until, found.memory(new).valid_until) == (ended, None)
            found.then_replay_is_the_same()
            found.when(forget(3, new))
            assert (found.memory(old).is_latest, found.memory(old).valid_until) == (True, stated)
            found.then_replay_is_the_same()

    def test_the_index_ends_a_version_when_its_successor_was_recorded_or_its_stated_time_comes(self):
        """Recall as of a moment between statement and recording knows the older version only."""
        old = remembered(1, TEA, valid_until=minute(90), forget_after=minute(99))
        new = revised(2, old, COFFEE)
        entry = given(old, new).memory(old).index_entry()
        assert (entry.retired_ms, entry.expires_ms) == (to_ms(place(2).recorded_at), to_ms(minute(90)))
        assert given(old, new).memory(new).index_entry().expires_ms == 0

    def test_a_forgotten_version_between_two_others_has_ended_the_one_before_it(self):
        old = remembered(1, TEA)
        new = revised_by(2, "bob", old, COFFEE)
        found = given(old, new, revised_by(3, "eve", old, CAKE)).when(forget(4, new))
        assert found.memory(old).valid_until == minute(2)
        found.then_replay_is_the_same()

    def test_an_end_before_1970_is_one(self):
        old = remembered(1, TEA, valid_until=datetime(1950, 1, 1, tzinfo=UTC))
        assert given(old).memory(old).index_entry().expires_ms == 1

    def test_an_older_statement_that_is_recorded_later_ends_what_it_revises_at_once(self):
        old = remembered(5, TEA)
        new = said(6, MemoryRevised(memory=memory_id(old), content=COFFEE), occurred_at=minute(2))
        assert given(old, new).memory(old).valid_until == minute(5)

    def test_what_is_condensed_is_still_true(self):
        tea, coffee = remembered(1, TEA), remembered(2, COFFEE)
        both = condensed(3, tea, coffee)
        found = given(tea, coffee).when(both)
        assert found.memory(tea).valid_until is None
        found.when(forget(4, tea))
        found.then_replay_is_the_same()
        assert found.memory(coffee).valid_until is None


class TestConfirming:
    def test_a_memory_counts_how_often_it_proved_right(self):
        tea = remembered(1, TEA, importance=6)
        found = given(tea).when(confirmed(2, tea), confirmed(3, tea)).memory(tea)
        assert (found.confirmations, found.confirmed_at) == (2, place(3).recorded_at)
        assert (found.version, found.importance) == (1, 6)

    def test_a_new_version_proved_right_as_often(self):
        tea = remembered(1, TEA)
        revision, again = revised(4, tea, COFFEE), remembered(4, TEA_AGAIN)
        for new in (revision, again):
            found = given(tea, confirmed(2, tea), confirmed(3, tea)).when(new).memory(new)
            assert (found.version, found.confirmations, found.confirmed_at) == (2, 2, place(3).recorded_at)

    def test_what_is_forgotten_is_confirmed_no_more(self):
        tea = remembered(1, TEA)
        found = given(tea, forget(2, tea)).when(confirmed(3, tea))
        assert isinstance(found.document(memory_id(tea)), Tombstone)

    @pytest.mark.parametrize(
        ("importance", "confirmations", "counts_as"),
        [(5, 0, 5), (5, 1, 6), (5, 3, 7), (5, 7, 8), (9, 7, 10), (10, 1, 10), (0, 1, 1)],
    )
    def test_each_doubling_of_confirmations_is_a_step_of_importance(
        self, importance: float, confirmations: int, counts_as: float
    ):
        assert confirmed_importance(importance, confirmations) == counts_as


class TestVisibility:
    def test_who_may_read_a_memory_is_changed_in_place(self):
        old = remembered(1, TEA)
        found = given(old).when(shown(2, old, "shared", ["bob"])).memory(old)
        assert (found.visibility, found.shared_with, found.version) == ("shared", ["bob"], 1)
        assert found.updated_at == place(2).recorded_at

    def test_the_readers_stay_when_none_are_said(self):
        old = remembered(1, TEA, visibility="shared", shared_with=["bob"])
        assert given(old).when(shown(2, old, "private")).memory(old).shared_with == ["bob"]
        assert given(old).when(shown(2, old, "private", [])).memory(old).shared_with == []

    def test_what_became_private_is_not_superseded_by_what_is_public(self):
        old, new = remembered(1, TEA), remembered(3, TEA_AGAIN)
        assert given(old, shown(2, old, "private")).when(new).memory(old).is_latest

    def test_the_change_is_erased_with_its_memory(self):
        old = remembered(1, TEA)
        found = given(old, shown(2, old, "shared", ["bob"])).when(forget(3, old))
        assert found.erased() == [place(1), place(2)]
        found.then_replay_is_the_same()

    def test_a_change_that_comes_after_the_forgetting_is_void_and_erased(self):
        old = remembered(1, TEA)
        found = given(old, forget(2, old)).when(shown(3, old, "shared", ["bob"]))
        assert isinstance(found.document(memory_id(old)), Tombstone)
        assert found.erased() == [place(1), place(3)]
        found.then_replay_is_the_same()


class TestDuplicates:
    @pytest.mark.parametrize(("old", "new"), [(True, False), (False, True), (True, True)])
    def test_what_keeps_duplicates_neither_supersedes_nor_is_superseded(self, old: bool, new: bool):
        first, second = remembered(1, TEA, keep_duplicates=old), remembered(2, TEA, keep_duplicates=new)
        found = given(first).when(second)
        assert (found.memory(first).is_latest, found.memory(second).version) == (True, 1)

    def test_memories_about_two_users_are_two_memories(self):
        first = said(1, MemoryRecorded(content=TEA), user_id="u1")
        second, third = (said(n, MemoryRecorded(content=TEA), user_id=user) for n, user in ((2, "u2"), (3, "u1")))
        found = given(first).when(second)
        assert (found.memory(first).is_latest, found.memory(second).version) == (True, 1)
        found.when(third)
        assert found.memory(third).parent_id == memory_id(first)


A, B, C, D = remembered(1, TEA), remembered(2, COFFEE), remembered(3, CAKE), remembered(4, "zoe rows on sundays")


class TestCondensing:
    def test_a_condensed_memory_stands_for_its_originals(self):
        both = condensed(5, A, B, model="m", prompt_version="1", importance=2)
        found = given(A, B).when(both)
        new = found.memory(both)
        assert (new.condensed, new.version, new.model, new.importance) == ([memory_id(A), memory_id(B)], 1, "m", 2)
        for one in (A, B):
            old = found.memory(one)
            assert (old.is_latest, old.superseded_by, old.superseded_at) == (False, new.id, place(5).recorded_at)

    def test_a_condensed_memory_supersedes_nothing_by_likeness_nor_is_superseded(self):
        both = condensed(5, A, B, content=TEA)
        found = given(A, B, both).when(remembered(6, TEA_AGAIN))
        assert (found.memory(both).is_latest, found.memory(remembered(6, "")).version) == (True, 1)

    @pytest.mark.parametrize(
        "before",
        [
            [A, B, revised(4, A, CAKE)],
            [A, B, forget(4, A)],
            [A, B, C, condensed(4, A, C)],
            [B],
        ],
        ids=["revised", "forgotten", "condensed already", "never there"],
    )
    def test_it_is_void_unless_every_original_is_current(self, before: list[Recorded]):
        """What it says may be forgotten or out of date: it is erased, and leaves a tombstone lest it come back."""
        both = condensed(5, A, B)
        found = given(*before).when(both)
        assert found.document(memory_id(both)) == Tombstone(id=memory_id(both))
        assert found.store.erased[place(5)].data == EventErased(was="memory.condensed", document=memory_id(both))
        assert found.memory(B).is_latest
        found.then_replay_is_the_same()
        found.when(later(both, 9)).then_nothing()
        assert place(9) in found.store.erased

    def test_exactly_one_of_two_that_race_survives(self):
        one, other = condensed(5, A, B), condensed(6, B, A, content="the other way round")
        found = given(A, B).when(one, other)
        assert found.memory(one).is_latest
        assert isinstance(found.document(memory_id(other)), Tombstone)
        found.then_replay_is_the_same()

    def test_forgetting_one_original_restores_the_others_and_drops_what_stood_for_them(self):
        both = condensed(5, A, B, C)
        found = given(A, B, C, both).when(forget(6, A))
        assert isinstance(found.document(memory_id(both)), Tombstone)
        for one in (B, C):
            assert (found.memory(one).is_latest, found.memory(one).superseded_by) == (True, "")
            assert found.memory(one).superseded_at is None
        assert found.erased() == [place(1), place(5)]
        found.then_replay_is_the_same()

    def test_forgetting_the_condensed_memory_restores_its_originals(self):
        both = condensed(5, A, B)
        found = given(A, B, both).when(forget(6, both))
        assert found.memory(A).is_latest
        assert found.memory(B).is_latest
        found.then_replay_is_the_same()

    @pytest.mark.parametrize("backwards", [False, True])
    def test_a_condensed_memory_is_forgotten_together_with_its_originals(self, backwards: bool):
        both = condensed(5, A, B)
        names = [both, A, B]
        found = given(A, B, both).when(forget(6, *(reversed(names) if backwards else names)))
        assert all(isinstance(found.document(memory_id(name)), Tombstone) for name in names)
        assert found.erased() == [place(1), place(2), place(5)]
        assert not any(isinstance(document, Memory) for document in found.store.documents.values())
        found.then_replay_is_the_same()

    def test_what_was_condensed_twice_goes_all_the_way_up(self):
        """The upper one was made of the lower one, which was made of what is forgotten."""
        lower = condensed(5, A, B)
        upper = condensed(6, lower, C)
        found = given(A, B, C, lower, upper).when(forget(7, A))
        assert isinstance(found.document(memory_id(lower)), Tombstone)
        assert isinstance(found.document(memory_id(upper)), Tombstone)
        assert [found.memory(one).is_latest for one in (B, C)] == [True, True]
        found.then_replay_is_the_same()

    def test_forgetting_the_middle_restores_on_both_sides(self):
        lower = condensed(5, A, B)
        upper = condensed(6, lower, C)
        found = given(A, B, C, lower, upper).when(forget(7, lower))
        assert [found.memory(one).is_latest for one in (A, B, C)] == [True, True, True]
        assert isinstance(found.document(memory_id(upper)), Tombstone)
        found.then_replay_is_the_same()

    def test_who_might_read_what_goes_with_another_is_erased_as_well(self):
        """The change of readers of a memory that nobody named, but that was condensed of one somebody did."""
        both = condensed(5, A, B)
        found = given(A, B, both, shown(6, both, "shared", ["bob"])).when(forget(7, A))
        assert place(6) in found.store.erased
        found.then_replay_is_the_same()

    def test_a_restored_memory_is_superseded_and_revised_as_before(self):
        """Its heirs after the restoration are not mistaken for what once stood for it, nor the other way round."""
        both = condensed(5, A, B)
        revision = revised(6, A, CAKE)
        found = given(A, B, both, revision, forget(7, both), remembered(8, TEA_AGAIN)).when(forget(9, A))
        assert found.memory(revision).parent_id == memory_id(both)
        assert found.memory(remembered(8, "")).parent_id == memory_id(A)
        found.then_replay_is_the_same()

    def test_a_tombstone_waits_in_no_listing(self):
        """In live and replay alike: what a replay looks for is found only until it is met."""
        old, new = remembered(1, TEA), remembered(2, TEA_AGAIN)
        found = given(old, new).when(forget(3, old))
        assert not found.store.listings.get(inheritance(memory_id(new)))

    def test_what_stood_for_others_leaves_every_listing(self):
        both = condensed(5, A, B)
        found = given(A, B, both).when(forget(6, A))
        assert not found.is_listed(memory_id(both))
        assert found.when(remembered(7, COFFEE)).memory(B).superseded_by == memory_id(remembered(7, ""))
        assert not found.store.listings.get(entries(memory_id(both)))
        assert not found.store.listings.get(EXPIRING)


class TestForgettingWhatSuperseded:
    """What a memory superseded because it stated the same is not a version of it."""

    OLD, NEW, NEWEST = remembered(1, TEA), remembered(2, TEA_AGAIN), remembered(3, TEA.upper())

    def test_what_was_superseded_is_current_again(self):
        found = given(self.OLD, self.NEW).when(forget(3, self.NEW))
        old = found.memory(self.OLD)
        assert (old.is_latest, old.superseded_by, old.superseded_at) == (True, "", None)
        found.then_replay_is_the_same()

    def test_of_three_only_the_one_before_is_current_again(self):
        found = given(self.OLD, self.NEW, self.NEWEST).when(forget(4, self.NEWEST))
        assert [found.memory(one).is_latest for one in (self.OLD, self.NEW)] == [False, True]
        found.when(forget(5, self.NEW))
        assert found.memory(self.OLD).is_latest
        found.then_replay_is_the_same()

    def test_what_another_memory_still_supersedes_stays_superseded(self):
        found = given(self.OLD, self.NEW, self.NEWEST).when(forget(4, self.NEW))
        assert not found.memory(self.OLD).is_latest
        found.then_replay_is_the_same()

    def test_it_is_current_again_once_all_that_superseded_it_is_forgotten(self):
        found = given(self.OLD, self.NEW, self.NEWEST).when(forget(4, self.NEW)).when(forget(5, self.NEWEST))
        assert found.memory(self.OLD).is_latest
        found.then_replay_is_the_same()

    @pytest.mark.parametrize("backwards", [False, True])
    def test_a_revised_memory_and_its_versions_leave_what_the_first_one_superseded(self, backwards: bool):
        revision = revised(3, self.NEW, COFFEE)
        names = [self.NEW, revision]
        found = given(self.OLD, self.NEW, revision).when(forget(4, *(names[::-1] if backwards else names)))
        assert found.memory(self.OLD).is_latest
        found.then_replay_is_the_same()

    def test_a_revision_by_another_agent_leaves_what_it_revised(self):
        """As bob revises a memory of ada, and deletes his version."""
        revision = said(2, MemoryRevised(memory=memory_id(self.OLD), content=COFFEE, creator="ada"), agent_id="bob")
        own = revised(3, self.OLD, CAKE, creator="ada")
        found = given(self.OLD, revision, own)
        assert (found.memory(revision).agent_id, found.memory(revision).author) == ("ada", "bob")
        found.when(forget(4, own))
        assert found.memory(revision).is_latest, "it was bob's"
        found.when(forget(5, revision))
        assert found.memory(self.OLD).is_latest
        found.then_replay_is_the_same()

    def test_a_version_forgotten_before_the_newest_is_no_end(self):
        revision = revised(3, self.NEW, COFFEE)
        found = given(self.OLD, self.NEW, revision).when(forget(4, self.NEW))
        assert not found.memory(self.OLD).is_latest, "its newest version is there"
        found.when(forget(5, revision))
        assert found.memory(self.OLD).is_latest
        found.then_replay_is_the_same()

    def test_what_is_forgotten_with_it_is_not_restored(self):
        found = given(self.OLD, self.NEW).when(forget(3, self.NEW, self.OLD))
        assert [type(found.document(memory_id(one))) for one in (self.OLD, self.NEW)] == [Tombstone] * 2
        found.then_replay_is_the_same()

    def test_what_is_current_again_is_superseded_as_before(self):
        found = given(self.OLD, self.NEW, forget(3, self.NEW)).when(remembered(4, TEA_AGAIN))
        assert found.memory(remembered(4, "")).parent_id == memory_id(self.OLD)
        found.when(forget(5, self.OLD)).when(forget(6, remembered(4, "")))
        found.then_replay_is_the_same()

    def test_it_is_current_again_when_what_condensed_both_is_forgotten(self):
        both = condensed(4, self.NEW, C)
        found = given(self.OLD, self.NEW, C, both).when(forget(5, self.NEW, both))
        assert [found.memory(one).is_latest for one in (self.OLD, C)] == [True, True]
        found.then_replay_is_the_same()


def _memories(documents: Any) -> list[Memory]:
    return [document for document in documents if isinstance(document, Memory)]


def test_forgetting_alone_or_in_a_batch_is_the_same():
    both = condensed(5, A, B)
    events = [A, B, both, forget(6, A)]
    assert contents(given(*events).store) == contents(given(A, B).when(both).when(forget(6, A)).store)
