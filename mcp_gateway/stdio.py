"""The stdio bridge: an MCP server on standard input and output that forwards every call to a running mnemolog.

It has no model and no index, and starts even if the server is down: the handshake is answered here, and every call is a
request of its own. Standard output carries only the protocol; logs go to stderr.
"""

import logging
import sys
from collections.abc import AsyncIterator
from io import TextIOWrapper
from typing import Any, BinaryIO, TypeVar, cast
from urllib.parse import urlencode

import anyio
import httpx2
import mcp.types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, ValidationError

from ingest.platform.addresses import proxy_options
from ingest.platform.settings import InvalidSetting
from mcp_gateway.lenient import repaired_json
from mcp_gateway.profiles import Offer, ToolProfiles, UnknownProfile, Unreachable, server_version

logger = logging.getLogger(__name__)

Result = TypeVar("Result", bound=BaseModel)

CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 60.0
"""The first recall may wait for the model to load, which is the slowest case."""


async def bridge(url: str, secret: str | None, profiles: ToolProfiles, profile: str = "") -> None:
    """Serve MCP over stdio from the mnemolog at `url` until standard input ends.

    Without a `profile`, the server's setting applies. Raises InvalidSetting for an unknown one.
    """
    try:
        offered = profiles.offer(profiles.chosen(profile))
    except UnknownProfile as error:
        raise InvalidSetting(f"MNEMOLOG_MCP_PROFILE: {error}") from None
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    timeout = httpx2.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    hooks = {"response": [_refuse_http_errors]}
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks, **proxy_options(url)) as http:
        remote = _Remote(url.rstrip("/"), http, offered, profile.strip())
        server: Server[Any] = Server(
            offered.server_name,
            version=server_version(),
            instructions=offered.instructions,
            on_list_tools=remote.list_tools,
            on_call_tool=remote.call_tool,
        )
        offered.attachments.forward(server, remote.ask)
        async with stdio_server(_RepairedInput(sys.stdin.buffer)) as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())


class _RepairedInput(anyio.AsyncFile[str]):
    """The lines of standard input, as text the SDK can parse."""

    def __init__(self, stdin: BinaryIO) -> None:
        super().__init__(TextIOWrapper(stdin, "utf-8", errors="replace"))

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in super().__aiter__():
            yield repaired_json(line.encode()).decode()


class _Remote:
    """The tools of a server that may be down, restarting, or refusing requests."""

    def __init__(self, url: str, http: httpx2.AsyncClient, offered: Offer, profile: str) -> None:
        self._url, self._http, self._offered = url, http, offered
        self._endpoint = f"{url}/mcp" + (f"?{urlencode({'profile': profile})}" if profile else "")

    async def list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The server's tools; those of this release while it does not answer, because clients list only once."""
        try:
            return await self.ask(types.ListToolsRequest(params=params), types.ListToolsResult)
        except Unreachable as error:
            logger.warning("listing this release's tools: %s", error)
            return types.ListToolsResult(tools=self._offered.declared)

    async def call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """The server's answer; a tool error that says what to do while it does not answer."""
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=params.name, arguments=params.arguments or {})
        )
        try:
            return await self.ask(request, types.CallToolResult)
        except Unreachable as error:
            logger.warning("%s: %s", params.name, error)
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)

    async def ask(self, request: types.Request[Any, Any], result: type[Result]) -> Result:
        """One request. Raises Unreachable, or the server's MCPError."""
        transport = streamable_http_client(self._endpoint, http_client=self._http)
        refused: MCPError | None = None
        try:
            # The version is pinned, so that a call costs no handshake: both ends are this project.
            async with Client(transport, mode=LATEST_MODERN_VERSION, cache=None) as client:
                try:
                    return await client.session.send_request(request, result)
                except MCPError as error:  # raised below: the transport's task group would wrap it
                    refused = error
        except (httpx2.HTTPError, ValidationError, ExceptionGroup) as error:
            raise Unreachable(self._explanation(_first(error))) from error
        assert refused is not None
        raise refused

    def _explanation(self, error: Exception) -> str:
        match error:
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return (
                    f"mnemolog is not running at {self._url}. Nothing was stored. Start it with `mnemolog up` "
                    "(or point MNEMOLOG_URL at the server), then make the same call again."
                )
            case httpx2.HTTPStatusError(response=response) if response.status_code == 401:
                sent = self._http.headers.get("authorization")
                return (
                    f"mnemolog at {self._url} requires a key, and "
                    f"{'rejected the one that was sent' if sent else 'none was sent'}. Nothing was stored. Store an "
                    "API key on this machine with `mnemolog keys store`, or set MNEMOLOG_KEY for this bridge, then "
                    "start it again."
                )
            case httpx2.HTTPStatusError(response=response) if response.status_code == 403:
                return (
                    f"mnemolog at {self._url} refused the request (HTTP 403), and nothing was stored: the access "
                    "token lacks the scope for it, or the server does not know its name in MNEMOLOG_URL."
                )
            case httpx2.HTTPStatusError(response=response):
                return f"{self._url}/mcp answered HTTP {response.status_code}: is MNEMOLOG_URL a mnemolog server?"
            case _:
                return (
                    f"mnemolog at {self._url} did not finish its answer ({type(error).__name__}). Reads can be "
                    "repeated; a write may or may not have been stored: recall it before you repeat it."
                )


async def _refuse_http_errors(response: httpx2.Response) -> None:
    # 400 carries a JSON-RPC error, which the client reads; others come from layers in front of the MCP server.
    if response.status_code > 400:
        response.raise_for_status()


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
