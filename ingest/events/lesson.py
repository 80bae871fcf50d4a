"""Lessons learned, with their confidence."""

from hashlib import sha256
from typing import ClassVar, Literal

from msgspec import Struct

Severity = Literal["", "critical", "warning", "info"]

EVERY_PROJECT = "*"
"""The project name of lessons that apply to every project. A lesson without a project belongs to none."""


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
    title: str = ""
    derived_from: list[str] = []


class LessonReinforced(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson proved right again."""

    TYPE: ClassVar[str] = "lesson.reinforced"
    VERSION: ClassVar[int] = 1

    lesson: str


class LessonRevised(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson was edited; absent fields stay as they were. Its id, and what counts as saying it again, stay too."""

    TYPE: ClassVar[str] = "lesson.revised"
    VERSION: ClassVar[int] = 1

    lesson: str
    content: str | None = None
    context: str | None = None
    title: str | None = None
    tags: list[str] | None = None
    severity: Severity | None = None
    trigger_tool: str | None = None
    trigger_pattern: str | None = None
    active: bool | None = None


class LessonTriggered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson was shown to an agent about to do what it warns of."""

    TYPE: ClassVar[str] = "lesson.triggered"
    VERSION: ClassVar[int] = 1

    lesson: str


class LessonRetired(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson faded: its confidence fell to the floor and nothing ever reinforced it.

    The fold ignores it if the lesson was reinforced or stated again before it.
    """

    TYPE: ClassVar[str] = "lesson.retired"
    VERSION: ClassVar[int] = 1

    lesson: str
    confidence: float


def fingerprint(content: str) -> str:
    """What makes two lessons the same: 16 hex digits of the SHA-256 of the trimmed, lower-cased text.

    This is agentmemory's rule.
    """
    return sha256(content.strip().lower().encode()).hexdigest()[:16]
