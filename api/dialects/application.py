"""The application of a dialect: its gate and error responses. Statuses are the same for all dialects, bodies differ."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from api.http.endpoint import Endpoint
from api.http.gate import OTHER_ORIGIN, Application, Gate
from api.http.http import FaultAnswer, Json, handlers, retry_after, status_of
from api.services import services
from ingest.errors import LogUnavailable, MnemologError
from ingest.platform.settings import Settings


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
