"""The application of a dialect: its gate and error responses. Statuses are the same for all dialects, bodies differ."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from api.http.endpoint import Endpoint
from api.http.gate import OTHER_ORIGIN, Application, Gate
from api.http.http import Json, retry_after, status_of
from api.http.requests import route_of
from api.services import services
from ingest.errors import LogUnavailable, MnemologError
from ingest.platform.settings import Settings

logger = logging.getLogger(__name__)

FaultAnswer = Callable[[int, str, Exception], Response]
"""A dialect's answer to an error: its status, its message, and the error itself."""


def usual(
    endpoint: Endpoint, *, invalid: int = 422, away: int = 503, refusal: str = "The request is invalid."
) -> dict[int, str]:
    """The errors of an endpoint, by status, that follow from its request."""
    errors = {403: "The key does not allow this, or the request comes from a web page of another origin."}
    if endpoint.open:
        return errors
    errors |= {401: "The key is missing or invalid.", away: "Redis or the index is not responding. Retry."}
    if endpoint.body is not None:
        errors |= {413: "The body is too large."}
    if endpoint.body is not None or endpoint.query is not None or "{" in endpoint.path:
        errors |= {invalid: refusal}
    if "{" in endpoint.path:
        errors |= {404: "Not found."}
    return errors | {429: "The server is overloaded, or the key exceeded its rate limit; nothing was done."}


def application(
    name: str,
    settings: Settings,
    routes: Sequence[BaseRoute],
    fault_answer: FaultAnswer,
    *,
    field: Literal["error", "detail"],
    **options: Any,
) -> Starlette:
    """The application of a dialect, behind the gate; the process gives it its state.

    `field` is the body's field for the error message; `options` are the gate's.
    """
    unauthorized, strange = Json({field: "unauthorized"}, 401), Json({field: f"forbidden: {OTHER_ORIGIN}"}, 403)
    answers = handlers(fault_answer)
    gate = partial(
        Gate, name=name, settings=settings, unauthorized=unauthorized, forbidden=strange, refusal=at_the_gate,
        handlers=answers, **options,
    )  # fmt: skip
    return Application(gate, routes=routes, exception_handlers=answers)


def at_the_gate(error: MnemologError) -> Response:
    """The gate's response in every dialect to errors other than a missing key or a page of another origin."""
    record = {"code": error.code, "message": str(error)}
    if isinstance(error, LogUnavailable):
        record["retry"] = "the outcome is unknown; sending the same event_id again is safe"
    return Json({"error": record}, status_of(error), retry_after(error))


async def redis_fault(request: Request, within_s: float) -> Exception | None:
    """Why Redis does not respond in time; None if it does."""
    try:
        async with asyncio.timeout(within_s):
            await services(request).redis.ping()
    except (TimeoutError, RedisError, OSError) as error:
        return error
    return None


def handlers(fault_answer: FaultAnswer) -> dict[Any, Any]:
    """Starlette's exception handlers for an application that answers errors like this."""

    async def on_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, MnemologError)
        answer = fault_answer(status_of(error), str(error), error)
        answer.headers.update(retry_after(error))
        return answer

    async def on_redis_error(request: Request, error: Exception) -> Response:
        answer = fault_answer(503, f"Redis is not responding: {error}", error)
        answer.headers.update(retry_after(error))
        return answer

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = fault_answer(error.status_code, error.detail, error)
        answer.headers.update(error.headers or {})
        return answer

    async def on_disconnect(request: Request, error: Exception) -> Response:
        return fault_answer(400, "the request body is incomplete", error)  # the client is gone; nothing was stored

    async def on_bug(request: Request, error: Exception) -> Response:
        logger.exception("%s %s failed", request.method, route_of(request.scope), exc_info=error)
        return fault_answer(500, "unexpected error; see the server's log", error)

    return {
        MnemologError: on_error,
        RedisError: on_redis_error,
        HTTPException: on_http_error,
        ClientDisconnect: on_disconnect,
        Exception: on_bug,
    }
