"""What memex does with memories, for its tools and its REST endpoints alike.

Who an agent and a user are is taken on trust, as memex does. Nothing here waits for the caller's own writes: the
tools and the endpoints do, each in its own way.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from api.dialects.memex.records import (
    MAX_IMPORTANCE,
    PROJECT,
    TYPES,
    Shown,
    is_found,
    memory_id_of,
    memory_record,
    record_at_once,
    remember,
)
from ingest.errors import CommandRejected, NotFound
from ingest.nouns.command import EVERYBODY
from ingest.nouns.memory import MemoryType
from ingest.platform.clock import system_clock
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call, ToolAnswer
from projections.nouns.memory import Memory
from projections.queries.recall import RecallRequest

_SAYS_NOTHING = "."
"""Asked in the place of a blank query, which memex takes and recall refuses: no word of it is found."""


async def keep(context: Call, agent: str, user: str, content: str, memory_type: MemoryType, importance: float) -> Shown:
    """Store a memory, the same text again as another one; returns it as it is kept. Raises what writing raises."""
    if agent == EVERYBODY:
        raise CommandRejected(f"{EVERYBODY} means every agent here; choose another name", "agent_id")
    now = system_clock()
    command = remember(agent, user, content, memory_type, importance, now)
    return record_at_once(command, (await context.write(command)).id, now)


async def search(
    context: Call,
    agent: str,
    user: str,
    query: str,
    memory_type: MemoryType | None,
    *,
    top_k: int,
    alpha: float,
    after: str = "",
) -> tuple[list[Shown], list[str]]:
    """What an agent remembers about a user, best first, and what the answer may lack. No `memory_type` is every type.

    Raises ProjectionBehind when `after` is not searchable in time.
    """
    request = RecallRequest(
        query=query if query.strip() else _SAYS_NOTHING,
        project=PROJECT,
        agent_id=agent,
        user_id=user,
        kinds=["memory"],
        types=[] if memory_type is None else [memory_type],
        limit=top_k,
        alpha=alpha,
        half_life_days=context.half_life_days,
        ranking="similarity",
        after=after,
    )
    recalled = await context.queries.recall.found(request, context.reader(agent))
    records = [
        memory_record(result.document, result.hit.score)
        for result in recalled.hits
        if isinstance(result.document, Memory) and result.document.is_latest
    ]
    return records, recalled.degraded


async def delete(context: Call, agent: str, uuid: UUID) -> bool:
    """Delete a memory of the agent's, and what it was condensed from; false if the agent has no such memory."""
    name, reader = memory_id_of(uuid), context.reader(agent)
    try:
        if name is None or not is_found(await context.operations.memories.find(name, reader), agent):
            return False
        gone = await context.operations.forgetting.document(
            name, reader, context.caller(agent), reason="deleted by its agent"
        )
    except NotFound:
        return False
    context.wrote(agent, gone.position)
    return True


async def count(context: Call, agent: str, user: str) -> int:
    """How much an agent remembers of a user."""
    if not agent or not user:
        return 0  # no memory has an empty name, and it would not narrow the count
    reader = context.reader(agent)
    return await context.queries.lookup.count(reader, PROJECT, kinds=["memory"], agent_id=agent, user_id=user)


MAX_NAME = 128
MAX_CONTENT = 8_000
MAX_QUERY = 2_000
MAX_RESULTS = 50


async def store_tool(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Store a memory; the same text again is another one."""
    agent, user = _pair(arguments)
    content = length_checked(arguments["content"], "content", MAX_CONTENT)
    kind = TYPES.get(arguments["memory_type"])
    if kind is None:
        return answer(_no_type(arguments["memory_type"]))
    importance = clamped(arguments["importance"], 0.0, MAX_IMPORTANCE)
    stored = await keep(context, agent, user, content, kind, importance)
    return answer(f"Stored memory {stored.id} (type={kind}, importance={float(importance)})")


async def search_tool(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Find what an agent remembers of a user."""
    agent, user = _pair(arguments)
    query = length_checked(arguments["query"], "query", MAX_QUERY)
    kind = None if arguments["memory_type"] is None else TYPES.get(arguments["memory_type"])
    if kind is None and arguments["memory_type"] is not None:
        return answer(_no_type(arguments["memory_type"]))
    top_k, alpha = int(clamped(arguments["top_k"], 1, MAX_RESULTS)), clamped(arguments["alpha"], 0.0, 1.0)
    (records, degraded), missing = await context.read_own_writes(
        agent, lambda after: search(context, agent, user, query, kind, top_k=top_k, alpha=alpha, after=after)
    )
    return answer(listed(query, records), [*missing, *degraded])


async def delete_tool(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Forget a memory of the agent, and the memories that it condenses."""
    agent = _agent(arguments)
    name = str(arguments["memory_id"])
    try:
        uuid = UUID(name.strip())
    except ValueError:
        return answer(f"Invalid memory_id '{name}': not a valid UUID.")
    if await delete(context, agent, uuid):
        return answer(f"Deleted memory {uuid}.")
    return answer(f"Memory {name} was not found, or does not belong to this agent.")


async def count_tool(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Count what an agent remembers of a user."""
    agent, user = _pair(arguments)
    missing = await context.wait_for_own_writes(agent)
    total = await count(context, agent, user)
    return answer(f"Agent '{agent}' has {total} {_memories(total)} for user '{user}'.", missing)


def _pair(arguments: dict[str, Any]) -> tuple[str, str]:
    """Both names; never empty, for an empty one would not narrow a search."""
    return _agent(arguments), length_checked(arguments["user_id"], "user_id", MAX_NAME)


def _agent(arguments: dict[str, Any]) -> str:
    return length_checked(arguments["agent_id"], "agent_id", MAX_NAME)


def answer(text: str, lacks: Sequence[str] = ()) -> ToolAnswer:
    """A text as an answer; what it may lack stands below it."""
    text = "\n".join([text, *(f"Note: {lack}." for lack in lacks)])
    return ToolAnswer(text, {"result": text})


def listed(query: str, records: Sequence[Shown]) -> str:
    """What a search answers, best first."""
    if not records:
        return f"No memories found for query: {query}"
    lines = [f"Found {len(records)} {_memories(len(records))} for query: {query}"]
    for number, memory in enumerate(records, 1):
        lines.append(f"{number}. [{memory.memory_type}] score={memory.score or 0.0:.4f}  id={memory.id}")
        lines += [f"   {line}" for line in memory.content.splitlines()]
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


def _memories(total: int) -> str:
    return "memory" if total == 1 else "memories"
