"""forget: remove something for good."""

from typing import Annotated

from msgspec import Meta, Struct

from ingest.commands.command import Name
from ingest.roles import READ_WRITE
from mcp_gateway.tools.tool import Arguments, EventId, Tool, ToolAnswer, ToolContext

Reason = Annotated[str, Meta(max_length=512, description="Why; kept in the log, the content is not.")]


class ForgetArguments(Arguments, frozen=True, kw_only=True):
    """What to forget."""

    id: Annotated[
        Name, Meta(min_length=1, description="Id of a memory, lesson, observation, slot, action or relation.")
    ]
    reason: Reason = ""
    event_id: EventId = ""


class Forgot(Struct, frozen=True, kw_only=True):
    """What was forgotten: the document, and what was derived from it."""

    documents: Annotated[dict[str, int], Meta(description="How many documents went, by kind.")]
    event_id: Annotated[str, Meta(description="Id of the forgetting in the log.")]
    position: Annotated[str, Meta(description="Place in the log; REST reads take it as `after`.")]


async def call(door: ToolContext, arguments: ForgetArguments) -> ToolAnswer:
    """Forget the document, if it is there for this agent."""
    reader, caller = door.reader(arguments.agent_id), door.caller(arguments.agent_id)
    gone = await door.operations.forgetting.document(
        arguments.id, reader, caller, reason=arguments.reason, event_id=arguments.event_id
    )
    door.wrote(caller.agent_id, gone.position)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(gone.documents.items()))
    answer = Forgot(documents=gone.documents, event_id=gone.event_id, position=gone.position)
    return ToolAnswer(f"forgot {arguments.id} ({told})", answer)


FORGET = Tool(
    name="forget",
    title="Forget",
    description=(
        "Remove one document for good, with everything derived from it: its content leaves search, storage and the "
        "log. Use it when the user asks for it, or for what must not be kept. To correct a memory use `revise`."
    ),
    arguments=ForgetArguments,
    answer=Forgot,
    reads_only=False,
    needs=READ_WRITE,
    destructive=True,
    call=call,
)
