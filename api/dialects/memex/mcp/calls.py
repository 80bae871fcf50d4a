"""What memex's tools do: arguments in, sentences out."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from api.dialects.memex.mcp import memories, shapes
from mcp_gateway.tools.tool import Answer, Door

if TYPE_CHECKING:
    from api.dialects.memex.records import Shown

MAX_RESULTS = 50


async def store(door: Door, arguments: dict[str, Any]) -> Answer:
    """Store a memory; the same text again is another one."""
    from api.dialects.memex.records import MAX_IMPORTANCE, TYPES, type_of

    agent, user = _pair(arguments)
    content = shapes.length_checked(arguments["content"], "content", shapes.MAX_CONTENT)
    kind = type_of(arguments["memory_type"])
    if kind is None:
        return shapes.said(shapes.no_type(arguments["memory_type"], TYPES))
    importance = shapes.clamped(arguments["importance"], 0.0, MAX_IMPORTANCE)
    kept = await memories.keep(door, agent, user, content, kind, importance)
    return shapes.said(shapes.stored(kept.id, kind, importance))


async def search(door: Door, arguments: dict[str, Any]) -> Answer:
    """Find what an agent remembers of a user."""
    from api.dialects.memex.records import TYPES, type_of

    agent, user = _pair(arguments)
    query = shapes.length_checked(arguments["query"], "query", shapes.MAX_QUERY)
    kind = None if arguments["memory_type"] is None else type_of(arguments["memory_type"])
    if kind is None and arguments["memory_type"] is not None:
        return shapes.said(shapes.no_type(arguments["memory_type"], TYPES))
    top_k, alpha = int(shapes.clamped(arguments["top_k"], 1, MAX_RESULTS)), shapes.clamped(arguments["alpha"], 0.0, 1.0)
    wanted = memories.Search(agent, user, query, top_k, alpha, kind)

    async def ask(after: str) -> "tuple[list[Shown], list[str]]":
        return await memories.search(door, wanted, after)

    (found, degraded), lacks = await door.read_own_writes(agent, ask)
    hits = [shapes.Found(one.id, one.memory_type, one.score or 0.0, one.content) for one in found]
    return shapes.said(shapes.listed(query, hits), [*lacks, *degraded])


async def delete(door: Door, arguments: dict[str, Any]) -> Answer:
    """Forget a memory of the agent's, and what it stands for."""
    agent = _agent(arguments)
    given = str(arguments["memory_id"])
    try:
        uuid = UUID(given.strip())
    except ValueError:
        return shapes.said(shapes.no_uuid(given))
    gone = await memories.delete(door, agent, uuid)
    return shapes.said(shapes.deleted(uuid) if gone else shapes.not_there(given))


async def count(door: Door, arguments: dict[str, Any]) -> Answer:
    """Count what an agent remembers of a user."""
    agent, user = _pair(arguments)
    lacks = await door.caught_up(agent)
    return shapes.said(shapes.counted(agent, user, await memories.count(door, agent, user)), lacks)


def _pair(arguments: dict[str, Any]) -> tuple[str, str]:
    """Both names; never empty, for an empty one would not narrow a search."""
    return _agent(arguments), shapes.length_checked(arguments["user_id"], "user_id", shapes.MAX_NAME)


def _agent(arguments: dict[str, Any]) -> str:
    return shapes.length_checked(arguments["agent_id"], "agent_id", shapes.MAX_NAME)
