"""revise: correct a memory, as a new version of it."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from ingest.commands.command import Name
from ingest.events.memory import Visibility
from ingest.roles import READ_WRITE
from mcp_gateway.tools.remember import Files, Readers
from mcp_gateway.tools.tool import (
    Arguments,
    EventId,
    Tags,
    Tool,
    ToolAnswer,
    ToolContext,
    Written,
    without_unset,
    written,
)


class ReviseArguments(Arguments, frozen=True, kw_only=True):
    """Which memory, and what changes. What is left out stays."""

    id: Annotated[Name, Meta(min_length=1, description="Id of the memory, as `recall` says it.")]
    content: Annotated[str, Meta(min_length=1, description="Its new text, complete.")] | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    files: Files | UnsetType = UNSET
    importance: Annotated[float, Meta(ge=0, le=10, description="10: comes first among equals.")] | UnsetType = UNSET
    visibility: Annotated[Visibility, Meta(description="Who finds it from now on.")] | UnsetType = UNSET
    shared_with: Readers | UnsetType = UNSET
    event_id: EventId = ""


async def call(door: ToolContext, arguments: ReviseArguments) -> ToolAnswer:
    """Revise the memory; its earlier versions stay readable."""
    from projections.operations import MemoryChanges  # loads the index, which the stdio bridge must not

    changes = without_unset(arguments)
    name = changes.pop("id")
    reader, caller = door.reader(arguments.agent_id), door.caller(arguments.agent_id)
    accepted = await door.operations.memories.change(name, MemoryChanges(**changes), reader, caller)
    door.wrote(caller.agent_id, accepted.position)
    return written("revised", accepted)


REVISE = Tool(
    name="revise",
    title="Revise a memory",
    description=(
        "Correct a memory: its text, labels, or who may see it. The new version takes its place in `recall`; the old "
        "one stays in its history. Use it when something remembered has changed or was wrong."
    ),
    arguments=ReviseArguments,
    answer=Written,
    reads_only=False,
    needs=READ_WRITE,
    call=call,
)
