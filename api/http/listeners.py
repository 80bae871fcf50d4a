"""Which application answers a request: by the port it came in at, on the main port by its path."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from api.http.body_budget import BodyBudget

_AGENTMEMORY = ("/agentmemory", "/viewer", "/stream/mem-live")
_AGENTMEMORY_PAGES = frozenset({"/", "/favicon.svg", "/agent.md", "/auth.md"})


class Doors:
    """An ASGI application that hands every request to the door it came in by."""

    def __init__(self, native: Starlette, agentmemory: Starlette, by_port: Mapping[int, Starlette]) -> None:
        self.native, self.agentmemory, self.by_port = native, agentmemory, by_port
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
        door = self.by_port.get(server[1]) if server else None
        if door is None:
            door = self.agentmemory if _is_agentmemorys(path) else self.native
        await self._bodies.serve(door, scope, receive, send)


def _is_agentmemorys(path: str) -> bool:
    return path in _AGENTMEMORY_PAGES or any(path == prefix or path.startswith(f"{prefix}/") for prefix in _AGENTMEMORY)
