"""Memories: saved, listed, deleted; their versions, and how they are related."""

from contextlib import suppress

from msgspec.structs import asdict
from starlette.requests import Request

from api.dialects.agentmemory.endpoints import (
    SOURCE,
    Arguments,
    agent_of,
    call_of,
    command,
    documents_of,
    every,
    named_agent,
    noted,
    object_of,
    one_of,
    reading,
    session_of,
    written_document,
)
from api.dialects.agentmemory.operations import REQUESTS, failure, success
from api.dialects.agentmemory.records import (
    STRENGTH,
    Record,
    View,
    classified,
    kind_of,
    memory_record,
    related_to,
    renamed,
    stated,
    versions,
)
from api.dialects.agentmemory.searching import alike
from api.hook_observations import hook_observation
from ingest.commands.decide import Relate, Remember
from ingest.errors import CommandRejected, MnemologError, NotFound, ProjectionBehind, ReaderUnknown
from ingest.platform.partial import check_missing
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.nouns.access import Reader
from projections.nouns.memory import Memory
from projections.operations.memory import MemoryChanges
from projections.queries.views import view

MAX_LIMIT = 5_000
MAX_LISTED_RELATIONS = 1_000
"""Also the default in `operations.toml`."""
MAX_MEMORIES = 50_000
"""The most memories that one listing reads."""
MAX_RELATIONS = 5_000
"""Looked at for what the listed memories are related to."""
REASON_CHARS = 512
SAVE_TOOL = "memory_save"
"""The tool that an observation names which links a memory to its session."""


async def remember(call: Call, arguments: Arguments) -> Record:
    """Save a memory."""
    if arguments["project"] is not None and not arguments["project"].strip():
        raise BadArgument("project is blank; leave it out for a memory without a project", "project")
    agent = agent_of(arguments)
    return await save_memory(call, arguments | {"agentId": agent})


async def list_memories(call: Call, arguments: Arguments) -> Record:
    """The memories, newest first, or how many there are."""
    reader = await reading(call, named_agent(arguments))
    if arguments["includeOrphans"] and (only := reader.only_agent):
        readable = await _all(call, reader._replace(scope="shared"))
        memories = [memory for memory in readable if memory["agent_id"] in ("", only)]
    else:
        memories = await _all(call, reader)
    latest = [memory for memory in memories if memory["is_latest"]]
    if arguments["count"]:
        return {"total": len(memories), "latestCount": len(latest)}
    selected = latest if arguments["latest"] else memories
    offset, limit = max(0, int(arguments["offset"])), arguments["limit"]
    most = MAX_LIMIT if limit is None else max(0, min(MAX_LIMIT, int(limit)))
    related = related_to(await call.queries.relations.newest(reader, MAX_RELATIONS))
    page = selected[offset : offset + most]
    records = [memory_record(memory, related=related.get(memory["id"], ())) for memory in page]
    applied = None if limit is None else most
    return {"memories": records, "total": len(selected), "offset": offset, "limit": applied}


async def delete_memories(request: Request) -> Record:
    """Delete memories permanently; unknown ids are skipped."""
    sent = await object_of(request)
    if not isinstance(sent.get("memoryIds"), list):
        raise BadArgument("memoryIds must be a list", "memoryIds")
    return await governance_delete(call_of(request), lenient.read(sent, REQUESTS["DELETE governance/memories"]))


async def governance_delete(call: Call, arguments: Arguments) -> Record:
    """memory_governance_delete: delete memories permanently; unknown ids are skipped."""
    names = list(dict.fromkeys(name for name in arguments["memoryIds"] if name.strip()))
    try:
        caller, reader = call.caller(), call.reader()
    except ReaderUnknown as error:
        return failure(f"nothing was deleted: {error}", deleted=0, total=len(arguments["memoryIds"]))
    await call.wait_for_own_writes()
    memories = [memory.id for memory in await documents_of(call, names, reader, Memory)]
    reason = (arguments["reason"] or "")[:REASON_CHARS]
    try:
        forgotten = await call.operations.forgetting.documents(memories, reader, caller, reason=reason)
    except ProjectionBehind as error:
        return failure(f"nothing was deleted, try again: {error}")
    noted(call, caller, forgotten)
    return success(deleted=forgotten.documents.get("memory", 0), total=len(arguments["memoryIds"]))


async def _all(call: Call, reader: Reader) -> list[Record]:
    """The memories of every project, newest first."""
    memories: list[Record] = []
    for project in {"", *await call.queries.lookup.projects(reader)}:
        pages = every(call.queries.memories.page, reader, project, MAX_MEMORIES - len(memories))
        memories += [memory async for memory in pages]
    return sorted(memories, key=lambda memory: (memory["recorded_at"], memory["id"]), reverse=True)


async def save_memory(call: Call, arguments: Arguments) -> Record:
    """memory_save, agent_remember: save a memory, with a hint about a similar one.

    A session's memory belongs to the session's project unless another is named.
    """
    content = arguments.needed("content")
    agent, session = named_agent(arguments), arguments.chosen("sessionId") or ""
    kind = kind_of(arguments["type"])
    project = arguments.chosen("project") or (await _project_of(call, session, agent) if session else "")
    remember = command(
        Remember,
        content=content,
        agent_id=agent,
        project=project,
        session_id=session,
        importance=STRENGTH,
        **stated(arguments, "concepts files ttlDays=ttl_days"),
        **classified(kind, arguments.get("sourceObservationIds") or ()),
    )
    # as its REST route does, also where the tool is called over MCP: memories of this source supersede by words
    accepted = await call._replace(source=SOURCE).write(remember)
    if session:
        # Its id and nothing of its content, which would outlive it here when it is forgotten.
        data = {"tool_name": SAVE_TOOL, "tool_input": {"memoryId": accepted.id, "type": kind}}
        link = hook_observation(session, remember.project, "post_tool_use", data, agent_id=agent)
        await call.write(link)
    return success(**await _saved(call, remember, accepted.id, agent, kind))


async def _project_of(call: Call, session: str, agent: str) -> str:
    """The project of a session that the caller may see; empty for none, or where several have one of that id."""
    try:
        return (await session_of(call, await reading(call, agent), session, None)).project
    except (CommandRejected, NotFound, ReaderUnknown):
        return ""


async def _saved(call: Call, remember: Remember, name: str, agent: str, kind: str) -> Record:
    """The stored memory and the hint; the memory as sent if it is not projected in time, or the reader is unknown."""
    stored = await written_document(call, name, agent)
    if stored is None:
        title = remember.content.strip().split("\n", 1)[0][:80]
        return {"memory": {"id": name, "type": kind, "title": title, "content": remember.content, "version": 1}}
    record, reader = memory_record(stored), call.reader(agent)
    besides = frozenset([name, *record["supersedes"]])
    try:
        hint = None if record["version"] > 1 else await alike(call, reader, remember.content, remember.project, besides)
    except MnemologError:  # the memory is saved, so a failed hint is left out
        hint = None
    return {"memory": record} | ({} if hint is None else {"similarTo": hint})


TYPES = ("supersedes", "extends", "derives", "contradicts", "related")
MEMORY_NOT_FOUND = "memory not found"


async def list_relations(call: Call, arguments: Arguments) -> Record:
    """Relations, newest first."""
    reader, queries, project = await reading(call), call.queries, arguments.chosen("project")
    limit = arguments.count("limit", MAX_LISTED_RELATIONS)
    if project is None:
        relations = list(map(view, await queries.relations.newest(reader, limit)))
    else:
        relations = (await queries.relations.page(reader, project, None, limit)).items
    records = map(relation_record, relations)
    return {"relations": sorted(records, key=lambda record: record["createdAt"], reverse=True)}


async def relate(call: Call, arguments: Arguments) -> Record:
    """Relate two memories; without a confidence, it is estimated from what they share."""
    kind = one_of(arguments.needed("type"), TYPES, "type")
    confidence = arguments["confidence"]
    relation = command(
        Relate,
        source=arguments.needed("sourceId"),
        target=arguments.needed("targetId"),
        relation=kind,
        confidence=None if confidence is None else float(max(0, min(1, confidence))),
        agent_id=arguments["agentId"],
    )
    try:
        record = await _related(call, relation)
    except NotFound:
        return failure(MEMORY_NOT_FOUND)
    return success(relationId=record["id"], relation=record, **record)


async def get_memory(call: Call, arguments: Arguments) -> Record:
    """One memory, whichever version, and what it is related to."""
    reader, name = await reading(call), arguments["id"]
    if not await documents_of(call, [name], reader, Memory):
        check_missing("such a memory")
        raise NotFound(MEMORY_NOT_FOUND)
    related = related_to(await call.queries.relations.of_documents([name], reader)).get(name)
    record = await _with_earlier(call, name, reader)
    return {"memory": record | ({"relatedIds": related} if related else {})}


async def evolve(call: Call, arguments: Arguments) -> Record:
    """Create a memory's next version, which supersedes it."""
    name, agent = arguments.needed("memoryId"), named_agent(arguments)
    reader, caller = call.reader(agent), call.caller(agent)
    changes = command(
        MemoryChanges, content=arguments.needed("newContent"), title=arguments.chosen("newTitle"), agent_id=agent
    )
    try:
        accepted = await call.operations.memories.change(name, changes, reader, caller)
    except NotFound:
        return failure(MEMORY_NOT_FOUND)
    noted(call, caller, accepted)
    version = await written_document(call, accepted.id, agent)
    previous = version["parent_id"] if version else name
    relation = Relate(source=accepted.id, target=previous, relation="supersedes", confidence=1.0, agent_id=agent)
    with suppress(NotFound):  # deleted in the meantime: there is nothing to relate it to
        await _related(call, relation)
    try:
        memory = await _with_earlier(call, accepted.id, reader)
    except NotFound:  # not projected in time, or deleted in the meantime
        memory = {"id": accepted.id, "content": changes.content}
    return success(memory=memory, previousId=previous)


async def _with_earlier(call: Call, name: str, reader: Reader) -> Record:
    """A memory that names the versions before it; raises NotFound."""
    history = await call.queries.memories.history(name, reader)
    return next(version for version in versions(list(map(view, history))) if version["id"] == name)


async def _related(call: Call, relation: Relate) -> Record:
    """The stored relation; raises NotFound for an end that does not exist."""
    caller = call.caller(relation.agent_id)
    accepted = await call.operations.work.relate(relation, call.reader(relation.agent_id), caller)
    noted(call, caller, accepted)
    stored = await written_document(call, accepted.id, relation.agent_id)
    return relation_record(stored) if stored else renamed(asdict(relation) | {"id": accepted.id}, _RELATION)


_RELATION = "id sourceId=source targetId=target type=relation confidence"


def relation_record(stated: View) -> Record:
    """A relation."""
    return renamed(stated, f"{_RELATION} created_at")
