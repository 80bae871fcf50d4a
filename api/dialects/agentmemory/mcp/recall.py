"""Finding: recall, smart search, timeline, and the hint that a memory resembles another."""

from typing import Any, cast

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import MAX_LIMIT, Arguments, chosen, count, needed, views
from api.dialects.agentmemory.mcp.answers import answer, succeeded
from ingest.platform.clock import system_clock
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, Door
from projections.documents.access import Reader
from projections.documents.memories import Memory
from projections.queries import RecallRequest
from projections.queries.views import view
from projections.search.similarity import SIMILAR_ABOVE, SUPERSEDE_ABOVE, similarity

QUERY_CHARS = 20_000
MAX_EXPANDED = 20
LESSONS_SHOWN = 5
ALIKE_LOOKED_AT = 20
"""Memories compared with a new one, those that share most of its words."""
ALIKE_CHARS = 2_000


async def recall(door: Door, arguments: Arguments) -> Answer:
    """memory_recall: search results, as many as fit the budget."""
    form = _format(arguments["format"])
    results, lacks = await _search(door, arguments)
    items = [dialect.found(one, score, form) for one, score in results]
    budget: Any = arguments["token_budget"]
    kept, used, truncated = dialect.packed(items, None if budget is None else int(budget))
    record: dict[str, Any] = {"format": form, "results": kept, "tokens_used": used, "truncated": truncated}
    record |= {} if budget is None else {"tokens_budget": int(budget)}
    record |= {"degraded": lacks} if lacks else {}
    if form != "narrative":
        return answer(record)
    text = dialect.narrated(kept)
    return answer({**record, "text": text}, text)


async def smart_search(door: Door, arguments: Arguments) -> Answer:
    """memory_smart_search: titles first; what is named by id in full."""
    given: list[Any] = arguments["expandIds"] or []
    if wanted := [name for name in map(_named, given) if name]:
        return await _expanded(door, arguments, wanted)
    results, lacks = await _search(door, arguments)
    items = [dialect.found(one, score, "compact") for one, score in results]
    lessons: list[dict[str, Any]] = []
    if arguments["includeLessons"]:
        now = system_clock()
        reader = door.reader(arguments["agentId"] or "")
        query = needed(arguments, "query")[:QUERY_CHARS]
        known = door.queries.lessons.search(reader, query, chosen(arguments, "project"), now, limit=LESSONS_SHOWN)
        lessons = [dialect.lesson_hint(view(one), one.confidence_at(now), score) for one, score in await known]
    record: dict[str, Any] = {"mode": "compact", "results": items, "lessons": lessons}
    return answer(record | ({"degraded": lacks} if lacks else {}))


async def timeline(door: Door, arguments: Arguments) -> Answer:
    """memory_timeline: what was observed around an anchor."""
    agent = arguments["agentId"] or ""
    await door.caught_up(agent)
    found = await door.queries.around.timeline(
        door.reader(agent),
        needed(arguments, "anchor"),
        chosen(arguments, "project"),
        chosen(arguments, "sessionId") or "",
        count(arguments, "before", MAX_LIMIT, 0),
        count(arguments, "after", MAX_LIMIT, 0),
    )
    entries = [(dialect.observation(view(one.observation)), one.position) for one in found.entries]
    record: dict[str, Any] = {
        "entries": [
            {"observation": one, "sessionId": one["sessionId"], "relativePosition": place} for one, place in entries
        ],
        "observations": [one for one, _ in entries],
        "anchorIndex": found.anchor_index,
    }
    return succeeded(**record, **({"reason": found.reason} if found.reason else {}))


async def alike(
    door: Door, reader: Reader, content: str, project: str, besides: frozenset[str]
) -> dict[str, Any] | None:
    """The hint that a memory like a new one is there already, yet not so like it that it was superseded."""
    words = RecallRequest(query=content[:ALIKE_CHARS], kinds=["memory"], mode="lexical", limit=ALIKE_LOOKED_AT)
    candidates = await door.queries.recall(words, reader)
    near = await door.queries.browse.documents([one.id for one in candidates.results], reader)
    scored = [
        (similarity(content, one.document.content), one.document)
        for one in near
        if isinstance(one.document, Memory)
        and one.document.id not in besides
        and (not project or one.document.project in ("", project))
    ]
    best = max(scored, key=lambda pair: pair[0], default=None)
    if best is None or not SIMILAR_ABOVE < best[0] <= SUPERSEDE_ABOVE:
        return None
    return {"id": best[1].id, "title": best[1].title, "similarity": round(best[0], 3)}


async def _search(door: Door, arguments: Arguments) -> tuple[list[tuple[dict[str, Any], float]], list[str]]:
    """Observations and memories with their scores, best first, and what may be missing."""
    agent = arguments["agentId"] or ""
    reader = door.reader(agent)
    question = RecallRequest(
        query=needed(arguments, "query")[:QUERY_CHARS],
        projects=[project, ""] if (project := chosen(arguments, "project")) else [],
        session_id=chosen(arguments, "sessionId") or "",
        kinds=["observation", "memory"],
        limit=count(arguments, "limit", MAX_LIMIT),
    )

    missing = await door.caught_up(agent)
    found = await door.queries.recall(question, reader)
    known = views(await door.queries.browse.documents([one.id for one in found.results], reader))
    return [(known[one.id], one.score) for one in found.results if one.id in known], missing + found.degraded


async def _expanded(door: Door, arguments: Arguments, wanted: list[str]) -> Answer:
    agent = arguments["agentId"] or ""
    await door.caught_up(agent)
    known = views(await door.queries.browse.documents(wanted[:MAX_EXPANDED], door.reader(agent)))
    shown = [
        dialect.memory_as_observation(one) if "memory_type" in one else dialect.observation(one)
        for one in known.values()
        if "memory_type" in one or ("narrative" in one and "data" in one)
    ]
    results = [{"obsId": one["id"], "sessionId": one["sessionId"], "observation": one} for one in shown]
    return answer({"mode": "expanded", "results": results, "truncated": len(wanted) > MAX_EXPANDED})


def _named(given: Any) -> str:
    """The observation that an entry of expandIds names: by its id, or as an object with it."""
    if isinstance(given, dict):
        given = cast("dict[str, Any]", given).get("obsId")
    return given.strip() if isinstance(given, str) else ""


def _format(given: str | None) -> dialect.Format:
    for form in dialect.FORMATS:
        if form == (given or "full").strip().lower():
            return form
    raise BadArgument(f"format must be one of {', '.join(dialect.FORMATS)}", "format")
