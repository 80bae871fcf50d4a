"""Relations between memories; one memory with what it is related to; and a memory's next version, which is related."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import (
    NUMBER,
    TEXT,
    Properties,
    asked,
    asked_in_query,
    door,
    failed,
    otherwise,
    succeeded,
)
from api.dialects.agentmemory.mcp.asking import chosen, command, count, needed, written_document
from api.dialects.agentmemory.shapes import MEMORY, OBJECT, RELATION, fields, listed, outcome, record
from api.http.endpoint import Endpoint
from api.http.http import Json
from ingest.commands.requests import Relate
from ingest.errors import NotFound
from ingest.roles import READ, READ_WRITE
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Door
from projections.documents.access import Reader
from projections.documents.memories import Memory
from projections.operations import MemoryChanges
from projections.queries.views import view

TYPES = ("supersedes", "extends", "derives", "contradicts", "related")
MAX_RELATIONS = 1_000
MEMORY_NOT_FOUND = "memory not found"
LIST_RELATIONS_FIELDS: Properties = {"project": TEXT, "limit": otherwise(NUMBER, MAX_RELATIONS)}
RELATE_FIELDS: Properties = {**dict.fromkeys(("sourceId", "targetId", "type", "agentId"), TEXT), "confidence": NUMBER}
EVOLVE_FIELDS: Properties = dict.fromkeys(("memoryId", "newContent", "newTitle", "agentId"), TEXT)


async def list_relations(request: Request) -> Response:
    """Relations, the newest first."""
    said, through = asked_in_query(request, LIST_RELATIONS_FIELDS), door(request)
    await through.caught_up()
    reader, browse, project = through.reader(), through.queries.browse, chosen(said, "project")
    limit = count(said, "limit", MAX_RELATIONS)
    if project is None:
        found = [view(one) for one in await browse.newest_relations(reader, limit)]
    else:
        found = (await browse.relations(reader, project, None, limit)).items
    shown = [dialect.relation(one) for one in found]
    return Json({"relations": sorted(shown, key=lambda one: one["createdAt"], reverse=True)})


async def relate(request: Request) -> Response:
    """Relate two memories; without a confidence, what they share says how sure that is."""
    said = await asked(request, RELATE_FIELDS, ("sourceId", "targetId", "type"))
    kind = needed(said, "type").strip().lower()
    if kind not in TYPES:
        raise BadArgument(f"type must be one of {', '.join(TYPES)}", "type")
    stated = said["confidence"]
    relation = command(
        Relate,
        source=needed(said, "sourceId"),
        target=needed(said, "targetId"),
        relation=kind,
        confidence=None if stated is None else float(max(0, min(1, stated))),
        agent_id=said["agentId"],
    )
    through = door(request)
    try:
        record = await _related(through, relation)
    except NotFound:
        return failed(MEMORY_NOT_FOUND)
    return succeeded(201, relationId=record["id"], relation=record, **record)


async def get_memory(request: Request) -> Response:
    """One memory, whichever version, and what it is related to."""
    through = door(request)
    await through.caught_up()
    reader, name = through.reader(), request.path_params["id"]
    found = await through.queries.browse.documents([name], reader)
    if not found or not isinstance(found[0].document, Memory):
        raise NotFound(MEMORY_NOT_FOUND)
    related = dialect.related(await through.queries.browse.edges([name], reader)).get(name)
    record = await _with_earlier(through, name, reader)
    return Json({"memory": record | ({"relatedIds": related} if related else {})})


async def get_versions(request: Request) -> Response:
    """Every version of a memory, the oldest first."""
    through = door(request)
    await through.caught_up()
    versions = await through.queries.browse.history(request.path_params["id"], through.reader())
    return Json({"versions": dialect.versions(list(map(view, versions)))})


async def evolve(request: Request) -> Response:
    """A memory's next version, which supersedes it."""
    said, through = await asked(request, EVOLVE_FIELDS, ("memoryId", "newContent")), door(request)
    name, agent = needed(said, "memoryId"), said["agentId"] or ""
    reader, caller = through.reader(agent), through.caller(agent)
    changes = command(MemoryChanges, content=needed(said, "newContent"), title=chosen(said, "newTitle"), agent_id=agent)
    try:
        accepted = await through.operations.memories.change(name, changes, reader, caller)
    except NotFound:
        return failed(MEMORY_NOT_FOUND)
    through.wrote(caller.agent_id, accepted.position)
    known = await written_document(through, accepted.id, agent)
    previous = known["parent_id"] if known else name
    try:
        await _related(
            through, Relate(source=accepted.id, target=previous, relation="supersedes", confidence=1.0, agent_id=agent)
        )
    except NotFound:
        pass  # forgotten meanwhile: there is nothing to relate it to
    try:
        memory = await _with_earlier(through, accepted.id, reader)
    except NotFound:  # not projected in time, or forgotten meanwhile
        memory = {"id": accepted.id, "content": changes.content}
    return succeeded(memory=memory, previousId=previous)


async def _with_earlier(through: Door, name: str, reader: Reader) -> dict[str, Any]:
    """A memory that names the versions before it; raises NotFound."""
    told = dialect.versions(list(map(view, await through.queries.browse.history(name, reader))))
    return next(one for one in told if one["id"] == name)


async def _related(through: Door, relation: Relate) -> dict[str, Any]:
    """The relation, as it is kept; raises NotFound for an end that is not there."""
    caller = through.caller(relation.agent_id)
    accepted = await through.operations.work.relate(relation, through.reader(relation.agent_id), caller)
    through.wrote(caller.agent_id, accepted.position)
    known = await written_document(through, accepted.id, relation.agent_id)
    if known is not None:
        return dialect.relation(known)
    return {
        "id": accepted.id,
        "sourceId": relation.source,
        "targetId": relation.target,
        "type": relation.relation,
        "confidence": relation.confidence,
    }


_NO_MEMORY = {404: "There is no such memory."}
ENDPOINTS = [
    Endpoint(
        "GET",
        "/agentmemory/relations",
        READ,
        list_relations,
        "Relations, the newest first.",
        "S",
        query=fields(LIST_RELATIONS_FIELDS),
        answer=record({"relations": listed(RELATION)}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/relations",
        READ_WRITE,
        relate,
        "Relate two memories.",
        "S",
        201,
        faults={400: "An end or the type is missing, or there is no such type."},
        body=fields(RELATE_FIELDS, ("sourceId", "targetId", "type")),
        answer=outcome({"relationId": TEXT, "relation": RELATION, **RELATION["properties"]}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/evolve",
        READ_WRITE,
        evolve,
        "A memory's next version.",
        "S",
        faults={400: "The memory or its new content is missing."},
        body=fields(EVOLVE_FIELDS, ("memoryId", "newContent")),
        answer=outcome({"memory": OBJECT, "previousId": TEXT}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/memories/{id}",
        READ,
        get_memory,
        "One memory.",
        "V",
        faults=_NO_MEMORY,
        answer=record({"memory": MEMORY}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/memories/{id}/versions",
        READ,
        get_versions,
        "Every version of a memory, the oldest first.",
        "V",
        faults=_NO_MEMORY,
        answer=record({"versions": listed(MEMORY)}),
    ),
]
