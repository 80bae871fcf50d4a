"""What a request to the agentmemory door says, read leniently; and the answers that every endpoint gives.

A body is JSON whatever its content type, an empty one is `{}`; unknown keys and nulls are passed over. A request that
cannot be read is 400 `{"error": text}`, a function that could not do it 200 `{"success": false, "error": text}`.
"""

from collections.abc import Collection, Mapping
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.http.http import MAX_BODY_BYTES, Json, body, parsed
from api.services import READER_HEADER, services
from ingest.commands.sizing import MAX_VALUES, check_values
from ingest.errors import MalformedRequest
from ingest.platform.settings import Settings
from mcp_gateway import lenient
from mcp_gateway.surrogates import repaired_json
from mcp_gateway.tools.tool import Answer, Door

SOURCE = "agentmemory"
"""The door, as events name it."""

STEP_BYTES = 1 << 20

Properties = Mapping[str, Mapping[str, Any]]
"""JSON Schemas by name, as `mcp_gateway.lenient` reads them."""

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
NAMES: dict[str, Any] = {"type": ["array", "string"], "items": TEXT}
ANYTHING: dict[str, Any] = {}


def otherwise(schema: Mapping[str, Any], default: Any) -> dict[str, Any]:
    """The schema of a value that is `default` when it is not given."""
    return {**schema, "default": default}


async def object_of(request: Request, limit: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The body, a JSON object; empty for an empty body. Raises MalformedRequest, or RequestTooLarge over `limit`."""
    return await parsed(await body(request, limit), object_in)


def object_in(raw: bytes, most: int = MAX_VALUES) -> dict[str, Any]:
    """The JSON object that a body is; empty for an empty body. Raises MalformedRequest, or RequestTooLarge for more
    values than `most`."""
    raw = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if not raw:
        return {}
    try:
        check_values(raw, most)
        value = _decoded(raw)
    except RecursionError:
        raise MalformedRequest("the body is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise MalformedRequest(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise MalformedRequest("the body must be a JSON object")
    return cast("dict[str, Any]", value)


async def asked(
    request: Request, properties: Properties, required: Collection[str] = (), instead: Collection[str] = ()
) -> dict[str, Any]:
    """Every one of the properties as the body has it; None, or its default, for one that it does not have.

    What is required may be absent where one of `instead` is given. Raises BadArgument, and what `object_of` raises.
    """
    return read(await object_of(request), properties, required, instead)


def asked_in_query(request: Request, properties: Properties, required: Collection[str] = ()) -> dict[str, Any]:
    """The same of the query string; an empty value is none. Raises BadArgument."""
    return read({name: value for name, value in request.query_params.items() if value}, properties, required)


def read(
    given: Mapping[str, Any], properties: Properties, required: Collection[str] = (), instead: Collection[str] = ()
) -> dict[str, Any]:
    """The properties of what was given; see `asked`."""
    return lenient.read(given, {"properties": properties, "required": list(required)}, instead=instead)


def door(request: Request) -> Door:
    """What the endpoints reach through, for the agent that the header names, if any."""
    return services(request).door(SOURCE, request.headers.get(READER_HEADER, ""))


def settings(request: Request) -> Settings:
    """The server's settings."""
    return request.app.state.agentmemory.settings


def reply(answer: Answer, status: int = 200) -> Response:
    """What a tool of agentmemory answers, as its endpoint does."""
    return Json(answer.data, status)


def succeeded(status: int = 200, **record: Any) -> Response:
    """A function did what it should."""
    return Json({"success": True, **record}, status)


def failed(error: str, status: int = 200, **record: Any) -> Response:
    """A function could not do it."""
    return Json({"success": False, "error": error, **record}, status)


def _decoded(raw: bytes) -> Any:
    try:
        return _in_steps(repaired_json(raw))
    except UnicodeDecodeError:
        return _in_steps(repaired_json(raw.decode("utf-8", "replace").encode()))


def _in_steps(raw: bytes, levels: int = 4) -> Any:
    """The value of JSON. A big one is decoded part by part, between which others have their turn."""
    if len(raw) <= STEP_BYTES or not levels:
        return msgspec.json.decode(raw)
    match raw.lstrip()[:1]:
        case b"{":
            fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            return {name: _in_steps(bytes(one), levels - 1) for name, one in fields.items()}
        case b"[":
            items = msgspec.json.decode(raw, type=list[msgspec.Raw])
            return [_in_steps(bytes(one), levels - 1) for one in items]
        case _:
            return msgspec.json.decode(raw)
