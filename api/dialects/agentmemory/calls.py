"""The MCP tools over plain HTTP; and what resources and prompts say. Loads the index, which listing them must not.

The shim calls `mcp/call` and shows an agent nothing of an answer that is no 2xx, so there every fault of a call is in
the text; direct callers of `mcp/tools` get it as a status. A tool that does not exist is 400 on both. A prompt becomes
one message with what is known filled in.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.answers import failed, refused
from api.dialects.agentmemory.catalog import AGENTMEMORY, PLUGIN
from api.dialects.agentmemory.endpoints import SOURCE, read_body, settings
from api.dialects.agentmemory.knowledge import profile_record
from api.dialects.agentmemory.sessions import session_records
from api.dialects.agentmemory.shapes import TEXT, fields
from api.http.http import Json
from api.services import AGENT_HEADER, READER_HEADER, tool_context
from ingest.commands.decide import stated_agent
from ingest.errors import AccessDenied, CommandRejected, MnemologError, NotFound, TooManyRequests
from ingest.names import header_name, marked
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument, LenientArguments
from mcp_gateway.tools.catalog import server_version
from mcp_gateway.tools.tool import Tool, ToolAnswer, ToolContext
from projections.queries.recall import RecallRequest
from projections.queries.views import view

TOOLS = {tool.name: tool for tool in (*AGENTMEMORY, *PLUGIN)}
CALL = fields({"name": TEXT, "arguments": {"type": "object"}}, ("name",))
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
    arguments = await read_body(request, CALL)
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


SCHEME = "agentmemory://"
LATEST, RECENT = 20, 10
MANY = 500
RECALLED = 10
PATTERNS = 20
SHOWN_CHARACTERS = 600
"""Of one thing that is told."""
QUERY_CHARS = 20_000
OBSERVATIONS = 20


async def read(call: ToolContext, uri: str) -> str:
    """The JSON text of a resource; raises NotFound for an unknown one, BadArgument for a name that is no text."""
    await call.wait_for_own_writes()
    if uri in _FIXED:
        return _json(await _FIXED[uri](call))
    for tail, answer in _OF_PROJECT.items():
        lead = f"{SCHEME}project/"
        if uri.startswith(lead) and uri.endswith(tail) and (name := uri[len(lead) : -len(tail)]):
            return _json(await answer(call, _decoded(name)))
    raise NotFound(f"there is no resource {uri}")


async def _status(call: ToolContext) -> Any:
    reader = call.reader()
    page = await call.queries.sessions.page(reader, None, None, MANY)
    totals = await call.queries.graph.stats(reader, None)
    return {
        "status": "ok",
        "service": "agentmemory",
        "version": server_version() or "0.0.0",
        "sessionCount": len(page.items),
        "sessionCountIsMore": page.next is not None,
        "memoryCount": totals.nodes.get("memory", 0),
    }


async def _latest(call: ToolContext) -> Any:
    reader = call.reader()
    found: list[dict[str, Any]] = []
    for project in await call.queries.lookup.projects(reader):
        page = await call.queries.memories.page(reader, project, None, MANY, latest=True)
        found += page.items[:LATEST]
    newest = sorted(found, key=lambda one: one["recorded_at"], reverse=True)[:LATEST]
    return {"memories": [dialect.memory(one) for one in newest]}


async def _graph(call: ToolContext) -> Any:
    totals = await call.queries.graph.stats(call.reader(), None)
    nodes, edges = sum(totals.nodes.values()), sum(totals.edges.values())
    return {"totalNodes": nodes, "totalEdges": edges, "nodesByType": totals.nodes, "edgesByType": totals.edges}


async def _profile(call: ToolContext, project: str) -> Any:
    known, cached = await call.queries.profiles.of(call.reader(), project)
    if known is None:
        return {"profile": None, "reason": "no_sessions"}
    return {"profile": profile_record(known), "cached": cached}


async def _recent(call: ToolContext, project: str) -> Any:
    reader = call.reader()
    page = await call.queries.sessions.page(reader, project, None, RECENT)
    return {"project": project, "sessions": await session_records(call, reader, page.items)}


def _decoded(name: str) -> str:
    """A project's name, percent-encoded as it is in an address."""
    for part in name.split("%")[1:]:
        if len(part) < 2 or not all(digit in "0123456789abcdefABCDEF" for digit in part[:2]):
            raise BadArgument(f"{name!r} is not percent-encoded", "uri")
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        raise BadArgument(f"{name!r} is not percent-encoded UTF-8", "uri") from None


def _json(record: Any) -> str:
    return msgspec.json.encode(record).decode()


async def message(call: ToolContext, name: str, arguments: Mapping[str, str]) -> str:
    """The message of a prompt; raises BadArgument."""
    await call.wait_for_own_writes()
    return await _MESSAGES[name](call, arguments)


async def _recall_context(call: ToolContext, arguments: Mapping[str, str]) -> str:
    task = LenientArguments({"task_description": None} | dict(arguments)).needed("task_description")
    found = await call.queries.recall(RecallRequest(query=task[:QUERY_CHARS], limit=RECALLED), call.reader())
    known = [f"- [{one.kind}] {one.title}: {_shown(one.content)}" for one in found.results]
    shown = marked("mnemolog-recall", known) if known else ["(nothing)"]
    return "\n".join([f"Task: {task}", "", "What is known from earlier work:", *shown])


async def _session_handoff(call: ToolContext, arguments: Mapping[str, str]) -> str:
    name = LenientArguments({"session_id": None} | dict(arguments)).needed("session_id")
    reader, queries = call.reader(), call.queries
    located = await queries.sessions.one(reader, name, None)
    session = view(located.document)
    summary = await queries.summaries.of_session(reader, located)
    seen, project = session["observation_count"], session["project"]
    lines = [f"Take over session {name} of project {project!r} ({seen} observations)."]
    if summary is not None:
        lines += ["", summary.title, summary.narrative, *(f"- decided: {one}" for one in summary.decisions)]
    else:
        page = await queries.sessions.observations(reader, name, project, None, OBSERVATIONS, newest_first=True)
        lines += ["", "What was observed last:"]
        lines += [f"- {one['title']}: {_shown(one['narrative'])}" for one in reversed(page.items)]
    open_ones = list((await queries.actions.open_work(reader, project)).actions.values())
    lines += ["", "Open actions:"] if open_ones else []
    return "\n".join([*lines, *(f"- {one.title} ({one.status})" for one in open_ones[:PATTERNS])])


async def _detect_patterns(call: ToolContext, arguments: Mapping[str, str]) -> str:
    reader, project = call.reader(), arguments.get("project") or ""
    names = [project] if project else await call.queries.lookup.projects(reader)
    lines = [f"Find what recurs in the work on {project or 'all projects'}, and what to do about it."]
    for name in names[:PATTERNS]:
        known, _ = await call.queries.profiles.of(reader, name)
        if known is not None:
            profile = profile_record(known)
            concepts = ", ".join(f"{one['concept']} ({one['frequency']})" for one in profile["topConcepts"])
            lines += ["", f"Project {name or '(none)'}: {concepts or 'no concepts yet'}"]
            lines += [f"- error: {one}" for one in profile["commonErrors"]]
            lines += [f"- {one}" for one in profile["conventions"]]
    return "\n".join(lines)


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


_FIXED: dict[str, Callable[[ToolContext], Awaitable[Any]]] = {
    f"{SCHEME}status": _status,
    f"{SCHEME}memories/latest": _latest,
    f"{SCHEME}graph/stats": _graph,
}
_OF_PROJECT: dict[str, Callable[[ToolContext, str], Awaitable[Any]]] = {"/profile": _profile, "/recent": _recent}
_MESSAGES: dict[str, Callable[[ToolContext, Mapping[str, str]], Awaitable[str]]] = {
    "recall_context": _recall_context,
    "session_handoff": _session_handoff,
    "detect_patterns": _detect_patterns,
}
