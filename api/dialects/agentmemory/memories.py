"""Memories: remembered, listed, deleted."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import (
    BOOLEAN,
    NAMES,
    NUMBER,
    TEXT,
    asked,
    asked_in_query,
    door,
    failed,
    object_of,
    otherwise,
    read,
    reply,
    succeeded,
)
from api.dialects.agentmemory.mcp.asking import chosen
from api.dialects.agentmemory.mcp.memories import save
from api.dialects.agentmemory.shapes import COUNT, MEMORY, OBJECT, fields, listed, outcome, record
from api.http.endpoint import Endpoint
from api.http.http import Json
from ingest.errors import ProjectionBehind, ReaderUnknown
from ingest.roles import READ, READ_WRITE
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Door
from projections.documents.access import Reader
from projections.documents.memories import Memory

MAX_LIMIT = 5_000
MAX_MEMORIES = 50_000
"""Looked at by one listing."""
MAX_RELATIONS = 5_000
"""Looked at for what the listed memories are related to."""
PAGE = 500
AGENT_CHARS = 128

REMEMBER = {
    "content": TEXT,
    "type": TEXT,
    "concepts": NAMES,
    "files": NAMES,
    "project": TEXT,
    "agentId": TEXT,
    "sessionId": TEXT,
    "ttlDays": NUMBER,
    "sourceObservationIds": NAMES,
}
LIST = {
    "latest": BOOLEAN,
    "agentId": TEXT,
    "includeOrphans": BOOLEAN,
    "count": BOOLEAN,
    "limit": NUMBER,
    "offset": otherwise(NUMBER, 0),
}
DELETE = {"memoryIds": {"type": "array", "items": TEXT}, "reason": TEXT}
"""No text with commas is taken for the list here: what is deleted is gone."""


async def remember(request: Request) -> Response:
    """Keep a memory."""
    said = await asked(request, REMEMBER, ("content",))
    if said["project"] is not None and not said["project"].strip():
        raise BadArgument("project is blank; leave it out for a memory of no project", "project")
    said["agentId"] = (chosen(said, "agentId") or "")[:AGENT_CHARS]
    return reply(await save(door(request), said), 201)


async def memories(request: Request) -> Response:
    """The memories, newest first, or how many there are."""
    said = asked_in_query(request, LIST)
    through, agent = door(request), said["agentId"] or ""
    await through.caught_up(agent)
    reader = through.reader(agent)
    if said["includeOrphans"] and (only := reader.only_agent):
        everybodys = await _all(through, Reader(reader.tenant, only, reach=reader.reach))
        found = [one for one in everybodys if one["agent_id"] in ("", only)]
    else:
        found = await _all(through, reader)
    latest = [one for one in found if one["is_latest"]]
    if said["count"]:
        return Json({"total": len(found), "latestCount": len(latest)})
    wanted = latest if said["latest"] else found
    offset, limit = max(0, int(said["offset"])), said["limit"]
    most = MAX_LIMIT if limit is None else max(0, min(MAX_LIMIT, int(limit)))
    related = dialect.related(await through.queries.browse.newest_relations(reader, MAX_RELATIONS))
    shown = [dialect.memory(one, related=related.get(one["id"], ())) for one in wanted[offset : offset + most]]
    return Json({"memories": shown, "total": len(wanted), "offset": offset, "limit": None if limit is None else most})


async def delete(request: Request) -> Response:
    """Forget memories, for good; what is not there is passed over."""
    given = await object_of(request)
    if not isinstance(given.get("memoryIds"), list):
        raise BadArgument("memoryIds must be a list", "memoryIds")
    said = read(given, DELETE, ("memoryIds",))
    names = list(dict.fromkeys(name for name in said["memoryIds"] if name.strip()))
    through = door(request)
    try:
        caller, reader = through.caller(), through.reader()
    except ReaderUnknown as why:
        return failed(f"nothing was deleted: {why}", deleted=0, total=len(said["memoryIds"]))
    await through.caught_up()
    found = await through.queries.browse.documents(names, reader)
    known = [one.document.id for one in found if isinstance(one.document, Memory)]
    try:
        gone = await through.operations.forgetting.documents(known, reader, caller, reason=(said["reason"] or "")[:512])
    except ProjectionBehind as behind:
        return failed(f"nothing was deleted, try again: {behind}")
    through.wrote(caller.agent_id, gone.position)
    return succeeded(deleted=gone.documents.get("memory", 0), total=len(said["memoryIds"]))


async def _all(through: Door, reader: Reader) -> list[dict[str, Any]]:
    """The memories of every project, newest first."""
    found: list[dict[str, Any]] = []
    for project in {"", *await through.queries.browse.projects(reader)}:
        cursor: str | None = None
        while len(found) < MAX_MEMORIES:
            page = await through.queries.browse.memories(reader, project, cursor, PAGE)
            found += page.items
            if (cursor := page.next) is None:
                break
    return sorted(found, key=lambda one: (one["recorded_at"], one["id"]), reverse=True)


ENDPOINTS = [
    Endpoint(
        "POST",
        "/agentmemory/remember",
        READ_WRITE,
        remember,
        "Keep a memory.",
        status=201,
        body=fields(REMEMBER, ("content",)),
        answer=outcome({"memory": MEMORY}, {"similarTo": OBJECT}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/agent/remember",
        READ_WRITE,
        remember,
        "Keep a memory.",
        "S",
        201,
        body=fields(REMEMBER, ("content",)),
        answer=outcome({"memory": MEMORY}, {"similarTo": OBJECT}),
    ),
    Endpoint(
        "DELETE",
        "/agentmemory/governance/memories",
        READ_WRITE,
        delete,
        "Forget memories, for good.",
        body=fields(DELETE, ("memoryIds",)),
        answer=outcome({"deleted": COUNT, "total": COUNT}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/memories",
        READ,
        memories,
        "The memories, newest first, or how many there are.",
        query=fields(LIST),
        answer={
            "anyOf": [
                record(
                    {
                        "memories": listed(MEMORY),
                        "total": COUNT,
                        "offset": COUNT,
                        "limit": {"type": ["integer", "null"]},
                    }
                ),
                record({"total": COUNT, "latestCount": COUNT}),
            ]
        },
    ),
]
