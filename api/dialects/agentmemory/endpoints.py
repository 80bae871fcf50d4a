"""Endpoints of the agentmemory API: requests are read leniently, by the schema that describes them.

A body is JSON whatever its content type, an empty one is `{}`; unknown keys and nulls are ignored. A request that
cannot be read is 400 `{"error": text}`, a function that could not do it 200 `{"success": false, "error": text}`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.operations import AGENTMEMORY_PROFILE, REQUESTS, Schema, answer, failure, refused
from api.dialects.agentmemory.records import Record
from api.http.http import Json, body, parsed
from api.services import AGENT_HEADER, READER_HEADER, services, tool_context
from ingest.commands.decide import Caller, stated_agent
from ingest.commands.parse import MAX_VALUES, check_values, parse_object
from ingest.errors import (
    AccessDenied,
    CommandRejected,
    MalformedRequest,
    MnemologError,
    NotFound,
    ReaderUnknown,
    TooManyRequests,
)
from ingest.names import header_name
from ingest.platform.settings import Settings
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument, repaired_json
from mcp_gateway.tools.tool import Call, Tool, ToolAnswer
from projections.nouns.access import Reader
from projections.nouns.memory import BY_WORDS
from projections.nouns.session import Session
from projections.queries.views import Page, view

C = TypeVar("C")
D = TypeVar("D")
N = TypeVar("N", bound=str)
Arguments: TypeAlias = lenient.LenientArguments
MAX_LIMIT = 100
"""Results of one search."""
PAGE = 500
AGENT_CHARS, CWD_CHARS = 128, 4_096
SOURCE = BY_WORDS
"""What events written through this API name as their source."""

STEP_BYTES = 1 << 20


async def object_of(request: Request) -> Record:
    """The body, a JSON object; empty for an empty body. Raises MalformedRequest or RequestTooLarge."""
    return await parsed(await body(request), object_in)


def object_in(raw: bytes, most: int = MAX_VALUES) -> Record:
    """The JSON object that a body is; empty for an empty body. Raises MalformedRequest, or RequestTooLarge for more
    values than `most`."""
    raw = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if not raw:
        return {}
    try:
        check_values(raw, most)
        try:
            value = _in_steps(repaired_json(raw))
        except UnicodeDecodeError:
            value = _in_steps(repaired_json(raw.decode("utf-8", "replace").encode()))
    except RecursionError:
        raise MalformedRequest("the body is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise MalformedRequest(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise MalformedRequest("the body must be a JSON object")
    return cast(Record, value)


async def read_body(request: Request, schema: Schema) -> Arguments:
    """Every property of the schema as the body has it; None, or its default, for one that it does not have.

    Raises BadArgument, and what `object_of` raises.
    """
    return lenient.read(await object_of(request), schema)


def read_query(request: Request, schema: Schema) -> Arguments:
    """The same of the query string; an empty value is absent. Raises BadArgument."""
    return lenient.read({name: value for name, value in request.query_params.items() if value}, schema)


def call_of(request: Request) -> Call:
    """What the endpoints reach through, for the agent that the header names, if any."""
    return services(request).call(SOURCE, header_name(request.headers, READER_HEADER))


def settings(request: Request) -> Settings:
    """The server's settings."""
    return request.app.state.agentmemory.settings


def agent_of(arguments: Arguments) -> str:
    """The agent that `agentId` names, as far as a name may be long; empty for none."""
    return (arguments.chosen("agentId") or "")[:AGENT_CHARS]


def named_agent(arguments: Arguments) -> str:
    """The agent that `agentId` names, as it is; empty for none."""
    return arguments.get("agentId") or ""


def one_of(stated: str, choices: Collection[N], name: str) -> N:
    """The choice that a text names, in whatever case; raises BadArgument."""
    for choice in choices:
        if choice == stated.strip().lower():
            return choice
    raise BadArgument(f"{name} must be one of {', '.join(choices)}", name)


def at_least_one(arguments: Arguments, *names: str) -> None:
    """Raises BadArgument for a number below 1."""
    for name in names:
        if arguments[name] is not None and arguments[name] < 1:
            raise BadArgument(f"{name} must be at least 1", name)


def command(cls: type[C], **fields: Any) -> C:
    """A command of these fields, those left out that are None; raises CommandRejected for one over its limits."""
    return parse_object({name: value for name, value in fields.items() if value is not None}, cls)


async def reading(call: Call, agent: str = "") -> Reader:
    """The reader, once its own writes are projected; raises ReaderUnknown."""
    await call.wait_for_own_writes(agent)
    return call.reader(agent)


async def every(
    listing: Callable[..., Awaitable[Page[Record]]], reader: Reader, project: str | None, most: int
) -> AsyncIterator[Record]:
    """The items of a listing, of one project or of all, at most so many."""
    cursor: str | None = None
    count = 0
    while count < most:
        page = await listing(reader, project, cursor, PAGE)
        for item in page.items[: most - count]:
            yield item
        count += len(page.items)
        cursor = page.next
        if cursor is None:
            return


class Change(Protocol):
    """Whatever was acknowledged."""

    @property
    def position(self) -> str:
        """Up to where it is in the log; empty for nothing."""
        ...


def noted(call: Call, caller: Caller, change: Change) -> None:
    """Let the caller's next reads wait for a change."""
    call.wrote(caller.agent_id, change.position)


async def session_of(call: Call, reader: Reader, session: str, project: str | None) -> Session:
    """A session; raises NotFound."""
    located = await call.queries.sessions.one(reader, session, project)
    assert isinstance(located.document, Session)
    return located.document


async def one_session(call: Call, arguments: Arguments) -> Session:
    """The session that `sessionId` names, own writes included; raises NotFound."""
    reader = await reading(call, named_agent(arguments))
    return await session_of(call, reader, arguments.needed("sessionId"), arguments.chosen("project"))


async def documents_of(call: Call, names: Sequence[str], reader: Reader, kind: type[D]) -> list[D]:
    """Those of the named documents that are of a kind, as far as the reader can see them."""
    located = await call.queries.lookup.documents(names, reader)
    return [entry.document for entry in located if isinstance(entry.document, kind)]


async def written_document(call: Call, name: str, agent: str) -> Record | None:
    """A document that was just written, as readers get it; None if it is not projected in time, or has no reader."""
    try:
        reader = call.reader(agent)
    except ReaderUnknown:  # it is stored all the same
        return None
    await call.wait_for_own_writes(agent)
    return (await views(call, [name], reader)).get(name)


async def views(call: Call, names: Sequence[str], reader: Reader) -> dict[str, Record]:
    """Documents as readers get them, by id."""
    return {entry.document.id: view(entry.document) for entry in await call.queries.lookup.documents(names, reader)}


def _in_steps(raw: bytes, levels: int = 4) -> Any:
    """The value of JSON. A big one is decoded part by part, between which others have their turn."""
    if len(raw) <= STEP_BYTES or not levels:
        return msgspec.json.decode(raw)
    match raw.lstrip()[:1]:
        case b"{":
            fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            return {name: _in_steps(bytes(value), levels - 1) for name, value in fields.items()}
        case b"[":
            items = msgspec.json.decode(raw, type=list[msgspec.Raw])
            return [_in_steps(bytes(item), levels - 1) for item in items]
        case _:
            return msgspec.json.decode(raw)


TOOLS = {tool.name: tool for tool in AGENTMEMORY_PROFILE.tools}
_LISTED = [
    {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema} for tool in TOOLS.values()
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
        refusal = refused(tool, error)
        return _response(answer(failure(refusal.text)) if refusal.is_error else refusal)


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
        refusal = refused(tool, error)
        return Json({"error": error.message}, 400) if refusal.is_error else _response(refusal)


async def _tool_and_arguments(request: Request) -> tuple[Tool, Record]:
    stated_agent(header_name(request.headers, READER_HEADER), AGENT_HEADER)  # a fault of the request, not of the tool
    arguments = await read_body(request, REQUESTS["POST mcp/call"])
    tool = TOOLS.get(arguments["name"].strip())
    if tool is None:
        raise BadArgument(f"Unknown tool: {arguments['name'][:200]}")
    return tool, arguments["arguments"] or {}


async def _call_tool(request: Request, tool: Tool, arguments: Record) -> ToolAnswer:
    call = tool_context(request.scope, SOURCE, header_name(request.headers, READER_HEADER))
    await call.admits(tool)
    return await tool.call(call, lenient.read(arguments, tool.input_schema, tool.also, tool.instead))


def _response(answer: ToolAnswer) -> Response:
    content = {"content": [{"type": "text", "text": answer.text}]}
    return Json(content | ({"isError": True} if answer.is_error else {}))
