"""What memex does with memories, for its tools and its REST endpoints alike.

Who an agent and a user are is taken on trust, as memex does. Nothing here waits for the caller's own writes: the
tools and the endpoints do, each in its own way.
"""

from typing import NamedTuple
from uuid import UUID

from api.dialects.memex.records import PROJECT, Shown, is_found, memory_id_of, remember, shown, shown_at_once
from ingest.commands.decision import EVERYBODY
from ingest.errors import CommandRejected, NotFound
from ingest.events.memory import MemoryType
from ingest.platform.clock import system_clock
from mcp_gateway.tools.tool import ToolContext
from projections.documents.access import Reader
from projections.documents.memories import Memory
from projections.queries import RecallRequest

_SAYS_NOTHING = "."
"""Asked in the place of a blank query, which memex takes and recall refuses: no word of it is found."""


class MemorySearchRequest(NamedTuple):
    """What is searched for; the numbers are within memex's bounds. `memory_type` None is every type."""

    agent: str
    user: str
    query: str
    top_k: int
    alpha: float
    memory_type: MemoryType | None = None


async def keep(
    context: ToolContext, agent: str, user: str, content: str, memory_type: MemoryType, importance: float
) -> Shown:
    """Store a memory, the same text again as another one; returns it as it is kept. Raises what writing raises."""
    if agent == EVERYBODY:
        raise CommandRejected(f"{EVERYBODY} stands for every agent here; take another name", "agent_id")
    now = system_clock()
    command = remember(agent, user, content, memory_type, importance, now)
    return shown_at_once(command, (await context.write(command)).id, now)


async def search(context: ToolContext, wanted: MemorySearchRequest, after: str = "") -> tuple[list[Shown], list[str]]:
    """What an agent remembers of a user, best first, and what the answer may lack.

    Raises ProjectionBehind when `after` is not searchable in time.
    """
    request = RecallRequest(
        query=wanted.query if wanted.query.strip() else _SAYS_NOTHING,
        project=PROJECT,
        agent_id=wanted.agent,
        user_id=wanted.user,
        kinds=["memory"],
        types=[] if wanted.memory_type is None else [wanted.memory_type],
        limit=wanted.top_k,
        alpha=wanted.alpha,
        half_life_days=context.half_life_days,
        ranking="similarity",
        after=after,
    )
    found = await context.queries.recall.found(request, _reader(context, wanted.agent))
    current = [(hit, one) for hit, one in found.hits if isinstance(one, Memory) and one.is_latest]
    return [shown(one, hit.score) for hit, one in current], found.degraded


async def delete(context: ToolContext, agent: str, uuid: UUID) -> bool:
    """Forget a memory of the agent's, and what it stands for; false when there is no such memory of its own."""
    name, reader = memory_id_of(uuid), _reader(context, agent)
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


async def count(context: ToolContext, agent: str, user: str) -> int:
    """How much an agent remembers of a user."""
    if not agent or not user:
        return 0  # nobody stores under an empty name, and one would not narrow the count
    reader = _reader(context, agent)
    return await context.queries.browse.count(reader, PROJECT, kinds=["memory"], agent_id=agent, user_id=user)


def _reader(context: ToolContext, agent: str) -> Reader:
    return Reader(context.tenant, agent, context.scope, reach=context.reach)
