"""lesson: state something learned."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from ingest.commands.command import Name
from ingest.commands.requests import RecordLesson
from ingest.roles import WRITE
from mcp_gateway.tools.tool import Tags, Tool, ToolAnswer, ToolContext, WriteArguments, Written, without_unset, written


class LessonArguments(WriteArguments, frozen=True, kw_only=True):
    """A lesson to state."""

    content: Annotated[str, Meta(description="The lesson as advice: `Do X before Y, because Z`.")]
    context: Annotated[str, Meta(description="When it applies, or what taught it.")] = ""
    confidence: Annotated[float, Meta(ge=0, le=1, description="How sure you are, 0 to 1.")] = 0.5
    tags: Tags | UnsetType = UNSET
    session_id: Annotated[Name, Meta(description="The session that taught it.")] = ""


async def call(door: ToolContext, arguments: LessonArguments) -> ToolAnswer:
    """Record the lesson, or make the one that says the same stronger."""
    return written("lesson recorded", await door.write(RecordLesson(**without_unset(arguments))))


LESSON = Tool(
    name="lesson",
    title="Record a lesson",
    description=(
        "Record advice learned from experience: what went wrong and how to avoid it, or what worked. Use it after a "
        "mistake was understood, after a correction by the user, or when something proved itself. Stating the same "
        "lesson again raises its confidence, so do. The surest lessons open every `context` of the project."
    ),
    arguments=LessonArguments,
    answer=Written,
    reads_only=False,
    needs=WRITE,
    call=call,
)
