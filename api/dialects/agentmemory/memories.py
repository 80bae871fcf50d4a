"""Memories: saved, listed, deleted; their versions, and how they are related."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.endpoints import (
    SOURCE,
    Arguments,
    agent_of,
    call_of,
    command,
    failure,
    object_of,
    project_of,
    reply,
    success,
    written_document,
)
from api.dialects.agentmemory.operations import DELETE, MAX_LISTED_RELATIONS, failed, fields, succeeded
from api.dialects.agentmemory.records import Record, View, renamed
from api.dialects.agentmemory.searching import alike
from api.http.http import Json
from api.importing.sessions import hook_observation
from ingest.commands.decide import Relate, Remember
from ingest.errors import MnemologError, NotFound, ProjectionBehind, ReaderUnknown
from ingest.platform.partial import check_missing
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call, ToolAnswer
from projections.documents.access import Reader
from projections.documents.memories import Memory
from projections.operations.memories import MemoryChanges
from projections.queries.views import view

MAX_LIMIT = 5_000
MAX_MEMORIES = 50_000
"""Looked at by one listing."""
MAX_RELATIONS = 5_000
"""Looked at for what the listed memories are related to."""
PAGE = 500
REASON_CHARS = 512
SAVE_TOOL = "memory_save"
"""The tool that an observation names which links a memory to its session."""


async def remember(request: Request, arguments: Arguments) -> Response:
    """Keep a memory."""
    if arguments["project"] is not None and not arguments["project"].strip():
        raise BadArgument("project is blank; leave it out for a memory of no project", "project")
    agent = agent_of(arguments)
    return reply(await save_memory(call_of(request), arguments | {"agentId": agent}), 201)


async def list_memories(request: Request, arguments: Arguments) -> Response:
    """The memories, newest first, or how many there are."""
    call, agent = call_of(request), arguments["agentId"] or ""
    await call.wait_for_own_writes(agent)
    reader = call.reader(agent)
    if arguments["includeOrphans"] and (only := reader.only_agent):
        all_open_actions = await _all(call, Reader(reader.tenant, only, key_scope=reader.key_scope))
        found = [one for one in all_open_actions if one["agent_id"] in ("", only)]
    else:
        found = await _all(call, reader)
    latest = [one for one in found if one["is_latest"]]
    if arguments["count"]:
        return Json({"total": len(found), "latestCount": len(latest)})
    wanted = latest if arguments["latest"] else found
    offset, limit = max(0, int(arguments["offset"])), arguments["limit"]
    most = MAX_LIMIT if limit is None else max(0, min(MAX_LIMIT, int(limit)))
    related = dialect.related(await call.queries.relations.newest(reader, MAX_RELATIONS))
    shown = [dialect.memory(one, related=related.get(one["id"], ())) for one in wanted[offset : offset + most]]
    return Json({"memories": shown, "total": len(wanted), "offset": offset, "limit": None if limit is None else most})


async def delete_memories(request: Request) -> Response:
    """Forget memories, for good; what is not there is passed over."""
    sent = await object_of(request)
    if not isinstance(sent.get("memoryIds"), list):
        raise BadArgument("memoryIds must be a list", "memoryIds")
    return reply(await governance_delete(call_of(request), lenient.read(sent, fields(DELETE, ("memoryIds",)))))


async def governance_delete(call: Call, arguments: Arguments) -> ToolAnswer:
    """memory_governance_delete: forget memories, for good; an id that is unknown is skipped."""
    names = list(dict.fromkeys(name for name in arguments["memoryIds"] if name.strip()))
    try:
        caller, reader = call.caller(), call.reader()
    except ReaderUnknown as why:
        return failed(f"nothing was deleted: {why}", deleted=0, total=len(arguments["memoryIds"]))
    await call.wait_for_own_writes()
    found = await call.queries.lookup.documents(names, reader)
    known = [one.document.id for one in found if isinstance(one.document, Memory)]
    try:
        forgotten = await call.operations.forgetting.documents(
            known, reader, caller, reason=(arguments["reason"] or "")[:512]
        )
    except ProjectionBehind as error:
        return failed(f"nothing was deleted, try again: {error}")
    call.wrote(caller.agent_id, forgotten.position)
    return succeeded(deleted=forgotten.documents.get("memory", 0), total=len(arguments["memoryIds"]))


async def _all(call: Call, reader: Reader) -> list[dict[str, Any]]:
    """The memories of every project, newest first."""
    found: list[dict[str, Any]] = []
    for project in {"", *await call.queries.lookup.projects(reader)}:
        cursor: str | None = None
        while len(found) < MAX_MEMORIES:
            page = await call.queries.memories.page(reader, project, cursor, PAGE)
            found += page.items
            if (cursor := page.next) is None:
                break
    return sorted(found, key=lambda one: (one["recorded_at"], one["id"]), reverse=True)


async def save_memory(call: Call, arguments: Arguments) -> ToolAnswer:
    """memory_save, agent_remember: keep a memory, and say which one it resembles.

    One of a session is of the session's project unless another is named.
    """
    content = arguments.needed("content")
    agent, session = arguments["agentId"] or "", arguments.chosen("sessionId") or ""
    kind = dialect.kind_of(arguments["type"])
    project = arguments.chosen("project") or (await project_of(call, session, agent) if session else "")
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
    # as its REST route does, also where the tool is called over MCP: memories of this source supersede by words
    accepted = await call._replace(source=SOURCE).write(remember)
    if session:
        # Its id and nothing of its content, which would outlive it here when it is forgotten.
        data = {"tool_name": SAVE_TOOL, "tool_input": {"memoryId": accepted.id, "type": kind}}
        link = hook_observation(session, remember.project, "post_tool_use", data, agent_id=agent)
        await call.write(link)
    return succeeded(**await _saved(call, remember, accepted.id, agent, kind))


async def _saved(call: Call, remember: Remember, name: str, agent: str, kind: str) -> dict[str, Any]:
    """The memory as it is kept, and the hint; one that is not projected in time, or nobody reads, as it was said."""
    known = await written_document(call, name, agent)
    if known is None:
        title = remember.content.strip().split("\n", 1)[0][:80]
        return {"memory": {"id": name, "type": kind, "title": title, "content": remember.content, "version": 1}}
    record, reader = dialect.memory(known), call.reader(agent)
    besides = frozenset([name, *record["supersedes"]])
    try:
        hint = None if record["version"] > 1 else await alike(call, reader, remember.content, remember.project, besides)
    except MnemologError:  # it is saved: a hint that cannot be had is none
        hint = None
    return {"memory": record} | ({} if hint is None else {"similarTo": hint})


TYPES = ("supersedes", "extends", "derives", "contradicts", "related")
MEMORY_NOT_FOUND = "memory not found"


async def list_relations(request: Request, arguments: Arguments) -> Response:
    """Relations, the newest first."""
    call = call_of(request)
    await call.wait_for_own_writes()
    reader, queries, project = call.reader(), call.queries, arguments.chosen("project")
    limit = arguments.count("limit", MAX_LISTED_RELATIONS)
    if project is None:
        found = [view(one) for one in await queries.relations.newest(reader, limit)]
    else:
        found = (await queries.relations.page(reader, project, None, limit)).items
    shown = [relation_record(one) for one in found]
    return Json({"relations": sorted(shown, key=lambda one: one["createdAt"], reverse=True)})


async def relate(request: Request, arguments: Arguments) -> Response:
    """Relate two memories; without a confidence, what they share says how sure that is."""
    kind = arguments.needed("type").strip().lower()
    if kind not in TYPES:
        raise BadArgument(f"type must be one of {', '.join(TYPES)}", "type")
    stated = arguments["confidence"]
    relation = command(
        Relate,
        source=arguments.needed("sourceId"),
        target=arguments.needed("targetId"),
        relation=kind,
        confidence=None if stated is None else float(max(0, min(1, stated))),
        agent_id=arguments["agentId"],
    )
    call = call_of(request)
    try:
        record = await _related(call, relation)
    except NotFound:
        return failure(MEMORY_NOT_FOUND)
    return success(201, relationId=record["id"], relation=record, **record)


async def get_memory(request: Request) -> Response:
    """One memory, whichever version, and what it is related to."""
    call = call_of(request)
    await call.wait_for_own_writes()
    reader, name = call.reader(), request.path_params["id"]
    found = await call.queries.lookup.documents([name], reader)
    if not found or not isinstance(found[0].document, Memory):
        check_missing("such a memory")
        raise NotFound(MEMORY_NOT_FOUND)
    related = dialect.related(await call.queries.relations.of_documents([name], reader)).get(name)
    record = await _with_earlier(call, name, reader)
    return Json({"memory": record | ({"relatedIds": related} if related else {})})


async def evolve(request: Request, arguments: Arguments) -> Response:
    """A memory's next version, which supersedes it."""
    call = call_of(request)
    name, agent = arguments.needed("memoryId"), arguments["agentId"] or ""
    reader, caller = call.reader(agent), call.caller(agent)
    changes = command(
        MemoryChanges, content=arguments.needed("newContent"), title=arguments.chosen("newTitle"), agent_id=agent
    )
    try:
        accepted = await call.operations.memories.change(name, changes, reader, caller)
    except NotFound:
        return failure(MEMORY_NOT_FOUND)
    call.wrote(caller.agent_id, accepted.position)
    known = await written_document(call, accepted.id, agent)
    previous = known["parent_id"] if known else name
    try:
        await _related(
            call, Relate(source=accepted.id, target=previous, relation="supersedes", confidence=1.0, agent_id=agent)
        )
    except NotFound:
        pass  # forgotten meanwhile: there is nothing to relate it to
    try:
        memory = await _with_earlier(call, accepted.id, reader)
    except NotFound:  # not projected in time, or forgotten meanwhile
        memory = {"id": accepted.id, "content": changes.content}
    return success(memory=memory, previousId=previous)


async def _with_earlier(call: Call, name: str, reader: Reader) -> dict[str, Any]:
    """A memory that names the versions before it; raises NotFound."""
    versions = dialect.versions(list(map(view, await call.queries.memories.history(name, reader))))
    return next(one for one in versions if one["id"] == name)


async def _related(call: Call, relation: Relate) -> dict[str, Any]:
    """The relation, as it is kept; raises NotFound for an end that is not there."""
    caller = call.caller(relation.agent_id)
    accepted = await call.operations.work.relate(relation, call.reader(relation.agent_id), caller)
    call.wrote(caller.agent_id, accepted.position)
    known = await written_document(call, accepted.id, relation.agent_id)
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
    return renamed(stated, "id sourceId=source targetId=target type=relation confidence created_at")
