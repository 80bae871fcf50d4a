"""Folds of slots, actions, relations and lessons: set, changed, strengthened, removed and forgotten."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from factories import NOW_MS, forgotten, learned, place, said
from given import Given, given, id_of, later

from ingest.events.envelope import Recorded
from ingest.log.position import Position
from ingest.nouns.action import ActionCreated, ActionEdge, ActionUpdated
from ingest.nouns.lesson import LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.nouns.relation import RelationLinked, RelationUnlinked
from ingest.nouns.slot import SlotAppended, SlotDeleted, SlotSet
from projections.nouns import relation as relations
from projections.nouns.action import Action, action_id, actions, open_actions
from projections.nouns.lesson import FADING, RETIRE_AT, Lesson, rules
from projections.nouns.relation import UNKNOWN_CONFIDENCE, Relation, edges
from projections.nouns.slot import SIZE_LIMIT, Slot, slot_id

NOTES = slot_id("default", "atlas", "notes")


def set_to(n: int, content: str, **data: Any) -> Recorded:
    return said(n, SlotSet(label="notes", content=content, **data))


def appended(n: int, content: str) -> Recorded:
    return said(n, SlotAppended(label="notes", content=content))


def deleted(n: int) -> Recorded:
    return said(n, SlotDeleted(label="notes"))


def slot(found: Given) -> Slot:
    return found.one(NOTES, Slot)


class TestSlots:
    def test_a_new_slot_has_defaults(self):
        found = slot(given().when(set_to(1, "a")))
        assert (found.content, found.size_limit, found.pinned, found.read_only, found.description) == (
            "a", SIZE_LIMIT, True, False, "",
        )  # fmt: skip

    def test_what_is_not_said_stays_as_it_was(self):
        first = set_to(1, "a", size_limit=50, description="scratch", pinned=False, read_only=True)
        found = slot(given(first).when(set_to(2, "b")))
        assert (found.content, found.size_limit, found.description) == ("b", 50, "scratch")
        assert (found.pinned, found.read_only) == (False, True)
        assert (found.created_ms, found.updated_ms, found.position) == (place(1).ms, place(2).ms, str(place(1)))

    def test_what_is_said_replaces(self):
        first = set_to(1, "a", description="scratch", pinned=False, read_only=True)
        found = slot(given(first).when(set_to(2, "", description="", pinned=True, read_only=False)))
        assert (found.content, found.description, found.pinned, found.read_only) == ("", "", True, False)

    @pytest.mark.parametrize(("before", "after"), [("a", "a\nb"), ("a\n", "a\nb"), ("", "b")])
    def test_a_line_is_added_on_a_line_of_its_own(self, before: str, after: str):
        assert slot(given(set_to(1, before)).when(appended(2, "b"))).content == after

    def test_adding_to_what_is_not_there_makes_it(self):
        assert slot(given().when(appended(1, "b"))).content == "b"

    def test_a_line_is_added_once(self):
        found = given(set_to(1, "a"), appended(2, "b")).when(later(appended(2, "b"), 3))
        found.then_nothing()
        assert found.erased() == [place(3)]

    def test_a_deleted_slot_is_gone_and_a_repeated_set_does_not_bring_it_back(self):
        found = given(set_to(1, "a"), deleted(2)).when(later(set_to(1, "a"), 3))
        assert found.document(NOTES) is None

    def test_set_again_a_deleted_slot_is_new(self):
        found = slot(given(set_to(1, "a", read_only=True), deleted(2)).when(set_to(3, "b")))
        assert (found.read_only, found.position) == (False, str(place(3)))

    def test_the_slots_of_two_projects_are_two(self):
        other = said(2, SlotSet(label="notes", content="b"), project="hermes")
        found = given(set_to(1, "a")).when(other)
        assert (slot(found).content, found.one(slot_id("default", "hermes", "notes"), Slot).content) == ("a", "b")

    def test_a_forgotten_slot_is_gone_with_every_text_it_had(self):
        found = given(set_to(1, "a"), appended(2, "b"), deleted(3), set_to(4, "c")).when(forgotten(5, "slot", NOTES))
        assert found.document(NOTES) is None
        assert found.erased() == [place(n) for n in range(1, 5)]
        found.then_replay_is_the_same()

    def test_a_slot_deleted_before_it_is_forgotten_is_erased_all_the_same(self):
        """Whoever asked to forget it had seen it; somebody else deleted it meanwhile."""
        found = given(set_to(1, "a"), deleted(2)).when(forgotten(3, "slot", NOTES))
        assert found.erased() == [place(1), place(2)]
        found.then_replay_is_the_same()

    def test_applied_again_a_forgetting_erases_nothing_that_came_later(self):
        """Not even of a slot that is deleted by then."""
        events = [set_to(1, "a"), forgotten(2, "slot", NOTES), set_to(3, "b"), deleted(4)]
        found = given(*events).when(events[1])
        found.then_nothing()
        assert found.erased() == [place(1)]

    def test_what_is_set_after_the_forgetting_stays(self):
        events = [set_to(1, "a"), forgotten(2, "slot", NOTES), set_to(3, "b")]
        found = given(*events).when(*events)
        found.then_nothing()
        assert slot(found).content == "b"
        assert found.erased() == [place(1)]


def created(n: int, **data: Any) -> Recorded:
    return said(n, ActionCreated(title="ship it", **data))


ACTION = created(1, tags=["a"], requires=["act_1"], edges=[ActionEdge(type="gated_by", target="act_2")], priority=2)


def updated(n: int, **data: Any) -> Recorded:
    return said(n, ActionUpdated(action=action_id(ACTION), **data))


class TestActions:
    def test_an_action_is_as_it_was_written_down(self):
        action = given().when(ACTION).action(ACTION)
        assert (action.title, action.status, action.priority, action.tag_list) == ("ship it", "pending", 2, ["a"])
        assert action.edge_list == [
            ActionEdge(type="requires", target="act_1"),
            ActionEdge(type="gated_by", target="act_2"),
        ]

    @pytest.mark.parametrize(
        "changes",
        [
            {"status": "done", "result": "shipped"},
            {"priority": 1.5},
            {"assigned_to": ""},
            {"title": "a", "description": "b"},
            {"crystallized_into": "cry_1"},
        ],
        ids=str,
    )
    def test_what_is_said_changes_and_the_rest_stays(self, changes: dict[str, Any]):
        found = given(ACTION)
        before = found.action(ACTION)
        expected = before.model_copy(update={**changes, "version": 2, "changed_by": "ada", "updated_ms": place(2).ms})
        assert found.when(updated(2, **changes)).action(ACTION) == expected

    def test_tags_are_replaced_and_edges_are_added_once(self):
        more = [ActionEdge(type="requires", target="act_1"), ActionEdge(type="unlocks", target="act_3")]
        action = given(ACTION).when(updated(2, tags=[], edges=more)).action(ACTION)
        assert action.tag_list == []
        assert [edge.target for edge in action.edge_list] == ["act_1", "act_2", "act_3"]

    def test_a_finished_action_leaves_the_open_ones(self):
        found = given(ACTION).when(updated(2, status="done"))
        assert found.store.listings[actions("default", "atlas")]
        assert not found.store.listings[open_actions("default", "atlas")]

    def test_a_change_of_what_is_not_there_is_void_and_erased(self):
        found = given().when(updated(2, result="a secret"))
        assert not any(isinstance(document, Action) for document in found.store.documents.values())
        assert found.erased() == [place(2)]
        found.then_replay_is_the_same()

    def test_a_forgotten_action_is_gone_with_its_changes_and_stays_gone(self):
        found = given(ACTION, updated(2, result="a")).when(forgotten(3, "action", action_id(ACTION)))
        found.when(later(ACTION, 4), updated(5, result="b"))
        assert found.document(action_id(ACTION)) is None
        assert found.erased() == [place(1), place(2), place(4), place(5)]
        found.then_replay_is_the_same()


LINK = RelationLinked(source="mem_a", target="mem_b", relation="causes", confidence=0.25)
UNLINK = RelationUnlinked(source="mem_a", target="mem_b", relation="causes")
RELATION = relations.id_of(said(1, LINK), LINK)


class TestRelations:
    def test_two_documents_are_related(self):
        found = given().when(said(1, LINK))
        relation = found.one(RELATION, Relation)
        assert (relation.source, relation.target, relation.confidence) == ("mem_a", "mem_b", 0.25)
        for end in ("mem_a", "mem_b"):
            assert found.store.listings[edges("default", end)] == {RELATION}

    def test_how_sure_it_is_may_be_unknown(self):
        unsure = RelationLinked(source="mem_a", target="mem_b", relation="causes")
        assert given(said(1, unsure)).one(RELATION, Relation).confidence == UNKNOWN_CONFIDENCE
        assert given(said(1, LINK), said(2, unsure)).one(RELATION, Relation).confidence == 0.25

    def test_said_again_it_is_the_same_relation(self):
        surer = RelationLinked(source="mem_a", target="mem_b", relation="causes", confidence=0.75)
        relation = given(said(1, LINK)).when(said(2, surer)).one(RELATION, Relation)
        assert (relation.confidence, relation.created_ms, relation.updated_ms) == (0.75, place(1).ms, place(2).ms)

    def test_a_withdrawn_relation_is_gone_and_may_be_said_again(self):
        found = given(said(1, LINK)).when(said(2, UNLINK))
        assert found.document(RELATION) is None
        assert not found.is_listed(RELATION.removeprefix("rel_") + "x")
        assert not found.store.listings[edges("default", "mem_a")]
        found.when(later(said(1, LINK), 3))
        assert found.document(RELATION) is None
        assert found.when(said(4, LINK)).one(RELATION, Relation).created_ms == place(4).ms

    def test_withdrawing_what_is_not_there_changes_nothing(self):
        assert given().when(said(1, UNLINK)).document(RELATION) is None

    def test_a_document_may_be_related_to_itself(self):
        same = RelationLinked(source="mem_a", target="mem_a", relation="causes")
        found = given().when(said(1, same))
        assert len(found.store.listings[edges("default", "mem_a")]) == 1

    def test_a_forgotten_relation_is_gone_and_may_be_said_again(self):
        found = given(said(1, LINK), forgotten(2, "relation", RELATION))
        assert found.document(RELATION) is None
        assert found.when(said(3, LINK)).one(RELATION, Relation).position == str(place(3))
        found.then_replay_is_the_same()


FIRST = learned(1, confidence=0.5)
LESSON = id_of(FIRST)
WEEK_MS = 7 * 86_400_000


def after(weeks: float, event: Recorded) -> Recorded:
    """The same event, recorded that long after NOW."""
    return event._replace(position=Position(NOW_MS + round(weeks * WEEK_MS), 0))


def reinforced(n: int, **envelope: Any) -> Recorded:
    return said(n, LessonReinforced(lesson=LESSON), **envelope)


def revised(n: int, **data: Any) -> Recorded:
    return said(n, LessonRevised(lesson=LESSON, **data))


def retired(n: int) -> Recorded:
    return said(n, LessonRetired(lesson=LESSON, confidence=0.1))


class TestReinforcing:
    def test_a_confirmed_lesson_is_a_tenth_of_the_missing_part_stronger(self):
        lesson = given(FIRST).when(reinforced(2)).lesson(FIRST)
        assert lesson.confidence == pytest.approx(0.55, abs=1e-9)
        assert (lesson.reinforcements, lesson.reinforced_ms) == (1, place(2).ms)

    @pytest.mark.parametrize("weeks", [0.5, 1, 1.75, 3, 6.2, 9, 40])
    def test_what_is_left_is_what_counts(self, weeks: float):
        """0.05 a week since it was recorded, nothing in the first week, never below 0.05; then a tenth of the rest."""
        first = after(0, FIRST)
        lesson = given(first).when(after(weeks, reinforced(2))).lesson(FIRST)
        left = 0.5 if weeks < 1 else round(max(0.05, 0.5 - 0.05 * weeks), 3)
        assert abs(lesson.confidence - (left + 0.1 * (1 - left))) < 1e-9

    def test_the_next_decay_counts_from_the_confirmation(self):
        lesson = given(after(0, FIRST), after(4, reinforced(2))).lesson(FIRST)
        assert lesson.confidence == pytest.approx(0.3 + 0.07, abs=1e-9)
        at = after(6, FIRST).position.recorded_at
        assert lesson.confidence_at(at) == pytest.approx(0.27, abs=1e-9)
        assert lesson.confidence_at(at - timedelta(weeks=1, milliseconds=1)) == pytest.approx(0.37, abs=1e-9)

    def test_the_time_a_caller_claims_does_not_matter(self):
        lesson = given(after(0, FIRST)).when(after(4, said(2, LessonReinforced(lesson=LESSON)))).lesson(FIRST)
        assert lesson.confidence == pytest.approx(0.37, abs=1e-9)

    def test_a_confirmation_is_counted_once(self):
        found = given(FIRST, reinforced(2)).when(later(reinforced(2), 3))
        found.then_nothing()
        assert found.erased() == [place(3)]

    def test_a_lesson_that_is_not_there_is_not_confirmed_and_the_event_is_erased(self):
        found = given().when(reinforced(1), revised(2, content="a"))
        assert not any(isinstance(document, Lesson) for document in found.store.documents.values())
        assert found.erased() == [place(1), place(2)]
        found.then_replay_is_the_same()


class TestRevising:
    @pytest.mark.parametrize(
        "changes",
        [
            {"content": "never push on fridays"},
            {"context": "git", "title": "Pushing"},
            {"tags": ["a", "b"]},
            {"tags": []},
            {"severity": "critical", "trigger_tool": "bash", "trigger_pattern": "git push"},
            {"active": False},
        ],
        ids=str,
    )
    def test_what_is_said_changes_and_the_rest_stays(self, changes: Mapping[str, Any]):
        found = given(learned(1, tags=["x"], context="c", severity="info"))
        before = found.lesson(FIRST)
        after_it = found.when(revised(2, **changes)).lesson(FIRST)
        stated = {name: "\x1f".join(value) if name == "tags" else value for name, value in changes.items()}
        assert after_it == before.model_copy(update={**stated, "version": 2, "updated_ms": place(2).ms})

    def test_an_edited_lesson_is_still_strengthened_by_its_first_words(self):
        lesson = given(FIRST, revised(2, content="something else")).when(learned(3)).lesson(FIRST)
        assert (lesson.content, lesson.reinforcements) == ("something else", 1)

    def test_a_lesson_with_a_trigger_is_a_rule_while_it_is_active(self):
        found = given(FIRST, revised(2, trigger_tool="bash"))
        rule = rules("default", "atlas", "bash")
        assert found.store.listings[rule]
        found.when(revised(3, active=False))
        assert not found.store.listings[rule]
        assert not found.store.listings.get(FADING)


class TestTriggering:
    def test_it_is_counted_how_often_a_lesson_was_shown(self):
        shown = [said(n, LessonTriggered(lesson=LESSON)) for n in (2, 3)]
        lesson = given(FIRST).when(*shown, later(shown[0], 4)).lesson(FIRST)
        assert (lesson.trigger_count, lesson.triggered_ms) == (2, place(3).ms)
        assert lesson.reinforcements == 0


class TestRetiring:
    def test_a_lesson_that_faded_and_nobody_confirmed_is_retired(self):
        found = given(after(0, FIRST)).when(after(8, retired(2)))
        lesson = found.lesson(FIRST)
        assert lesson.retired_ms == after(8, FIRST).position.ms
        assert lesson.confidence_at(after(8, FIRST).position.recorded_at) <= RETIRE_AT
        assert not found.store.listings.get(FADING)

    @pytest.mark.parametrize(
        "between", [after(7, reinforced(2)), after(7, learned(2))], ids=["confirmed", "said again"]
    )
    def test_it_is_passed_over_when_the_lesson_was_confirmed(self, between: Recorded):
        assert given(after(0, FIRST), between).when(after(40, retired(3))).lesson(FIRST).retired_ms == 0

    def test_it_is_passed_over_while_something_is_left(self):
        assert given(after(0, FIRST)).when(after(7.9, retired(2))).lesson(FIRST).retired_ms == 0

    def test_of_two_retirements_the_first_counts(self):
        found = given(after(0, FIRST), after(8, retired(2))).when(after(9, retired(3)))
        assert found.lesson(FIRST).retired_ms == after(8, FIRST).position.ms

    def test_said_again_after_it_was_retired_a_lesson_is_new(self):
        again = after(9, learned(3, confidence=0.7))
        lesson = given(after(0, learned(1, tags=["old"])), after(40, retired(2))).when(after(41, again)).lesson(FIRST)
        assert (lesson.retired_ms, lesson.confidence, lesson.reinforcements) == (0, 0.7, 0)
        assert (lesson.tags, lesson.position) == ("", str(after(41, again).position))


class TestForgetting:
    def test_every_event_about_a_lesson_is_erased_with_it(self):
        told = [FIRST, reinforced(2), revised(3, content="b"), said(4, LessonTriggered(lesson=LESSON)), retired(5)]
        found = given(*told).when(forgotten(6, "lesson", LESSON))
        assert found.erased() == [place(n) for n in range(1, 6)]
        assert found.document(LESSON) is None
        found.then_replay_is_the_same()

    def test_an_edit_that_comes_after_the_forgetting_is_erased(self):
        """It may say again what was forgotten."""
        found = given(FIRST, forgotten(2, "lesson", LESSON)).when(revised(3, content="rebase"))
        assert found.document(LESSON) is None
        assert place(3) in found.store.erased
        found.then_replay_is_the_same()

    def test_a_stored_severity_of_other_days_is_kept(self):
        assert given(learned(1, severity="high")).lesson(FIRST).severity == "high"


class TestSources:
    def test_a_derived_lesson_that_is_derived_again_names_all_its_sources(self):
        again = learned(2, derived_from=["mem_2", "mem_1"])
        found = given(learned(1, derived_from=["mem_1"])).when(again)
        assert found.lesson(again).sources == ["mem_1", "mem_2"]
        found.then_replay_is_the_same()

    def test_a_lesson_that_somebody_stated_is_derived_from_nothing(self):
        """It would go with sources that it does not need."""
        again = learned(2, derived_from=["mem_1"])
        assert given(learned(1)).when(again).lesson(again).sources == []
