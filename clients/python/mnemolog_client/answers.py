"""What the server answers. Fields that a struct does not have are ignored; one that is added later has a default.

Words from a list that may grow (`kind`, `status`, ...) are strings: a newer server does not break an older client. Most
structs are generated from the OpenAPI document. Here are those that it does not describe: events, pages, and health,
which a server also answers when it is not ready.
"""

import logging
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from mnemolog_client.generated.answers import *  # noqa: F403
from mnemolog_client.generated.answers import Recalled, RecallResult, Shortcoming

logger = logging.getLogger(__name__)
T = TypeVar("T")


def results_of(answer: Recalled) -> list[RecallResult]:
    """The results, for callers that do not get the whole answer: what these may lack is logged as a warning."""
    if answer.degraded:
        logger.warning("results of a recall may be incomplete: %s", "; ".join(answer.degraded))
    return answer.results


class Event(Struct, frozen=True, kw_only=True):
    """An event of the log. `data` is empty where it was erased or is withheld from this reader."""

    position: str
    recorded_at: datetime | None = None
    event_id: str = ""
    type: str = ""
    version: int = 0
    project: str = ""
    session_id: str = ""
    agent_id: str = ""
    user_id: str = ""
    occurred_at: datetime | None = None
    metadata: dict[str, str] = {}
    data: dict[str, Any] = {}
    withheld: bool = False


class LiveEvent(Event, frozen=True, kw_only=True):
    """An event of the live stream. A stream that begins with its `after` continues behind it."""

    after: str = ""


class Health(Struct, frozen=True, kw_only=True):
    """Whether reads and writes work: `status` is `ready`, `degraded`, `starting` or `unavailable`.

    `degraded` is what they do not do well; of the last two, `reason` says why in one word and `detail` in a sentence.
    """

    status: str
    degraded: list[Shortcoming] = []
    reason: str = ""
    detail: str = ""
    documents: int | None = None
    lag: dict[str, int] = {}
    vitals: dict[str, Any] = {}


class _NotReady(Struct, frozen=True):
    code: str
    detail: str
    reason: str
    lag: dict[str, int] = {}
    vitals: dict[str, Any] = {}


def health_of(content: bytes) -> Health:
    """What `GET /readyz` answers, which is a problem where the server is not ready."""
    try:
        return msgspec.json.decode(content, type=Health)
    except msgspec.ValidationError:  # the `status` of a problem is a number
        not_ready = msgspec.json.decode(content, type=_NotReady)
    return Health(
        status=not_ready.code,
        reason=not_ready.reason,
        detail=not_ready.detail,
        lag=not_ready.lag,
        vitals=not_ready.vitals,
    )


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a listing; `next` is the cursor of the one that follows. `notes` say that its project is unknown."""

    items: list[T]
    next: str | None = None
    notes: list[str] = []


class EventsPage(Struct, frozen=True, kw_only=True):
    """A page of the log; `next` is the position to go on behind."""

    events: list[Event]
    next: str | None = None
