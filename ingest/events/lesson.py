"""What was learned, with how sure we are of it."""

from typing import ClassVar

from msgspec import Struct


class LessonRecorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson was stated. The same text again (by fingerprint) strengthens the lesson that exists."""

    TYPE: ClassVar[str] = "lesson.recorded"
    VERSION: ClassVar[int] = 1

    content: str
    context: str = ""
    confidence: float = 0.5
    tags: list[str] = []
    origin: str = "manual"
    severity: str = ""
    trigger_tool: str = ""
    trigger_pattern: str = ""


class LessonReinforced(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson proved right again."""

    TYPE: ClassVar[str] = "lesson.reinforced"
    VERSION: ClassVar[int] = 1

    lesson: str


class LessonRetired(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson faded: its confidence fell to the floor and nothing ever reinforced it."""

    TYPE: ClassVar[str] = "lesson.retired"
    VERSION: ClassVar[int] = 1

    lesson: str
    confidence: float
