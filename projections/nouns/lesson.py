"""Lessons: confidence rises with each repetition and decays weekly without one; and their triggers."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from ingest.events.envelope import Recorded, Trust, route_of
from ingest.ids import DocumentId, content_id
from ingest.kinds import LESSON
from ingest.nouns.lesson import (
    LessonRecorded,
    LessonReinforced,
    LessonRetired,
    LessonRevised,
    LessonTriggered,
    fingerprint,
)
from ingest.patterns import found_in
from ingest.platform.clock import from_ms, to_ms
from projections.nouns import rows
from projections.nouns.batch import fold_one
from projections.nouns.index_entry import HIDDEN_MS, IndexEntry, index_terms, searchable
from projections.nouns.trust import hidden_by_rule, trust_of

WEEK = timedelta(weeks=1)
REINFORCEMENT_GAIN = 0.1
"""Share of the remaining doubt that one repetition removes."""
DECAY_RATE = 0.05
"""Lost a week without being said again, as in agentmemory."""
DECAY_FLOOR = 0.05
RETIRE_AT = 0.1
DAILY_FADE = 0.01
"""How much a day without reinforcement adds to the divisor of a lesson's recall score."""
SEVERITIES = ("critical", "warning", "info")
"""Most urgent first."""
PREVIEW_CHARS = 1_000
"""As much of a tool's input as agent-memory's hooks send; a longer one is searched no further, so that
all patterns of a project stay within the milliseconds a hook waits."""


def strengthened(confidence: float) -> float:
    """Returns the confidence after one more reinforcement, at most 1."""
    return min(1.0, confidence + REINFORCEMENT_GAIN * (1 - confidence))


def weeks_since(last: datetime, now: datetime) -> float:
    """Returns the weeks from `last` (decayed, else reinforced, else created) to `now`, fractions kept; 0 if later."""
    return max(0.0, (now - last) / WEEK)


def decayed(confidence: float, rate: float, weeks: float) -> float:
    """Returns the confidence after `weeks` at `rate` a week, 3 decimals; unchanged in the first week."""
    if weeks < 1:
        return confidence
    return round(max(DECAY_FLOOR, confidence - rate * weeks), 3)


def is_retired(confidence: float, reinforcements: int) -> bool:
    """Returns whether a lesson with this decayed confidence is dropped: it was never confirmed and has faded."""
    return reinforcements == 0 and confidence <= RETIRE_AT


def fades_at(confidence: float, rate: float, last: datetime) -> datetime:
    """Returns when an unconfirmed lesson has faded to RETIRE_AT, a week after `last` at the earliest.

    Rounding may make `is_retired` true some minutes before.
    """
    try:
        return last + WEEK * max(1.0, (confidence - RETIRE_AT) / rate)
    except OverflowError:  # an unchecked event may have any number
        return datetime.max.replace(tzinfo=UTC)


def recall_score(confidence: float, relevance: float, age: timedelta) -> float:
    """Returns the rank of a lesson `age` after it was reinforced (else created), 3 decimals."""
    days = max(0.0, age / timedelta(days=1))
    return round(confidence * relevance / (1 + DAILY_FADE * days), 3)


def matches(lesson_tool: str, lesson_pattern: str, tool_name: str, preview: str) -> bool:
    """Whether a lesson is about this tool call: its tool is this one or unset, its pattern found or unset.

    Tool names are compared case by case, patterns ignore case; a stored pattern that does not compile matches nothing.
    """
    if lesson_tool and lesson_tool != tool_name:
        return False
    return not lesson_pattern or found_in(lesson_pattern, preview[:PREVIEW_CHARS])


def severity_rank(severity: str) -> int:
    """The place of a severity among SEVERITIES, most urgent first; an unknown one comes last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


LessonEvent = LessonRecorded | LessonReinforced | LessonRevised | LessonTriggered | LessonRetired


class Lesson(rows.Row, index=True):
    """One lesson of one project. Times are milliseconds since the epoch, 0 for never; lists are joined texts.

    `confidence` is as of `reinforced_ms`; `confidence_at` says what is left of it. A retired lesson is
    only shown by id, and is new when it is stated again. `version` counts statements and revisions.
    """

    PREFIX: ClassVar[str] = LESSON

    id: str = ""
    version: int = 1
    changed_by: str = ""
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
    trust: Trust = "agent_concluded"
    quarantined: str = ""

    @property
    def tag_list(self) -> list[str]:
        """The tags."""
        return rows.split(self.tags)

    @property
    def sources(self) -> list[str]:
        """The documents it was derived from."""
        return rows.split(self.derived_from)

    def confidence_at(self, now: datetime) -> float:
        """Its confidence at a time: decayed by the weeks since it was last stated."""
        return decayed(self.confidence, DECAY_RATE, weeks_since(from_ms(self.reinforced_ms), now))

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_position(self.position, self.id)
        members = {
            (lessons(self.tenant, self.project), member),
            *((rows.derived(source), self.id) for source in self.sources),
            *rows.in_user_listing(self.tenant, self.user_id, member),
        }
        if self.retired_ms or not self.active or self.quarantined:
            return members
        if not self.reinforcements:
            members.add(
                (
                    FADING,
                    rows.by_time(to_ms(fades_at(self.confidence, DECAY_RATE, from_ms(self.reinforced_ms))), self.id),
                )
            )
        if self.severity or self.trigger_tool or self.trigger_pattern:
            newest_first = f"{severity_rank(self.severity)}{10**14 - self.recorded_ms:014d}|{self.id}"
            members.add((rules(self.tenant, self.project, self.trigger_tool), newest_first))
        return members

    def searchable_text(self) -> str:
        """What it says, and when it applies."""
        return searchable([self.title, self.content, self.context, *self.tag_list])

    def index_entry(self) -> IndexEntry:
        return IndexEntry(
            id=self.id,
            kind="lesson",
            terms=index_terms(self.searchable_text(), from_ms(self.occurred_ms), stated=True),
            tenant=self.tenant,
            project=self.project,
            agent_id=self.agent_id,
            user_id=self.user_id,
            tags=self.tag_list,
            occurred_ms=self.occurred_ms,
            recorded_ms=self.recorded_ms,
            retired_ms=HIDDEN_MS if self.quarantined else self.retired_ms or (0 if self.active else self.updated_ms),
            confidence=self.confidence,
            types=[self.severity or SEVERITIES[-1]],
            renewed_ms=self.reinforced_ms,
            trust=self.trust,
        )


FADING = "fading"
"""Listing of a partition's unconfirmed lessons, by when they will have faded."""
REFLECTION, SUGGESTION = "reflection", "suggestion"
"""Origins of lessons that the server made: what several sources state, and what a failure and its fix suggest."""
lessons = rows.project_listing("lessons")
"""Listing of a project's lessons, in the order they were first said."""


def rules(tenant: str, project: str, tool: str) -> str:
    """Listing of a project's lessons for the use of a tool (any, when empty): by severity, then newest first."""
    return f"rules:{tenant}\0{project}\0{tool}"


def lesson_id(recorded: Recorded, data: LessonEvent) -> DocumentId:
    """The id of the lesson that an event is about; a new one's is its fingerprint within tenant and project."""
    if isinstance(data, LessonRecorded):
        return content_id(LESSON, route_of(recorded.envelope, data), fingerprint(data.content))
    return DocumentId(data.lesson)


def evolve(lesson: Lesson | None, recorded: Recorded, data: LessonEvent) -> Lesson | None:
    """The lesson after an event; None if there is no lesson to change."""
    match data:
        case LessonRecorded():
            if lesson is None or lesson.retired_ms:
                return _new(recorded, data, version=lesson.version + 1 if lesson else 1)
            sources = [*lesson.sources, *data.derived_from] if lesson.sources and data.derived_from else lesson.sources
            changes = {
                **_next_version(lesson, recorded),
                "context": lesson.context or data.context,
                "derived_from": rows.joined(dict.fromkeys(sources)),
            }
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
            changes = {**rows.row_fields(data, lesson=None), **_next_version(lesson, recorded)}
            return lesson.model_copy(update={**changes, "updated_ms": recorded.recorded_ms})
        case LessonRetired():
            decided_at = max(recorded.recorded_at, recorded.envelope.occurred_at)  # by two clocks, which may differ
            faded = is_retired(lesson.confidence_at(decided_at), lesson.reinforcements)
            if not faded or lesson.retired_ms:
                return lesson
            return lesson.model_copy(update={"retired_ms": recorded.recorded_ms})


def _next_version(lesson: Lesson, recorded: Recorded) -> dict[str, Any]:
    return {"version": lesson.version + 1, "changed_by": recorded.envelope.agent_id}


def _new(recorded: Recorded, data: LessonRecorded, version: int) -> Lesson:
    now, trust = recorded.recorded_ms, trust_of(recorded)
    return Lesson(
        **rows.row_origin(recorded),
        **rows.row_fields(data),
        id=lesson_id(recorded, data),
        version=version,
        changed_by=recorded.envelope.agent_id,
        recorded_ms=now,
        reinforced_ms=now,
        updated_ms=now,
        trust=trust,
        quarantined=hidden_by_rule(trust, [data.content, data.context]),
    )


def _reinforced(lesson: Lesson, recorded: Recorded) -> Lesson:
    """Confidence rises by a tenth of what is missing to 1, starting from the decayed value."""
    return lesson.model_copy(
        update={
            "confidence": strengthened(lesson.confidence_at(recorded.recorded_at)),
            "reinforcements": lesson.reinforcements + 1,
            "reinforced_ms": recorded.recorded_ms,
            "updated_ms": recorded.recorded_ms,
            "retired_ms": 0,
        }
    )


fold_one(
    LessonRecorded,
    LessonReinforced,
    LessonRevised,
    LessonTriggered,
    LessonRetired,
    of=Lesson,
    subject=lesson_id,
    evolve=evolve,
)
