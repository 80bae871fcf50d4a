"""Forgetting: the tombstone that every projection and every replay obeys."""

from typing import ClassVar, Literal

from msgspec import Struct

SubjectKind = Literal["observation", "memory", "lesson", "session", "user", "project"]


class SubjectForgotten(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subject is forgotten: its documents go, its earlier payloads are erased from the log, their positions stay."""

    TYPE: ClassVar[str] = "subject.forgotten"
    VERSION: ClassVar[int] = 1

    kind: SubjectKind
    subject: str
    reason: str = ""


class EventErased(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands at the position of an event whose payload was erased: nothing that was said, only what it led to.

    A replay folds it instead of the event, and so ends where the live fold did: `document` existed; for a memory, which
    version it was, of which parent, and what superseded it; for a lesson, the `mark` of its event.
    """

    TYPE: ClassVar[str] = "event.erased"
    VERSION: ClassVar[int] = 1

    was: str
    document: str
    mark: str = ""
    memory_version: int = 1
    parent_id: str = ""
    superseded_by: str = ""
