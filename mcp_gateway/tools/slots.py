"""slots: small named texts that stay in view."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from ingest.commands.requests import DeleteSlot, SetSlot
from ingest.errors import CommandRejected
from ingest.events.slot import SlotScope
from ingest.roles import READ_WRITE
from mcp_gateway.tools.tool import Arguments, EventId, Project, Tool, ToolAnswer, ToolContext

if TYPE_CHECKING:
    from projections.documents.slots import Slot


class SlotsArguments(Arguments, frozen=True, kw_only=True):
    """What to do with which slot."""

    action: Annotated[
        Literal["list", "read", "write", "append", "delete"],
        Meta(description="`write` replaces the text, `append` adds a line; `list` needs no label."),
    ] = "list"
    label: Annotated[
        str, Meta(pattern="^([a-z][a-z0-9_]{0,63})?$", description="Name of the slot, e.g. `pending_items`.")
    ] = ""
    content: Annotated[str, Meta(max_length=20_000, description="Text to write or to append.")] = ""
    project: Project = ""
    scope: Annotated[
        SlotScope, Meta(description="Where to write: the project's slot, or the one all projects share.")
    ] = "project"
    event_id: EventId = ""


class SlotAnswer(Struct, frozen=True, kw_only=True):
    """One slot."""

    label: str
    content: str
    scope: SlotScope
    size_limit: Annotated[int, Meta(description="Characters it may have.")]
    pinned: Annotated[bool, Meta(description="Pinned slots open every `context`.")]


class SlotTexts(Struct, frozen=True, kw_only=True):
    """The slots asked for, as they are now."""

    slots: list[SlotAnswer]


async def call(door: ToolContext, arguments: SlotsArguments) -> ToolAnswer:
    """Read or write slots."""
    reader, caller = door.reader(arguments.agent_id), door.caller(arguments.agent_id)
    if arguments.action == "list":
        await door.caught_up(arguments.agent_id)
        return _answer(await door.queries.browse.slots(reader, arguments.project))
    if not arguments.label:
        raise CommandRejected("which slot?", "label")
    if arguments.action == "delete":
        remove = DeleteSlot(
            event_id=arguments.event_id, label=arguments.label, project=arguments.project, scope=arguments.scope
        )
        gone = await door.operations.slots.delete(remove, caller)
        door.wrote(caller.agent_id, gone.position)
        return ToolAnswer(f"deleted {arguments.label}", SlotTexts(slots=[]))
    if arguments.action != "read":
        command = SetSlot(
            event_id=arguments.event_id,
            label=arguments.label,
            content=arguments.content,
            project=arguments.project,
            scope=arguments.scope,
            append=arguments.action == "append",
        )
        accepted = await door.operations.slots.set(command, caller)
        door.wrote(caller.agent_id, accepted.position)
    place = "" if arguments.scope == "global" and arguments.action != "read" else arguments.project
    return _answer([await door.operations.slots.get(reader, place, arguments.label)])


def _answer(slots: "Sequence[Slot]") -> ToolAnswer:
    """The slots, as text under their labels."""
    found = [
        SlotAnswer(label=one.label, content=one.content, scope=one.scope, size_limit=one.size_limit, pinned=one.pinned)
        for one in slots
    ]
    text = "\n".join(f"{one.label} ({len(one.content)}/{one.size_limit}): {one.content or '(empty)'}" for one in found)
    return ToolAnswer(text, SlotTexts(slots=found))


SLOTS = Tool(
    name="slots",
    title="Slots",
    description=(
        "Small named texts that every session of a project sees at its start: what is pending, who the user is, how "
        "to work here. List, read, write, append to or delete one. Keep them short and current; for everything else "
        "use `remember`."
    ),
    arguments=SlotsArguments,
    answer=SlotTexts,
    reads_only=False,
    needs=READ_WRITE,
    call=call,
)
