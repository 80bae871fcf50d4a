"""The MCP endpoint of an application: its routes, and when the servers behind them start.

Loading the MCP SDK takes 0.45 s of processor time and 17 MB. So it is loaded at the first request, in a thread.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ingest.errors import InvalidSetting
from ingest.platform.tasks import in_thread
from mcp_gateway.profiles import Sessions, ToolProfiles, UnknownProfile
from mcp_gateway.tools.tool import CallOf

if TYPE_CHECKING:
    from mcp_gateway.server import McpServers

logger = logging.getLogger(__name__)


class Gateway:
    """The MCP endpoint of one application; started once.

    The application checks `Host` and `Origin` headers. `default` names the profiles for requests that name none; raises
    InvalidSetting for an unknown one.
    """

    def __init__(self, profiles: ToolProfiles, default: str = "native") -> None:
        self._profiles = profiles
        try:
            self._default = profiles.chosen(default)
        except UnknownProfile as error:
            raise InvalidSetting(f"MNEMOLOG_MCP_PROFILE: {error}") from None
        self._call_of: CallOf | None = None
        self._sessions: list[Sessions] = []
        self._servers: asyncio.Future[McpServers] | None = None
        self._running: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        # POST only: without sessions there is nothing to stream on GET or to end with DELETE, and 405 says so.
        self.route = _route(self._serve, "POST")

    def with_sessions(self, profile: str, owner: Callable[[Scope], str]) -> Route:
        """A route that offers `profile` with sessions and streamed answers; before `running`.

        Only the `owner` of a session can use it; for others it does not exist.
        """
        number = len(self._sessions)
        self._sessions.append(Sessions(profile, owner))

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            servers = await self._started()
            await servers.with_sessions[number](scope, receive, send)

        return _route(serve, "GET", "POST", "DELETE")

    def connect(self, call_of: CallOf) -> None:
        """Set how the context of a request is made; before `running`."""
        self._call_of = call_of

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve requests while the context is open."""
        try:
            yield
        finally:
            self._stopping.set()
            if self._running is not None:
                await self._running

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        servers = await self._started()
        await servers.serve(scope, receive, send)

    async def _started(self) -> "McpServers":
        """The servers, started by the first request. Concurrent requests wait for the same start."""
        if self._servers is None:
            self._servers = asyncio.get_running_loop().create_future()
            # a task of their own: the SDK's task groups must be left by the task that entered them
            self._running = asyncio.create_task(self._run(self._servers), name="MCP servers")
        return await asyncio.shield(self._servers)  # a client that disconnects must not cancel it for the others

    async def _run(self, started: "asyncio.Future[McpServers]") -> None:
        """Run the servers until the application stops. A start that fails is an error of the requests that wait."""
        try:
            assert self._call_of is not None, "connect() comes before requests"
            module = await in_thread(import_module, "mcp_gateway.server")
            servers: McpServers = module.McpServers(self._profiles, self._default, self._sessions, self._call_of)
            async with servers.running():
                started.set_result(servers)
                await self._stopping.wait()
        except Exception as error:
            if started.done():
                # raised when the application stops, which may be long after
                logger.exception("the MCP servers have ended; MCP requests fail until this process is restarted")
                raise
            started.set_exception(error)
            self._servers = None  # the next request tries again


def _route(serve: ASGIApp, *methods: str) -> Route:
    """/mcp with and without a slash: a redirect would lose the body of a POST."""
    route = Route("/mcp", serve, methods=methods)
    route.app = serve  # an application, not a function of a request
    route.path_regex = re.compile("^/mcp/?$")
    return route
