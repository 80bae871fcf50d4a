"""Commands on lessons, and the events they become."""

from typing import Annotated

from msgspec import Meta

from ingest.commands.command import (
    Command,
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
from ingest.events.lesson import (
    LessonRecorded,
    LessonReinforced,
    LessonRetired,
    LessonRevised,
    LessonTriggered,
    Severity,
    fingerprint,
)
from ingest.ids import LESSON
from ingest.patterns import compiled


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


class ReviseLesson(Command, frozen=True, kw_only=True, tag="revise_lesson"):
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
