"""Forgetting: the tombstone that every projection and every replay obeys."""

from datetime import datetime
from typing import ClassVar, Literal

from msgspec import Struct

SubjectKind = Literal["observation", "memory", "lesson", "session", "user", "project"]


class SubjectForgotten(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subject is forgotten: its documents go, its earlier payloads are erased from the log, their positions stay.

    `subject_occurred_at` is when the erased event said it happened; it lets a replay, which no longer sees that event,
    give a session the same span of time as the live fold did.
    """

    TYPE: ClassVar[str] = "subject.forgotten"
    VERSION: ClassVar[int] = 1

    kind: SubjectKind
    subject: str
    reason: str = ""
    subject_occurred_at: datetime | None = None
