"""Slots. Without a project named, one is written to and read of those that every project sees; all are listed."""

from typing import Any

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import Arguments, chosen, command, needed
from api.dialects.agentmemory.mcp.answers import succeeded
from ingest.commands.requests import DeleteSlot, SetSlot
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, Door
from projections.queries.views import view


async def slots(door: Door, arguments: Arguments) -> Answer:
    """memory_slot_list: a project's, by label; without a project named, what every project holds, each saying whose."""
    await door.caught_up()
    browse, project = door.queries.browse, chosen(arguments, "project")
    found = await (browse.slots(door.reader(), project) if project else browse.all_slots(door.reader()))
    return succeeded(slots=[dialect.slot(view(one)) for one in found])


async def read(door: Door, arguments: Arguments) -> Answer:
    """memory_slot_get: one, and which scope it is of."""
    held = await _slot(door, arguments)
    return succeeded(slot=held, scope=held["scope"])


async def create(door: Door, arguments: Arguments) -> Answer:
    """memory_slot_create: a new one, or another text for one that is there."""
    limit = arguments["sizeLimit"]
    if not 1 <= limit <= 20_000 or limit != int(limit):
        raise BadArgument("sizeLimit must be a whole number from 1 to 20000", "sizeLimit")
    scope = "global" if arguments["scope"].strip().lower() == "global" else "project"
    overwrite = arguments["overwrite"]
    await _write(
        door,
        arguments,
        overwrite=overwrite is None or overwrite,
        content=arguments["content"],
        scope=scope,
        size_limit=int(limit),
        pinned=arguments["pinned"],
        description=arguments["description"],
    )
    return succeeded(slot=await _slot(door, arguments))


async def append(door: Door, arguments: Arguments) -> Answer:
    """memory_slot_append: a line more; refused where it would not fit."""
    await _write(door, arguments, content=needed(arguments, "text"), append=True)
    return await _sized(door, arguments)


async def replace(door: Door, arguments: Arguments) -> Answer:
    """memory_slot_replace: another text, which may be empty."""
    await _write(door, arguments, content=arguments["content"])
    return await _sized(door, arguments)


async def delete(door: Door, arguments: Arguments) -> Answer:
    """memory_slot_delete."""
    held = await _slot(door, arguments)
    remove = command(DeleteSlot, label=held["label"], scope=held["scope"], project=held.get("project", ""))
    caller = door.caller()
    accepted = await door.operations.slots.delete(remove, caller)
    door.wrote(caller.agent_id, accepted.position)
    return succeeded()


async def _write(door: Door, arguments: Arguments, *, overwrite: bool = True, **fields: Any) -> None:
    label = needed(arguments, "label")
    if "scope" not in fields:
        held = await _slot(door, arguments)  # raises NotFound: only creating makes a new one
        fields |= {"scope": held["scope"], "project": held.get("project", "")}
    else:
        fields["project"] = chosen(arguments, "project") or ""
    caller = door.caller()
    accepted = await door.operations.slots.set(command(SetSlot, label=label, **fields), caller, overwrite=overwrite)
    door.wrote(caller.agent_id, accepted.position)


async def _sized(door: Door, arguments: Arguments) -> Answer:
    held = await _slot(door, arguments)
    return succeeded(slot=held, size=held["size"])


async def _slot(door: Door, arguments: Arguments) -> dict[str, Any]:
    """The slot as it is after all that was acknowledged; raises NotFound."""
    project = chosen(arguments, "project") or ""
    return dialect.slot(view(await door.operations.slots.get(door.reader(), project, needed(arguments, "label"))))
