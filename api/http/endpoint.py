"""An endpoint of an API: what answers it, and what OpenAPI, the docs page and the compatibility table say of it.

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
"""What a body, a query string or an answer is: a msgspec Struct or a type made of some, a pydantic model, or a mapping,
which is a JSON Schema as it stands."""
Level = Literal["M", "S", "V"]
"""M: a real client depends on it. S: part of the documented surface. V: only a page or a command line calls it."""
DirectRoutes: TypeAlias = Mapping[tuple[str, str], Route]
"""By method and path."""
JSON = "application/json"


class RequestHeader(NamedTuple):
    """What a request header says, and the schema of that."""

    says: str
    schema: Mapping[str, Any] = {"type": "string"}


class Endpoint(NamedTuple):
    """One method of one path.

    `body` and `query` are what is asked for, `answer` is what comes with `status`. `faults` says which other statuses
    there are, and when; what every endpoint of the API can answer, the API says once (see `openapi.About`). Of those
    that are no faults of the API's shape, `answers` has the shape.
    """

    method: str
    path: str
    needs: Needs
    """Who may use it: the roles of `ingest.roles`."""
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
    """The content type of the answer."""
    taken: Sequence[str] = (JSON,)
    """The content types of the body."""
    optional: bool = False
    """Whether the body may be left out."""
    headers: Mapping[str, RequestHeader] = {}
    """Request headers that count here."""
    open: bool = False
    """Whether it answers without a secret."""
    description: str = ""
    """What OpenAPI says beyond the summary and the descriptions of the shapes."""


def routes(endpoints: Sequence[Endpoint]) -> list[Route]:
    """The routes, one a path, each asking for what its endpoints need; 405 names every method of the path.

    The order in which endpoints are listed is of no account: what is more particular is asked first.
    """
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint

    def rank(path: str) -> list[int]:
        """A word before a parameter, that before one with slashes, and a path before its own beginning."""
        return [2 if ":path}" in part else int(part.startswith("{")) for part in path.split("/")] + [3]

    listed: list[Route] = []
    for path in sorted(by_path, key=rank):
        applications = {method: _application(endpoint.handler) for method, endpoint in by_path[path].items()}
        needs = {method: endpoint.needs for method, endpoint in by_path[path].items()}
        listed.append(Route(path, Guarded(_ByMethod(applications), needs), methods=list(needs)))
    return listed


def open_paths(endpoints: Sequence[Endpoint]) -> frozenset[str]:
    """The paths that answer without a key."""
    return frozenset(endpoint.path for endpoint in endpoints if endpoint.open)


class _ByMethod:
    def __init__(self, applications: Mapping[str, ASGIApp]) -> None:
        self._applications = applications

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._applications["GET" if scope["method"] == "HEAD" else scope["method"]](scope, receive, send)


def is_function(handler: Handler) -> bool:
    """Whether a handler makes a response of a request, and is no ASGI application."""
    return iscoroutinefunction(handler) or iscoroutinefunction(getattr(handler, "__func__", None))


def direct_routes(endpoints: Iterable[Endpoint]) -> DirectRoutes:
    """The routes of paths without parameters, which the gate finds without the router.

    A router tries one pattern after the other, and two wrappers look at the answer of each handler: about a tenth of a
    recall's time on the event loop. Whatever is not known here, including a wrong method, is the router's.
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
