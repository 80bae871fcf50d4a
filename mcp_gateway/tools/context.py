"""context: what to know before starting."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from ingest.commands.command import Name
from ingest.roles import READ
from mcp_gateway.tools.tool import Arguments, Tool, ToolAnswer, ToolContext

if TYPE_CHECKING:
    from projections.queries.context import Context


class ContextArguments(Arguments, frozen=True, kw_only=True):
    """For whom, and how much room there is."""

    project: Annotated[Name, Meta(description="The project you are about to work on.")]
    session_id: Annotated[Name, Meta(description="Your current session: it is left out, you know it.")] = ""
    query: Annotated[
        str, Meta(max_length=20_000, description="What you are about to do; adds what is known about it.")
    ] = ""
    token_budget: Annotated[int, Meta(ge=1, le=200_000, description="How long the context may be.")] = 2000


class ContextBlock(Struct, frozen=True, kw_only=True):
    """One part of the context, and the ids of the documents it was made of."""

    kind: str
    title: str
    tokens: int
    sources: list[str]


class Compiled(Struct, frozen=True, kw_only=True):
    """The context, what it is made of, and what it may lack."""

    context: Annotated[str, Meta(description="The text to read; empty when nothing is known or nothing fits.")]
    blocks: list[ContextBlock]
    tokens: int
    token_budget: int
    left_out: Annotated[list[str], Meta(description="Parts that did not fit the budget.")]
    degraded: Annotated[list[str], Meta(description="What this answer may lack, and why. Empty: nothing.")]


async def call(door: ToolContext, arguments: ContextArguments) -> ToolAnswer:
    """Compile the context on behalf of the agent."""
    from projections.queries import ContextRequest  # loads the index, which the stdio bridge must not

    reader = door.reader(arguments.agent_id)

    async def ask(after: str) -> "Context":
        question = ContextRequest(
            project=arguments.project,
            session_id=arguments.session_id,
            query=arguments.query,
            token_budget=arguments.token_budget,
            agent_id=arguments.agent_id,
            after=after,
        )
        return await door.queries.context(question, reader)

    context, missing = await door.read_own_writes(arguments.agent_id, ask)
    compiled = Compiled(
        context=context.context,
        blocks=[
            ContextBlock(kind=one.kind, title=one.title, tokens=one.tokens, sources=one.sources)
            for one in context.blocks
        ],
        tokens=context.tokens,
        token_budget=context.token_budget,
        left_out=context.left_out,
        degraded=missing,
    )
    return ToolAnswer(text_of(compiled, arguments.project), compiled)


def text_of(compiled: Compiled, project: str) -> str:
    """The context, with a line on what it may lack before it and on what did not fit behind it."""
    lines = [f"Note: {lack}." for lack in compiled.degraded]
    lines.append(
        compiled.context or f"Nothing to tell about project {project!r} within {compiled.token_budget} tokens."
    )
    if compiled.left_out:
        lines.append(f"Left out for lack of room: {', '.join(compiled.left_out)}. A larger token_budget includes them.")
    return "\n".join(lines)


CONTEXT = Tool(
    name="context",
    title="Compile a context",
    description=(
        "Get up to speed: the surest lessons of a project, what mattered in its recent sessions and, with a `query`, "
        "what is known about your task, all within a token budget. Call it once, at the start of a session or task; "
        "for a specific question use `recall`."
    ),
    arguments=ContextArguments,
    answer=Compiled,
    reads_only=True,
    needs=READ,
    call=call,
)
