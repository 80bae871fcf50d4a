"""Lessons: what was learned, stronger each time it is said."""

from ingest.clock import to_ms
from ingest.events.envelope import Recorded
from ingest.events.lesson import LessonRecorded
from ingest.ids import LESSON, DocumentId, content_id
from ingest.lesson_fingerprint import fingerprint
from ingest.log.partitions import project_route
from projections.documents.rows import Row
from projections.lesson_rules import strengthened

_SEPARATOR = "\x1f"


class Lesson(Row, index=True):
    """One lesson of one project. Times are milliseconds since the epoch; `tags` are joined by U+001F (see `tag_list`).

    `confidence` is as of `reinforced_ms`; nothing fades it yet.
    """

    id: str = ""
    tenant: str = ""
    project: str = ""
    agent_id: str = ""
    content: str = ""
    context: str = ""
    tags: str = ""
    confidence: float = 0.5
    reinforcements: int = 0
    origin: str = "manual"
    recorded_ms: int = 0
    occurred_ms: int = 0
    reinforced_ms: int = 0
    position: str = ""

    @property
    def tag_list(self) -> list[str]:
        """The tags."""
        return self.tags.split(_SEPARATOR) if self.tags else []


def lesson_id(recorded: Recorded, said: LessonRecorded) -> DocumentId:
    """The id of a lesson: its fingerprint within tenant and project."""
    route = project_route(recorded.envelope.tenant, recorded.envelope.project)
    return content_id(LESSON, route, fingerprint(said.content))


def evolve(lesson: Lesson | None, recorded: Recorded, said: LessonRecorded) -> Lesson:
    """The lesson after it was said: new with the confidence given, or stronger by 0.1 of what is missing to 1."""
    envelope = recorded.envelope
    if lesson is None:
        return Lesson(
            id=lesson_id(recorded, said),
            tenant=envelope.tenant,
            project=envelope.project,
            agent_id=envelope.agent_id,
            content=said.content,
            context=said.context,
            tags=_SEPARATOR.join(tag.replace(_SEPARATOR, " ") for tag in said.tags),
            confidence=said.confidence,
            origin=said.origin,
            recorded_ms=recorded.position.ms,
            occurred_ms=to_ms(envelope.occurred_at),
            reinforced_ms=recorded.position.ms,
            position=str(recorded.position),
        )
    return lesson.model_copy(
        update={
            "confidence": strengthened(lesson.confidence),
            "reinforcements": lesson.reinforcements + 1,
            "reinforced_ms": recorded.position.ms,
            "context": lesson.context or said.context,
        }
    )
