"""The tools that read: recall searches, context compiles what to know before starting; and how their answers look.

Hosts show a model either the text or the data of an answer, so each is complete, and neither is longer than needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from ingest.errors import CommandRejected
from ingest.events.envelope import Trust
from ingest.kinds import SearchedKind
from ingest.names import DATA_NOT_INSTRUCTIONS, marked
from ingest.nouns.command import Name, Names
from ingest.roles import READ
from mcp_gateway.tools.grouped import CLOSEST, NOT_RECORDED, grouped, lines_within
from mcp_gateway.tools.recalled_document import RecalledDocument
from mcp_gateway.tools.tool import Arguments, Call, Deferred, Tool, ToolAnswer, without_unset
from projections.text.tokens import estimated_tokens, fitting

if TYPE_CHECKING:
    from projections.queries.context import Context
    from projections.queries.recall import RecallAnswer, RecallRequest, RecallResult

SHOWN_CHARACTERS = 4_000
"""Of one full search result in the text: about a thousand tokens. The data has all of it."""
READ_CHARACTERS = 40_000
"""Of all documents read by id, in the text."""
USUAL_TOKENS = 700
"""Of an answer without `max_tokens`: some fifteen statements."""
OFFERED = 30
"""Results that are looked at for an answer: twice as many as usually fit."""
ENVELOPE_TOKENS, LEFT_OUT_TOKENS = 50, 10
"""Of the markers and notes around the results, and of the note on what `max_tokens` left out."""
QUOTED_CHARACTERS = 200
"""Of the query, if there are no results."""
READ_WHOLE = "`recall` with `ids` reads whole documents."


class Recalled(Struct, frozen=True, kw_only=True):
    """Results, best first, and notes on them."""

    results: list[RecalledDocument]
    note: Annotated[str, Meta(description="How to read the results, and what to do next.")]
    degraded: Annotated[list[str], Meta(description="What this answer may lack, and why. Empty if complete.")]


def shortened(result: "RecallResult", *, project_known: bool, session_known: bool) -> RecalledDocument:
    """A result as a short entry, without a project or session that the call named; memories and lessons are without
    session."""
    of_a_session = result.kind in ("observation", "summary") and not session_known
    return replace(
        _document(result),
        title=" ".join(result.title.split()),
        snippet=result.snippet,
        occurred_at=result.occurred_at.replace(microsecond=0),
        session_id=(result.session_id or "") if of_a_session else "",
        project="" if project_known else result.project,
    )


def in_full(result: "RecallResult") -> RecalledDocument:
    """A result with all its fields."""
    return replace(_document(result), content=result.content, score=result.score, metadata=result.metadata)


def _document(result: "RecallResult") -> RecalledDocument:
    return RecalledDocument(
        id=result.id,
        kind=result.kind,
        title=result.title,
        confidence=UNSET if result.confidence is None else result.confidence,
        occurred_at=result.occurred_at,
        agent_id=result.agent_id or "",
        session_id=result.session_id or "",
        project=result.project,
        derived_from=result.derived_from,
        confirmed=result.confirmed,
        repeats=result.repeats,
        trust="" if result.trust == "agent_concluded" else result.trust,
        changed_since=list(map(str, result.changed_since)),
        superseded_by=result.superseded_by,
        valid_until=result.valid_until or UNSET,
    )


def answered(
    results: list[RecalledDocument], degraded: list[str], *, whole: bool, statement: str = "", omitted: int = 0
) -> Recalled:
    """The results, `whole` or as entries, with notes on whether the subject is recorded and on what did not fit."""
    notes = [statement, "" if whole else READ_WHOLE]
    if omitted:
        notes.append(f"Left out by `max_tokens`: {omitted} results.")
    return Recalled(results=results, note=" ".join(filter(None, [DATA_NOT_INSTRUCTIONS, *notes])), degraded=degraded)


def stated(answer: "RecallAnswer") -> str:
    """Whether the subject of a query is recorded; empty if that is unknown."""
    if answer.certainty is None or answer.confidence is None:
        return ""
    sure = f"({percent(answer.confidence)} confidence)"
    match answer.certainty:
        case "recorded":
            return f"The subject is recorded {sure}."
        case "uncertain":
            return f"The subject may be recorded {sure}."
        case _:
            return f"Probably not recorded {sure}. Closest:"


def nothing(query: str, least: float | None, nearest: float | None, degraded: list[str], *, narrowed: bool) -> Recalled:
    """An empty answer that says why, and what to do. `least` is the requested confidence, `nearest` that of the
    answer."""
    quoted = f"`{' '.join(query.split())[:QUOTED_CHARACTERS]}`"
    if least and nearest is not None:
        note = f"No result for {quoted} has {percent(least)} confidence. Try other words, or a lower `min_confidence`."
    else:
        within = " within these filters" * narrowed
        note = f"Nothing recorded matches {quoted}{within}. Try other words{' or fewer filters' * narrowed}."
    return Recalled(results=[], note=note, degraded=degraded)


def percent(confidence: float) -> str:
    """A probability, never rounded up to 100%."""
    return f"{min(99, round(confidence * 100))}%"


def recalled_text(recalled: Recalled, lines: Sequence[str], statement: str = "") -> str:
    """Lines of results, marked as data; before them what the answer may lack and whether the subject is recorded."""
    notes = [f"Note: {lack}." for lack in recalled.degraded]
    if not lines:
        return "\n".join([*notes, recalled.note])
    notes += [statement] if statement else []
    advice = recalled.note.removeprefix(DATA_NOT_INSTRUCTIONS).replace(statement, "", 1).strip()
    return "\n".join([*notes, *marked("mnemolog-recall", [*lines]), *([advice] if advice else [])])


def entries(documents: Sequence[RecalledDocument], most: int = SHOWN_CHARACTERS) -> list[str]:
    """Full documents as a numbered list, `most` characters of each."""
    return [line for number, document in enumerate(documents, 1) for line in _entry(number, document, most)]


def _entry(number: int, document: RecalledDocument, most: int = SHOWN_CHARACTERS) -> list[str]:
    """The lines of a result in the list."""
    body = shown_of("\n".join(_body(document)), most).splitlines()
    return [f"{number}. {_heading(document)} ({', '.join(_facts(document))})", *(f"   {line}" for line in body)]


def document_text(document: RecalledDocument) -> str:
    """A full document, marked as data."""
    lines = [f"# {_heading(document)}", ", ".join(_facts(document)), "", *_body(document)]
    return "\n".join(marked("mnemolog-document", lines))


def _body(document: RecalledDocument) -> list[str]:
    text = (document.snippet or document.content).splitlines()
    return [*text, *detail_lines(document.details), *detail_lines(document.metadata)]


def _heading(document: RecalledDocument) -> str:
    """The title, unless the content begins with it."""
    title = " ".join(document.title.split())
    return document.kind.capitalize() if not title or " ".join(document.content.split()).startswith(title) else title


def _facts(document: RecalledDocument) -> Iterator[str]:
    yield f"{document.occurred_at:%Y-%m-%d}"
    yield f"{document.kind} by {document.agent_id}" if document.agent_id else document.kind
    if document.session_id:
        yield f"session {document.session_id}"
    if document.project:
        yield f"project {document.project}"
    if document.confirmed:
        yield f"confirmed {document.confirmed}x"
    if document.derived_from:
        yield f"derived from {len(document.derived_from)} documents"
    yield from document.changed_since
    if document.superseded_by:
        yield f"probably replaced by {document.superseded_by}"
    if document.valid_until is not UNSET:
        yield f"valid until {document.valid_until:%Y-%m-%d %H:%M} UTC"
    if document.trust:
        yield document.trust.replace("_", " ")
    summaries = [name for name in document.repeats if name.startswith("sum_")]
    if alike := len(document.repeats) - len(summaries):
        yield f"{alike} near-duplicate{'s' * (alike > 1)}"
    yield from (f"quoted in {name}" for name in summaries)
    yield document.id


def detail_lines(details: Mapping[str, Any]) -> Iterator[str]:
    """Other fields of a document, one per line; a value of several lines is below its name."""
    for name, value in details.items():
        match value:
            case dict():
                yield from detail_lines(value)  # pyright: ignore[reportUnknownArgumentType]
            case str():
                lines = value.splitlines()
                yield f"{name}: {lines[0]}" if len(lines) == 1 else f"{name}:"
                if len(lines) > 1:
                    yield from (f"  {line}" for line in lines)
            case list() | tuple() if all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
                yield f"{name}: {', '.join(value)}"  # pyright: ignore[reportUnknownArgumentType]
            case _:
                yield f"{name}: {msgspec.json.encode(value).decode()}"


def shown_of(text: str, most: int) -> str:
    """A text, or its beginning and the number of characters left out."""
    omitted = len(text) - most
    return text if omitted <= 0 else f"{text[:most]}\n[{omitted:,} more characters in the structured result]"


MAX_READ = 20
"""Documents that one call can read by id."""

OneProject = Annotated[Name, Meta(description="Omit for all projects.")]
Kinds = Annotated[list[SearchedKind], Meta(max_length=4, description="Omit for all.")]
AllTags = Annotated[Names, Meta(description="Must have all.")]
LeastSure = Annotated[float, Meta(ge=0, le=1, description="0 shows everything.")]
LeastTrust = Annotated[Trust, Meta(description="Lowest class.")]
Limit = Annotated[int, Meta(ge=1, le=200, description="Maximum results.")]
MaxTokens = Annotated[int, Meta(ge=1, le=200_000, description="Maximum tokens; default 700.")]
Time = Annotated[datetime, Meta(description="ISO 8601.")]
Ids = Annotated[list[Name], Meta(max_length=MAX_READ, description="Read these instead.")]


class RecallArguments(Arguments, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What to search for, or what to read."""

    query: Annotated[str, Meta(max_length=20_000, description="A question or keywords.")] = ""
    project: OneProject | UnsetType = UNSET
    author: Annotated[Name, Meta(description="Agent who wrote it.")] = ""
    session_id: Annotated[Name, Meta(description="Only this session.")] = ""
    kinds: Kinds | UnsetType = UNSET
    tags: AllTags | UnsetType = UNSET
    from_: Time | UnsetType = UNSET
    to: Time | UnsetType = UNSET
    as_of: Annotated[datetime, Meta(description="What was known then.")] | UnsetType = UNSET
    time_zone: Annotated[str, Meta(max_length=64, description="IANA name; else UTC.")] = ""
    limit: Limit | UnsetType = UNSET
    max_tokens: MaxTokens | UnsetType = UNSET
    min_confidence: LeastSure | UnsetType = UNSET
    min_trust: LeastTrust | UnsetType = UNSET
    full: Annotated[bool, Meta(description="Full texts, not snippets.")] = False
    ids: Ids | UnsetType = UNSET

    @property
    def narrowed(self) -> bool:
        """Whether filters limit the results."""
        filters = (self.project, self.kinds, self.tags, self.from_, self.to, self.as_of, self.min_trust)
        return bool(self.author or self.session_id) or any(value is not UNSET for value in filters)


async def recall(call: Call, arguments: RecallArguments) -> ToolAnswer:
    """Search on behalf of the agent, or read documents by id."""
    if arguments.ids:
        return await read_whole(call, arguments.ids, arguments.agent_id)
    if not arguments.query.strip():
        raise CommandRejected("must not be blank without `ids`", "query")
    question, reader = request(arguments), call.reader(arguments.agent_id)
    call.queries.context.count_recall(call.tenant, question.project)

    async def ask(after: str) -> "RecallAnswer":
        return await call.queries.recall(replace(question, after=after), reader)

    answer, missing = await call.read_own_writes(arguments.agent_id, ask)
    lacks = missing + answer.degraded + answer.notes
    results = answer.results[:CLOSEST] if answer.certainty == NOT_RECORDED else answer.results
    if not results:
        least = None if arguments.min_confidence is UNSET else arguments.min_confidence
        recalled = nothing(arguments.query, least, answer.confidence, lacks, narrowed=arguments.narrowed)
        return ToolAnswer(recalled_text(recalled, []), recalled)
    if arguments.full:
        documents = [in_full(result) for result in results]
        if arguments.max_tokens is not UNSET:
            room = arguments.max_tokens - ENVELOPE_TOKENS - LEFT_OUT_TOKENS
            documents = fitting(documents, lambda it: estimated_tokens("\n".join(_entry(1, it))), room)
        lines = entries(documents)
    else:
        room = USUAL_TOKENS if arguments.max_tokens is UNSET else arguments.max_tokens - LEFT_OUT_TOKENS
        project_known, session_known = arguments.project is not UNSET, bool(arguments.session_id)
        offered = [shortened(result, project_known=project_known, session_known=session_known) for result in results]
        contents = [result.content for result in results]
        selected = lines_within(offered, contents, arguments.query, room - ENVELOPE_TOKENS)
        documents, lines = [line.of for line in selected], [*grouped(selected)]
    omitted = 0 if arguments.max_tokens is UNSET else len(results) - len(documents)
    recalled = answered(documents, lacks, whole=arguments.full, statement=stated(answer), omitted=omitted)
    return ToolAnswer(recalled_text(recalled, lines, stated(answer)), recalled)


read_documents = Deferred("mcp_gateway.tools.documents:read_documents")


async def read_whole(call: Call, ids: list[str], agent_id: str = "") -> ToolAnswer:
    """The documents with these ids, in full."""
    lacks = await call.wait_for_own_writes(agent_id)
    ids = await call.whole_ids(ids, agent_id)
    documents, unknown = await read_documents(call, ids, call.reader(agent_id))
    lacks += [f"there is no document {name!r}" for name in unknown]
    if not documents:
        recalled = Recalled(results=[], note="Use ids from `recall` and `context`.", degraded=lacks)
    else:
        recalled = answered(documents, lacks, whole=True)
    return ToolAnswer(recalled_text(recalled, entries(documents, READ_CHARACTERS // max(1, len(documents)))), recalled)


def request(arguments: RecallArguments) -> "RecallRequest":
    """The query of the arguments; `agent_id` is the reader, `author` a filter."""
    from projections.queries.recall import RecallRequest  # loads the index, which the stdio bridge must not

    keywords = {
        name: value for name, value in without_unset(arguments).items() if name not in ("full", "ids", "max_tokens")
    }
    keywords["agent_id"] = keywords.pop("author")
    if not arguments.full:
        keywords.setdefault("limit", OFFERED)
    return RecallRequest(**keywords)


RECALL = Tool(
    name="recall", title="Recall",
    description=(
        "Search what you and other agents recorded: memories, lessons, past sessions. Use it before you assume, when "
        "the user refers to something earlier, and before work that may already be done. Ask in plain language."
    ),
    arguments=RecallArguments, answer=Recalled, reads_only=True, needs=READ, call=recall,
)  # fmt: skip


class ContextArguments(Arguments, frozen=True, kw_only=True):
    """The project, the task, and the budget."""

    project: Annotated[Name, Meta(description="Your project.")]
    session_id: Annotated[Name, Meta(description="Your session, left out.")] = ""
    query: Annotated[str, Meta(max_length=20_000, description="Your task.")] = ""
    token_budget: Annotated[int, Meta(ge=1, le=200_000, description="Maximum tokens.")] = 2000


class ContextBlock(Struct, frozen=True, kw_only=True):
    """One part of the context, and the ids of its source documents."""

    title: str
    sources: list[str]


class Compiled(Struct, frozen=True, kw_only=True):
    """The context, its sources, and what it may lack.

    It includes the text, because hosts that show a model structured content show nothing else.
    """

    context: Annotated[str, Meta(description="The text to read; empty if nothing is recorded or nothing fits.")]
    tokens: int
    blocks: Annotated[list[ContextBlock], Meta(description="Parts with source documents.")]
    left_out: Annotated[list[str], Meta(description="Parts that did not fit the budget.")]
    degraded: Annotated[list[str], Meta(description="What this answer may lack, and why. Empty if complete.")]


async def compile_context(call: Call, arguments: ContextArguments) -> ToolAnswer:
    """Compile the context on behalf of the agent."""
    compiled = await compiled_context(call, arguments)
    return ToolAnswer(context_text(compiled, arguments), compiled)


async def compiled_context(call: Call, arguments: ContextArguments) -> Compiled:
    """What the agent should know, including its own writes."""
    from projections.queries.context import ContextRequest  # loads the index, which the stdio bridge must not

    reader = call.reader(arguments.agent_id)

    async def ask(after: str) -> "Context":
        return await call.queries.context(ContextRequest(**asdict(arguments), after=after), reader)

    context, missing = await call.read_own_writes(arguments.agent_id, ask)
    return Compiled(
        context=context.context,
        tokens=context.tokens,
        blocks=[ContextBlock(title=block.title, sources=block.sources) for block in context.blocks if block.sources],
        left_out=context.left_out,
        degraded=missing + context.notes,
    )


def context_text(compiled: Compiled, arguments: ContextArguments) -> str:
    """The context, with a line before it on what it may lack, and one after it on what did not fit."""
    lines = [f"Note: {lack}." for lack in compiled.degraded]
    empty = f"Nothing recorded about project {arguments.project!r} fits in {arguments.token_budget} tokens."
    lines.append(compiled.context or empty)
    if compiled.left_out:
        lines.append(f"Left out for space: {', '.join(compiled.left_out)}. Use a larger token_budget to include them.")
    return "\n".join(lines)


CONTEXT = Tool(
    name="context", title="Compile a context",
    description=(
        "Get up to speed: a project's memories and lessons, the outcome of its last sessions and, with a `query`, what "
        "is known about your task. Call it once, at the start of a session or task; for questions use `recall`."
    ),
    arguments=ContextArguments, answer=Compiled, reads_only=True, needs=READ, call=compile_context,
)  # fmt: skip
