"""Parses requests and formats errors like FastAPI, for the dialects whose originals use it."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from api.http.http import Json, body, parsed
from api.http.openapi import TEXT, object_schema
from ingest.commands.parse import check_values
from ingest.errors import MalformedRequest, MnemologError
from ingest.names import with_nfc
from mcp_gateway.lenient import repaired_json

M = TypeVar("M", bound=BaseModel)


_ERROR = object_schema({"type": TEXT, "loc": {"type": "array"}, "msg": TEXT}, "type", "loc", "msg")
_DETAIL = {"anyOf": [TEXT, {"type": "array", "items": _ERROR}]}
FAULT = object_schema({"detail": _DETAIL}, "detail")
"""The shape of an error."""


class Unprocessable(MnemologError):
    """An invalid request; `errors` in FastAPI's format."""

    code = "unprocessable"

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__("the request is invalid")
        self.errors = errors


def detail_answer(status: int, message: str, error: Exception) -> Response:
    """The response to an error."""
    if isinstance(error, Unprocessable):
        return Json({"detail": error.errors}, 422)
    if isinstance(error, MalformedRequest):
        status = 422
    if status == 500:
        return Response("Internal Server Error", 500, media_type="text/plain")
    return Json({"detail": message}, status)


async def read_model(model: type[M], request: Request, content_type: str = "application/json") -> M:
    """The body as `model`; without a content type it is read as `content_type`.

    Raises Unprocessable or RequestTooLarge.
    """
    stated = request.headers.get("content-type", content_type)
    return await parsed(await body(request), lambda raw: parse(model, raw, stated))


def parse(model: type[M], raw: bytes, content_type: str = "application/json") -> M:
    """A body as `model`; raises Unprocessable, or RequestTooLarge for more than MAX_VALUES."""
    if not raw:
        raise _missing()
    if "json" not in content_type.lower():
        text = raw.decode("utf-8", "replace")
        message = "Input should be a valid dictionary or object to extract fields from"
        raise Unprocessable([{"type": "model_attributes_type", "loc": ["body"], "msg": message, "input": text}])
    value = _decoded(raw)
    if value is None:
        raise _missing()
    return _validated(model, value, "body")


def parse_query(model: type[M], request: Request) -> M:
    """The query string as `model`; raises Unprocessable."""
    try:
        return _validated(model, dict(request.query_params), "query")
    except Unprocessable as problem:
        raise Unprocessable(
            [{**error, "input": None} if error["type"] == "missing" else error for error in problem.errors]
        ) from None


def path_value(kind: type[Any], request: Request, name: str) -> Any:
    """A part of the path as `kind` (int, UUID); raises Unprocessable."""
    try:
        return TypeAdapter(kind).validate_python(request.path_params[name])
    except ValidationError as problem:
        raise _unprocessable(problem, ("path", name)) from None


def read_all(*readings: Callable[[], Any]) -> list[Any]:
    """What each of several reads from a request; raises Unprocessable with the faults of all of them."""
    values: list[Any] = []
    errors: list[dict[str, Any]] = []
    for read in readings:
        try:
            values.append(read())
        except Unprocessable as problem:
            errors += problem.errors
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
    except (ValueError, RecursionError) as problem:
        offset, message = (problem.pos, problem.msg) if isinstance(problem, json.JSONDecodeError) else (0, str(problem))
        error: dict[str, Any] = {"type": "json_invalid", "loc": ["body", offset], "msg": "JSON decode error"}
        raise Unprocessable([{**error, "input": {}, "ctx": {"error": message}}]) from None


def _missing() -> Unprocessable:
    return Unprocessable([{"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}])


def _validated(model: type[M], value: Any, where: str) -> M:
    try:
        return model.model_validate(with_nfc(value), from_attributes=True)
    except ValidationError as problem:
        raise _unprocessable(problem, (where,)) from None


def _unprocessable(problem: ValidationError, where: tuple[str, ...]) -> Unprocessable:
    errors: list[dict[str, Any]] = []
    for error in problem.errors(include_url=False):
        record: dict[str, Any] = {**error, "loc": [*where, *error["loc"]]}
        if "ctx" in error:
            context = error["ctx"].items()
            record["ctx"] = {name: str(value) if isinstance(value, Exception) else value for name, value in context}
        errors.append(record)
    return Unprocessable(errors)
