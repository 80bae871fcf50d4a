"""The MCP tools over plain HTTP. Loads the index, which listing the tools must not.

The shim calls `mcp/call` and hides from the agent any answer that is not 2xx, so every error of a call is in the text
there; direct callers of `mcp/tools` get a status. A tool that does not exist is 400 on both.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.answers import failed, refused
from api.dialects.agentmemory.endpoints import SOURCE, read_body, settings
from api.dialects.agentmemory.operations import AGENTMEMORY, CALL, PLUGIN, fields
from api.http.http import Json
from api.services import AGENT_HEADER, READER_HEADER, tool_context
from ingest.commands.decide import stated_agent
from ingest.errors import AccessDenied, CommandRejected, MnemologError, NotFound, TooManyRequests
from ingest.names import header_name
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Tool, ToolAnswer

TOOLS = {tool.name: tool for tool in (*AGENTMEMORY, *PLUGIN)}
_LISTED = [
    {"name": one.name, "description": one.description, "inputSchema": one.input_schema} for one in TOOLS.values()
]
"""Those of the plugin come last."""


async def tools(request: Request) -> Response:
    """The tools."""
    every = settings(request).agentmemory_tools == "all"
    return Json({"tools": _LISTED if every else _LISTED[: len(AGENTMEMORY)]})


async def call(request: Request) -> Response:
    """Call a tool; what goes wrong in it is in the text of the answer."""
    tool, arguments = await _tool_and_arguments(request)
    try:
        return _response(await _call_tool(request, tool, arguments))
    except (AccessDenied, TooManyRequests):
        raise
    except MnemologError as error:
        answer = refused(tool, error)
        return _response(failed(answer.text) if answer.is_error else answer)


async def call_for_status(request: Request) -> Response:
    """Call a tool; an argument at fault is a 400, what does not exist a 404."""
    tool, arguments = await _tool_and_arguments(request)
    try:
        return _response(await _call_tool(request, tool, arguments))
    except AccessDenied:
        raise
    except NotFound as error:
        return Json({"error": str(error)}, 404)
    except CommandRejected as error:
        answer = refused(tool, error)
        return Json({"error": error.message}, 400) if answer.is_error else _response(answer)


async def _tool_and_arguments(request: Request) -> tuple[Tool, dict[str, Any]]:
    stated_agent(header_name(request.headers, READER_HEADER), AGENT_HEADER)  # a fault of the request, not of the tool
    arguments = await read_body(request, fields(CALL, ("name",)))
    tool = TOOLS.get(arguments["name"].strip())
    if tool is None:
        raise BadArgument(f"Unknown tool: {arguments['name'][:200]}")
    return tool, arguments["arguments"] or {}


async def _call_tool(request: Request, tool: Tool, arguments: dict[str, Any]) -> ToolAnswer:
    call = tool_context(request.scope, SOURCE, header_name(request.headers, READER_HEADER))
    await call.admits(tool)
    return await tool.call(call, lenient.read(arguments, tool.input_schema, tool.also, tool.instead))


def _response(answer: ToolAnswer) -> Response:
    content = {"content": [{"type": "text", "text": answer.text}]}
    return Json(content | ({"isError": True} if answer.is_error else {}))
