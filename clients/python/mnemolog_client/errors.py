"""What can go wrong, one class for each decision that a caller can make.

MnemologError
├── InvalidRequest        correct the request; `field` names what is wrong
│   └── TooLarge          split it, or shorten it
├── Unauthorized          send a key that holds
├── Forbidden             another agent, or another key, may do that
├── NotFound              it is not there, or not for this reader
├── Conflict              look at what is there, then decide
│   ├── VersionConflict   read the document again, and repeat the change
│   ├── AlreadyClaimed    claim another action
│   └── StaleToken        claim the action again, before anything else is changed
├── Overloaded            later, with the same event id; nothing was stored
├── Unavailable           later, with the same event id; whether a write was stored is not known
│   ├── ProjectionBehind  what was written is safe, and cannot be read yet
│   └── Unreachable       no server answered
├── ServerFault           an error of the server, or an answer that is not mnemolog's
└── EmitterError
    ├── EmitterFull       emit fewer, or wait
    ├── EmitterClosed     it takes no more
    ├── NotDelivered      `left` events were not acknowledged in time
    └── SpoolInUse        another emitter has the folder
"""

from datetime import datetime

import httpx
import msgspec
from msgspec import Struct

from mnemolog_client.answers import BatchAccepted
from mnemolog_client.wording import worded


class MnemologError(Exception):
    """The base of all errors here. `code`, `field` and the message are the server's; `status` is that of HTTP, or 0."""

    retryable = False
    """Whether the same request may succeed later."""
    outcome_unknown = False
    """Whether the request may have been carried out all the same."""
    after_lost_attempt = False
    """Whether an attempt before this answer may have been carried out: it may be what this one is refused for."""

    def __init__(self, code: str, message: str, *, field: str | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.status = code, message, field, status
        self.retry_after_s: float | None = None
        """When to come back, where the server said so."""
        self.reason = ""
        """Of an overload: `memory`, `lag`, `disk`, `queue` or `server`, or `limit`: of the requests of the key."""
        self.lag: dict[str, int] = {}
        """Log entries that are not projected yet, by partition, where reads are behind."""

    def __str__(self) -> str:
        where = f" (field {self.field})" if self.field and self.field not in self.message else ""
        doubt = "; an attempt before, whose answer was lost, may have succeeded" if self.after_lost_attempt else ""
        return f"{self.code}: {self.message}{where}{doubt}"


class InvalidRequest(MnemologError):
    """The request is not one that the server takes."""


class TooLarge(InvalidRequest):
    """The body, the batch or the text is larger than allowed."""


class Unauthorized(MnemologError):
    """There was no key, or one that is wrong, expired or revoked."""


class Forbidden(MnemologError):
    """The key or the agent may not do that."""


class NotFound(MnemologError):
    """No such document, session or slot, or not for this reader."""


class Conflict(MnemologError):
    """What is there already is in the way; nothing was changed.

    `version` is the document's, and `changed_by` the agent that made it. An action's `holder` works on it, until
    `expires_at` if it is a claim. What the server did not say is empty or None.
    """

    version: int | None = None
    changed_by = ""
    holder = ""
    expires_at: datetime | None = None


class VersionConflict(Conflict):
    """The document is no longer at the expected version."""


class AlreadyClaimed(Conflict):
    """An agent works on the action."""


class StaleToken(Conflict):
    """The token's claim has expired, was released, or ended with the action."""


class Overloaded(MnemologError):
    """The server, or the key's quota, has no room; nothing was stored."""

    retryable = True


class Unavailable(MnemologError):
    """The server, or what it stores in, is away."""

    retryable = True
    outcome_unknown = True


class ProjectionBehind(Unavailable):
    """What was written before is not projected yet."""


class Unreachable(Unavailable):
    """The connection failed or was cut."""


class ServerFault(MnemologError):
    """The server failed, or what answered is no mnemolog."""

    outcome_unknown = True


class EmitterError(MnemologError):
    """What can go wrong with an emitter."""


class EmitterFull(EmitterError):
    """As many events, or bytes, wait as were allowed; this one was not taken."""

    def __init__(self, message: str) -> None:
        super().__init__("emitter_full", message)


class EmitterClosed(EmitterError):
    """The emitter was closed; this event was not taken."""

    def __init__(self) -> None:
        super().__init__("emitter_closed", "the emitter is closed")


class NotDelivered(EmitterError):
    """`left` events were not acknowledged in time; `trouble` is the last error, if any."""

    def __init__(self, left: int, trouble: MnemologError | None) -> None:
        super().__init__("not_delivered", f"{left} events are not acknowledged: {trouble or 'there was no time'}")
        self.left, self.trouble = left, trouble


class SpoolInUse(EmitterError):
    """Another emitter, of this process or another, has the folder."""

    def __init__(self, folder: str) -> None:
        super().__init__("spool_in_use", f"another emitter uses {folder}; each needs a folder of its own")


def check_rejected(answer: BatchAccepted) -> None:
    """Raises InvalidRequest for the first command of a batch that was rejected; the others are stored."""
    for rejection in answer.rejected:
        raise InvalidRequest(rejection.code, rejection.message, field=rejection.field)


class _Problem(Struct, frozen=True):
    code: str
    detail: str
    field: str | None = None
    reason: str = ""
    lag: dict[str, int] = {}
    version: int | None = None
    changed_by: str = ""
    holder: str = ""
    expires_at: datetime | None = None


_BY_STATUS: dict[int, type[MnemologError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    429: Overloaded,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
_BY_CODE: dict[str, type[MnemologError]] = {
    "projection_behind": ProjectionBehind,
    "version_conflict": VersionConflict,
    "claimed": AlreadyClaimed,
    "stale_token": StaleToken,
}


def error_of(response: httpx.Response) -> MnemologError:
    """The error for an answer that is not a success."""
    status = response.status_code
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        detail = f"{response.url} answered {status}, but not as mnemolog does"
        problem = _Problem("unreadable_answer", detail)
    kind = _BY_STATUS.get(status, InvalidRequest if 400 <= status < 500 else ServerFault)
    kind = _BY_CODE.get(problem.code, kind)
    error = kind(problem.code, worded(problem.detail, problem.field), field=problem.field, status=status)
    error.reason, error.lag = problem.reason, problem.lag
    if isinstance(error, Conflict):
        error.version, error.changed_by = problem.version, problem.changed_by
        error.holder, error.expires_at = problem.holder, problem.expires_at
    error.retry_after_s = _seconds(response.headers.get("Retry-After"))
    return error


def unanswered(url: str, fault: httpx.TransportError) -> MnemologError:
    """The error of a request that had no answer: the connection failed, or no server could be sent that."""
    if isinstance(fault, httpx.LocalProtocolError):
        return InvalidRequest("unsendable", f"the request cannot be sent: {fault}")
    error = Unreachable("unreachable", f"{url}: {fault or type(fault).__name__}")
    error.outcome_unknown = not isinstance(fault, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return error


def _seconds(header: str | None) -> float | None:
    """Seconds of a Retry-After header; None for none, and for a date, which mnemolog does not send."""
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None
