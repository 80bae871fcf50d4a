"""Faults as a dialect tells them: one table of statuses, each dialect's own bodies."""

import json
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError
from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import MAX_BODY_BYTES, Json, body, parsed, retry_after, status_of
from api.http.openapi import TEXT
from api.monitoring.requests import route_of
from ingest.commands.parse import check_values
from ingest.errors import LogUnavailable, MalformedRequest, MnemologError
from ingest.names import with_nfc
from mcp_gateway.lenient import repaired_json

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


M = TypeVar("M", bound=BaseModel)


FAULT = {
    "type": "object",
    "properties": {
        "detail": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"type": TEXT, "loc": {"type": "array"}, "msg": TEXT},
                        "required": ["type", "loc", "msg"],
                    },
                },
            ]
        }
    },
    "required": ["detail"],
}
"""The shape of a fault."""


class Unprocessable(MnemologError):
    """A request that does not fit; `errors` as FastAPI lists them."""

    code = "unprocessable"

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__("the request does not fit")
        self.errors = errors


def detail_answer(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault."""
    if isinstance(error, Unprocessable):
        return Json({"detail": error.errors}, 422)
    if isinstance(error, MalformedRequest):
        status = 422
    if status == 500:
        return Response("Internal Server Error", 500, media_type="text/plain")
    return Json({"detail": _PHRASES.get(status, message) if message == "Not Found" else message}, status)


_PHRASES = {404: "Not Found", 405: "Method Not Allowed"}


async def read_model(model: type[M], request: Request, content_type: str, limit: int = MAX_BODY_BYTES) -> M:
    """The body as `model`; what does not call itself anything calls itself `content_type`.

    Raises Unprocessable or RequestTooLarge.
    """
    stated = request.headers.get("content-type", content_type)
    return await parsed(await body(request, limit), lambda raw: parse(model, raw, stated))


def parse(model: type[M], raw: bytes, content_type: str = "application/json") -> M:
    """A body as `model`; raises Unprocessable, or RequestTooLarge for more than MAX_VALUES."""
    if not raw:
        raise _missing(["body"])
    if "json" not in content_type.lower():
        text = raw.decode("utf-8", "replace")
        message = "Input should be a valid dictionary or object to extract fields from"
        raise Unprocessable([{"type": "model_attributes_type", "loc": ["body"], "msg": message, "input": text}])
    value = _decoded(raw)
    if value is None:
        raise _missing(["body"])
    return _validated(model, value, "body")


def parse_query(model: type[M], request: Request) -> M:
    """The query string as `model`; raises Unprocessable."""
    try:
        return _validated(model, dict(request.query_params), "query")
    except Unprocessable as fault:
        raise Unprocessable(
            [{**error, "input": None} if error["type"] == "missing" else error for error in fault.errors]
        ) from None


def path_value(kind: type[Any], request: Request, name: str) -> Any:
    """A part of the path as `kind` (int, UUID); raises Unprocessable."""
    try:
        return TypeAdapter(kind).validate_python(request.path_params[name])
    except ValidationError as fault:
        raise _unprocessable(fault, ("path", name)) from None


def read_all(*readings: Callable[[], Any]) -> list[Any]:
    """What each of several reads from a request; raises Unprocessable with the faults of all of them."""
    values: list[Any] = []
    errors: list[dict[str, Any]] = []
    for read in readings:
        try:
            values.append(read())
        except Unprocessable as fault:
            errors += fault.errors
    if errors:
        raise Unprocessable(errors)
    return values


def _decoded(raw: bytes) -> Any:
    """The JSON of a body; raises Unprocessable that says where it ends to be JSON, as the json module tells it."""
    check_values(raw)
    repaired = repaired_json(raw)
    try:
        return msgspec.json.decode(repaired)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(repaired)  # which also takes NaN and Infinity, for the validation to refuse
    except (ValueError, RecursionError) as fault:
        place, message = (fault.pos, fault.msg) if isinstance(fault, json.JSONDecodeError) else (0, str(fault))
        error: dict[str, Any] = {"type": "json_invalid", "loc": ["body", place], "msg": "JSON decode error"}
        raise Unprocessable([{**error, "input": {}, "ctx": {"error": message}}]) from None


def _missing(loc: list[str | int]) -> Unprocessable:
    return Unprocessable([{"type": "missing", "loc": loc, "msg": "Field required", "input": None}])


def _validated(model: type[M], value: Any, where: str) -> M:
    try:
        return model.model_validate(with_nfc(value), from_attributes=True)
    except ValidationError as fault:
        raise _unprocessable(fault, (where,)) from None


def _unprocessable(fault: ValidationError, where: tuple[str, ...]) -> Unprocessable:
    errors: list[dict[str, Any]] = []
    for error in fault.errors(include_url=False):
        record: dict[str, Any] = {**error, "loc": [*where, *error["loc"]]}
        if "ctx" in error:
            context = error["ctx"].items()
            record["ctx"] = {name: str(value) if isinstance(value, Exception) else value for name, value in context}
        errors.append(record)
    return Unprocessable(errors)
