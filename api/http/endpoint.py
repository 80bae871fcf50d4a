"""An endpoint of an API: its handler, and its description for OpenAPI, the docs page and the compatibility table.

An API lists its endpoints once; routes, `/openapi.json` and `/docs` are made from the list.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.admission import Guarded
from ingest.roles import Needs

Handler: TypeAlias = Callable[[Request], Awaitable[Response]] | ASGIApp
Shape: TypeAlias = Any
"""The type of a body, a query string or a response: a msgspec Struct or a type composed of some, a pydantic model, or a
mapping, which is used as the JSON Schema."""
Level = Literal["M", "S", "V"]
"""M: a real client depends on it. S: part of the documented surface. V: only a page or a command line calls it."""
DirectRoutes: TypeAlias = Mapping[tuple[str, str], Route]
"""By method and path."""
JSON = "application/json"


class RequestHeader(NamedTuple):
    """A request header: its description and schema."""

    says: str
    schema: Mapping[str, Any] = {"type": "string"}


class Endpoint(NamedTuple):
    """One method of one path.

    `body` and `query` are the request's types, `answer` is the response's type with `status`. `faults` describes the
    other statuses; the API describes those of all endpoints once (see `openapi.About`). `answers` has the types of
    other statuses whose body is not an error.
    """

    method: str
    path: str
    needs: Needs
    """The roles that it needs, from `ingest.roles`."""
    handler: Handler
    summary: str
    level: Level = "M"
    status: int = 200
    body: Shape | None = None
    query: Shape | None = None
    answer: Shape | None = None
    faults: Mapping[int, str] = {}
    answers: Mapping[int, Shape] = {}
    media: str = JSON
    """The content type of the response."""
    taken: Sequence[str] = (JSON,)
    """The content types of the body."""
    optional: bool = False
    """Whether the body is optional."""
    headers: Mapping[str, RequestHeader] = {}
    """The request headers that it reads."""
    open: bool = False
    """Whether it needs no key."""
    description: str = ""
    """The OpenAPI description, in addition to the summary and the type descriptions."""


def routes(endpoints: Sequence[Endpoint]) -> list[Route]:
    """The routes, one for each path, each checking its endpoints' roles; 405 names every method of the path.

    The order of the endpoints does not matter: more specific paths are matched first.
    """
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint

    def rank(path: str) -> list[int]:
        """Sorts literal parts before parameters, those before parameters with slashes, and a path before its prefix."""
        return [2 if ":path}" in part else int(part.startswith("{")) for part in path.split("/")] + [3]

    listed: list[Route] = []
    for path in sorted(by_path, key=rank):
        applications = {method: _application(endpoint.handler) for method, endpoint in by_path[path].items()}
        needs = {method: endpoint.needs for method, endpoint in by_path[path].items()}
        listed.append(Route(path, Guarded(_ByMethod(applications), needs), methods=list(needs)))
    return listed


def open_paths(endpoints: Sequence[Endpoint]) -> frozenset[str]:
    """The paths that need no key."""
    return frozenset(endpoint.path for endpoint in endpoints if endpoint.open)


class _ByMethod:
    def __init__(self, applications: Mapping[str, ASGIApp]) -> None:
        self._applications = applications

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._applications["GET" if scope["method"] == "HEAD" else scope["method"]](scope, receive, send)


def is_function(handler: Handler) -> bool:
    """Whether a handler is a function from request to response rather than an ASGI application."""
    return iscoroutinefunction(handler) or iscoroutinefunction(getattr(handler, "__func__", None))


def direct_routes(endpoints: Iterable[Endpoint]) -> DirectRoutes:
    """The routes of paths without parameters, which the gate looks up without the router.

    The router tries one pattern after another, and two wrappers inspect each handler's response: about a tenth of a
    recall's time on the event loop. Other requests, including wrong methods, go to the router.
    """
    fixed = routes([endpoint for endpoint in endpoints if "{" not in endpoint.path])
    return {(method, route.path): route for route in fixed for method in route.methods or ()}


def _application(handler: Handler) -> ASGIApp:
    if not is_function(handler):
        return cast("ASGIApp", handler)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answer = await cast("Callable[[Request], Awaitable[Response]]", handler)(Request(scope, receive))
        await answer(scope, receive, send)

    return app
