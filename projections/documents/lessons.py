"""Lessons: what was learned, stronger each time it is said, weaker with every week it is not."""

from datetime import datetime

from ingest.events.envelope import Recorded
from ingest.events.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.ids import LESSON, DocumentId, content_id
from ingest.lesson_fingerprint import fingerprint
from ingest.log.partitions import project_route
from ingest.platform.clock import from_ms, to_ms
from projections.documents.joined import joined, split
from projections.documents.lesson_rules import DECAY_RATE, decayed, is_retired, strengthened, weeks_since
from projections.documents.rows import Row

LessonEvent = LessonRecorded | LessonReinforced | LessonRevised | LessonTriggered | LessonRetired


class Lesson(Row, index=True):
    """One lesson of one project. Times are milliseconds since the epoch, 0 for never; lists are joined texts.

    `confidence` is as of `reinforced_ms`; `confidence_at` says what is left of it. A retired one is shown to nobody who
    does not ask for it by id, and said again it is new.
    """

    id: str = ""
    tenant: str = ""
    project: str = ""
    agent_id: str = ""
    user_id: str = ""
    title: str = ""
    content: str = ""
    context: str = ""
    tags: str = ""
    confidence: float = 0.5
    reinforcements: int = 0
    origin: str = "manual"
    severity: str = ""
    trigger_tool: str = ""
    trigger_pattern: str = ""
    trigger_count: int = 0
    active: bool = True
    derived_from: str = ""
    recorded_ms: int = 0
    occurred_ms: int = 0
    reinforced_ms: int = 0
    updated_ms: int = 0
    triggered_ms: int = 0
    retired_ms: int = 0
    position: str = ""

    @property
    def tag_list(self) -> list[str]:
        """The tags."""
        return split(self.tags)

    @property
    def sources(self) -> list[str]:
        """The documents it was derived from."""
        return split(self.derived_from)

    def confidence_at(self, now: datetime) -> float:
        """How sure it is at a time: decayed by the weeks since it was last said."""
        return decayed(self.confidence, DECAY_RATE, weeks_since(from_ms(self.reinforced_ms), now))


def lesson_id(recorded: Recorded, said: LessonRecorded) -> DocumentId:
    """The id of a lesson: its fingerprint within tenant and project."""
    route = project_route(recorded.envelope.tenant, recorded.envelope.project)
    return content_id(LESSON, route, fingerprint(said.content))


def evolve(lesson: Lesson | None, recorded: Recorded, said: LessonEvent) -> Lesson | None:
    """The lesson after an event; None when there is none for it to change."""
    match said:
        case LessonRecorded():
            if lesson is None or lesson.retired_ms:
                return _new(recorded, said)
            sources = [*lesson.sources, *said.derived_from] if lesson.sources and said.derived_from else lesson.sources
            changes = {"context": lesson.context or said.context, "derived_from": joined(dict.fromkeys(sources))}
            return _reinforced(lesson, recorded).model_copy(update=changes)
        case _ if lesson is None:
            return None
        case LessonReinforced():
            return _reinforced(lesson, recorded)
        case LessonTriggered():
            return lesson.model_copy(
                update={"trigger_count": lesson.trigger_count + 1, "triggered_ms": recorded.recorded_ms}
            )
        case LessonRevised():
            return _revised(lesson, recorded, said)
        case LessonRetired():
            decided_at = max(recorded.recorded_at, recorded.envelope.occurred_at)  # by two clocks, which may differ
            faded = is_retired(lesson.confidence_at(decided_at), lesson.reinforcements)
            if not faded or lesson.retired_ms:
                return lesson
            return lesson.model_copy(update={"retired_ms": recorded.recorded_ms})


def _new(recorded: Recorded, said: LessonRecorded) -> Lesson:
    envelope = recorded.envelope
    return Lesson(
        id=lesson_id(recorded, said),
        tenant=envelope.tenant,
        project=envelope.project,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        title=said.title,
        content=said.content,
        context=said.context,
        tags=joined(said.tags),
        confidence=said.confidence,
        origin=said.origin,
        severity=said.severity,
        trigger_tool=said.trigger_tool,
        trigger_pattern=said.trigger_pattern,
        derived_from=joined(said.derived_from),
        recorded_ms=recorded.recorded_ms,
        occurred_ms=to_ms(envelope.occurred_at),
        reinforced_ms=recorded.recorded_ms,
        updated_ms=recorded.recorded_ms,
        position=str(recorded.position),
    )


def _reinforced(lesson: Lesson, recorded: Recorded) -> Lesson:
    """Stronger by a tenth of what is missing to 1, counted from what was left of its confidence."""
    return lesson.model_copy(
        update={
            "confidence": strengthened(lesson.confidence_at(recorded.recorded_at)),
            "reinforcements": lesson.reinforcements + 1,
            "reinforced_ms": recorded.recorded_ms,
            "updated_ms": recorded.recorded_ms,
            "retired_ms": 0,
        }
    )


def _revised(lesson: Lesson, recorded: Recorded, said: LessonRevised) -> Lesson:
    stated = {
        "content": said.content,
        "context": said.context,
        "title": said.title,
        "tags": None if said.tags is None else joined(said.tags),
        "severity": said.severity,
        "trigger_tool": said.trigger_tool,
        "trigger_pattern": said.trigger_pattern,
        "active": said.active,
    }
    changes: dict[str, object] = {name: value for name, value in stated.items() if value is not None}
    return lesson.model_copy(update={**changes, "updated_ms": recorded.recorded_ms})
