"""Lessons, slots (short labeled texts in every context), and actions (work items that agents share)."""

from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.endpoints import (
    MAX_LIMIT,
    Arguments,
    call_of,
    command,
    documents_of,
    named_agent,
    noted,
    reading,
    written_document,
)
from api.dialects.agentmemory.knowledge import reflect
from api.dialects.agentmemory.operations import failure, success
from api.dialects.agentmemory.records import Record, View, iso, renamed, stated, without_empty
from api.dialects.session_projects import home_of
from api.http.http import Json
from ingest.commands.decide import DeleteSlot, RecordLesson, SetSlot, WriteAction
from ingest.errors import CommandRejected, MnemologError, NotFound
from ingest.nouns.command import EVERY_PROJECT
from ingest.platform.clock import system_clock
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.nouns.access import Reader
from projections.nouns.action import WorkItem, effective_status, same_status
from projections.nouns.lesson import DECAY_RATE, Lesson
from projections.queries.views import view

MAX_LESSONS = 1_000
USUAL_CONFIDENCE = 0.5
LESSON_CHARS = 240
_SOURCES = {"reflection": "consolidation", "suggestion": "consolidation"}


async def post_lesson(call: Call, arguments: Arguments) -> Response:
    """Record a new lesson (201), or confirm a known one (200)."""
    record = await save_lesson(call, arguments)
    return Json(record, 200 if record["action"] == "strengthened" else 201)


async def post_strengthen(call: Call, arguments: Arguments) -> Record:
    """Confirm a lesson, which ranks it higher."""
    name, agent = arguments.needed("lessonId"), named_agent(arguments)
    caller = call.caller(agent)
    try:
        accepted = await call.operations.work.reinforce(name, call.reader(agent), caller)
    except NotFound:
        return failure("lesson not found")
    noted(call, caller, accepted)
    document = await written_document(call, name, agent)
    return success(lesson={"id": name} if document is None else lesson_record(document, document["confidence"]))


async def delete_lesson(call: Call, arguments: Arguments) -> Record:
    """memory_lesson_delete: delete a lesson permanently."""
    name, agent = arguments.needed("lessonId"), named_agent(arguments)
    reader, caller = await reading(call, agent), call.caller(agent)
    if not await documents_of(call, [name], reader, Lesson):
        return failure("lesson not found")
    forgotten = await call.operations.forgetting.document(name, reader, caller, reason="lessons/delete")
    noted(call, caller, forgotten)
    return success(deleted=forgotten.total)


async def list_lessons(call: Call, arguments: Arguments) -> Record:
    """memory_lessons: those with the highest confidence."""
    reader, now = await reading(call), system_clock()
    source, limit = arguments.chosen("source"), arguments.count("limit", MAX_LESSONS)
    surest = await call.queries.lessons.surest(
        reader,
        arguments.chosen("project"),
        now,
        min_confidence=arguments["minConfidence"],
        limit=MAX_LESSONS if source else limit,
    )
    records = [lesson_record(view(lesson), lesson.confidence_at(now)) for lesson in surest]
    return success(lessons=[record for record in records if source in (None, record["source"])][:limit])


async def save_lesson(call: Call, arguments: Arguments) -> Record:
    """memory_lesson_save: record a new lesson, or confirm a known one."""
    content, confidence, agent = arguments.needed("content"), arguments["confidence"], named_agent(arguments)
    if confidence is None or not 0 <= confidence <= 1:
        confidence = USUAL_CONFIDENCE
    lesson = command(
        RecordLesson,
        content=content,
        project=arguments.chosen("project") or EVERY_PROJECT,
        confidence=float(confidence),
        agent_id=agent,
        **stated(arguments, "context tags"),
    )
    accepted = await call.write(lesson)
    document = await written_document(call, accepted.id, agent)
    if document is None:
        record = {"id": accepted.id, "content": content, "context": lesson.context, "confidence": confidence}
        return success(action="created", lesson=record)
    action = "strengthened" if document["reinforcements"] else "created"
    return success(action=action, lesson=lesson_record(document, document["confidence"]))


async def search_lessons(call: Call, arguments: Arguments) -> Record:
    """memory_lesson_recall, memory_lesson_search: lessons about a query; with a project, of it alone."""
    reader, now = await reading(call), system_clock()
    hits = await call.queries.lessons.search(
        reader,
        arguments.needed("query"),
        arguments.chosen("project"),
        now,
        min_confidence=arguments["minConfidence"],
        limit=arguments.count("limit", MAX_LIMIT),
        everywhere=False,
    )
    records = [lesson_record(view(lesson), lesson.confidence_at(now), score) for lesson, score in hits]
    return success(lessons=records)


def lesson_record(learned: View, confidence: float, score: float | None = None) -> Record:
    """A lesson with what is left of its confidence; with its score, if it was searched for."""
    reinforced = learned["reinforcements"] > 0
    source = _SOURCES.get(learned["origin"], learned["origin"])
    record: Record = {
        **renamed(learned, "id content context"),
        "confidence": round(confidence, 3),
        "reinforcements": learned["reinforcements"],
        "source": source if source in ("crystal", "consolidation") else "manual",
        **renamed(learned, "sourceIds=derived_from tags createdAt=recorded_at updated_at"),
        "decayRate": DECAY_RATE,
    }
    optional = _project(learned) | (renamed(learned, "lastReinforcedAt=reinforced_at") if reinforced else {})
    return record | without_empty(optional) | ({} if score is None else {"score": score})


def lesson_hint(learned: View, confidence: float, score: float) -> Record:
    """A lesson beside search results."""
    text: str = learned["content"]
    return {
        "lessonId": learned["id"],
        "content": text if len(text) <= LESSON_CHARS else text[:LESSON_CHARS] + "…",
        "confidence": round(confidence, 3),
        "score": score,
        **renamed(learned, "createdAt=recorded_at tags"),
        **without_empty(_project(learned)),
    }


def _project(learned: View) -> Record:
    return {"project": "" if learned["project"] == EVERY_PROJECT else learned["project"]}


MAX_REVIEWED = 200


async def post_slot(call: Call, arguments: Arguments) -> Record | Response:
    """Create a slot or replace its text; 409 if it exists and must not be overwritten."""
    try:
        return await create_slot(call, arguments)
    except BadArgument:
        raise
    except CommandRejected as refused:
        if refused.field != "label":
            raise
        try:
            slot = await _current(call, arguments)
        except MnemologError:
            raise refused from None
        if not slot["readOnly"]:
            raise
        return Json(failure(refused.message), 409)


async def reflect_session(request: Request, arguments: Arguments) -> Record:
    """Update the automatic slots from a session."""
    if not 1 <= arguments["maxObservations"] <= MAX_REVIEWED:
        raise BadArgument(f"maxObservations must be from 1 to {MAX_REVIEWED}", "maxObservations")
    home = await home_of(request, arguments.needed("sessionId"))
    return await reflect(call_of(request), arguments | {"project": home.project if home else None})


async def list_slots(call: Call, arguments: Arguments) -> Record:
    """memory_slot_list: a project's, by label; without a project named, what every project holds, each saying whose."""
    await call.wait_for_own_writes()
    queries, project = call.queries, arguments.chosen("project")
    slots = await (queries.slots.of_project(call.reader(), project) if project else queries.slots.all(call.reader()))
    return success(slots=[slot_record(view(slot)) for slot in slots])


async def get_slot(call: Call, arguments: Arguments) -> Record:
    """memory_slot_get: one, and which scope it is of."""
    slot = await _current(call, arguments)
    return success(slot=slot, scope=slot["scope"])


async def create_slot(call: Call, arguments: Arguments) -> Record:
    """memory_slot_create: create a slot or replace its text."""
    limit = arguments["sizeLimit"]
    if not 1 <= limit <= 20_000 or limit != int(limit):
        raise BadArgument("sizeLimit must be a whole number from 1 to 20000", "sizeLimit")
    scope = "global" if arguments["scope"].strip().lower() == "global" else "project"
    overwrite = arguments["overwrite"]
    await _write(
        call,
        arguments,
        overwrite=overwrite is None or overwrite,
        scope=scope,
        project=arguments.chosen("project") or "",
        size_limit=int(limit),
        **stated(arguments, "content pinned description"),
    )
    return success(slot=await _current(call, arguments))


async def append_to_slot(call: Call, arguments: Arguments) -> Record:
    """memory_slot_append: add a line; refused if it would exceed the limit."""
    return await _rewrite(call, arguments, content=arguments.needed("text"), append=True)


async def replace_slot(call: Call, arguments: Arguments) -> Record:
    """memory_slot_replace: replace the text; it can be empty."""
    return await _rewrite(call, arguments, content=arguments["content"])


async def delete_slot(call: Call, arguments: Arguments) -> Record:
    """memory_slot_delete."""
    slot = await _current(call, arguments)
    remove = command(DeleteSlot, label=slot["label"], scope=slot["scope"], project=slot.get("project", ""))
    caller = call.caller()
    accepted = await call.operations.slots.delete(remove, caller)
    noted(call, caller, accepted)
    return success()


async def _rewrite(call: Call, arguments: Arguments, **fields: Any) -> Record:
    """Write to an existing slot, wherever it is; raises NotFound."""
    slot = await _current(call, arguments)
    await _write(call, arguments, scope=slot["scope"], project=slot.get("project", ""), **fields)
    slot = await _current(call, arguments)
    return success(slot=slot, size=slot["size"])


async def _write(call: Call, arguments: Arguments, *, overwrite: bool = True, **fields: Any) -> None:
    label, caller = arguments.needed("label"), call.caller()
    accepted = await call.operations.slots.set(command(SetSlot, label=label, **fields), caller, overwrite=overwrite)
    noted(call, caller, accepted)


async def _current(call: Call, arguments: Arguments) -> Record:
    """The slot as it is after all that was acknowledged; raises NotFound."""
    project = arguments.chosen("project") or ""
    return slot_record(view(await call.operations.slots.get(call.reader(), project, arguments.needed("label"))))


def slot_record(slot: View) -> Record:
    """A slot; without times if it was never written."""
    fields = "label content size size_limit description pinned read_only scope created_at updated_at"
    return renamed(slot, fields) | without_empty(renamed(slot, "project"))


MAX_ACTIONS = 1_000
PROJECTS = 100
"""Whose finished actions are listed where no project is named: those that something is remembered of."""


async def list_actions(call: Call, arguments: Arguments) -> Record:
    """Actions, newest first."""
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
    for edge in cast("list[Record]", arguments["edges"] or []):
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


async def _listed(call: Call, reader: Reader, project: str | None) -> list[Record]:
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
    return await _written(call, arguments, **stated(arguments, "project parentId=parent requires"))


async def update_action(call: Call, arguments: Arguments) -> Record:
    """memory_action_update: what is given changes; `edges` are added."""
    name = arguments.needed("actionId")
    return await _written(call, arguments, action=name, **stated(arguments, "result assigned_to"))


async def frontier(call: Call, arguments: Arguments) -> Record:
    """memory_frontier: work items that can be done now, best first."""
    agent, project = named_agent(arguments), arguments.chosen("project")
    reader = await reading(call, agent)
    limit = arguments.count("limit", MAX_LIMIT)
    actions, unblocked, items = await call.queries.actions.open_work(reader, project, agent)
    records: list[Record] = []
    for ready in unblocked[:limit]:
        record = action_record(view(actions[ready.item.id]), items)
        more = {"action": record, "score": ready.score, "blockers": ready.blockers, "leased": ready.leased}
        records.append({**record, **more})
    return success(frontier=records, total=len(records), totalActions=len(actions), totalUnblocked=len(unblocked))


async def _written(call: Call, arguments: Arguments, **fields: Any) -> Record:
    agent = named_agent(arguments)
    reader, caller = call.reader(agent), call.caller(agent)
    fields |= stated(arguments, "title description priority status tags session_id")
    write = command(WriteAction, agent_id=agent, edges=arguments.get("edges"), **fields)
    accepted = await call.operations.work.write_action(write, reader, caller)
    noted(call, caller, accepted)
    name = write.action or accepted.id
    document = await written_document(call, name, agent)
    if document is None:
        return success(action={"id": name, "title": write.title}, edges=[])
    work = await call.queries.actions.open_work(reader, None)
    return success(action=action_record(document, work.all_open_actions), edges=edge_records(document))


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
