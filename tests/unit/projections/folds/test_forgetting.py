"""Forgetting by marks, and the stubs that a replay folds."""

from collections.abc import Sequence

import pytest
from factories import forgotten, learned, observed, place, recorded, remembered, said
from given import given, id_of, later

from ingest.events.envelope import Recorded
from ingest.events.memory import MemoryVisibilityChanged
from ingest.events.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.events.subject import EventErased, SubjectForgotten
from projections.documents.memories import memory_id
from projections.documents.rows import derived, of_user
from projections.documents.slots import Slot, slot_id
from projections.documents.tombstones import entries, marks
from projections.folds.batch import mark_of

NOTES = slot_id("default", "atlas", "notes")
SET = said(1, SlotSet(label="notes", content="a"), user_id="u1")
APPENDED = said(2, SlotAppended(label="notes", content="b"), user_id="u2")


class TestMarks:
    def test_a_mark_says_whose_it_is_and_what_it_was_about(self):
        mark = given(SET).mark(SET)
        assert (mark.subject, mark.was, mark.position, mark.user_id) == (NOTES, "slot.set", str(place(1)), "u1")
        found = given(SET)
        where = f"{place(1).sort_key}|{mark.id}"
        for listing in (entries(NOTES), marks("default", "atlas"), of_user("default", "u1")):
            assert where in found.store.listings[listing]

    def test_a_stub_carries_the_marks_id_and_neither_words_nor_a_user(self):
        found = given(SET).when(forgotten(3, "slot", NOTES))
        stub = found.store.erased[place(1)]
        assert stub.data == EventErased(was="slot.set", document=NOTES, mark=mark_of(SET))
        assert (stub.envelope.event_id, stub.envelope.user_id, stub.envelope.metadata) == (mark_of(SET), "", {})

    def test_an_erased_mark_stays_and_keeps_the_event_from_coming_back(self):
        found = given(SET, forgotten(3, "slot", NOTES))
        assert (found.mark(SET).erased, found.mark(SET).user_id) == (True, "")
        found.when(later(SET, 4)).then_nothing()
        assert found.document(NOTES) is None
        assert place(4) in found.erased()

    def test_marks_are_forgotten_with_what_they_are_about(self):
        names = [mark_of(SET), mark_of(APPENDED), NOTES]
        for documents in (names, names[::-1]):
            found = given(SET, APPENDED).when(forgotten(3, "project", "atlas", documents=documents))
            assert found.document(NOTES) is None
            assert found.erased() == [place(1), place(2)]
            found.then_replay_is_the_same()

    def test_with_a_mark_of_what_is_gone_goes_all_that_was_said_of_it(self):
        found = given(SET, said(2, SlotDeleted(label="notes")))
        found.when(forgotten(3, "project", "atlas", documents=[mark_of(SET)]))
        assert sorted(found.erased()) == [place(1), place(2)]
        found.then_replay_is_the_same()

    def test_with_a_mark_of_a_slot_that_was_made_anew_goes_what_came_before(self):
        again = said(3, SlotSet(label="notes", content="c"))
        found = given(SET, said(2, SlotDeleted(label="notes")), again)
        found.when(forgotten(4, "user", "usr_1", documents=[mark_of(SET)]))
        assert sorted(found.erased()) == [place(1), place(2)]
        assert found.one(NOTES, Slot).content == "c"
        found.then_replay_is_the_same()

    def test_an_entry_that_a_document_stands_on_stays_until_that_goes(self):
        """Without it a replay could not end where live did; the door names the document as well."""
        found = given(SET, APPENDED).when(forgotten(3, "user", "usr_1", documents=[mark_of(APPENDED)]))
        found.then_nothing()
        assert found.erased() == []
        found.when(forgotten(4, "user", "usr_1", documents=[NOTES]))
        assert found.erased() == [place(1), place(2)]
        found.then_replay_is_the_same()

    def test_who_may_read_a_memory_does_not_change_by_forgetting_who_said_so(self):
        old = remembered(1, "likes tea")
        change = said(2, MemoryVisibilityChanged(memory=memory_id(old), visibility="private"), user_id="u2")
        found = given(old, change).when(forgotten(3, "user", "usr_1", documents=[mark_of(change)]))
        assert found.memory(old).visibility == "private"
        found.then_replay_is_the_same()


class TestSeveralDocuments:
    def test_one_event_forgets_many(self):
        one, other = remembered(1, "likes tea"), remembered(2, "drinks black coffee")
        names = [memory_id(one), memory_id(other), id_of(learned(3)), NOTES]
        slot = said(4, SlotSet(label="notes", content="a"))
        found = given(one, other, learned(3), slot).when(forgotten(5, "project", "atlas", documents=names))
        assert found.erased() == [place(n) for n in range(1, 5)]
        assert not any(found.is_listed(name) for name in names[:2])
        found.then_replay_is_the_same()

    def test_a_project_without_documents_forgets_nothing(self):
        given(SET).when(forgotten(2, "project", "atlas")).then_nothing()

    def test_applied_again_it_forgets_nothing_that_came_later(self):
        events = [SET, learned(2), forgotten(3, "project", "atlas", documents=[NOTES, id_of(learned(2))])]
        behind = [said(4, SlotSet(label="notes", content="b")), learned(5)]
        given(*events, *behind).when(*events).then_nothing()


class TestKeptDocuments:
    """What was derived from the forgotten and stays, because something else says the same."""

    MADE = remembered(1, "redis needs a restart", derived_from=["sum_1", "sum_2", "sum_3"])
    RULE = learned(2, derived_from=["act_1", "act_2"])

    def kept(self, n: int, *names: str, sources: Sequence[str]) -> Recorded:
        said = SubjectForgotten(kind="session", subject="s1", kept=list(names), sources=list(sources))
        return recorded(said, place(n), event_id=f"k{n}", session_id="")

    def test_a_memory_is_derived_from_what_is_left(self):
        name = memory_id(self.MADE)
        found = given(self.MADE).when(self.kept(3, name, sources=["sum_1", "sum_9"]))
        memory = found.memory(self.MADE)
        assert (memory.derived_from, memory.is_latest, found.erased()) == (["sum_2", "sum_3"], True, [])
        assert name not in found.store.listings.get(derived("sum_1"), ())
        assert name in found.store.listings[derived("sum_2")]
        found.then_replay_is_the_same()

    def test_a_lesson_is_derived_from_what_is_left(self):
        found = given(self.RULE).when(self.kept(3, id_of(self.RULE), sources=["act_1"]))
        assert found.lesson(self.RULE).sources == ["act_2"]
        found.then_replay_is_the_same()

    def test_it_can_be_forgotten_later(self):
        names = [memory_id(self.MADE), id_of(self.RULE)]
        found = given(self.MADE, self.RULE, self.kept(3, *names, sources=["sum_1", "act_1"]))
        found.when(forgotten(4, "project", "atlas", documents=names))
        assert found.erased() == [place(1), place(2)]
        found.then_replay_is_the_same()

    def test_what_is_not_there_is_not_made(self):
        given(self.kept(3, memory_id(self.MADE), id_of(self.RULE), sources=["sum_1"])).then_nothing()

    def test_applied_again_it_changes_nothing(self):
        event = self.kept(3, memory_id(self.MADE), sources=["sum_1"])
        given(self.MADE, event).when(event).then_nothing()


@pytest.mark.parametrize("event", [observed(1), remembered(1, "likes tea"), learned(1), SET], ids=str)
def test_a_stub_folded_again_changes_nothing(event: Recorded):
    known = given(event)
    name = next(name for name in known.store.documents if name.partition("_")[0] not in ("evt", "ses"))
    kind = {"obs": "observation", "mem": "memory", "lsn": "lesson", "slot": "slot"}[name.partition("_")[0]]
    known.when(forgotten(2, kind, name))  # type: ignore[arg-type]
    stub = Recorded(place(1), *known.store.erased[place(1)])
    given(stub).when(stub, later(stub, 9)).then_nothing()
