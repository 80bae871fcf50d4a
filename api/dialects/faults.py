"""Faults as a dialect tells them: one table of statuses, each dialect's own bodies."""

import logging
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, retry_after, status_of
from api.monitoring.requests import route_of
from ingest.errors import LogUnavailable, MnemologError

logger = logging.getLogger(__name__)

FaultAnswer = Callable[[int, str, Exception], Response]
"""The answer of a dialect: status, what was wrong, and the error itself for a dialect that tells more of it."""


def usual(one: Endpoint, *, invalid: int = 422, away: int = 503) -> dict[int, str]:
    """What can go wrong with a request to an endpoint of a dialect, told from what it is asked."""
    found = {403: "The key is not for that, or a web page of another origin asks."}
    if one.open:
        return found
    found |= {401: "No key, or one that does not hold.", away: "The log or the index does not answer. Ask again."}
    if one.body is not None:
        found |= {413: "The body is too large."}
    if one.body is not None or one.query is not None or "{" in one.path:
        found |= {invalid: "The request does not fit."}
    if "{" in one.path:
        found |= {404: "It is not there."}
    return found | {429: "Too much waits to be done, or the key asked too often; nothing was done."}


def at_the_gate(error: MnemologError) -> Response:
    """The answer of every dialect to what its gate refuses for another reason than a missing key or a strange page."""
    fault = {"code": error.code, "message": str(error)}
    if isinstance(error, LogUnavailable):
        fault["retry"] = "the outcome is unknown; sending the same event_id again is safe"
    return Json({"error": fault}, status_of(error), retry_after(error))


def handlers(fault_answer: FaultAnswer) -> dict[Any, Any]:
    """Starlette's exception handlers for an application that says its faults like this."""

    async def on_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, MnemologError)
        return _with_retry_after(fault_answer(status_of(error), str(error), error), error)

    async def on_redis_error(request: Request, error: Exception) -> Response:
        return _with_retry_after(fault_answer(503, f"the log's server does not answer: {error}", error), error)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = fault_answer(error.status_code, error.detail, error)
        answer.headers.update(error.headers or {})
        return answer

    async def on_disconnect(request: Request, error: Exception) -> Response:
        return fault_answer(400, "the request was not complete", error)  # nobody reads this, and nothing was stored

    async def on_bug(request: Request, error: Exception) -> Response:
        logger.exception("%s %s failed", request.method, route_of(request.scope), exc_info=error)
        return fault_answer(500, "an unexpected fault; the server's log has it", error)

    return {
        MnemologError: on_error,
        RedisError: on_redis_error,
        HTTPException: on_http_error,
        ClientDisconnect: on_disconnect,
        Exception: on_bug,
    }


def _with_retry_after(answer: Response, error: Exception) -> Response:
    answer.headers.update(retry_after(error))
    return answer
