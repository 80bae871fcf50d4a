"""The MCP tools over plain HTTP: what there is, and calls of it.

The shim calls `mcp/call` and shows an agent nothing of an answer that is no 2xx, so there every fault of a call is in
the text; direct callers of `mcp/tools` get it as a status. A tool that does not exist is 400 on both.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.answers import failed, refused
from api.dialects.agentmemory.catalog import AGENTMEMORY
from api.dialects.agentmemory.endpoints import SOURCE, read_body
from api.dialects.agentmemory.shapes import TEXT, fields
from api.http.http import Json
from api.services import AGENT_HEADER, READER_HEADER, tool_context
from ingest.commands.decide import stated_agent
from ingest.errors import AccessDenied, CommandRejected, MnemologError, NotFound, TooManyRequests
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, Tool

TOOLS = {tool.name: tool for tool in AGENTMEMORY}
CALL = fields({"name": TEXT, "arguments": {"type": "object"}}, ("name",))
_LISTED = [
    {"name": one.name, "description": one.description, "inputSchema": one.input_schema} for one in TOOLS.values()
]


async def tools(request: Request) -> Response:
    """The tools."""
    return Json({"tools": _LISTED})


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
    stated_agent(request.headers.get(READER_HEADER, ""), AGENT_HEADER)  # a fault of the request, not of the tool
    arguments = await read_body(request, CALL)
    tool = TOOLS.get(arguments["name"].strip())
    if tool is None:
        raise BadArgument(f"Unknown tool: {arguments['name'][:200]}")
    return tool, arguments["arguments"] or {}


async def _call_tool(request: Request, tool: Tool, arguments: dict[str, Any]) -> Answer:
    door = tool_context(request.scope, SOURCE, request.headers.get(READER_HEADER, ""))
    await door.admits(tool)
    return await tool.call(door, lenient.read(arguments, tool.input_schema, tool.also, tool.instead))


def _response(answer: Answer) -> Response:
    content = {"content": [{"type": "text", "text": answer.text}]}
    return Json(content | ({"isError": True} if answer.is_error else {}))
