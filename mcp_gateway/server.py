"""The MCP servers: streamable HTTP, stateless, JSON answers, for old and new clients alike.

Dialects whose clients use sessions and streamed answers get both. The profile of a request determines its tools: the
query parameter `profile`, else the server's setting. Errors are tool errors that say what to do; only an unknown tool,
resource, prompt or profile is a protocol error, as the protocol requires. `mcp_gateway.gateway` loads this module, and
with it the MCP SDK, at the first request.
"""

import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp.types as types
import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.shared.exceptions import MCPError
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.commands.decide import stated_agent
from ingest.commands.parse import check_values, parse_object
from ingest.errors import CommandRejected, MnemologError, RequestTooLarge
from ingest.ids import new_event_id
from ingest.names import header_name, sent_name, visible, visible_data
from ingest.platform.partial import left_out_message, partial_reads
from ingest.platform.tasks import INLINE_BYTES, in_thread
from mcp_gateway import lenient
from mcp_gateway.declaring import declared, register
from mcp_gateway.events import STREAM, Events
from mcp_gateway.lenient import repaired_json
from mcp_gateway.profiles import SERVER_NAME, Offer, Sessions, ToolProfiles, UnknownProfile, server_version
from mcp_gateway.tools.tool import Call, CallOf, Tool, ToolAnswer, refusal

logger = logging.getLogger(__name__)

AGENT_HEADER = "X-Agent-Id"
"""Names the agent if the arguments do not, as on the native routes."""
DEGRADED_META = "mnemolog/degraded"
"""In the `_meta` of a result: what it lacks."""
AGENT_HEADER_BYTES = AGENT_HEADER.lower().encode()
MAX_BODY_BYTES = 8 << 20
"""One event of 1 MiB with every character escaped."""
MAX_VALUES = 50_000
"""In one message, at any depth: parsing it blocks all other requests."""
MAX_SESSIONS = 2_000
"""Open sessions of one route; each takes about 45 KiB. More are refused with 503."""
SESSION_IDLE_S = 1_800.0
"""A session ends after this long without a request or an open stream; its id then gets 404."""


class McpServers:
    """The servers of one `Gateway`. `serve` is the application at /mcp; `with_sessions` are those with sessions."""

    def __init__(
        self, profiles: ToolProfiles, default: tuple[str, ...], sessions: Iterable[Sessions], call_of: CallOf
    ) -> None:
        self._profiles, self._default, self._call_of = profiles, default, call_of
        self._events = Events(self._context_for)
        streams: Server[Any] = Server(SERVER_NAME, version=server_version())
        self._events.register(streams)
        self._streams = StreamableHTTPSessionManager(streams, stateless=True, max_request_body_size=MAX_BODY_BYTES)
        self._managers = {
            chosen: StreamableHTTPSessionManager(
                self._server(profiles.offer(chosen)),
                json_response=True,
                stateless=True,
                max_request_body_size=MAX_BODY_BYTES,
            )
            for chosen in profiles.every_choice()
        }
        self._session_managers: list[StreamableHTTPSessionManager] = []
        self.serve = RequestBodyLimitMiddleware(self._serve, MAX_BODY_BYTES)
        self.with_sessions = [self._serving_sessions(each) for each in sessions]

    def _serving_sessions(self, sessions: Sessions) -> ASGIApp:
        manager = StreamableHTTPSessionManager(
            self._server(self._profiles.offer((sessions.profile,))),
            max_request_body_size=MAX_BODY_BYTES,
            session_idle_timeout=SESSION_IDLE_S,
            max_sessions=MAX_SESSIONS,
        )
        self._session_managers.append(manager)

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            user = AuthenticatedUser(AccessToken(token="", client_id=sessions.owner(scope), scopes=[]))
            await _serve_repaired(manager, {**scope, "user": user}, receive, send)

        return RequestBodyLimitMiddleware(serve, MAX_BODY_BYTES)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve requests while the context is open."""
        async with AsyncExitStack() as stack:
            for manager in (self._streams, *self._managers.values(), *self._session_managers):
                await stack.enter_async_context(manager.run())
            yield

    def _server(self, offered: Offer) -> Server[Any]:
        """A server per choice of profiles, because its name and capabilities are fixed when it is created."""

        async def list_tools(
            context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
        ) -> types.ListToolsResult:
            return types.ListToolsResult(tools=listed)

        async def call(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
            tool = offered.tools.get(params.name)
            if tool is None:
                message = f"there is no tool {params.name!r}; tools: {', '.join(offered.tools)}"
                if offered.answers_for_any_tool:
                    return _result(ToolAnswer(message))
                raise MCPError(types.INVALID_PARAMS, message)
            return await call_tool(self._context_for(context), tool, params.arguments or {})

        tools, listed = offered.tools, [declared(tool) for tool in offered.tools.values()]
        server: Server[Any] = Server(
            offered.server_name,
            version=server_version(),
            instructions=offered.instructions,
            on_list_tools=list_tools,
            on_call_tool=call,
            get_tool_input_schema=lambda name: tools[name].input_schema if name in tools else None,
        )
        register(offered.attachments, server, self._context_for)
        if offered.server_name == SERVER_NAME:
            self._events.register(server)
        return server

    def _context_for(self, context: ServerRequestContext[Any]) -> Call:
        """The context of the HTTP request of a message: in a session, each message has its own request."""
        request = context.request
        assert isinstance(request, Request), "every message comes over HTTP"
        return self._call_of(request.scope, header_name(request.headers, AGENT_HEADER))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; its body is one message."""
        names = QueryParams(scope.get("query_string", b"")).get("profile", "")
        try:
            chosen = self._profiles.chosen(names) if names.strip() else self._default
        except UnknownProfile as error:
            await _protocol_error((await receive()).get("body", b""), str(error))(scope, receive, send)
            return
        # a client that names no type accepts any (RFC 9110)
        if not any(name == b"accept" for name, _ in scope["headers"]):
            scope = {**scope, "headers": [*scope["headers"], (b"accept", b"*/*")]}
        streams = (b"mcp-method", STREAM.encode()) in scope["headers"]  # the other managers answer JSON
        await _serve_repaired(self._streams if streams else self._managers[chosen], scope, receive, send)


async def _serve_repaired(manager: StreamableHTTPSessionManager, scope: Scope, receive: Receive, send: Send) -> None:
    """Check and repair the body, then serve the request; the body is one message."""
    message = await receive() if scope["method"] == "POST" else None
    body = message.get("body", b"") if message else b""
    try:
        for name, value in scope["headers"]:
            if name == AGENT_HEADER_BYTES:
                stated_agent(sent_name(value), AGENT_HEADER)
        checked = _checked(body) if len(body) <= INLINE_BYTES else await in_thread(_checked, body)
    except (CommandRejected, RequestTooLarge) as error:
        status = 413 if isinstance(error, RequestTooLarge) else 400
        await _protocol_error(body[:INLINE_BYTES], str(error), status)(scope, receive, send)
        return
    message = message and {**message, "body": checked}

    async def receive_repaired() -> Message:
        nonlocal message
        first, message = message, None
        return await receive() if first is None else first

    await manager.handle_request(scope, receive_repaired, send)


def _checked(body: bytes) -> bytes:
    """A message that the SDK's parsers accept; raises RequestTooLarge."""
    check_values(body, MAX_VALUES)
    return repaired_json(body)


class _RequestId(msgspec.Struct):
    id: int | str | None = None


def _protocol_error(body: bytes, message: str, status: int = 400) -> Response:
    try:
        request = msgspec.json.decode(body, type=_RequestId)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        request = _RequestId()
    error = {"jsonrpc": "2.0", "id": request.id, "error": {"code": types.INVALID_PARAMS, "message": message}}
    return Response(msgspec.json.encode(error), status, media_type="application/json")


async def call_tool(call: Call, tool: Tool, arguments: dict[str, Any]) -> types.CallToolResult:
    """Call a tool; every error is a result, with `is_error` or in the dialect's form."""
    event_id = ""
    try:
        await call.admits(tool)
        if tool.arguments is None:
            return await _answer_to(tool, call, lenient.read(arguments, tool.input_schema, tool.also, tool.instead))
        given = lenient.coerced(arguments, tool.input_schema)
        if given.get("agent_id", "") == "":
            given["agent_id"] = call.acting()
        if "event_id" in tool.input_schema["properties"]:
            if given.get("event_id", "") == "":
                given["event_id"] = new_event_id()  # chosen here, so that an error message can name it
            event_id = given["event_id"]
        return await _answer_to(tool, call, parse_object(given, tool.arguments))
    except Exception as error:
        if not isinstance(error, MnemologError):
            # A bug: the agent gets advice, and the operator the details.
            logger.exception("the tool %s failed", tool.name)
        failure = ToolAnswer(refusal(tool, event_id, error), is_error=True)
        return _result(tool.refused(tool, error) if tool.refused else failure)


async def _answer_to(tool: Tool, call: Call, arguments: Any) -> types.CallToolResult:
    if not tool.reads_only:
        return _result(await tool.call(call, arguments))
    with partial_reads() as left_out:
        result = _result(await tool.call(call, arguments))
    return result.model_copy(update={"meta": {DEGRADED_META: [left_out_message(left_out)]}}) if left_out else result


def _result(answer: ToolAnswer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=visible(answer.text))],
        structured_content=None
        if answer.data is None
        else visible_data(msgspec.to_builtins(answer.data, str_keys=True)),
        is_error=answer.is_error,
    )
