"""Sessions (one agent's run of work on one project) and their observations."""

from typing import Any, ClassVar, Literal

from msgspec import Struct

Outcome = Literal["completed", "failed"]


class SessionStarted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session began, or an ended one was taken up again."""

    TYPE: ClassVar[str] = "session.started"
    VERSION: ClassVar[int] = 1

    cwd: str = ""
    title: str = ""
    agent_type: str = ""


class SessionEnded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session ended. Some clients say so after every turn: a later observation reopens it.

    `idle_since_ms` is set if a job closes a session that no agent ended: recorded time of the last event it knew of.
    The fold ignores it if the session was active after that.
    """

    TYPE: ClassVar[str] = "session.ended"
    VERSION: ClassVar[int] = 1

    reason: str = ""
    outcome: Outcome = "completed"
    idle_since_ms: int = 0


class SessionCommitted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version-control commit was made, in the session the envelope names if it names one. Routed by project."""

    TYPE: ClassVar[str] = "session.committed"
    VERSION: ClassVar[int] = 1

    commit: str
    message: str = ""
    branch: str = ""
    repo: str = ""
    author: str = ""
    authored_at: str = ""
    files: list[str] = []


MAX_RETIRED = 500
"""The most observations and marks that one event retires: a fold reads them all and writes them in one transaction."""


class SessionRetired(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session was silent for long: these of its observations leave the documents, listings and index.

    Nothing leaves the log. `documents` are observations, and marks of the session's events; `part` is the part of the
    session's ledger that notes them. A big session takes several events: the last one has `idle_since_ms`, recorded
    time of the last event that the job knew of.
    """

    TYPE: ClassVar[str] = "session.retired"
    VERSION: ClassVar[int] = 1

    documents: list[str] = []
    part: int = 0
    idle_since_ms: int = 0


class SessionSummarised(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A summary was made of a session, by rule or by a model; replay reuses it and calls no model.

    `observation_count` says of how many observations. `forgotten_at` is the session's `told_from` as the summary was
    made: the fold ignores a summary if some of its observations were forgotten since.
    """

    TYPE: ClassVar[str] = "session.summarised"
    VERSION: ClassVar[int] = 1

    title: str
    narrative: str
    decisions: list[str] = []
    files: list[str] = []
    concepts: list[str] = []
    model: str = ""
    prompt_version: str = ""
    observation_count: int = 0
    forgotten_at: str = ""
    remaining: list[str] = []
    told_by_tools: list[str] = []


class ObservationRecorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent reported something: text in `content`, structure (a tool call, a hook payload) in `data`, or both."""

    TYPE: ClassVar[str] = "observation.recorded"
    VERSION: ClassVar[int] = 1

    kind: str = ""
    content: str = ""
    data: dict[str, Any] = {}


class ObservationCompressed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model compressed an observation. (The synthetic compression is derived and never an event.)"""

    TYPE: ClassVar[str] = "observation.compressed"
    VERSION: ClassVar[int] = 1

    observation: str
    title: str
    narrative: str
    facts: list[str] = []
    concepts: list[str] = []
    files: list[str] = []
    importance: int = 5
    model: str
    prompt_version: str
