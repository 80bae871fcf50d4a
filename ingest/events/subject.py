"""Deletion: the tombstone that every projection and every replay applies."""

from ingest.events.envelope import SESSION_TYPES, EventData
from ingest.kinds import SubjectKind

MAX_FORGOTTEN = 200
"""The most documents that one event deletes: a fold reads them all and writes them in one transaction."""


class SubjectForgotten(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A subject is forgotten: its documents go, its earlier payloads are erased from the log, their positions stay.

    `documents` are those of the event's own stream (a project, or one of its sessions); without any, the subject is the
    one document. A user, a project or a big session takes several of these events, in each of the streams concerned.

    `kept` are documents of the stream that were derived from what is forgotten, and stay because something else says
    the same; `sources` are what they are derived from no more.
    """

    TYPE = "subject.forgotten"

    kind: SubjectKind
    subject: str
    reason: str = ""
    documents: list[str] = []
    kept: list[str] = []
    sources: list[str] = []

    def is_in_session(self, session_id: str) -> bool:
        """Whether what is forgotten is in a session's stream, which the envelope names then."""
        return bool(session_id)


class MemoryQuarantined(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """An operator put a memory or a lesson into quarantine, hidden from everyone else, or (`released`) took it out."""

    TYPE = "memory.quarantined"

    document: str
    released: bool = False
    reason: str = ""


class ObservationQuarantined(MemoryQuarantined, frozen=True, kw_only=True, omit_defaults=True):
    """The same of an observation, in its session's stream. The summary of the session is made again without it."""

    TYPE = "observation.quarantined"


class EventErased(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """What stands at the position of an event whose payload was erased: nothing that was said, only what it led to.

    A replay folds it instead of the event, and so ends where the live fold did: `document` existed; for a memory, which
    version it was, of which parent (and whether that is a memory of its own), what it condensed and what superseded it;
    else the `mark` of the event. Without either it led to nothing: a dead letter that was
    discarded and erased.
    """

    TYPE = "event.erased"

    was: str
    document: str
    mark: str = ""
    memory_version: int = 1
    parent_id: str = ""
    separate_parent: bool = False
    superseded_by: str = ""
    originals: list[str] = []

    def is_in_session(self, session_id: str) -> bool:
        """Whether the erased event was in a session's stream."""
        return self.was in SESSION_TYPES
