"""Saving and forgetting memories."""

from typing import Any

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import (
    Arguments,
    chosen,
    command,
    needed,
    one_session,
    project_of,
    session_of,
    written_document,
)
from api.dialects.agentmemory.mcp.answers import succeeded
from api.dialects.agentmemory.mcp.recall import alike
from ingest.commands.requests import Remember
from ingest.errors import MnemologError, NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, Door
from projections.documents.observations import Observation

SAVED = "memory_save"
"""The tool that an observation names which links a memory to its session."""


async def save(door: Door, arguments: Arguments) -> Answer:
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
        told = {"tool_name": SAVED, "tool_input": {"memoryId": accepted.id, "type": kind}}
        link = dialect.observe(session, remember.project, "post_tool_use", told, agent_id=agent)
        await door.write(link)
    return succeeded(**await _saved(door, remember, accepted.id, agent, kind))


async def forget(door: Door, arguments: Arguments) -> Answer:
    """memory_forget: a memory, some observations of a session, or the whole session."""
    memory, names = chosen(arguments, "memoryId"), arguments["observationIds"]
    if memory is None and chosen(arguments, "sessionId") is None:
        raise BadArgument("memoryId or sessionId is required", "memoryId")
    forgetting, caller, reader = door.operations.forgetting, door.caller(), door.reader()
    try:
        if memory is not None:
            gone = await forgetting.document(memory, reader, caller)
            deleted = gone.total
        elif names:
            await door.caught_up()
            found = await door.queries.browse.documents(names, reader)
            seen = [one.document for one in found if isinstance(one.document, Observation)]
            own = [one.id for one in seen if one.session_id == arguments["sessionId"]]
            gone = await forgetting.documents(own, reader, caller)
            deleted = gone.documents.get("observation", 0)
        else:
            gone = await forgetting.session(session_of(await one_session(door, arguments)), caller)
            deleted = gone.documents.get("observation", 0) + 2  # the session and its summary count, too
    except NotFound:
        return succeeded(deleted=0)
    door.wrote(caller.agent_id, gone.position)
    return succeeded(deleted=deleted)


async def _saved(door: Door, said: Remember, name: str, agent: str, kind: str) -> dict[str, Any]:
    """The memory as it is kept, and the hint; one that is not projected in time, or nobody reads, as it was said."""
    known = await written_document(door, name, agent)
    if known is None:
        title = said.content.strip().split("\n", 1)[0][:80]
        return {"memory": {"id": name, "type": kind, "title": title, "content": said.content, "version": 1}}
    record, reader = dialect.memory(known), door.reader(agent)
    besides = frozenset([name, *record["supersedes"]])
    try:
        hint = None if record["version"] > 1 else await alike(door, reader, said.content, said.project, besides)
    except MnemologError:  # it is saved: a hint that cannot be had is none
        hint = None
    return {"memory": record} | ({} if hint is None else {"similarTo": hint})
