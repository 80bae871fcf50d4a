"""The tools that read: recall finds what is known about something, context says what to know before starting."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from ingest.commands.command import Name, Names
from ingest.errors import CommandRejected
from ingest.roles import READ
from mcp_gateway.tools.recalled import (
    READ_CHARACTERS,
    Kind,
    Recalled,
    RecalledDocument,
    answered,
    in_full,
    nothing,
    recalled_text,
    shortened,
)
from mcp_gateway.tools.tool import Arguments, Tool, ToolAnswer, ToolContext, without_unset

if TYPE_CHECKING:
    from projections.queries.context import Context
    from projections.queries.recall import RecallAnswer, RecallRequest, RecallResult

MAX_READ = 20
"""Documents that one call reads by id."""

OneProject = Annotated[Name, Meta(description="Left out: all projects.")]
Kinds = Annotated[list[Kind], Meta(max_length=4, description="Left out: all.")]
AllTags = Annotated[Names, Meta(description="All of these.")]
LeastSure = Annotated[float, Meta(ge=0, le=1, description="How sure results must be; 0: show all.")]
Time = Annotated[datetime, Meta(description="ISO 8601, e.g. 2026-01-31T12:00:00Z.")]
Ids = Annotated[list[Name], Meta(max_length=MAX_READ, description="Read these whole; no search.")]


class RecallArguments(Arguments, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What to look for, or what to read."""

    query: Annotated[str, Meta(max_length=20_000, description="A question or key words.")] = ""
    project: OneProject | UnsetType = UNSET
    author: Annotated[Name, Meta(description="Who wrote it.")] = ""
    session_id: Annotated[Name, Meta(description="Of this session.")] = ""
    kinds: Kinds | UnsetType = UNSET
    tags: AllTags | UnsetType = UNSET
    from_: Time | UnsetType = UNSET
    to: Time | UnsetType = UNSET
    time_zone: Annotated[str, Meta(max_length=64, description="IANA; else UTC.")] = ""
    limit: Annotated[int, Meta(ge=1, le=200, description="At most.")] = 10
    min_confidence: LeastSure | UnsetType = UNSET
    full: Annotated[bool, Meta(description="Whole texts, not snippets.")] = False
    ids: Ids | UnsetType = UNSET

    @property
    def narrowed(self) -> bool:
        """Whether anything but the query limits what may be found."""
        filters = (self.project, self.kinds, self.tags, self.from_, self.to)
        return bool(self.author or self.session_id) or any(one is not UNSET for one in filters)


async def recall(call: ToolContext, arguments: RecallArguments) -> ToolAnswer:
    """Search on behalf of the agent, or read what it names."""
    if arguments.ids:
        return await read_whole(call, arguments.ids, arguments.agent_id)
    if not arguments.query.strip():
        raise CommandRejected("it is blank, and no `ids` are given", "query")
    question, reader = request(arguments), call.reader(arguments.agent_id)

    async def ask(after: str) -> "RecallAnswer":
        return await call.queries.recall(replace(question, after=after), reader)

    answer, missing = await call.read_own_writes(arguments.agent_id, ask)
    lacks = missing + answer.degraded + answer.notes
    if answer.results:
        recalled = answered([_entry(one, arguments) for one in answer.results], lacks, whole=arguments.full)
    else:
        least = None if arguments.min_confidence is UNSET else arguments.min_confidence
        recalled = nothing(arguments.query, least, answer.confidence, lacks, narrowed=arguments.narrowed)
    return ToolAnswer(recalled_text(recalled), recalled)


def _entry(result: "RecallResult", arguments: RecallArguments) -> RecalledDocument:
    if arguments.full:
        return in_full(result)
    return shortened(result, project_known=arguments.project is not UNSET, session_known=bool(arguments.session_id))


async def read_whole(call: ToolContext, ids: list[str], agent_id: str = "") -> ToolAnswer:
    """The documents with these ids, whole."""
    from mcp_gateway.tools.documents import read_documents  # loads the index, which the stdio bridge must not

    lacks = await call.wait_for_own_writes(agent_id)
    found, unknown = await read_documents(call, ids, call.reader(agent_id))
    lacks += [f"there is no document {name!r}" for name in unknown]
    if not found:
        recalled = Recalled(results=[], note="Ids are those that `recall` and `context` answer.", degraded=lacks)
    else:
        recalled = answered(found, lacks, whole=True)
    return ToolAnswer(recalled_text(recalled, READ_CHARACTERS // max(1, len(found))), recalled)


def request(arguments: RecallArguments) -> "RecallRequest":
    """The question that the arguments ask; `agent_id` says who asks, `author` narrows."""
    from projections.queries.recall import RecallRequest  # loads the index, which the stdio bridge must not

    keywords = {name: one for name, one in without_unset(arguments).items() if name not in ("full", "ids")}
    keywords["agent_id"] = keywords.pop("author")
    return RecallRequest(**keywords)


RECALL = Tool(
    name="recall", title="Recall",
    description=(
        "Search what you and other agents recorded: memories, lessons, past sessions. Use it before you assume, when "
        "the user refers to something earlier, and before work that may have been done. Ask in plain words."
    ),
    arguments=RecallArguments, answer=Recalled, reads_only=True, needs=READ, call=recall,
)  # fmt: skip


class ContextArguments(Arguments, frozen=True, kw_only=True):
    """For whom, and how much room there is."""

    project: Annotated[Name, Meta(description="What you are about to work on.")]
    session_id: Annotated[Name, Meta(description="Your current one, left out.")] = ""
    query: Annotated[str, Meta(max_length=20_000, description="What you are about to do.")] = ""
    token_budget: Annotated[int, Meta(ge=1, le=200_000, description="How long it may be.")] = 2000


class ContextBlock(Struct, frozen=True, kw_only=True):
    """One part of the context, and the ids of the documents it was made of."""

    title: str
    sources: list[str]


class Compiled(Struct, frozen=True, kw_only=True):
    """The context, what it is made of, and what it may lack.

    The text is here, too: hosts that show a model structured content show it nothing else.
    """

    context: Annotated[str, Meta(description="The text to read; empty when nothing is known or nothing fits.")]
    tokens: int
    blocks: Annotated[list[ContextBlock], Meta(description="Those made of documents.")]
    left_out: Annotated[list[str], Meta(description="Parts that did not fit the budget.")]
    degraded: Annotated[list[str], Meta(description="What this answer may lack, and why. Empty: nothing.")]


async def compile_context(call: ToolContext, arguments: ContextArguments) -> ToolAnswer:
    """Compile the context on behalf of the agent."""
    compiled = await compiled_context(call, arguments)
    return ToolAnswer(context_text(compiled, arguments), compiled)


async def compiled_context(call: ToolContext, arguments: ContextArguments) -> Compiled:
    """What the agent should know, having waited for its own writes."""
    from projections.queries.context import ContextRequest  # loads the index, which the stdio bridge must not

    reader = call.reader(arguments.agent_id)

    async def ask(after: str) -> "Context":
        question = ContextRequest(
            project=arguments.project,
            session_id=arguments.session_id,
            query=arguments.query,
            token_budget=arguments.token_budget,
            agent_id=arguments.agent_id,
            after=after,
        )
        return await call.queries.context(question, reader)

    context, missing = await call.read_own_writes(arguments.agent_id, ask)
    return Compiled(
        context=context.context,
        tokens=context.tokens,
        blocks=[ContextBlock(title=one.title, sources=one.sources) for one in context.blocks if one.sources],
        left_out=context.left_out,
        degraded=missing + context.notes,
    )


def context_text(compiled: Compiled, arguments: ContextArguments) -> str:
    """The context, with a line on what it may lack before it and on what did not fit behind it."""
    lines = [f"Note: {lack}." for lack in compiled.degraded]
    nothing_told = f"Nothing to tell about project {arguments.project!r} within {arguments.token_budget} tokens."
    lines.append(compiled.context or nothing_told)
    if compiled.left_out:
        lines.append(f"Left out for lack of room: {', '.join(compiled.left_out)}. A larger token_budget includes them.")
    return "\n".join(lines)


CONTEXT = Tool(
    name="context", title="Compile a context",
    description=(
        "Get up to speed: a project's memories and lessons, what came of its last sessions and, with a `query`, what "
        "is known about your task. Call it once, at the start of a session or task; for a question use `recall`."
    ),
    arguments=ContextArguments, answer=Compiled, reads_only=True, needs=READ, call=compile_context,
)  # fmt: skip
