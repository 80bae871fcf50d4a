"""The fold of feedback, on memories and lessons. Pure."""

from ingest.events.envelope import Recorded
from ingest.ids import DocumentId
from ingest.nouns.feedback import FeedbackGiven
from projections.nouns import lesson as lessons
from projections.nouns import memory as memories
from projections.nouns.batch import FoldBatch, folds
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory


@folds(FeedbackGiven, about=lambda _, data: [data.document])
def _given(batch: FoldBatch, event: Recorded, data: FeedbackGiven) -> None:
    """Void if there is no such document: its note may be about something that was forgotten."""
    if not batch.mark(event, data.document):
        return
    match batch.get(DocumentId(data.document)):
        case Memory() as memory:
            after = memories.evolve(memory, event, data)
        case Lesson() as lesson:
            after = lessons.evolve(lesson, event, data)
        case _:
            after = None
    if after is None:
        batch.void(event)
    else:
        batch.put(after)
