"""Observations, for the REST API and the tools: made, listed, read, searched, shown around another one."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import (
    FoundAnswer,
    ObservationAnswer,
    default_title,
    end_of,
    json_rows,
    observation_answer,
    observation_in_full,
    observation_line,
    observation_placed,
    rows_and_reminder,
    start_of,
    stored_answer,
)
from api.dialects.agent_memory.common import (
    MAX_FOUND,
    NewObservation,
    ObservationsQuery,
    SearchBody,
    context_of,
    listed,
    numbered,
    numbers,
    read_body,
)
from api.dialects.agent_memory.records import (
    FOUND,
    TYPES,
    Found,
    ObservationFields,
    name_of,
    observe,
    session_of,
    time_of,
    types_of,
    wanted_project,
)
from api.dialects.errors import parse_query, path_value
from api.dialects.session_projects import homes, settled
from api.http.http import Json
from ingest.commands.decide import TrackSession
from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected, NotFound
from ingest.platform.clock import system_clock
from ingest.platform.partial import check_missing
from mcp_gateway.tools.tool import Call, ToolAnswer, json_answer
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.sessions import Summary
from projections.queries.recall import RecallAnswer, RecallRequest

MAX_QUERY_CHARS = 20_000
MAX_RESULTS = 50
MAX_SEARCHED = 200
"""Of one search, before `offset` is taken off."""
MAX_IDS = 1_000
MAX_DEPTH = 200
MANUAL_PROJECT = "manual"
MANUAL_SESSION = "manual-memories"
_MODES: dict[str, Literal["hybrid", "lexical", "vector"]] = {"hybrid": "hybrid", "vector": "vector", "fts": "lexical"}


async def create(request: Request) -> Response:
    """Make an observation. It goes to the project it names, also when its session is at home in another one."""
    wanted = await read_body(request, NewObservation)
    project, session, now = name_of(wanted.project), name_of(wanted.session_id), system_clock()
    fields = wanted.model_dump(exclude={"project", "session_id"})
    said = ObservationFields(**fields)
    context = context_of(request)
    accepted = await context.write(replace(observe(said, project, session), occurred_at=now))
    await settled(request, session, project, "")
    homes(request).wrote(session, accepted.position)
    (known_as,) = await numbered(context, [(accepted.id, session, project)])
    return Json(observation_answer(said, project, now, known_as, embedded=False))


async def listing(request: Request) -> Response:
    """Observations and memories, newest first."""
    wanted = parse_query(ObservationsQuery, request)
    context = context_of(request)
    await context.wait_for_own_writes()
    types = types_of(wanted.type) if wanted.type else []
    found = await listed(request).observations(
        context.reader(), wanted_project(wanted.project), types, wanted.offset, wanted.limit
    )
    return Json(await _answers(request, context, [(one, None) for one in found]))


async def get(request: Request) -> Response:
    """One observation."""
    number = path_value(int, request, "id")
    context = context_of(request)
    found = await observation_of(context, number)
    if found is None:  # it may be too new
        await context.wait_for_own_writes()
        found = await observation_of(context, number)
    if found is None:
        check_missing("such an observation")
        raise NotFound("Observation not found")
    return Json((await _answers(request, context, [(found, None)]))[0])


async def search(request: Request) -> Response:
    """What matches, best first, also what was remembered elsewhere; nothing for a mode or types that there are not."""
    wanted = await read_body(request, SearchBody)
    types = [kind for one in wanted.type or () if one in TYPES for kind in types_of(one)]
    found: list[tuple[Found, float | None]] = []
    context = context_of(request)
    limit, mode = min(wanted.limit, MAX_FOUND), _MODES.get(wanted.mode)
    if mode and limit and wanted.query.strip() and (types or not wanted.type):
        asking = RecallRequest(
            query=wanted.query[:MAX_QUERY_CHARS],
            project=None if wanted.cross_project else wanted_project(wanted.project),
            kinds=list(FOUND),
            types=types,
            limit=limit,
            mode=mode,
            ranking="rrf",
        )
        found += (await searched(context, asking))[0]
    answers = await _answers(request, context, found)
    return Json(FoundAnswer(observations=answers, query=wanted.query, mode=wanted.mode, total=len(answers)))


async def _answers(
    request: Request, context: Call, found: Sequence[tuple[Found, float | None]]
) -> list[ObservationAnswer]:
    in_order = sorted((one for one, _ in found), key=time_of)  # what is older gets lower numbers
    known_as = await numbered(context, [(one.id, session_of(one), one.project) for one in in_order])
    by_id = {one.id: numbers for one, numbers in zip(in_order, known_as, strict=True)}
    embedded = await listed(request).embedded(list(by_id))
    return [stored_answer(one, by_id[one.id], embedded=one.id in embedded, score=score) for one, score in found]


async def search_tool(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Titles of what matches, best first: observations, and what else is remembered, shown as such."""
    limit = max(1, min(arguments["limit"], MAX_RESULTS))
    offset = max(0, min(arguments["offset"] or 0, MAX_SEARCHED - limit))
    wanted = arguments["type"] or arguments["obs_type"]
    request = RecallRequest(
        query=arguments["query"],
        project=arguments["project"] or None,
        kinds=list(FOUND),
        types=types_of(wanted) if wanted else [],
        from_=start_of(arguments["dateStart"]),
        to=end_of(arguments["dateEnd"]),
        limit=offset + limit,
        ranking="rrf",
    )
    found, lacks = await searched(context, request)
    found = found[offset:]
    known_as = await numbers(context, "observation", [one.id for one, _ in found])
    rows = [observation_line(number, one, score) for number, (one, score) in zip(known_as, found, strict=True)]
    return rows_and_reminder(rows, lacks)


async def timeline(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """What happened around an observation, in its session."""
    anchor, query = arguments["anchor"], (arguments["query"] or "").strip()
    if anchor is None and not query:
        return ToolAnswer("Give an anchor (the id of an observation) or a query.")
    lacks = await context.wait_for_own_writes()
    if anchor is not None:
        centre = await observation_of(context, anchor)
    else:
        centre = await _nearest(context, query, arguments["project"])
    if centre is None:
        missing = f"There is no observation {anchor}" if anchor is not None else f"No observation matches: {query}"
        return ToolAnswer("; ".join([missing, *lacks]) + ".")
    depths = [max(0, min(arguments[name], MAX_DEPTH)) for name in ("depth_before", "depth_after")]
    before, after = await _beside(context, centre, *depths)
    placed = [*((one, "before") for one in before), (centre, "anchor"), *((one, "after") for one in after)]
    known_as = await numbers(context, "observation", [one.id for one, _ in placed])
    return json_rows([observation_placed(number, *one) for number, one in zip(known_as, placed, strict=True)])


async def _beside(context: Call, centre: Found, before: int, after: int) -> tuple[list[Observation], list[Observation]]:
    """The observations around another one in its session; what is none of a session stands alone."""
    if not isinstance(centre, Observation):
        return [], []
    return await context.queries.observations.beside(centre, context.reader(), before, after)


async def get_observations(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Everything about some observations, oldest first."""
    wanted: list[int] = list(dict.fromkeys(arguments["ids"]))
    if not wanted:
        return json_rows([])
    if len(wanted) > MAX_IDS:
        raise CommandRejected(f"at most {MAX_IDS:,} at once", "ids")
    lacks = await context.wait_for_own_writes()
    names = await context.queries.numbers(context.tenant, "observation").ids(wanted)
    named = {name: number for number, name in zip(wanted, names, strict=True) if name is not None}
    known = await observations_of(context, list(named))
    project = arguments["project"]
    found = [(named[name], one) for name, one in known.items() if project in (None, one.project)]
    found.sort(key=lambda pair: (time_of(pair[1]), pair[0]), reverse=arguments["orderBy"] == "date_desc")
    if arguments["limit"] is not None:
        found = found[: max(0, arguments["limit"])]
    return rows_and_reminder([observation_in_full(number, one) for number, one in found], lacks)


async def save_memory(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Write an observation by hand, in the session that has all of these."""
    text, project = arguments["text"], arguments["project"] or MANUAL_PROJECT
    if not text.strip():
        raise CommandRejected("is empty", "text")
    title = arguments["title"] or default_title(text)
    session = {
        "status": "started",
        "event_id": MANUAL_SESSION,
        "project": project,
        "session_id": MANUAL_SESSION,
        "agent_type": "manual",
    }
    await context.write(parse_object(session, TrackSession))
    accepted = await context.write(observe(ObservationFields(title=title, narrative=text), project, MANUAL_SESSION))
    (number,) = await numbers(context, "observation", [accepted.id])
    return json_answer({"saved": True, "id": number, "title": title})


async def searched(context: Call, request: RecallRequest) -> tuple[list[tuple[Found, float]], list[str]]:
    """What a search finds with its scores, best first, and what it may lack."""
    answer, lacks = await recalled(context, request)
    known = await observations_of(context, [one.id for one in answer.results])
    return [(known[one.id], one.score) for one in answer.results if one.id in known], lacks


async def recalled(context: Call, request: RecallRequest) -> tuple[RecallAnswer, list[str]]:
    """What a search finds, having waited for the caller's own writes, and what it may lack."""
    if not request.query.strip():
        raise CommandRejected("is blank", "query")
    reader = context.reader()

    async def ask(after: str) -> RecallAnswer:
        return await context.queries.recall(replace(request, after=after), reader)

    answer, lacks = await context.read_own_writes(context.acting(), ask)
    return answer, [*lacks, *answer.degraded]


async def _nearest(context: Call, query: str, project: str | None) -> Found | None:
    """The observation most like a query."""
    request = RecallRequest(
        query=query, project=project or None, kinds=["observation"], limit=1, ranking="similarity", alpha=1.0
    )
    answer, _ = await recalled(context, request)
    known = await observations_of(context, [one.id for one in answer.results])
    return next(iter(known.values()), None)


async def observation_of(context: Call, number: int) -> Found | None:
    """What goes by a number; None when there is nothing that the reader may see."""
    (name,) = await context.queries.numbers(context.tenant, "observation").ids([number])
    return None if name is None else (await observations_of(context, [name])).get(name)


async def observations_of(context: Call, names: list[str]) -> dict[str, Found]:
    """Those that the reader may see, by id, in the order asked for."""
    located = await context.queries.lookup.documents(names, context.reader())
    return {
        str(one.document.id): one.document
        for one in located
        if isinstance(one.document, Observation | Memory | Lesson | Summary)
    }
