"""One table from error classes to HTTP answers: `{"error": {"code", "message", "field"?, ...}}`."""

import logging
from typing import Any

from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api.http.http import Json
from ingest.errors import (
    AccessDenied,
    AlreadyThere,
    BeingRebuilt,
    CommandRejected,
    Forbidden,
    IssuerUnavailable,
    LogFull,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    NotFound,
    Overloaded,
    ProjectionBehind,
    RebuildUnderWay,
    RequestTooLarge,
    SessionFull,
    SlotFull,
    WrongRebuildState,
)
from ingest.log.archive.manifest import ArchiveUnavailable

logger = logging.getLogger(__name__)

_STATUS: dict[type[MnemologError], int] = {
    AccessDenied: 403,
    MalformedRequest: 400,
    NotFound: 404,
    RequestTooLarge: 413,
    AlreadyThere: 409,
    BeingRebuilt: 409,
    RebuildUnderWay: 409,
    WrongRebuildState: 409,
    SlotFull: 413,
    SessionFull: 409,
    Forbidden: 403,
    CommandRejected: 422,
    Overloaded: 429,
    LogFull: 429,  # before LogUnavailable, which it is one of
    LogUnavailable: 503,
    ArchiveUnavailable: 503,
    IssuerUnavailable: 503,
    ProjectionBehind: 503,
}
_HTTP_CODES = {401: "unauthorized", 404: "not_found", 405: "method_not_allowed"}


def answer(error: MnemologError) -> Json:
    """The HTTP answer to an error of ours."""
    fault: dict[str, Any] = {"code": error.code, "message": str(error)}
    match error:
        case CommandRejected(field=field) if field:
            fault["field"] = field
        case SlotFull(size=size, limit=limit):
            fault |= {"size": size, "limit": limit}
        case Overloaded(cause=cause):
            fault["reason"] = cause
        case LogFull(cause=cause):
            fault |= {"reason": cause, "retry": "sending the same event_id again is safe"}
        case RebuildUnderWay(rebuild=rebuild):
            fault["rebuild"] = rebuild
        case LogUnavailable():
            fault["retry"] = "the outcome is unknown; sending the same event_id again is safe"
        case ProjectionBehind(lag=lag):
            fault["lag"] = lag
        case _:
            pass
    return Json({"error": fault}, status_of(error), retry_after(error))


def status_of(error: MnemologError) -> int:
    """The HTTP status of an error of ours."""
    return next((status for cls, status in _STATUS.items() if isinstance(error, cls)), 500)


def retry_after(error: Exception) -> dict[str, str]:
    """The header that says when to come back; empty for an error that repeating does not cure."""
    match error:
        case Overloaded(retry_after_s=seconds) | LogFull(retry_after_s=seconds):
            return {"Retry-After": str(seconds)}
        case LogUnavailable() | ProjectionBehind() | RedisError():
            return {"Retry-After": "1"}
        case IssuerUnavailable():
            return {"Retry-After": "10"}
        case _:
            return {}


async def on_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for MnemologError."""
    assert isinstance(error, MnemologError)
    return answer(error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for routing errors (no such route, wrong method)."""
    assert isinstance(error, HTTPException)
    fault = {"code": _HTTP_CODES.get(error.status_code, "http_error"), "message": error.detail}
    return Json({"error": fault}, error.status_code, dict(error.headers or {}))


async def on_disconnect(request: Request, error: Exception) -> Response:
    """The client hung up before its body was complete: nobody reads this, and nothing was stored."""
    return Json({"error": {"code": "client_disconnected", "message": "the request was not complete"}}, 400)


async def on_bug(request: Request, error: Exception) -> Response:
    """Starlette's handler for everything unexpected; the traceback is in the log."""
    logger.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    return Json({"error": {"code": "internal", "message": "an unexpected fault; the server's log has it"}}, 500)


async def on_redis_error(request: Request, error: Exception) -> Response:
    """The server behind everything is away or refuses: say so, and when to come back."""
    fault = {"code": LogUnavailable.code, "message": f"the log's server does not answer: {error}"}
    return Json({"error": fault}, 503, retry_after(error))


HANDLERS: dict[Any, Any] = {
    MnemologError: on_error,
    RedisError: on_redis_error,
    HTTPException: on_http_error,
    ClientDisconnect: on_disconnect,
    Exception: on_bug,
}
