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
)
from api.dialects.agent_memory.records import (
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
from api.dialects.errors import parse_query, path_value, read_model
from api.dialects.session_projects import homes, settled
from api.http.http import Json
from ingest.commands.decide import TrackSession
from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected, NotFound
from ingest.kinds import SEARCHED_KINDS
from ingest.platform.clock import system_clock
from ingest.platform.partial import check_missing
from mcp_gateway.tools.tool import Call, ToolAnswer, json_answer
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.session import Summary
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
    body = await read_model(NewObservation, request)
    project, session, now = name_of(body.project), name_of(body.session_id), system_clock()
    fields = ObservationFields(**body.model_dump(exclude={"project", "session_id"}))
    context = context_of(request)
    accepted = await context.write(replace(observe(fields, project, session), occurred_at=now))
    await settled(request, session, project, "")
    homes(request).wrote(session, accepted.position)
    (ids,) = await numbered(context, [(accepted.id, session, project)])
    return Json(observation_answer(fields, project, now, ids, embedded=False))


async def listing(request: Request) -> Response:
    """Observations and memories, newest first."""
    query = parse_query(ObservationsQuery, request)
    context = context_of(request)
    await context.wait_for_own_writes()
    types = types_of(query.type) if query.type else []
    page = await listed(request).observations(
        context.reader(), wanted_project(query.project), types, query.offset, query.limit
    )
    return Json(await _answers(request, context, [(document, None) for document in page]))


async def get(request: Request) -> Response:
    """One observation."""
    number = path_value(int, request, "id")
    context = context_of(request)
    document = await observation_of(context, number)
    if document is None:  # it may be too new
        await context.wait_for_own_writes()
        document = await observation_of(context, number)
    if document is None:
        check_missing("such an observation")
        raise NotFound("Observation not found")
    return Json((await _answers(request, context, [(document, None)]))[0])


async def search(request: Request) -> Response:
    """What matches, best first, also what was remembered elsewhere; nothing for a mode or types that there are not."""
    body = await read_model(SearchBody, request)
    types = [kind for name in body.type or () if name in TYPES for kind in types_of(name)]
    hits: list[tuple[Found, float | None]] = []
    context = context_of(request)
    limit, mode = min(body.limit, MAX_FOUND), _MODES.get(body.mode)
    if mode and limit and body.query.strip() and (types or not body.type):
        question = RecallRequest(
            query=body.query[:MAX_QUERY_CHARS],
            project=None if body.cross_project else wanted_project(body.project),
            kinds=list(SEARCHED_KINDS),
            types=types,
            limit=limit,
            mode=mode,
            ranking="rrf",
        )
        hits += (await searched(context, question))[0]
    answers = await _answers(request, context, hits)
    return Json(FoundAnswer(observations=answers, query=body.query, mode=body.mode, total=len(answers)))


async def _answers(
    request: Request, context: Call, hits: Sequence[tuple[Found, float | None]]
) -> list[ObservationAnswer]:
    oldest_first = sorted((document for document, _ in hits), key=time_of)  # older documents get lower numbers
    keys = [(document.id, session_of(document), document.project) for document in oldest_first]
    by_id = {document.id: ids for document, ids in zip(oldest_first, await numbered(context, keys), strict=True)}
    embedded = await listed(request).embedded(list(by_id))
    return [
        stored_answer(document, by_id[document.id], embedded=document.id in embedded, score=score)
        for document, score in hits
    ]


async def search_tool(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Titles of what matches, best first: observations, and what else is remembered, shown as such."""
    limit = max(1, min(arguments["limit"], MAX_RESULTS))
    offset = max(0, min(arguments["offset"] or 0, MAX_SEARCHED - limit))
    kind = arguments["type"] or arguments["obs_type"]
    request = RecallRequest(
        query=arguments["query"],
        project=arguments["project"] or None,
        kinds=list(SEARCHED_KINDS),
        types=types_of(kind) if kind else [],
        from_=start_of(arguments["dateStart"]),
        to=end_of(arguments["dateEnd"]),
        limit=offset + limit,
        ranking="rrf",
    )
    hits, missing = await searched(context, request)
    hits = hits[offset:]
    ids = await numbers(context, "observation", [document.id for document, _ in hits])
    rows = [
        observation_line(number, document, project=document.project) | {"score": round(score, 4)}
        for number, (document, score) in zip(ids, hits, strict=True)
    ]
    return rows_and_reminder(rows, missing)


async def timeline(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """What happened around an observation, in its session."""
    anchor, query = arguments["anchor"], (arguments["query"] or "").strip()
    if anchor is None and not query:
        return ToolAnswer("Give an anchor (the id of an observation) or a query.")
    missing = await context.wait_for_own_writes()
    if anchor is not None:
        centre = await observation_of(context, anchor)
    else:
        nearest = RecallRequest(
            query=query,
            project=arguments["project"] or None,
            kinds=["observation"],
            limit=1,
            ranking="similarity",
            alpha=1.0,
        )
        hits, _ = await searched(context, nearest)
        centre = hits[0][0] if hits else None
    if centre is None:
        reason = f"There is no observation {anchor}" if anchor is not None else f"No observation matches: {query}"
        return ToolAnswer("; ".join([reason, *missing]) + ".")
    depths = [max(0, min(arguments[name], MAX_DEPTH)) for name in ("depth_before", "depth_after")]
    before: list[Observation] = []
    after: list[Observation] = []
    if isinstance(centre, Observation):  # other documents are not part of a session
        before, after = await context.queries.observations.beside(centre, context.reader(), *depths)
    placed = [*((entry, "before") for entry in before), (centre, "anchor"), *((entry, "after") for entry in after)]
    ids = await numbers(context, "observation", [document.id for document, _ in placed])
    rows = zip(ids, placed, strict=True)
    return json_rows([observation_line(number, document, position=position) for number, (document, position) in rows])


async def get_observations(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """Everything about some observations, oldest first."""
    ids: list[int] = list(dict.fromkeys(arguments["ids"]))
    if not ids:
        return json_rows([])
    if len(ids) > MAX_IDS:
        raise CommandRejected(f"at most {MAX_IDS:,} at once", "ids")
    missing = await context.wait_for_own_writes()
    names = await context.queries.numbers(context.tenant, "observation").ids(ids)
    numbers_by_name = {name: number for number, name in zip(ids, names, strict=True) if name is not None}
    documents = await observations_of(context, list(numbers_by_name))
    project = arguments["project"]
    rows = [
        (numbers_by_name[name], document) for name, document in documents.items() if project in (None, document.project)
    ]
    rows.sort(key=lambda row: (time_of(row[1]), row[0]), reverse=arguments["orderBy"] == "date_desc")
    if arguments["limit"] is not None:
        rows = rows[: max(0, arguments["limit"])]
    return rows_and_reminder([observation_in_full(number, document) for number, document in rows], missing)


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
    answer, missing = await recalled(context, request)
    documents = await observations_of(context, [hit.id for hit in answer.results])
    return [(documents[hit.id], hit.score) for hit in answer.results if hit.id in documents], missing


async def recalled(context: Call, request: RecallRequest) -> tuple[RecallAnswer, list[str]]:
    """What a search finds, having waited for the caller's own writes, and what it may lack."""
    if not request.query.strip():
        raise CommandRejected("is blank", "query")
    reader = context.reader()

    async def ask(after: str) -> RecallAnswer:
        return await context.queries.recall(replace(request, after=after), reader)

    answer, missing = await context.read_own_writes(context.acting(), ask)
    return answer, [*missing, *answer.degraded]


async def observation_of(context: Call, number: int) -> Found | None:
    """The document with a number; None if the reader cannot read it."""
    (name,) = await context.queries.numbers(context.tenant, "observation").ids([number])
    return None if name is None else (await observations_of(context, [name])).get(name)


async def observations_of(context: Call, names: list[str]) -> dict[str, Found]:
    """Those that the reader may see, by id, in the order asked for."""
    located = await context.queries.lookup.documents(names, context.reader())
    return {
        str(entry.document.id): entry.document
        for entry in located
        if isinstance(entry.document, Observation | Memory | Lesson | Summary)
    }
