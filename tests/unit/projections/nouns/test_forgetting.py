"""Folds of forgetting and of retiring: what remains, and that a replay ends with the same documents."""

from collections.abc import Sequence
from typing import Any

import pytest
from factories import ended, forgotten, learned, minute, observed, place, recorded, remembered, said, started
from folding import members
from given import Given, given, id_of, later

from ingest.events.envelope import Recorded
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.nouns.memory import MemoryVisibilityChanged
from ingest.nouns.observation import ObservationCompressed
from ingest.nouns.session import SessionRetired, SessionSummarised
from ingest.nouns.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.platform.clock import to_ms
from projections.nouns.batch import mark_of
from projections.nouns.memory import memory_id
from projections.nouns.observation import Observation, observation_id
from projections.nouns.rows import derived, of_user
from projections.nouns.session import RETIRABLE, UNSUMMARISED, session_document_id
from projections.nouns.slot import Slot, slot_id
from projections.nouns.tombstone import (
    Ledger,
    SupersededEvent,
    Tombstone,
    entries,
    ledger_id,
    ledgers,
    marks,
    unpacked,
)

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


SESSION = session_document_id("default", "atlas", "s1")


def names(*events: Recorded) -> list[str]:
    """What a job names: observations, and the marks of other events."""
    return [
        observation_id(event) if event.envelope.type == "observation.recorded" else mark_of(event) for event in events
    ]


def retire(n: int, *events: Recorded, part: int = 0, since: int = 0) -> Recorded:
    data = SessionRetired(documents=names(*events), part=part, idle_since_ms=place(since).ms if since else 0)
    return said(n, data)


def forget(n: int, *events: Recorded) -> Recorded:
    found = [observation_id(event) for event in events]
    return forgotten(n, "observation", found[0], documents=found)


def forget_session(n: int, *events: Recorded) -> Recorded:
    return forgotten(n, "session", "s1", documents=[*map(observation_id, events), SESSION])


def compressed(n: int, about: Recorded, **envelope: Any) -> Recorded:
    name = observation_id(about)
    data = ObservationCompressed(observation=name, title="t", narrative="made", model="m", prompt_version="1")
    return said(n, data, **envelope)


def summarised(n: int, found: Given) -> Recorded:
    session = found.session()
    told = SessionSummarised(
        title="t", narrative="told", observation_count=session.observation_count, forgotten_at=session.told_from
    )
    return said(n, told)


def noted(found: Given, part: int = 0) -> list[str]:
    """The ids in a part of the session's ledger."""
    return [entry.name for entry in unpacked(found.one(ledger_id(SESSION, part), Ledger))]


def kinds(found: Given) -> Sequence[str]:
    return sorted({type(document).__name__ for document in found.store.documents.values()})


START, A, B, C, END = started(1), observed(2), observed(3, user_id="eve"), observed(4), ended(5)
WHOLE = (START, A, B, C, END)


class TestRetiring:
    def test_observations_and_marks_leave_documents_and_listings_for_the_ledger(self):
        found = given(*WHOLE).when(retire(6, *WHOLE, since=5))
        assert kinds(found) == ["Ledger", "Session"]
        assert noted(found) == names(*WHOLE)
        listed = members(found.store)
        assert not [name for name in listed if name.startswith(("session:", "timeline:", "entries:", "marks:"))]
        assert listed[of_user("default", "eve")] == {f"~|{ledger_id(SESSION)}", f"~|{SESSION}"}
        assert listed[ledgers("default")] == {ledger_id(SESSION)}
        assert found.changes.erased == {}, "nothing leaves the log"
        found.then_replay_is_the_same()

    def test_the_session_says_how_many_and_since_when(self):
        session = given(*WHOLE).when(retire(6, A, B)).session()
        assert (session.observation_count, session.retired, session.searchable_observations) == (3, 2, 1)
        assert session.retired_ms == to_ms(minute(6))
        assert session.retired_through_ms == 0

    def test_what_was_retired_is_told_from_what_was_forgotten(self):
        """A purge is for what must not be found."""
        changes = given(*WHOLE).when(retire(6, A, START)).changes
        assert changes.retired == set(names(A, START))

    def test_what_is_not_there_or_not_the_sessions_is_passed_over(self):
        other = observed(9, session_id="s2")
        found = given(A, observed(3, session_id="s2")).when(retire(6, A, B, other))
        assert noted(found) == names(A)
        assert found.session("s2").observation_count == 1
        found.then_replay_is_the_same()

    def test_parts_of_a_big_session_are_beside_each_other(self):
        found = given(*WHOLE).when(retire(6, A)).when(retire(7, B, part=1)).when(retire(8, C, part=1))
        assert (noted(found, 0), noted(found, 1)) == (names(A), names(B, C))
        assert found.one(ledger_id(SESSION), Ledger).parts == 2
        found.then_replay_is_the_same()

    def test_twice_is_once(self):
        found = given(*WHOLE, retire(6, *WHOLE, since=5))
        found.when(retire(6, *WHOLE, since=5)).then_nothing()


class TestWhenASessionIsDue:
    def due(self, found: Given) -> bool:
        return bool(found.store.listings.get(RETIRABLE))

    def test_it_has_ended_and_its_summary_covers_all_of_it(self):
        found = given(A)
        assert not self.due(found)
        found.when(ended(5))
        assert found.store.listings[UNSUMMARISED]
        assert not self.due(found)
        found.when(summarised(6, found))
        assert self.due(found)

    def test_without_observations_there_is_nothing_to_summarise(self):
        assert self.due(given(START, END))

    def test_it_is_not_due_again_until_something_comes(self):
        found = given(START, END).when(retire(6, START, END, since=5))
        assert not self.due(found)
        found.when(observed(7)).when(ended(8)).when(summarised(9, found))
        assert self.due(found)

    def test_a_part_of_a_retirement_leaves_it_due(self):
        assert self.due(given(START, END).when(retire(6, START)))

    def test_nothing_is_to_be_summarised_when_the_summary_is_forgotten_with_a_retired_observation(self):
        found = given(*WHOLE)
        found.when(summarised(6, found)).when(retire(7, A, B, C, since=5)).when(forget(8, A))
        assert not found.store.listings[UNSUMMARISED]


class TestAfterwards:
    def test_a_late_repeat_of_a_retired_observation_is_erased_and_changes_nothing(self):
        found = given(*WHOLE, retire(6, *WHOLE)).when(later(B, 9))
        found.then_nothing()
        assert list(found.changes.erased) == [place(9)]
        found.then_replay_is_the_same()

    def test_a_late_repeat_of_a_marked_event_is_erased_too(self):
        found = given(*WHOLE, retire(6, *WHOLE)).when(later(START, 9))
        found.then_nothing()
        assert list(found.changes.erased) == [place(9)]
        found.then_replay_is_the_same()

    def test_a_repeat_is_known_in_every_part_of_the_ledger(self):
        found = given(*WHOLE, retire(6, A), retire(7, B, part=1), retire(8, C, part=2)).when(later(C, 9), later(B, 10))
        found.then_nothing()
        assert list(found.changes.erased) == [place(9), place(10)]

    def test_a_new_observation_opens_the_session_again(self):
        found = given(*WHOLE, retire(6, *WHOLE, since=5)).when(observed(7))
        session = found.session()
        assert (session.status, session.observation_count, session.retired) == ("active", 4, 3)
        found.then_replay_is_the_same()

    def test_a_models_compression_that_comes_too_late_is_void(self):
        found = given(*WHOLE, retire(6, *WHOLE)).when(compressed(7, A))
        assert list(found.changes.erased) == [place(7)]
        assert found.one(mark_of(compressed(7, A)), SupersededEvent).erased
        found.then_replay_is_the_same()


class TestForgetting:
    def test_a_retired_observation_leaves_the_log_and_the_ledger_and_a_tombstone(self):
        found = given(*WHOLE, retire(6, *WHOLE)).when(forget(7, B))
        assert list(found.changes.erased) == [place(3)]
        assert noted(found) == names(START, A, C, END)
        assert found.one(observation_id(B), Tombstone).position == str(place(7))
        session = found.session()
        assert (session.observation_count, session.retired) == (2, 2)
        assert "eve" not in str(found.store.documents), "nor is its user named any more"
        found.then_replay_is_the_same()

    def test_with_it_goes_what_a_model_made_of_it(self):
        made = compressed(5, A)
        found = given(START, A, made, retire(6, START, A, made)).when(forget(7, A))
        assert set(found.changes.erased) == {place(2), place(5)}
        found.then_replay_is_the_same()

    def test_a_retired_session_goes_whole(self):
        found = given(*WHOLE, retire(6, *WHOLE)).when(forget_session(7, A, B, C))
        assert set(found.changes.erased) == {place(n) for n in (1, 2, 3, 4, 5)}
        assert found.document(SESSION) is None
        assert not [document for document in found.store.documents.values() if isinstance(document, Observation)]
        found.then_replay_is_the_same()

    def test_a_late_repeat_does_not_bring_it_back(self):
        found = given(*WHOLE, retire(6, *WHOLE), forget_session(7, A, B, C)).when(later(A, 9), later(START, 10))
        assert found.document(SESSION) is None
        assert list(found.changes.erased) == [place(9), place(10)]
        found.then_replay_is_the_same()

    def test_an_observation_that_was_retired_while_its_tombstone_was_on_its_way_goes_all_the_same(self):
        """The job that forgets saw a document; the fold finds it in the ledger. In one batch, too."""
        found = given(*WHOLE).when(retire(6, *WHOLE), forget(7, A))
        assert list(found.changes.erased) == [place(2)]
        found.then_replay_is_the_same()

    def test_an_imported_one_keeps_when_it_was_first_recorded(self):
        old = observed(2, recorded_at=place(-50).recorded_at)
        found = given(START, old, retire(6, old)).when(forget(7, old))
        assert found.changes.erased[place(2)].envelope.recorded_at == place(-50).recorded_at
        found.then_replay_is_the_same()
