"""Actions, and which of them can be worked on."""

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import MAX_LIMIT, Arguments, chosen, command, count, needed, written_document
from api.dialects.agentmemory.mcp.answers import succeeded
from ingest.commands.requests import WriteAction
from mcp_gateway.tools.tool import Answer, Door
from projections.queries.views import view


async def create(door: Door, arguments: Arguments) -> Answer:
    """memory_action_create: a new work item, blocked while what it requires is open; `edges` say more of that."""
    needed(arguments, "title")
    fields = _fields(arguments, "project", "parentId", "requires")
    return await _written(door, arguments, fields | {"edges": arguments.get("edges")})


async def update(door: Door, arguments: Arguments) -> Answer:
    """memory_action_update: what is given changes; `edges` are added."""
    name = needed(arguments, "actionId")
    fields = _fields(arguments, "result", "assignedTo") | {"edges": arguments.get("edges")}
    return await _written(door, arguments, fields | {"action": name})


async def ready(door: Door, arguments: Arguments) -> Answer:
    """memory_frontier: what can be worked on now, best first."""
    agent = arguments["agentId"] or ""
    await door.caught_up(agent)
    reader = door.reader(agent)
    project = chosen(arguments, "project")
    limit = count(arguments, "limit", MAX_LIMIT)
    actions, unblocked, items = await door.queries.browse.open_work(reader, project, agent)
    told = [dialect.frontier_item(view(actions[one.item.id]), one, items) for one in unblocked[:limit]]
    return succeeded(frontier=told, total=len(told), totalActions=len(actions), totalUnblocked=len(unblocked))


async def _written(door: Door, arguments: Arguments, fields: dict[str, object]) -> Answer:
    agent = arguments["agentId"] or ""
    reader, caller = door.reader(agent), door.caller(agent)
    said = command(WriteAction, agent_id=agent, **fields)
    accepted = await door.operations.work.write_action(said, reader, caller)
    door.wrote(caller.agent_id, accepted.position)
    name = said.action or accepted.id
    known = await written_document(door, name, agent)
    if known is None:
        return succeeded(action={"id": name, "title": said.title}, edges=[])
    work = await door.queries.browse.open_work(reader, None)
    return succeeded(action=dialect.action(known, work.everybodys), edges=dialect.edges(known))


def _fields(arguments: Arguments, *others: str) -> dict[str, object]:
    """The fields of the command that these arguments fill."""
    names = {
        "sessionId": "session_id",
        "parentId": "parent",
        "assignedTo": "assigned_to",
    }
    told = ("title", "description", "priority", "status", "tags", "sessionId", *others)
    return {names.get(name, name): arguments[name] for name in told}
