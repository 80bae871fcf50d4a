"""Lessons learned, with their confidence.

First its events, then its commands and the decision on each. Pure.
"""

from hashlib import sha256
from typing import Annotated, Literal

from msgspec import Meta

from ingest.events.envelope import EventData
from ingest.kinds import LESSON
from ingest.nouns.command import (
    Command,
    ConditionalCommand,
    ConditionalData,
    Confidence,
    Decision,
    Name,
    Names,
    Origin,
    Title,
    about,
    creating,
    data_of,
    decides,
    decides_about,
    need_text,
)
from ingest.patterns import compiled

Severity = Literal["", "critical", "warning", "info"]


class LessonRecorded(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson was stated. The same text again (by fingerprint) strengthens the lesson that exists."""

    TYPE = "lesson.recorded"

    content: str
    context: str = ""
    confidence: float = 0.5
    tags: list[str] = []
    origin: str = "manual"
    severity: str = ""
    trigger_tool: str = ""
    trigger_pattern: str = ""
    title: str = ""
    derived_from: list[str] = []


class LessonReinforced(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson proved right again."""

    TYPE = "lesson.reinforced"

    lesson: str


class LessonRevised(ConditionalData, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson was edited; absent fields stay as they were. Its id, and what counts as saying it again, stay too."""

    TYPE = "lesson.revised"

    lesson: str
    content: str | None = None
    context: str | None = None
    title: str | None = None
    tags: list[str] | None = None
    severity: Severity | None = None
    trigger_tool: str | None = None
    trigger_pattern: str | None = None
    active: bool | None = None


class LessonTriggered(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson was shown to an agent about to do what it warns of."""

    TYPE = "lesson.triggered"

    lesson: str


class LessonRetired(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson faded: its confidence fell to the floor and nothing ever reinforced it.

    The fold ignores it if the lesson was reinforced or stated again before it.
    """

    TYPE = "lesson.retired"

    lesson: str
    confidence: float


def fingerprint(content: str) -> str:
    """What makes two lessons the same: 16 hex digits of the SHA-256 of the trimmed, lower-cased text.

    This is agentmemory's rule.
    """
    return sha256(content.strip().lower().encode()).hexdigest()[:16]


class RecordLesson(Command, frozen=True, kw_only=True, tag="lesson"):
    """State something learned; saying it again makes it stronger. A trigger says before which tool calls it shows."""

    content: str
    context: str = ""
    confidence: Confidence = 0.5
    tags: Names = []
    title: Title = ""
    severity: Severity = ""
    trigger_tool: Name = ""
    trigger_pattern: Annotated[str, Meta(max_length=500)] = ""
    origin: Annotated[str, Meta(max_length=64)] = "manual"
    derived_from: Names = []


class ReinforceLesson(Command, frozen=True, kw_only=True, tag="reinforce"):
    """Say that a lesson which exists proved right again."""

    lesson: Name


class ReviseLesson(ConditionalCommand, frozen=True, kw_only=True, tag="revise_lesson"):
    """Edit a lesson which exists; what is null stays as it is."""

    lesson: Name
    content: str | None = None
    context: str | None = None
    title: Title | None = None
    tags: Names | None = None
    severity: Severity | None = None
    trigger_tool: Name | None = None
    trigger_pattern: Annotated[str, Meta(max_length=500)] | None = None
    active: bool | None = None


class TriggerLesson(Command, frozen=True, kw_only=True, tag="trigger_lesson"):
    """Count that a lesson which exists was shown to an agent."""

    lesson: Name


class RetireLesson(Command, frozen=True, kw_only=True, tag="retire_lesson"):
    """Drop a lesson that has faded."""

    lesson: Name
    confidence: float


@decides(RecordLesson)
def _record_lesson(command: RecordLesson, origin: Origin) -> Decision:
    need_text(command.content)
    if command.trigger_pattern:
        compiled(command.trigger_pattern)
    return creating(LESSON, command, origin, data_of(LessonRecorded, command), fingerprint(command.content))


@decides(ReviseLesson)
def _revise_lesson(command: ReviseLesson, origin: Origin) -> Decision:
    if command.content is not None:
        need_text(command.content)
    if command.trigger_pattern:
        compiled(command.trigger_pattern)
    return about(command.lesson, command, origin, data_of(LessonRevised, command))


decides_about(ReinforceLesson, LessonReinforced, "lesson", keep_names=True)
decides_about(TriggerLesson, LessonTriggered, "lesson", keep_names=True)
decides_about(RetireLesson, LessonRetired, "lesson", keep_names=True)
