"""Which application answers a request: by the port it came in at, on the main port by its path."""

from collections.abc import Mapping, Sequence

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from api.dialects.dialect import MainPort
from api.http.body_budget import BodyBudget


class Listeners:
    """An ASGI application that hands every request to the application that it is for.

    What none of `by_port` and `on_main_port` takes is the native API's.
    """

    def __init__(
        self, native: Starlette, on_main_port: Sequence[tuple[MainPort, Starlette]], by_port: Mapping[int, Starlette]
    ) -> None:
        self.native, self.on_main_port, self.by_port = native, on_main_port, by_port
        self._bodies = BodyBudget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.native(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith("//"):  # clients append to a base URL that ends in a slash
            path = "/" + path.lstrip("/")
            scope = {**scope, "path": path, "raw_path": path.encode()}
        server = scope.get("server")
        app = self.by_port.get(server[1]) if server else None
        if app is None:
            app = next((app for paths, app in self.on_main_port if paths.serves(path)), self.native)
        await self._bodies.serve(app, scope, receive, send)
