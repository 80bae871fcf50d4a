"""Actions: work items that agents share, how they depend on each other, and what can be worked on now."""

from collections.abc import Mapping
from typing import Any, cast

from api.dialects.agentmemory.endpoints import MAX_LIMIT, Arguments, command, reading, written_document
from api.dialects.agentmemory.operations import failure, success
from api.dialects.agentmemory.records import Record, View, iso, renamed, without_empty
from ingest.commands.decide import WriteAction
from ingest.errors import NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.documents.access import Reader
from projections.documents.actions import Ready, WorkItem, effective_status, same_status
from projections.queries.views import view

MAX_ACTIONS = 1_000
PROJECTS = 100
"""Whose finished actions are listed where no project is named: those that something is remembered of."""


async def list_actions(call: Call, arguments: Arguments) -> Record:
    """Actions, the newest first."""
    reader, project = await reading(call), arguments.chosen("project")
    all_open_actions = (await call.queries.actions.open_work(reader, None)).all_open_actions
    records = [action_record(action, all_open_actions) for action in await _listed(call, reader, project)]
    status, parent = arguments["status"], arguments["parentId"]
    matches = [
        record
        for record in records
        if (status is None or same_status(record["status"], status))
        and (parent is None or record.get("parentId") == parent)
    ]
    matches.sort(key=lambda record: record["createdAt"], reverse=True)
    return success(actions=matches[: arguments.count("limit", MAX_ACTIONS)], total=len(matches))


async def post_action(call: Call, arguments: Arguments) -> Record:
    """A new action, with what it depends on."""
    edges: list[dict[str, str]] = []
    for edge in cast("list[dict[str, Any]]", arguments["edges"] or []):
        kind, target = edge.get("type"), edge.get("targetActionId") or edge.get("target")
        if not isinstance(kind, str) or not isinstance(target, str) or not target.strip():
            raise BadArgument("an edge has a type and a targetActionId", "edges")
        edges.append({"type": kind, "target": target})
    who = {"agentId": arguments["agentId"] or arguments["createdBy"], "edges": edges}
    return await create_action(call, arguments | who)


async def patch_action(call: Call, arguments: Arguments) -> Record:
    """Change an action; 404 for an unknown one."""
    return await update_action(call, arguments | {"actionId": arguments["id"]})


async def post_update(call: Call, arguments: Arguments) -> Record:
    """Change the action that the body names."""
    try:
        return await update_action(call, arguments)
    except NotFound:
        return failure("action not found")


async def _listed(call: Call, reader: Reader, project: str | None) -> list[dict[str, Any]]:
    """The actions of a project; without one, all open actions and those of the known projects."""
    queries = call.queries
    if project is not None:
        return (await queries.actions.page(reader, project, None, MAX_ACTIONS)).items
    open_actions = (await queries.actions.open_work(reader, None)).actions.values()
    actions = {action.id: view(action) for action in open_actions}
    projects = dict.fromkeys(["", *(action.project for action in open_actions), *await queries.lookup.projects(reader)])
    for name in list(projects)[:PROJECTS]:
        page = await queries.actions.page(reader, name, None, MAX_ACTIONS)
        actions |= {action["id"]: action for action in page.items}
        if len(actions) >= MAX_ACTIONS:
            break
    return list(actions.values())


async def create_action(call: Call, arguments: Arguments) -> Record:
    """memory_action_create: a new work item, blocked while what it requires is open; `edges` say more of that."""
    arguments.needed("title")
    fields = _command_fields(arguments, "project", "parentId", "requires")
    return await _written(call, arguments, fields | {"edges": arguments.get("edges")})


async def update_action(call: Call, arguments: Arguments) -> Record:
    """memory_action_update: what is given changes; `edges` are added."""
    name = arguments.needed("actionId")
    fields = _command_fields(arguments, "result", "assignedTo") | {"edges": arguments.get("edges")}
    return await _written(call, arguments, fields | {"action": name})


async def frontier(call: Call, arguments: Arguments) -> Record:
    """memory_frontier: what can be worked on now, best first."""
    agent, project = arguments["agentId"] or "", arguments.chosen("project")
    reader = await reading(call, agent)
    limit = arguments.count("limit", MAX_LIMIT)
    actions, unblocked, items = await call.queries.actions.open_work(reader, project, agent)
    records = [frontier_record(view(actions[ready.item.id]), ready, items) for ready in unblocked[:limit]]
    return success(frontier=records, total=len(records), totalActions=len(actions), totalUnblocked=len(unblocked))


async def _written(call: Call, arguments: Arguments, fields: dict[str, object]) -> Record:
    agent = arguments["agentId"] or ""
    reader, caller = call.reader(agent), call.caller(agent)
    stated = command(WriteAction, agent_id=agent, **fields)
    accepted = await call.operations.work.write_action(stated, reader, caller)
    call.wrote(caller.agent_id, accepted.position)
    name = stated.action or accepted.id
    document = await written_document(call, name, agent)
    if document is None:
        return success(action={"id": name, "title": stated.title}, edges=[])
    work = await call.queries.actions.open_work(reader, None)
    return success(action=action_record(document, work.all_open_actions), edges=edge_records(document))


def _command_fields(arguments: Arguments, *others: str) -> dict[str, object]:
    """The fields of the command that these arguments fill."""
    names = {"sessionId": "session_id", "parentId": "parent", "assignedTo": "assigned_to"}
    stated = ("title", "description", "priority", "status", "tags", "sessionId", *others)
    return {names.get(name, name): arguments[name] for name in stated}


def action_record(item: View, open_items: Mapping[str, WorkItem]) -> Record:
    """An action, blocked as long as it waits for an open one."""
    waiting = open_items.get(item["id"])
    record: Record = {
        **renamed(item, "id title description"),
        "status": item["status"] if waiting is None else effective_status(waiting, open_items),
        **renamed(item, "priority tags created_at updated_at createdBy=agent_id"),
        "sourceObservationIds": [],
        "sourceMemoryIds": [],
    }
    optional = renamed(item, "project parentId=parent session_id assigned_to result crystallized_into")
    return record | without_empty(optional)


def edge_records(item: View) -> list[Record]:
    """How an action depends on others."""
    return [
        {
            "type": edge.type,
            "sourceActionId": item["id"],
            "targetActionId": edge.target,
            "createdAt": iso(item["created_at"]),
        }
        for edge in item["edges"]
    ]


def frontier_record(item: View, ready: Ready, open_items: Mapping[str, WorkItem]) -> Record:
    """An action that can be worked on now."""
    record = action_record(item, open_items)
    return {**record, "action": record, "score": ready.score, "blockers": ready.blockers, "leased": ready.leased}
