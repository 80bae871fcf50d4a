"""Memories: saved, listed, deleted."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.answers import succeeded
from api.dialects.agentmemory.endpoints import (
    Arguments,
    chosen,
    command,
    door_of,
    failure,
    needed,
    object_of,
    project_of,
    reply,
    success,
    written_document,
)
from api.dialects.agentmemory.searching import alike
from api.dialects.agentmemory.shapes import (
    TEXT,
    fields,
)
from api.http.http import Json
from ingest.commands.requests import Remember
from ingest.errors import MnemologError, ProjectionBehind, ReaderUnknown
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, ToolContext
from projections.documents.access import Reader
from projections.documents.memories import Memory

MAX_LIMIT = 5_000
MAX_MEMORIES = 50_000
"""Looked at by one listing."""
MAX_RELATIONS = 5_000
"""Looked at for what the listed memories are related to."""
PAGE = 500
AGENT_CHARS = 128
REASON_CHARS = 512
DELETE = fields({"memoryIds": {"type": "array", "items": TEXT}, "reason": TEXT}, ("memoryIds",))
"""No text with commas is taken for the list here: what is deleted is gone."""
SAVE_TOOL = "memory_save"
"""The tool that an observation names which links a memory to its session."""


async def remember(request: Request, arguments: Arguments) -> Response:
    """Keep a memory."""
    if arguments["project"] is not None and not arguments["project"].strip():
        raise BadArgument("project is blank; leave it out for a memory of no project", "project")
    agent = (chosen(arguments, "agentId") or "")[:AGENT_CHARS]
    return reply(await save_memory(door_of(request), {**arguments, "agentId": agent}), 201)


async def list_memories(request: Request, arguments: Arguments) -> Response:
    """The memories, newest first, or how many there are."""
    door, agent = door_of(request), arguments["agentId"] or ""
    await door.caught_up(agent)
    reader = door.reader(agent)
    if arguments["includeOrphans"] and (only := reader.only_agent):
        everybodys = await _all(door, Reader(reader.tenant, only, reach=reader.reach))
        found = [one for one in everybodys if one["agent_id"] in ("", only)]
    else:
        found = await _all(door, reader)
    latest = [one for one in found if one["is_latest"]]
    if arguments["count"]:
        return Json({"total": len(found), "latestCount": len(latest)})
    wanted = latest if arguments["latest"] else found
    offset, limit = max(0, int(arguments["offset"])), arguments["limit"]
    most = MAX_LIMIT if limit is None else max(0, min(MAX_LIMIT, int(limit)))
    related = dialect.related(await door.queries.browse.newest_relations(reader, MAX_RELATIONS))
    shown = [dialect.memory(one, related=related.get(one["id"], ())) for one in wanted[offset : offset + most]]
    return Json({"memories": shown, "total": len(wanted), "offset": offset, "limit": None if limit is None else most})


async def delete_memories(request: Request) -> Response:
    """Forget memories, for good; what is not there is passed over."""
    sent = await object_of(request)
    if not isinstance(sent.get("memoryIds"), list):
        raise BadArgument("memoryIds must be a list", "memoryIds")
    arguments = lenient.read(sent, DELETE)
    names = list(dict.fromkeys(name for name in arguments["memoryIds"] if name.strip()))
    door = door_of(request)
    try:
        caller, reader = door.caller(), door.reader()
    except ReaderUnknown as why:
        return failure(f"nothing was deleted: {why}", deleted=0, total=len(arguments["memoryIds"]))
    await door.caught_up()
    found = await door.queries.browse.documents(names, reader)
    known = [one.document.id for one in found if isinstance(one.document, Memory)]
    try:
        forgotten = await door.operations.forgetting.documents(
            known, reader, caller, reason=(arguments["reason"] or "")[:512]
        )
    except ProjectionBehind as error:
        return failure(f"nothing was deleted, try again: {error}")
    door.wrote(caller.agent_id, forgotten.position)
    return success(deleted=forgotten.documents.get("memory", 0), total=len(arguments["memoryIds"]))


async def _all(door: ToolContext, reader: Reader) -> list[dict[str, Any]]:
    """The memories of every project, newest first."""
    found: list[dict[str, Any]] = []
    for project in {"", *await door.queries.browse.projects(reader)}:
        cursor: str | None = None
        while len(found) < MAX_MEMORIES:
            page = await door.queries.browse.memories(reader, project, cursor, PAGE)
            found += page.items
            if (cursor := page.next) is None:
                break
    return sorted(found, key=lambda one: (one["recorded_at"], one["id"]), reverse=True)


async def save_memory(door: ToolContext, arguments: Arguments) -> Answer:
    """memory_save, agent_remember: keep a memory, and say which one it resembles.

    One of a session is of the session's project unless another is named.
    """
    content = needed(arguments, "content")
    agent, session = arguments["agentId"] or "", chosen(arguments, "sessionId") or ""
    kind = dialect.kind_of(arguments["type"])
    project = chosen(arguments, "project") or (await project_of(door, session, agent) if session else "")
    remember = command(
        Remember,
        content=content,
        agent_id=agent,
        project=project,
        session_id=session,
        concepts=arguments["concepts"],
        files=arguments["files"],
        importance=dialect.STRENGTH,
        ttl_days=arguments["ttlDays"],
        **dialect.classified(kind, arguments.get("sourceObservationIds") or ()),
    )
    accepted = await door.write(remember)
    if session:
        # Its id and nothing of its content, which would outlive it here when it is forgotten.
        data = {"tool_name": SAVE_TOOL, "tool_input": {"memoryId": accepted.id, "type": kind}}
        link = dialect.observe(session, remember.project, "post_tool_use", data, agent_id=agent)
        await door.write(link)
    return succeeded(**await _saved(door, remember, accepted.id, agent, kind))


async def _saved(door: ToolContext, remember: Remember, name: str, agent: str, kind: str) -> dict[str, Any]:
    """The memory as it is kept, and the hint; one that is not projected in time, or nobody reads, as it was said."""
    known = await written_document(door, name, agent)
    if known is None:
        title = remember.content.strip().split("\n", 1)[0][:80]
        return {"memory": {"id": name, "type": kind, "title": title, "content": remember.content, "version": 1}}
    record, reader = dialect.memory(known), door.reader(agent)
    besides = frozenset([name, *record["supersedes"]])
    try:
        hint = None if record["version"] > 1 else await alike(door, reader, remember.content, remember.project, besides)
    except MnemologError:  # it is saved: a hint that cannot be had is none
        hint = None
    return {"memory": record} | ({} if hint is None else {"similarTo": hint})
