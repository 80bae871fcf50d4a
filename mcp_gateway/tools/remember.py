"""remember: keep something for a long time."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from ingest.commands.command import Name
from ingest.commands.requests import Remember
from ingest.events.memory import MemoryType, Visibility
from ingest.roles import WRITE
from mcp_gateway.tools.tool import Tags, Tool, ToolAnswer, ToolContext, WriteArguments, Written, without_unset, written

Readers = Annotated[list[Name], Meta(max_length=200, description="Agents that may see it when it is `shared`.")]
Files = Annotated[list[Name], Meta(max_length=200, description="Paths it is about.")]
Days = Annotated[
    float, Meta(gt=0, le=36_500, description="Not recalled any more after this many days. Left out: for ever.")
]


class RememberArguments(WriteArguments, frozen=True, kw_only=True):
    """A memory to keep."""

    content: Annotated[str, Meta(description="What to remember, in full sentences that make sense on their own.")]
    memory_type: Annotated[
        MemoryType,
        Meta(
            description="`semantic`: a fact or decision; `episodic`: something that happened; `procedural`: a how-to."
        ),
    ] = "semantic"
    tags: Tags | UnsetType = UNSET
    files: Files | UnsetType = UNSET
    importance: Annotated[float, Meta(ge=0, le=10, description="10: comes first among equals; 1: trivia.")] = 5.0
    visibility: Annotated[
        Visibility,
        Meta(description="Who finds it: everyone (`public`), those in `shared_with`, or only you (`private`)."),
    ] = "public"
    shared_with: Readers | UnsetType = UNSET
    session_id: Annotated[Name, Meta(description="The session it comes from.")] = ""
    ttl_days: Days | UnsetType = UNSET


async def call(door: ToolContext, arguments: RememberArguments) -> ToolAnswer:
    """Record the memory."""
    return written("remembered", await door.write(Remember(**without_unset(arguments))))


REMEMBER = Tool(
    name="remember",
    title="Remember",
    description=(
        "Keep a fact, decision, preference or procedure for later sessions and for other agents. Use it when the user "
        "states something lasting, when a choice is made and why, or when you worked out how something is done here. "
        "One idea per call. For what merely happened in this session use `observe`; for advice learned from a "
        "mistake or success use `lesson`. It can be recalled at once."
    ),
    arguments=RememberArguments,
    answer=Written,
    reads_only=False,
    needs=WRITE,
    call=call,
)
