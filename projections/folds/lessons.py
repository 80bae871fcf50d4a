"""Lessons: said, said again, confirmed, edited, shown, retired."""

from typing import cast

from ingest.events.envelope import Recorded
from ingest.events.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from projections.documents import lessons
from projections.documents.lessons import Lesson, LessonEvent
from projections.folds.batch import Batch, folds, mark_of, reading


def _subject(event: Recorded) -> str:
    match cast(LessonEvent, event.data):
        case LessonRecorded() as data:
            return lessons.lesson_id(event, data)
        case data:
            return data.lesson


@folds(
    LessonRecorded, LessonReinforced, LessonRevised, LessonTriggered, LessonRetired, reads=reading(mark_of, _subject)
)
def _apply(batch: Batch, event: Recorded) -> None:
    name = _subject(event)
    if batch.mark(event, name):
        known = batch.get(name)
        lesson = lessons.evolve(known if isinstance(known, Lesson) else None, event, cast(LessonEvent, event.data))
        if lesson is None:
            batch.void(event)
        else:
            batch.put(lesson)
