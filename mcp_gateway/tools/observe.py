"""observe: record what happened in a session."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from ingest.commands.command import Name
from ingest.commands.requests import Observe
from ingest.roles import WRITE
from mcp_gateway.tools.tool import Tool, ToolAnswer, ToolContext, WriteArguments, Written, without_unset, written

When = Annotated[
    datetime, Meta(tz=True, description="When it happened, with a zone (2026-01-31T12:00:00Z). Left out: now.")
]
Data = Annotated[dict[str, Any], Meta(description="The same as data (tool name, input, output), if there is any.")]


class ObserveArguments(WriteArguments, frozen=True, kw_only=True):
    """Something seen or done."""

    session_id: Annotated[Name, Meta(min_length=1, description="The session it happened in; any stable name.")]
    content: Annotated[str, Meta(min_length=1, description="What happened, in words.")]
    kind: Annotated[
        str,
        Meta(max_length=64, description="What sort of event, e.g. `tool_use`, `user_message`, `decision`, `error`."),
    ] = ""
    data: Data | UnsetType = UNSET
    occurred_at: When | UnsetType = UNSET


async def call(door: ToolContext, arguments: ObserveArguments) -> ToolAnswer:
    """Record the observation; its session opens by itself."""
    return written("observed", await door.write(Observe(**without_unset(arguments))))


OBSERVE = Tool(
    name="observe",
    title="Observe",
    description=(
        "Write down one thing that happened in a session: a step you took, a result, an error, what the user asked. "
        "Use it as you go; observations of a session stay in order and show up in `recall` and `context`. "
        "For knowledge that should outlive the session use `remember`."
    ),
    arguments=ObserveArguments,
    answer=Written,
    reads_only=False,
    needs=WRITE,
    call=call,
)
