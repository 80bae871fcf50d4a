"""Lessons confirmed, faded, edited, shown and retired."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from factories import NOW_MS, forgotten, learned, place, said
from given import given, id_of, later

from ingest.events.envelope import Recorded
from ingest.events.lesson import LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.log.position import Position
from projections.documents.lessons import FADING, RETIRE_AT, Lesson, rules

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
        assert not any(isinstance(one, Lesson) for one in found.store.documents.values())
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
        assert after_it == before.model_copy(update={**stated, "updated_ms": place(2).ms})

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
