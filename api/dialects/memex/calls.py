"""What memex's tools do: arguments in, sentences out."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from api.dialects.memex import memories
from api.dialects.memex.records import MAX_IMPORTANCE, TYPES, Shown, type_of
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolAnswer, ToolContext

MAX_NAME = 128
MAX_CONTENT = 8_000
MAX_QUERY = 2_000
MAX_RESULTS = 50


async def store(context: ToolContext, arguments: dict[str, Any]) -> ToolAnswer:
    """Store a memory; the same text again is another one."""
    agent, user = _pair(arguments)
    content = length_checked(arguments["content"], "content", MAX_CONTENT)
    kind = type_of(arguments["memory_type"])
    if kind is None:
        return answer(_no_type(arguments["memory_type"]))
    importance = clamped(arguments["importance"], 0.0, MAX_IMPORTANCE)
    kept = await memories.keep(context, agent, user, content, kind, importance)
    return answer(f"Stored memory {kept.id} (type={kind}, importance={float(importance)})")


async def search(context: ToolContext, arguments: dict[str, Any]) -> ToolAnswer:
    """Find what an agent remembers of a user."""
    agent, user = _pair(arguments)
    query = length_checked(arguments["query"], "query", MAX_QUERY)
    kind = None if arguments["memory_type"] is None else type_of(arguments["memory_type"])
    if kind is None and arguments["memory_type"] is not None:
        return answer(_no_type(arguments["memory_type"]))
    top_k, alpha = int(clamped(arguments["top_k"], 1, MAX_RESULTS)), clamped(arguments["alpha"], 0.0, 1.0)
    wanted = memories.MemorySearchRequest(agent, user, query, top_k, alpha, kind)

    async def ask(after: str) -> tuple[list[Shown], list[str]]:
        return await memories.search(context, wanted, after)

    (found, degraded), lacks = await context.read_own_writes(agent, ask)
    return answer(listed(query, found), [*lacks, *degraded])


async def delete(context: ToolContext, arguments: dict[str, Any]) -> ToolAnswer:
    """Forget a memory of the agent's, and what it stands for."""
    agent = _agent(arguments)
    given = str(arguments["memory_id"])
    try:
        uuid = UUID(given.strip())
    except ValueError:
        return answer(f"Invalid memory_id '{given}': not a valid UUID.")
    gone = await memories.delete(context, agent, uuid)
    if gone:
        return answer(f"Deleted memory {uuid}.")
    return answer(f"Memory {given} was not found, or does not belong to this agent.")


async def count(context: ToolContext, arguments: dict[str, Any]) -> ToolAnswer:
    """Count what an agent remembers of a user."""
    agent, user = _pair(arguments)
    lacks = await context.caught_up(agent)
    there = await memories.count(context, agent, user)
    return answer(f"Agent '{agent}' has {there} {_memories(there)} for user '{user}'.", lacks)


def _pair(arguments: dict[str, Any]) -> tuple[str, str]:
    """Both names; never empty, for an empty one would not narrow a search."""
    return _agent(arguments), length_checked(arguments["user_id"], "user_id", MAX_NAME)


def _agent(arguments: dict[str, Any]) -> str:
    return length_checked(arguments["agent_id"], "agent_id", MAX_NAME)


def answer(text: str, lacks: Sequence[str] = ()) -> ToolAnswer:
    """A text as an answer; what it may lack stands below it."""
    text = "\n".join([text, *(f"Note: {lack}." for lack in lacks)])
    return ToolAnswer(text, {"result": text})


def listed(query: str, found: Sequence[Shown]) -> str:
    """What a search answers, best first."""
    if not found:
        return f"No memories found for query: {query}"
    lines = [f"Found {len(found)} {_memories(len(found))} for query: {query}"]
    for number, one in enumerate(found, 1):
        lines.append(f"{number}. [{one.memory_type}] score={one.score or 0.0:.4f}  id={one.id}")
        lines += [f"   {line}" for line in one.content.splitlines()]
    return "\n".join(lines)


def length_checked(value: str, name: str, most: int) -> str:
    """A text of 1 to `most` characters; raises BadArgument."""
    if not value:
        raise BadArgument(f"{name} must have at least 1 character", name)
    if len(value) > most:
        raise BadArgument(f"{name} must have at most {most} characters, it has {len(value)}", name)
    return value


def clamped(value: float, least: float, most: float) -> float:
    """The nearest number within the bounds."""
    return max(least, min(value, most))


def _no_type(name: str) -> str:
    return f"Invalid memory_type '{name}'. Must be one of: {', '.join(TYPES)}."


def _memories(count: int) -> str:
    return "memory" if count == 1 else "memories"
