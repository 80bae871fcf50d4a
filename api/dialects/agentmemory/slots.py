"""Slots: small texts by label that stay in view, of a project or of every project."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.endpoints import Arguments, call_of, command
from api.dialects.agentmemory.knowledge import reflect
from api.dialects.agentmemory.operations import failure, success
from api.dialects.agentmemory.records import Record, View, renamed, without_empty
from api.dialects.session_projects import home_of
from api.http.http import Json
from ingest.commands.decide import DeleteSlot, SetSlot
from ingest.errors import CommandRejected, MnemologError
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.queries.views import view

MAX_REVIEWED = 200


async def post_slot(call: Call, arguments: Arguments) -> Record | Response:
    """A new slot, or another text for one that is there; 409 where that may not be."""
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
    """Bring the slots that follow the work up to date with a session."""
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
    """memory_slot_create: a new one, or another text for one that is there."""
    limit = arguments["sizeLimit"]
    if not 1 <= limit <= 20_000 or limit != int(limit):
        raise BadArgument("sizeLimit must be a whole number from 1 to 20000", "sizeLimit")
    scope = "global" if arguments["scope"].strip().lower() == "global" else "project"
    overwrite = arguments["overwrite"]
    await _write(
        call,
        arguments,
        overwrite=overwrite is None or overwrite,
        content=arguments["content"],
        scope=scope,
        size_limit=int(limit),
        pinned=arguments["pinned"],
        description=arguments["description"],
    )
    return success(slot=await _current(call, arguments))


async def append_to_slot(call: Call, arguments: Arguments) -> Record:
    """memory_slot_append: a line more; refused where it would not fit."""
    await _write(call, arguments, content=arguments.needed("text"), append=True)
    return await _sized(call, arguments)


async def replace_slot(call: Call, arguments: Arguments) -> Record:
    """memory_slot_replace: another text, which may be empty."""
    await _write(call, arguments, content=arguments["content"])
    return await _sized(call, arguments)


async def delete_slot(call: Call, arguments: Arguments) -> Record:
    """memory_slot_delete."""
    slot = await _current(call, arguments)
    remove = command(DeleteSlot, label=slot["label"], scope=slot["scope"], project=slot.get("project", ""))
    caller = call.caller()
    accepted = await call.operations.slots.delete(remove, caller)
    call.wrote(caller.agent_id, accepted.position)
    return success()


async def _write(call: Call, arguments: Arguments, *, overwrite: bool = True, **fields: Any) -> None:
    label = arguments.needed("label")
    if "scope" not in fields:
        slot = await _current(call, arguments)  # raises NotFound: only create_slot makes a new one
        fields |= {"scope": slot["scope"], "project": slot.get("project", "")}
    else:
        fields["project"] = arguments.chosen("project") or ""
    caller = call.caller()
    accepted = await call.operations.slots.set(command(SetSlot, label=label, **fields), caller, overwrite=overwrite)
    call.wrote(caller.agent_id, accepted.position)


async def _sized(call: Call, arguments: Arguments) -> Record:
    slot = await _current(call, arguments)
    return success(slot=slot, size=slot["size"])


async def _current(call: Call, arguments: Arguments) -> dict[str, Any]:
    """The slot as it is after all that was acknowledged; raises NotFound."""
    project = arguments.chosen("project") or ""
    return slot_record(view(await call.operations.slots.get(call.reader(), project, arguments.needed("label"))))


def slot_record(slot: View) -> Record:
    """A slot. One that nobody has written to has no times."""
    fields = "label content size size_limit description pinned read_only scope created_at updated_at"
    return renamed(slot, fields) | without_empty(renamed(slot, "project"))
