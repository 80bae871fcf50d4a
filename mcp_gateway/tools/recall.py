"""recall: find what is known about something."""

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

SHOWN_CHARACTERS = 4_000
"""Of one result, in the text: about a thousand tokens. The data has all of it."""

Kind = Literal["observation", "memory", "lesson", "summary"]
OneProject = Annotated[Name, Meta(description="Search only this project. Left out: all of them.")]
Kinds = Annotated[list[Kind], Meta(max_length=4, description="Only these kinds of documents. Left out: all.")]
AllTags = Annotated[Names, Meta(description="Only documents with all of these tags.")]
Time = Annotated[datetime, Meta(description="ISO 8601, e.g. 2026-01-31T12:00:00Z.")]


class RecallArguments(Arguments, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What to look for."""

    query: Annotated[
        str, Meta(min_length=1, max_length=20_000, description="What you want to know: a question or key words.")
    ]
    project: OneProject | UnsetType = UNSET
    author: Annotated[Name, Meta(description="Only what this agent wrote.")] = ""
    session_id: Annotated[Name, Meta(description="Only what belongs to this session.")] = ""
    kinds: Kinds | UnsetType = UNSET
    tags: AllTags | UnsetType = UNSET
    from_: Time | UnsetType = UNSET
    to: Time | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="How many results at most.")] = 10


class RecalledDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result."""

    id: str
    kind: Kind
    score: Annotated[float, Meta(description="Comparable within this answer only.")]
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


async def call(door: ToolContext, arguments: RecallArguments) -> ToolAnswer:
    """Search on behalf of the agent."""
    question, reader = request(arguments), door.reader(arguments.agent_id)

    async def ask(after: str) -> "RecallAnswer":
        return await door.queries.recall(replace(question, after=after), reader)

    answer, missing = await door.read_own_writes(arguments.agent_id, ask)
    recalled = Recalled(results=[_found(one) for one in answer.results], degraded=missing + answer.degraded)
    return ToolAnswer(text_of(recalled, arguments.query), recalled)


def request(arguments: RecallArguments) -> "RecallRequest":
    """The question that the arguments ask; `agent_id` says who asks, `author` narrows."""
    from projections.queries import RecallRequest  # loads the index, which the stdio bridge must not

    keywords = without_unset(arguments)
    keywords["agent_id"] = keywords.pop("author")
    return RecallRequest(**keywords)


def text_of(recalled: Recalled, query: str) -> str:
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
    return RecalledDocument(
        id=result.id,
        kind=result.kind,
        score=result.score,
        title=result.title,
        content=result.content,
        project=result.project,
        occurred_at=result.occurred_at,
        session_id=result.session_id or "",
        agent_id=result.agent_id or "",
        metadata=result.metadata,
    )


RECALL = Tool(
    name="recall",
    title="Recall",
    description=(
        "Search everything you and other agents have recorded: memories, lessons, observations of past sessions. Use "
        "it before you answer from assumption, when the user refers to something earlier, and before you redo work "
        "that may have been done. Ask in plain words; filters narrow. Finds what you wrote a moment ago."
    ),
    arguments=RecallArguments,
    answer=Recalled,
    reads_only=True,
    needs=READ,
    call=call,
)
