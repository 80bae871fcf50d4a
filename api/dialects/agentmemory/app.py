"""The application of the agentmemory API: /agentmemory, and a few other paths."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from inspect import signature
from pkgutil import resolve_name
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import maintenance, pages
from api.dialects.agentmemory.endpoints import call_of, read_body, read_query
from api.dialects.agentmemory.operations import OPERATIONS, PACKAGE, Operation, argument, failure
from api.dialects.agentmemory.searching import Followups
from api.dialects.application import application, usual
from api.http.endpoint import Endpoint, RequestHeader, open_paths, routes
from api.http.http import Json
from api.http.openapi import TEXT, About, documented, object_schema
from api.viewer import room as viewer
from ingest.errors import AccessDenied, CommandRejected, Forbidden, SessionFull, SlotFull
from ingest.platform.settings import Settings
from ingest.roles import ANY
from mcp_gateway.gateway import Gateway


@cache
def _function(name: str) -> tuple[Callable[..., Awaitable[Any]], list[str]]:
    """Return a function and the names of its parameters. Its first request loads it: some need `api/importing`."""
    function = resolve_name(f"{PACKAGE}.{name}")
    return function, list(signature(function).parameters)


def endpoint(operation: Operation) -> Endpoint:
    """The route of an operation."""
    method, path = operation.route.split()
    schema, in_query = operation.request(), operation.sent_in == "query" or method == "GET"

    async def handle(request: Request) -> Response:
        handler, parameters = _function(operation.handler or operation.call)
        arguments: list[Mapping[str, Any]] = []
        if len(parameters) == 2:
            read = read_query(request, schema or {}) if in_query else await read_body(request, schema or {})
            arguments.append(read | request.path_params)
        result = await handler(call_of(request) if parameters[0] == "call" else request, *arguments)
        if isinstance(result, Response):
            return result
        return Json(result, 200 if result.get("success") is False else operation.status)

    return Endpoint(
        method, f"/agentmemory/{path}", operation.needs, handle,
        operation.about, operation.level, operation.status, None if in_query else schema,
        schema if in_query or operation.sent_in == "either" else None,
        faults=operation.errors, answers={200: {"type": "object"}} if operation.answers_200 else {},
        optional=not in_query and schema is not None and not schema["required"],
    )  # fmt: skip


def _headers(endpoint: Endpoint) -> Mapping[str, RequestHeader]:
    return {"X-Agent-Id": RequestHeader("The calling agent, where the request does not name one.")}


ABOUT = About(
    "agentmemory",
    maintenance.version(),
    "Shared memory for coding agents, with agentmemory's API. Bodies are read leniently: a number may be "
    "text, null is absent, unknown keys are ignored.",
    object_schema({"error": TEXT}, "error"),
    partial(usual, invalid=400),
    _headers,
    below="/agentmemory",
)
ENDPOINTS = documented(
    ABOUT,
    [
        Endpoint("GET", "/agentmemory/livez", ANY, maintenance.livez, "Liveness check; needs no key.",
            open=True),
        *(endpoint(operation) for operation in OPERATIONS if operation.route),
        Endpoint("GET", "/", ANY, viewer.page, "The viewer.", answer=TEXT, media="text/html", open=True),
        Endpoint("GET", "/agentmemory/viewer", ANY, viewer.page, "The viewer.", answer=TEXT, media="text/html"),
        Endpoint("GET", "/favicon.svg", ANY, viewer.icon, "The viewer's icon.", answer=TEXT, media="image/svg+xml",
            open=True),
    ],
)  # fmt: skip


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The application; the process hands it its state."""
    return application(
        "agentmemory", settings, [*routes(ENDPOINTS), *pages.routes()], fault_response, field="error",
        open_paths=open_paths(ENDPOINTS),
    )  # fmt: skip


def fault_response(status: int, message: str, error: Exception) -> Response:
    """The response to an error. A refusal by a function is a normal response, not a transport error."""
    match error:
        case AccessDenied():
            return Json({"error": f"forbidden: {message}"}, 403)
        case SessionFull() | Forbidden():
            return Json(failure(message))
        case SlotFull(size=size, limit=limit):
            return Json({"error": message, "currentSize": size, "sizeLimit": limit}, status)
        case CommandRejected(field=field) if status == 422:
            name = argument(field)
            return Json({"error": message if not name or name in message else f"{name}: {message}"}, 400)
        case _:
            return Json({"error": message}, status)


class AgentmemoryState:
    """The settings, the counters and the meter."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.followups = Followups()
        self.meter = maintenance.Meter()
