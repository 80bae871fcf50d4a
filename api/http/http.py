"""HTTP helpers for all routes: size-limited bodies, typed query strings, JSON responses."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from redis.exceptions import RedisError
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.http.requests import header_of, route_of
from ingest import errors
from ingest.commands.parse import parse_json, rejected
from ingest.names import with_nfc
from ingest.platform.tasks import INLINE_BYTES, in_thread
from projections.health.samples import HealthSample

T = TypeVar("T")
FaultAnswer: TypeAlias = Callable[[int, str, Exception], Response]
"""An API's answer to an error: its status, its message, and the error itself."""

MAX_BODY_BYTES = 16 << 20


class Json(Response):
    """A JSON response, encoded by msgspec."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


async def body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The request's body; see read_body."""
    return await read_body(request.scope, request.receive, limit)


async def parsed(raw: bytes, parse: Callable[[bytes], T]) -> T:
    """A body parsed by `parse`, in a thread if it is large."""
    return parse(raw) if len(raw) <= INLINE_BYTES else await in_thread(parse, raw)


async def read_json(request: Request, cls: type[T], limit: int) -> T:
    """The body as a request of type `cls`; raises RequestTooLarge, MalformedRequest or CommandRejected."""
    return await parsed(await body(request, limit), partial(parse_json, cls=cls))


async def read_body(scope: Scope, receive: Receive, limit: int = MAX_BODY_BYTES) -> bytes:
    """The body of a request; raises RequestTooLarge as soon as it exceeds `limit`, without reading the rest."""
    declared = header_of(scope["headers"], b"content-length")
    if declared.isdigit() and int(declared) > limit:
        raise errors.RequestTooLarge("the body", int(declared), limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise errors.RequestTooLarge("the body", size, limit)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def send_json(send: Send, status: int, content: Any, version: int | None = None) -> None:
    """Send a JSON response without creating a Response object, for routes where that cost matters.

    `version` is the document's, for the ETag.
    """
    encoded = msgspec.json.encode(content)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(encoded)).encode())]
    if version is not None:
        headers.append((b"etag", b'"%d"' % version))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": encoded})


def query_of(scope: Scope, cls: type[T]) -> T:
    """The query string as a typed request; raises CommandRejected that names the parameter."""
    try:
        return msgspec.convert(with_nfc(dict(QueryParams(scope["query_string"]))), cls, strict=False)
    except msgspec.ValidationError as error:
        raise rejected(error) from None


logger = logging.getLogger(__name__)

_STATUS: tuple[tuple[int, Any], ...] = (
    (400, errors.MalformedRequest),
    (403, errors.AccessDenied | errors.Forbidden),
    (404, errors.NotFound),
    # before 422 and 503, because some of these are subclasses of CommandRejected or LogUnavailable
    (409, errors.AlreadyThere | errors.SessionFull | errors.ChangeRefused),
    (409, errors.BeingRebuilt | errors.RebuildUnderWay | errors.WrongRebuildState),
    (413, errors.RequestTooLarge | errors.SlotFull),
    (429, errors.Overloaded | errors.LogFull),
    (422, errors.CommandRejected),
    (503, errors.LogUnavailable | errors.ArchiveUnavailable | errors.IssuerUnavailable | errors.ProjectionBehind),
)
_HTTP_CODES = {401: "unauthorized", 404: "not_found", 405: "method_not_allowed"}
PROBLEM_JSON = "application/problem+json"
TYPE_PREFIX = "urn:mnemolog:error:"
"""The prefix of a problem's `type`, before its code."""


class Problem(Struct, frozen=True, kw_only=True):
    """Why a request failed (RFC 9457). `code` is the stable error code and `type` its URI; `detail` is for people.

    `field` names the invalid field; the other members accompany specific codes.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    limit: int | UnsetType = UNSET
    retry: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    rebuild: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    changed_by: str | UnsetType = UNSET
    holder: str | UnsetType = UNSET
    expires_at: datetime | UnsetType | None = UNSET
    lag: dict[int, int] | UnsetType = UNSET
    vitals: HealthSample | UnsetType = UNSET


class ProblemAnswer(Json):
    """The response to a failed request; `members` are the members of `Problem` for its code."""

    media_type = PROBLEM_JSON

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        title = code.replace("_", " ").capitalize()
        problem = Problem(type=TYPE_PREFIX + code, title=title, status=status, detail=detail, code=code, **members)
        super().__init__(problem, status, headers)


def answer(error: errors.MnemologError) -> ProblemAnswer:
    """The HTTP response to a MnemologError."""
    members: dict[str, Any] = {}
    match error:
        case errors.CommandRejected(field=field) if field:
            members = {"field": field}
        case errors.SlotFull(size=size, limit=limit):
            members = {"size": size, "limit": limit}
        case errors.Overloaded(cause=cause):
            members = {"reason": cause}
        case errors.LogFull(cause=cause):
            members = {"reason": cause, "retry": "sending the same event_id again is safe"}
        case errors.AlreadyClaimed() | errors.StaleToken():
            members = {"version": error.version, "holder": error.changed_by, "expires_at": error.expires_at}
        case errors.ChangeRefused():
            members = {"version": error.version, "changed_by": error.changed_by}
        case errors.RebuildUnderWay(rebuild=rebuild):
            members = {"rebuild": rebuild}
        case errors.LogUnavailable():
            members = {"retry": "the outcome is unknown; sending the same event_id again is safe"}
        case errors.ProjectionBehind(lag=lag):
            members = {"lag": lag}
        case _:
            pass
    return ProblemAnswer(status_of(error), error.code, str(error), retry_after(error), **members)


def status_of(error: errors.MnemologError) -> int:
    """The HTTP status of a MnemologError."""
    return next((status for status, kinds in _STATUS if isinstance(error, kinds)), 500)


def retry_after(error: Exception) -> dict[str, str]:
    """The `Retry-After` header; empty for an error that a retry cannot fix."""
    match error:
        case errors.Overloaded(retry_after_s=seconds) | errors.LogFull(retry_after_s=seconds):
            return {"Retry-After": str(seconds)}
        case errors.LogUnavailable() | errors.ProjectionBehind() | RedisError():
            return {"Retry-After": "1"}
        case errors.IssuerUnavailable():
            return {"Retry-After": "10"}
        case _:
            return {}


def handlers(fault_answer: FaultAnswer) -> dict[Any, Any]:
    """Starlette's exception handlers for an application that answers errors like this."""

    async def on_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.MnemologError)
        response = fault_answer(status_of(error), str(error), error)
        response.headers.update(retry_after(error))
        return response

    async def on_redis_error(request: Request, error: Exception) -> Response:
        response = fault_answer(503, f"Redis is not responding: {error}", error)
        response.headers.update(retry_after(error))
        return response

    async def on_http_error(request: Request, error: Exception) -> Response:
        """Routing errors (no such route, wrong method), and those that a handler raises."""
        assert isinstance(error, HTTPException)
        response = fault_answer(error.status_code, error.detail, error)
        response.headers.update(error.headers or {})
        return response

    async def on_disconnect(request: Request, error: Exception) -> Response:
        return fault_answer(400, "the request body is incomplete", error)  # the client is gone; nothing was stored

    async def on_bug(request: Request, error: Exception) -> Response:
        logger.exception("%s %s failed", request.method, route_of(request.scope), exc_info=error)
        return fault_answer(500, "unexpected error; see the server's log", error)

    return {
        errors.MnemologError: on_error,
        RedisError: on_redis_error,
        HTTPException: on_http_error,
        ClientDisconnect: on_disconnect,
        Exception: on_bug,
    }


def problem(status: int, message: str, error: Exception) -> ProblemAnswer:
    """The native API's response to any error."""
    match error:
        case errors.MnemologError():
            return answer(error)
        case RedisError():
            code = errors.LogUnavailable.code
        case HTTPException():
            code = _HTTP_CODES.get(status, "http_error")
        case ClientDisconnect():
            code = "client_disconnected"
        case _:
            code = "internal"
    return ProblemAnswer(status, code, message)


HANDLERS = handlers(problem)
