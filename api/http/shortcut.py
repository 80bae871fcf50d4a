"""Requests for a path without parameters go past routing and past the wrappers around each handler."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.admission import admit, degrading
from api.http.endpoint import Endpoint, is_function, routes
from ingest.roles import Needs


class _Known(NamedTuple):
    route: Route
    needs: Needs
    answer: Callable[[Request], Awaitable[Response]] | None
    app: ASGIApp | None


class Shortcut:
    """ASGI middleware: does for paths without parameters what the router behind it does, with less.

    A router tries one pattern after the other, and two wrappers look at the answer of each handler: about a tenth of a
    recall's time on the event loop. Whatever is not known here, a wrong method too, is the
    router's. `handlers` are the application's, by class of error.
    """

    def __init__(self, app: ASGIApp, endpoints: Iterable[Endpoint], handlers: Mapping[Any, Any]) -> None:
        self._app = app
        self._handlers = {kind: handler for kind, handler in handlers.items() if kind is not Exception}
        self._faults = tuple(self._handlers)
        fixed = [one for one in endpoints if "{" not in one.path]
        by_path = {route.path: route for route in routes(fixed)}
        self._known = {(one.method, one.path): _known(one, by_path[one.path]) for one in fixed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = self._known.get((scope.get("method", ""), scope["path"])) if scope["type"] == "http" else None
        if known is None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = known.route, {}
        try:
            await admit(scope, known.needs)
            with degrading(scope, known.needs, send) as named:
                if known.app is not None:
                    await known.app(scope, receive, named)
                elif known.answer is not None:
                    await (await known.answer(Request(scope, receive)))(scope, receive, named)
        except self._faults as error:  # behind the beginning of an answer the server refuses another one
            handler = next(self._handlers[kind] for kind in type(error).__mro__ if kind in self._handlers)
            await (await handler(Request(scope, receive), error))(scope, receive, send)


def _known(one: Endpoint, route: Route) -> _Known:
    if is_function(one.handler):
        return _Known(route, one.needs, cast("Callable[[Request], Awaitable[Response]]", one.handler), None)
    return _Known(route, one.needs, None, cast("ASGIApp", one.handler))
