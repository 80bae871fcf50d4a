"""Contexts at session start and before work on files; search; timelines."""

import asyncio
import time
from collections import OrderedDict
from typing import Any, NamedTuple, cast

from starlette.requests import Request

from api.dialects.agentmemory.endpoints import (
    MAX_LIMIT,
    Arguments,
    at_least_one,
    call_of,
    documents_of,
    named_agent,
    one_of,
    reading,
    settings,
    views,
)
from api.dialects.agentmemory.operations import success
from api.dialects.agentmemory.records import (
    FORMATS,
    Record,
    found_record,
    narrated,
    observation_record,
    packed,
    search_result,
)
from api.dialects.agentmemory.work import lesson_hint
from api.hook_observations import UNKNOWN_PROJECT
from ingest.errors import ProjectionBehind, ReaderUnknown
from ingest.platform.clock import system_clock
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.nouns.access import Reader
from projections.nouns.memory import Memory
from projections.queries.context import ContextRequest
from projections.queries.observation import EnrichRequest
from projections.queries.recall import RecallRequest
from projections.queries.views import view
from projections.text.similarity import SIMILAR_ABOVE, similarity

MAX_TOKENS = 200_000
TAG, OUR_TAG = "agentmemory-context", "mnemolog-context"


def estimated_tokens(text: str) -> int:
    """Characters divided by three, rounded up: agentmemory's estimate."""
    return -(-len(text) // 3)


LONGER_TOKENS = estimated_tokens(2 * (len(TAG) - len(OUR_TAG)) * " ")
"""What a context grows by when its tag is the one that agentmemory's clients know."""


class RenderedContext(NamedTuple):
    """A context, of how many blocks it is, and its tokens; an empty one when there is nothing to say."""

    context: str = ""
    blocks: int = 0
    tokens: int = 0


async def context_for(call: Call, reader: Reader, session: str, project: str, budget: int) -> RenderedContext:
    """The context of a project for a session, within a budget of tokens; raises ProjectionBehind without an index."""
    room = max(1, min(MAX_TOKENS, budget) - LONGER_TOKENS)
    context_request = ContextRequest(project=project, session_id=session, token_budget=room)
    compiled = await call.queries.context(context_request, reader, estimated_tokens)
    if not compiled.context:
        return RenderedContext()
    inner = compiled.context.removeprefix(f"<{OUR_TAG}").removesuffix(f"</{OUR_TAG}>")
    text = f"<{TAG}{inner}</{TAG}>"
    return RenderedContext(text, len(compiled.blocks), estimated_tokens(text))


async def context(request: Request, arguments: Arguments) -> Record:
    """The context of a project within a budget."""
    session, project = arguments.needed("sessionId"), arguments.chosen("project") or UNKNOWN_PROJECT
    at_least_one(arguments, "budget")
    budget = settings(request).token_budget if arguments["budget"] is None else int(arguments["budget"])
    agent = arguments.chosen("agentId") or request.query_params.get("agentId", "")
    call = call_of(request)
    reader = await reading(call, agent)
    try:
        rendered = await context_for(call, reader, session, project, budget)
    except ProjectionBehind as error:
        return {**RenderedContext()._asdict(), "degraded": [str(error)]}
    return rendered._asdict()


async def enrich(call: Call, arguments: Arguments) -> Record:
    """Information about files before work on them."""
    session = arguments.needed("sessionId")
    if not arguments["files"]:
        raise BadArgument("files must name at least one file", "files")
    requested = EnrichRequest(
        files=arguments["files"], session_id=session, terms=arguments["terms"] or [],
        tool_name=arguments["toolName"] or "", project=arguments.chosen("project"),
    )  # fmt: skip
    reader = await reading(call, arguments.chosen("agentId") or "")
    enrichment = await call.queries.around.enrich(reader, requested)
    return {"context": enrichment.context, "truncated": enrichment.truncated}


async def bridge(request: Request) -> Record:
    """Hooks call this before they request a context; there is nothing to synchronize."""
    return success(skipped=True, reason="memories are stored on the server, not in files")


WINDOW_S = 30.0
MAX_SEARCHERS = 10_000
# The index is loading, or no reader is named: there are no results, and the answer says why.
UNANSWERED = (ProjectionBehind, ReaderUnknown)
OURS = "viewer"
"""The page that comes with the server: a person looks, no agent."""
CAVEAT = (
    "counted by this process since it started: a search is followed up when the same session (or, where none is named, "
    "anybody) searches again within the window; that is a hint that the first answer was not enough, and no more"
)
QUERY_CHARS = 20_000
MAX_EXPANDED = 20
LESSONS_SHOWN = 5
# Memories compared with a new one, those that share most of its words.
ALIKE_LOOKED_AT = 20
ALIKE_CHARS = 2_000


class Followups:
    """How many searches agents made, and how many were followed by another one soon. Bounded."""

    def __init__(self) -> None:
        self.searches = self.followed = 0
        self._last: OrderedDict[str, float] = OrderedDict()

    def searched(self, session: str) -> None:
        """Count a search."""
        now = time.monotonic()
        before = self._last.pop(session, None)
        self.searches += 1
        self.followed += before is not None and now - before <= WINDOW_S
        self._last[session] = now
        if len(self._last) > MAX_SEARCHERS:
            self._last.popitem(last=False)


async def post_search(call: Call, arguments: Arguments) -> Record:
    """Search observations and memories."""
    at_least_one(arguments, "limit", "token_budget")
    if arguments["limit"] > MAX_LIMIT:
        raise BadArgument(f"limit must be at most {MAX_LIMIT}", "limit")
    try:
        return await recall(call, arguments)
    except UNANSWERED as error:  # a client that is refused silently continues without results
        form = arguments["format"] or "full"
        empty: Record = {"format": form, "results": [], "tokens_used": 0, "truncated": False}
        return {**empty, "degraded": [str(error)]}


async def post_smart_search(request: Request, arguments: Arguments) -> Record:
    """Search, titles first; what expandIds names in full."""
    if arguments["query"] is None and arguments["expandIds"] is None:
        raise BadArgument("query is required", "query")
    at_least_one(arguments, "limit")
    source = arguments["source"] or request.headers.get("x-agentmemory-source", "")
    if not arguments["expandIds"] and source != OURS:
        _followups(request).searched(arguments["sessionId"] or "")
    # The session is the one that asks: it narrows nothing.
    try:
        return await smart_search(call_of(request), arguments | {"sessionId": None})
    except UNANSWERED as error:
        return {"mode": "compact", "results": [], "lessons": [], "degraded": [str(error)]}


async def followup(request: Request) -> Record:
    """How often agents repeat a search soon after another one."""
    counted = _followups(request)
    rate = counted.followed / counted.searches if counted.searches else 0.0
    return success(
        windowSeconds=int(WINDOW_S),
        agentInitiatedSearches=counted.searches,
        followupWithinWindow=counted.followed,
        rate=round(rate, 4),
        caveat=CAVEAT,
    )


def _followups(request: Request) -> Followups:
    return request.app.state.agentmemory.followups


async def recall(call: Call, arguments: Arguments) -> Record:
    """memory_recall: search results, as many as fit the budget."""
    form = one_of(arguments["format"] or "full", FORMATS, "format")
    results, missing = await _search(call, arguments)
    items = [search_result(document, score, form) for document, score in results]
    budget: Any = arguments["token_budget"]
    selected, used, truncated = packed(items, None if budget is None else int(budget))
    record: Record = {"format": form, "results": selected, "tokens_used": used, "truncated": truncated}
    record |= {} if budget is None else {"tokens_budget": int(budget)}
    record |= {"degraded": missing} if missing else {}
    return record | ({"text": narrated(selected)} if form == "narrative" else {})


async def smart_search(call: Call, arguments: Arguments) -> Record:
    """memory_smart_search: titles first; what is named by id in full."""
    entries: list[Any] = arguments["expandIds"] or []
    names = [cast(Record, entry).get("obsId") if isinstance(entry, dict) else entry for entry in entries]
    if names := [name.strip() for name in names if isinstance(name, str) and name.strip()]:
        return await _expanded(call, arguments, names)
    results, missing = await _search(call, arguments)
    items = [search_result(document, score, "compact") for document, score in results]
    lessons: list[Record] = []
    if arguments["includeLessons"]:
        now = system_clock()
        reader = call.reader(named_agent(arguments))
        query = arguments.needed("query")[:QUERY_CHARS]
        hits = await call.queries.lessons.search(reader, query, arguments.chosen("project"), now, limit=LESSONS_SHOWN)
        lessons = [lesson_hint(view(lesson), lesson.confidence_at(now), score) for lesson, score in hits]
    record: Record = {"mode": "compact", "results": items, "lessons": lessons}
    return record | ({"degraded": missing} if missing else {})


async def timeline(call: Call, arguments: Arguments) -> Record:
    """memory_timeline: observations around an anchor."""
    surroundings = await call.queries.around.timeline(
        await reading(call, named_agent(arguments)),
        arguments.needed("anchor"),
        arguments.chosen("project"),
        arguments.chosen("sessionId") or "",
        arguments.count("before", MAX_LIMIT, 0),
        arguments.count("after", MAX_LIMIT, 0),
    )
    observations = [observation_record(view(entry.observation)) for entry in surroundings.entries]
    return success(
        entries=[
            {"observation": observation, "sessionId": observation["sessionId"], "relativePosition": entry.position}
            for observation, entry in zip(observations, surroundings.entries, strict=True)
        ],
        observations=observations,
        anchorIndex=surroundings.anchor_index,
        **({"reason": surroundings.reason} if surroundings.reason else {}),
    )


async def alike(call: Call, reader: Reader, content: str, project: str, besides: frozenset[str]) -> Record | None:
    """The hint that a memory like a new one is there already and was not superseded by it."""
    words = RecallRequest(
        query=content[:ALIKE_CHARS], kinds=["memory"], mode="lexical", limit=ALIKE_LOOKED_AT, fold=False
    )
    candidates = await call.queries.recall(words, reader)
    near = await documents_of(call, [hit.id for hit in candidates.results], reader, Memory)

    def scored() -> list[tuple[float, Memory]]:
        return [
            (similarity(content, memory.content), memory)
            for memory in near
            if memory.id not in besides and (not project or memory.project in ("", project))
        ]

    # in a thread: to compare texts of a megabyte takes a while
    best = max(await asyncio.to_thread(scored), key=lambda pair: pair[0], default=None)
    if best is None or best[0] <= SIMILAR_ABOVE:
        return None
    return {"id": best[1].id, "title": best[1].title, "similarity": round(best[0], 3)}


async def _search(call: Call, arguments: Arguments) -> tuple[list[tuple[Record, float]], list[str]]:
    """Observations and memories with their scores, best first, and what may be missing."""
    agent = named_agent(arguments)
    reader = call.reader(agent)
    question = RecallRequest(
        query=arguments.needed("query")[:QUERY_CHARS],
        projects=[project, ""] if (project := arguments.chosen("project")) else [],
        session_id=arguments.chosen("sessionId") or "",
        kinds=["observation", "memory"],
        limit=arguments.count("limit", MAX_LIMIT),
        min_confidence=0.0,  # its clients expect as many as there are
        fold=False,
    )

    missing = await call.wait_for_own_writes(agent)
    recalled = await call.queries.recall(question, reader)
    documents = await views(call, [hit.id for hit in recalled.results], reader)
    hits = [(documents[hit.id], hit.score) for hit in recalled.results if hit.id in documents]
    return hits, missing + recalled.degraded


async def _expanded(call: Call, arguments: Arguments, names: list[str]) -> Record:
    reader = await reading(call, named_agent(arguments))
    documents = await views(call, names[:MAX_EXPANDED], reader)
    records = [
        found_record(document)
        for document in documents.values()
        if "memory_type" in document or ("narrative" in document and "data" in document)
    ]
    results = [{"obsId": record["id"], "sessionId": record["sessionId"], "observation": record} for record in records]
    return {"mode": "expanded", "results": results, "truncated": len(names) > MAX_EXPANDED}
