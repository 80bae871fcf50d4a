"""The tools that read: recall finds what is known about something, context says what to know before starting."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from ingest.commands.command import Name, Names
from ingest.marking import marked
from ingest.roles import READ
from mcp_gateway.tools.tool import Arguments, Tool, ToolAnswer, ToolContext, without_unset

if TYPE_CHECKING:
    from projections.queries import RecallAnswer, RecallRequest, RecallResult
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.queries.context import Context


SHOWN_CHARACTERS = 4_000
"""Of one result, in the text: about a thousand tokens. The data has all of it."""

Kind = Literal["observation", "memory", "lesson", "summary"]
OneProject = Annotated[Name, Meta(description="Left out: all projects.")]
Kinds = Annotated[list[Kind], Meta(max_length=4, description="Left out: all.")]
AllTags = Annotated[Names, Meta(description="All of these.")]
LeastSure = Annotated[float, Meta(ge=0, le=1, description="How sure results must be; 0: show all.")]
Time = Annotated[datetime, Meta(description="ISO 8601, e.g. 2026-01-31T12:00:00Z.")]


class RecallArguments(Arguments, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What to look for."""

    query: Annotated[str, Meta(min_length=1, max_length=20_000, description="A question or key words.")]
    project: OneProject | UnsetType = UNSET
    author: Annotated[Name, Meta(description="Who wrote it.")] = ""
    session_id: Annotated[Name, Meta(description="Of this session.")] = ""
    kinds: Kinds | UnsetType = UNSET
    tags: AllTags | UnsetType = UNSET
    from_: Time | UnsetType = UNSET
    to: Time | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="At most.")] = 10
    min_confidence: LeastSure | UnsetType = UNSET


class RecalledDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result."""

    id: str
    kind: Kind
    score: Annotated[float, Meta(description="Comparable within this answer only.")]
    confidence: Annotated[float, Meta(description="0 to 1: how sure this is an answer at all.")] | UnsetType = UNSET
    title: str
    content: str
    project: str
    occurred_at: Annotated[datetime, Meta(tz=True)]
    session_id: str = ""
    agent_id: str = ""
    metadata: dict[str, str] = {}


class Recalled(Struct, frozen=True, kw_only=True):
    """What was found, best first."""

    results: list[RecalledDocument]
    degraded: Annotated[list[str], Meta(description="What this answer may lack, and why. Empty: nothing.")]


async def recall(door: ToolContext, arguments: RecallArguments) -> ToolAnswer:
    """Search on behalf of the agent."""
    question, reader = request(arguments), door.reader(arguments.agent_id)

    async def ask(after: str) -> "RecallAnswer":
        return await door.queries.recall(replace(question, after=after), reader)

    answer, missing = await door.read_own_writes(arguments.agent_id, ask)
    recalled = Recalled(results=[_found(one) for one in answer.results], degraded=missing + answer.degraded)
    return ToolAnswer(recalled_text(recalled, arguments.query), recalled)


def request(arguments: RecallArguments) -> "RecallRequest":
    """The question that the arguments ask; `agent_id` says who asks, `author` narrows."""
    from projections.queries import RecallRequest  # loads the index, which the stdio bridge must not

    keywords = without_unset(arguments)
    keywords["agent_id"] = keywords.pop("author")
    return RecallRequest(**keywords)


def recalled_text(recalled: Recalled, query: str) -> str:
    """The results as a numbered list, marked as data, after a line on what they may lack."""
    notes = [f"Note: {lack}." for lack in recalled.degraded]
    if not recalled.results:
        return "\n".join([*notes, f"Nothing found for: {' '.join(query.split())[:200]}"])
    lines: list[str] = []
    for number, one in enumerate(recalled.results, 1):
        title = " ".join(one.title.split())
        where = [f"{one.occurred_at:%Y-%m-%d %H:%M} UTC", one.kind, one.id]
        where += [f"{name} {value}" for name, value in _places(one) if value]
        lines.append(f"{number}. {title or one.kind.capitalize()} ({', '.join(where)})")
        if one.content.strip() != one.title.strip():
            lines += [f"   {line}" for line in _shown(one.content).splitlines()]
    return "\n".join([*notes, *marked("mnemolog-recall", lines)])


def _places(one: RecalledDocument) -> list[tuple[str, str]]:
    return [("project", one.project), ("session", one.session_id), ("agent", one.agent_id)]


def _shown(content: str) -> str:
    left = len(content) - SHOWN_CHARACTERS
    return (
        content if left <= 0 else f"{content[:SHOWN_CHARACTERS]}\n[{left:,} more characters in the structured result]"
    )


def _found(result: "RecallResult") -> RecalledDocument:
    fields = {name: getattr(result, name) for name in RecalledDocument.__struct_fields__}
    return RecalledDocument(**{name: value for name, value in fields.items() if value is not None})


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


async def compile_context(door: ToolContext, arguments: ContextArguments) -> ToolAnswer:
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
    return ToolAnswer(context_text(compiled, arguments.project), compiled)


def context_text(compiled: Compiled, project: str) -> str:
    """The context, with a line on what it may lack before it and on what did not fit behind it."""
    lines = [f"Note: {lack}." for lack in compiled.degraded]
    lines.append(
        compiled.context or f"Nothing to tell about project {project!r} within {compiled.token_budget} tokens."
    )
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
