"""Everything a reader may see, as one JSON object, in agentmemory's format.

An answer ends before clients give up waiting: where not all sessions fit, `pagination` says how far it came, and
`offset` goes on from there.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.actions import action_record, edge_records
from api.dialects.agentmemory.answers import answer
from api.dialects.agentmemory.endpoints import Arguments, call_of, failure, reply
from api.dialects.agentmemory.lessons import lesson_record
from api.dialects.agentmemory.memories import relation_record
from api.dialects.agentmemory.sessions import AT_ONCE, session_records
from api.dialects.agentmemory.slots import slot_record
from ingest.errors import ProjectionBehind, ReaderUnknown
from ingest.platform.clock import system_clock
from ingest.platform.partial import whole_reads
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import server_version
from mcp_gateway.tools.tool import ToolAnswer, ToolContext
from projections.documents.access import Reader
from projections.queries.views import Page, view
from projections.services import Queries

DEADLINE_S = 10.0
"""For sessions with their observations; clients wait 15 s for all of it."""
LAST_S = 13.0
"""For the rest."""
PAGE = 500
MAX_SESSIONS = 10_000
MAX_PAGE_SESSIONS = 1_000
MAX_PER_SESSION = 5_000
MAX_OBSERVATIONS = 20_000
MAX_MEMORIES = 50_000
Record = dict[str, Any]
Turn = Callable[[str | None], Awaitable[Page[Record]]]


async def get_export(request: Request, arguments: Arguments) -> Response:
    """The export; `maxSessions` and `offset` page the sessions."""
    if arguments["maxSessions"] is not None and arguments["maxSessions"] < 1:
        raise BadArgument("maxSessions must be at least 1", "maxSessions")
    if arguments["offset"] < 0:
        raise BadArgument("offset must be at least 0", "offset")
    try:
        return reply(await export(call_of(request), arguments))
    except (ProjectionBehind, ReaderUnknown) as why:  # an empty export would be taken for all there is
        return failure(f"nothing can be exported: {why}")


async def export(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """The export; sessions are paged by `maxSessions` and `offset`, the rest is always there.

    While a node of the log's cluster is away it fails: one that lacks partitions would be taken for all there is.
    """
    with whole_reads():
        return await _export(call, arguments)


async def _export(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    await call.wait_for_own_writes()
    reader, queries, started = call.reader(), call.queries, time.monotonic()
    known = [one async for one in _all(lambda cursor: queries.sessions.page(reader, None, cursor, PAGE), MAX_SESSIONS)]
    offset = max(0, int(arguments["offset"]))
    stated: Any = arguments["maxSessions"]
    most = MAX_SESSIONS if stated is None else max(1, min(MAX_PAGE_SESSIONS, int(stated)))
    wanted = known[offset : offset + most]
    observations: dict[str, list[Record]] = {}
    done = 0
    while done < len(wanted) and time.monotonic() - started < DEADLINE_S and _count(observations) < MAX_OBSERVATIONS:
        some = wanted[done : done + AT_ONCE]
        for session, seen in zip(
            some, await asyncio.gather(*(_observations(queries, reader, one) for one in some)), strict=True
        ):
            if seen:
                observations.setdefault(session["id"], []).extend(seen)
        done += len(some)
    record: Record = {
        "version": server_version() or "0.0.0",
        "exportedAt": dialect.iso(system_clock()),
        "sessions": [],
        "observations": observations,
        "memories": [],
        "summaries": [],
    }
    projects = {"", *(one["project"] for one in known), *await queries.lookup.projects(reader)}
    cut = False
    for project in sorted(projects):
        if cut := time.monotonic() - started > LAST_S or len(record["memories"]) >= MAX_MEMORIES:
            break
        for name, records in (await _of_project(queries, reader, project)).items():
            record.setdefault(name, []).extend(records)
    summaries = {(one["project"], one["session_id"]): one for one in record["summaries"]}
    record["sessions"] = await session_records(call, reader, wanted[:done], summaries)
    record["summaries"] = list(map(dialect.summary, record["summaries"]))
    record |= {"truncated": True} if cut else {}
    if stated is not None or done < len(wanted):
        more = offset + done < len(known)
        record["pagination"] = {"offset": offset, "limit": done if stated is None else most} | {
            "total": len(known),
            "hasMore": more,
        }
    return answer(record)


async def _observations(queries: Queries, reader: Reader, session: Record) -> list[Record]:
    def page(cursor: str | None) -> Awaitable[Page[Record]]:
        return queries.sessions.observations(reader, session["id"], session["project"], cursor, PAGE)

    return [dialect.observation(one) async for one in _all(page, MAX_PER_SESSION)]


async def _of_project(queries: Queries, reader: Reader, project: str) -> dict[str, list[Record]]:
    """What a project has beside sessions, by the name of its list; optional lists only if there is anything.

    Summaries as readers get them: sessions are told with them.
    """

    def turns(listing: Callable[..., Awaitable[Page[Record]]]) -> AsyncIterator[Record]:
        return _all(lambda cursor: listing(reader, project, cursor, PAGE), MAX_MEMORIES)

    actions = [one async for one in turns(queries.actions.page)]
    optional: dict[str, list[Record]] = {
        # As of when each was last said, which an import goes by: what is left today follows from it.
        "lessons": [lesson_record(one, one["confidence"]) async for one in turns(queries.lessons.page)],
        "slots": [
            slot_record(view(one))
            for one in await queries.slots.of_project(reader, project)
            if one.created_ms and one.project == project
        ],
        "actions": [action_record(one, {}) for one in actions],
        "actionEdges": [edge for one in actions for edge in edge_records(one)],
        "relations": [relation_record(one) async for one in turns(queries.relations.page)],
    }
    return {
        "memories": [dialect.memory(one) async for one in turns(queries.memories.page)],
        "summaries": [one async for one in turns(queries.summaries.page)],
        **{name: records for name, records in optional.items() if records},
    }


async def _all(turn: Turn, most: int) -> AsyncIterator[Record]:
    """The items of all pages, at most so many."""
    cursor: str | None = None
    count = 0
    while count < most:
        page = await turn(cursor)
        for one in page.items[: most - count]:
            yield one
        count += len(page.items)
        cursor = page.next
        if cursor is None:
            return


def _count(observations: dict[str, list[Record]]) -> int:
    return sum(map(len, observations.values()))
