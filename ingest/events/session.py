"""What happens to a session: one agent's run of work on one project."""

from typing import ClassVar

from msgspec import Struct


class SessionStarted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session began, or an ended one was taken up again."""

    TYPE: ClassVar[str] = "session.started"
    VERSION: ClassVar[int] = 1

    cwd: str = ""
    title: str = ""


class SessionEnded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session ended. Some clients say so after every turn: a later observation reopens it."""

    TYPE: ClassVar[str] = "session.ended"
    VERSION: ClassVar[int] = 1

    reason: str = ""


class SessionCommitted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version-control commit was made in a session."""

    TYPE: ClassVar[str] = "session.committed"
    VERSION: ClassVar[int] = 1

    commit: str
    message: str = ""
    branch: str = ""


class SessionSummarised(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A summary was made of a session, by rule or by a model; replay reuses it and calls no model."""

    TYPE: ClassVar[str] = "session.summarised"
    VERSION: ClassVar[int] = 1

    title: str
    narrative: str
    decisions: list[str] = []
    files: list[str] = []
    concepts: list[str] = []
    model: str = ""
    prompt_version: str = ""
