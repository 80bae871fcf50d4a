"""The MCP server: streamable HTTP at /mcp, stateless, JSON answers, for old and new clients alike.

A fault of the caller or of the store comes back as a tool error that says what to do; only an unknown tool is a
protocol error, because the protocol says so.
"""

import logging
import re
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp.types as types
import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ingest.commands.handler import CommandHandler
from ingest.commands.parse import parse_object
from ingest.errors import MnemologError
from ingest.ids import new_event_id
from mcp_gateway.last_writes import LastWrites
from mcp_gateway.surrogates import repaired_json
from mcp_gateway.tools.catalog import DECLARED, INSTRUCTIONS, SERVER_NAME, TOOLS, server_version
from mcp_gateway.tools.refusal import refusal
from mcp_gateway.tools.tool import Answer, Door, Tool
from projections.queries import Queries

logger = logging.getLogger(__name__)

AGENT_HEADER = "x-agent-id"
"""Names the agent where the arguments do not, as on the native routes."""
MAX_BODY_BYTES = 8 << 20
"""One event of 1 MiB, every character of it escaped."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Gateway:
    """The MCP door of one application; started once. `host` is the address the application listens on."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._door: Door | None = None
        server: Server[Any] = Server(
            SERVER_NAME,
            version=server_version(),
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=lambda name: TOOLS[name].input_schema if name in TOOLS else None,
        )
        self._sessions = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            security_settings=_security(host),
            max_request_body_size=MAX_BODY_BYTES,
        )
        # POST only: without sessions there is nothing to stream on GET or to end with DELETE, and 405 says so.
        app = RequestBodyLimitMiddleware(self._serve, MAX_BODY_BYTES)
        self.route = Route("/mcp", app, methods=["POST"])
        # A redirect to the other spelling would lose the body of a POST.
        self.route.path_regex = re.compile("^/mcp/?$")

    def connect(self, commands: CommandHandler, queries: Queries, tenant: str) -> None:
        """Give the tools what they reach through; before `running`."""
        self._door = Door(commands, queries, tenant, LastWrites())

    def running(self) -> AbstractAsyncContextManager[None]:
        """Serve requests while the context is open."""
        return self._sessions.run()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body comes in one piece."""

        async def receive_repaired() -> Message:
            message = await receive()
            return {**message, "body": repaired_json(message["body"])} if message.get("body") else message

        await self._sessions.handle_request(scope, receive_repaired, send)

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=DECLARED)

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; there are: {', '.join(TOOLS)}")
        assert self._door is not None, "connect() comes before requests"
        headers = getattr(context.request, "headers", {})
        return await call_tool(self._door, tool, params.arguments or {}, headers.get(AGENT_HEADER, ""))


async def call_tool(door: Door, tool: Tool, arguments: dict[str, Any], agent: str = "") -> types.CallToolResult:
    """Call a tool; every fault is a result with `is_error`. `agent` is who calls, unless the arguments say."""
    event_id = ""
    try:
        # Models write null for the arguments they leave out.
        stated = {name: value for name, value in arguments.items() if value is not None}
        stated.setdefault("agent_id", agent)
        if not tool.reads_only:
            if stated.get("event_id", "") == "":
                stated["event_id"] = new_event_id()  # chosen here, so that a refusal can name it
            event_id = stated["event_id"]
        answer = await tool.call(door, parse_object(stated, tool.arguments))
    except MnemologError as error:
        return _failed(refusal(tool, event_id, error))
    except Exception as error:  # a fault of ours: the agent is told what it can do, the operator finds the rest here
        logger.exception("the tool %s failed", tool.name)
        return _failed(refusal(tool, event_id, error))
    return _succeeded(answer)


def _succeeded(answer: Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=answer.text)],
        structured_content=msgspec.to_builtins(answer.data, str_keys=True),
    )


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _security(host: str) -> TransportSecuritySettings:
    """Refuse pages of other sites that reach a server on loopback by rebinding a name (DNS) to it.

    A server that listens elsewhere goes by names only its operator knows, so nothing is refused there.
    """
    if host not in ("127.0.0.1", "localhost", "::1"):
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    hosts = [f"{name}{port}" for name in LOOPBACK for port in ("", ":*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
