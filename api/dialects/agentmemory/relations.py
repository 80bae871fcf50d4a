"""Relations between memories; one memory with what it is related to; and a memory's next version, which is related."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.endpoints import (
    Arguments,
    chosen,
    command,
    count,
    door_of,
    failure,
    needed,
    success,
    written_document,
)
from api.dialects.agentmemory.records import Record, View, iso
from api.http.http import Json
from ingest.commands.requests import Relate
from ingest.errors import NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolContext
from projections.documents.access import Reader
from projections.documents.memories import Memory
from projections.operations import MemoryChanges
from projections.queries.views import view

TYPES = ("supersedes", "extends", "derives", "contradicts", "related")
MAX_RELATIONS = 1_000
MEMORY_NOT_FOUND = "memory not found"


async def list_relations(request: Request, arguments: Arguments) -> Response:
    """Relations, the newest first."""
    door = door_of(request)
    await door.caught_up()
    reader, browse, project = door.reader(), door.queries.browse, chosen(arguments, "project")
    limit = count(arguments, "limit", MAX_RELATIONS)
    if project is None:
        found = [view(one) for one in await browse.newest_relations(reader, limit)]
    else:
        found = (await browse.relations(reader, project, None, limit)).items
    shown = [relation_record(one) for one in found]
    return Json({"relations": sorted(shown, key=lambda one: one["createdAt"], reverse=True)})


async def relate(request: Request, arguments: Arguments) -> Response:
    """Relate two memories; without a confidence, what they share says how sure that is."""
    kind = needed(arguments, "type").strip().lower()
    if kind not in TYPES:
        raise BadArgument(f"type must be one of {', '.join(TYPES)}", "type")
    stated = arguments["confidence"]
    relation = command(
        Relate,
        source=needed(arguments, "sourceId"),
        target=needed(arguments, "targetId"),
        relation=kind,
        confidence=None if stated is None else float(max(0, min(1, stated))),
        agent_id=arguments["agentId"],
    )
    door = door_of(request)
    try:
        record = await _related(door, relation)
    except NotFound:
        return failure(MEMORY_NOT_FOUND)
    return success(201, relationId=record["id"], relation=record, **record)


async def get_memory(request: Request) -> Response:
    """One memory, whichever version, and what it is related to."""
    door = door_of(request)
    await door.caught_up()
    reader, name = door.reader(), request.path_params["id"]
    found = await door.queries.browse.documents([name], reader)
    if not found or not isinstance(found[0].document, Memory):
        raise NotFound(MEMORY_NOT_FOUND)
    related = dialect.related(await door.queries.browse.edges([name], reader)).get(name)
    record = await _with_earlier(door, name, reader)
    return Json({"memory": record | ({"relatedIds": related} if related else {})})


async def get_versions(request: Request) -> Response:
    """Every version of a memory, the oldest first."""
    door = door_of(request)
    await door.caught_up()
    versions = await door.queries.browse.history(request.path_params["id"], door.reader())
    return Json({"versions": dialect.versions(list(map(view, versions)))})


async def evolve(request: Request, arguments: Arguments) -> Response:
    """A memory's next version, which supersedes it."""
    door = door_of(request)
    name, agent = needed(arguments, "memoryId"), arguments["agentId"] or ""
    reader, caller = door.reader(agent), door.caller(agent)
    changes = command(
        MemoryChanges, content=needed(arguments, "newContent"), title=chosen(arguments, "newTitle"), agent_id=agent
    )
    try:
        accepted = await door.operations.memories.change(name, changes, reader, caller)
    except NotFound:
        return failure(MEMORY_NOT_FOUND)
    door.wrote(caller.agent_id, accepted.position)
    known = await written_document(door, accepted.id, agent)
    previous = known["parent_id"] if known else name
    try:
        await _related(
            door, Relate(source=accepted.id, target=previous, relation="supersedes", confidence=1.0, agent_id=agent)
        )
    except NotFound:
        pass  # forgotten meanwhile: there is nothing to relate it to
    try:
        memory = await _with_earlier(door, accepted.id, reader)
    except NotFound:  # not projected in time, or forgotten meanwhile
        memory = {"id": accepted.id, "content": changes.content}
    return success(memory=memory, previousId=previous)


async def _with_earlier(door: ToolContext, name: str, reader: Reader) -> dict[str, Any]:
    """A memory that names the versions before it; raises NotFound."""
    versions = dialect.versions(list(map(view, await door.queries.browse.history(name, reader))))
    return next(one for one in versions if one["id"] == name)


async def _related(door: ToolContext, relation: Relate) -> dict[str, Any]:
    """The relation, as it is kept; raises NotFound for an end that is not there."""
    caller = door.caller(relation.agent_id)
    accepted = await door.operations.work.relate(relation, door.reader(relation.agent_id), caller)
    door.wrote(caller.agent_id, accepted.position)
    known = await written_document(door, accepted.id, relation.agent_id)
    if known is not None:
        return relation_record(known)
    return {
        "id": accepted.id,
        "sourceId": relation.source,
        "targetId": relation.target,
        "type": relation.relation,
        "confidence": relation.confidence,
    }


def relation_record(stated: View) -> Record:
    """A relation."""
    return {
        "id": stated["id"],
        "sourceId": stated["source"],
        "targetId": stated["target"],
        "type": stated["relation"],
        "confidence": stated["confidence"],
        "createdAt": iso(stated["created_at"]),
    }
