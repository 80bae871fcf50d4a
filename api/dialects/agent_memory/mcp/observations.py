"""What agent-memory's tools for observations do: search, timeline, get_observations, save_memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from api.dialects.agent_memory.mcp import shapes
from ingest.commands.parse import parse_object
from ingest.commands.requests import TrackSession
from ingest.errors import CommandRejected
from mcp_gateway.tools.tool import Answer, Door

if TYPE_CHECKING:
    from api.dialects.agent_memory.records import Found
    from projections.documents.observations import Observation
    from projections.queries import RecallAnswer, RecallRequest

MAX_FOUND = 200
"""Of one search, before `offset` is taken off."""
MAX_IDS = 1_000
MAX_DEPTH = 200
MANUAL_PROJECT = "manual"
MANUAL_SESSION = "manual-memories"


async def search(door: Door, arguments: dict[str, Any]) -> Answer:
    """Titles of what matches, best first: observations, and what else is remembered, shown as such."""
    from api.dialects.agent_memory.records import FOUND, types_of
    from projections.queries import RecallRequest

    limit = max(1, min(arguments["limit"], shapes.MAX_RESULTS))
    offset = max(0, min(arguments["offset"] or 0, MAX_FOUND - limit))
    wanted = arguments["type"] or arguments["obs_type"]
    request = RecallRequest(
        query=arguments["query"],
        project=arguments["project"] or None,
        kinds=list(FOUND),
        types=types_of(wanted) if wanted else [],
        from_=shapes.start_of(arguments["dateStart"]),
        to=shapes.end_of(arguments["dateEnd"]),
        limit=offset + limit,
        ranking="rrf",
    )
    found, lacks = await searched(door, request)
    found = found[offset:]
    numbers = await _numbers(door, [one for one, _ in found])
    rows = [shapes.observation_line(number, one, score) for number, (one, score) in zip(numbers, found, strict=True)]
    return shapes.reminded(rows, lacks)


async def timeline(door: Door, arguments: dict[str, Any]) -> Answer:
    """What happened around an observation, in its session."""
    anchor, query = arguments["anchor"], (arguments["query"] or "").strip()
    if anchor is None and not query:
        return Answer("Give an anchor (the id of an observation) or a query.")
    lacks = await door.caught_up()
    centre = await numbered(door, anchor) if anchor is not None else await _nearest(door, query, arguments["project"])
    if centre is None:
        missing = f"There is no observation {anchor}" if anchor is not None else f"No observation matches: {query}"
        return Answer("; ".join([missing, *lacks]) + ".")
    depths = [max(0, min(arguments[name], MAX_DEPTH)) for name in ("depth_before", "depth_after")]
    before, after = await _beside(door, centre, *depths)
    placed = [
        *((one, "before") for one in before),
        (centre, "anchor"),
        *((one, "after") for one in after),
    ]
    numbers = await _numbers(door, [one for one, _ in placed])
    return shapes.listed([shapes.observation_placed(number, *one) for number, one in zip(numbers, placed, strict=True)])


async def _beside(
    door: Door, centre: "Found", before: int, after: int
) -> "tuple[list[Observation], list[Observation]]":
    """The observations around another one in its session; what is none of a session stands alone."""
    from projections.documents.observations import Observation

    if not isinstance(centre, Observation):
        return [], []
    return await door.queries.browse.beside(centre, door.reader(), before, after)


async def get_observations(door: Door, arguments: dict[str, Any]) -> Answer:
    """Everything about some observations, oldest first."""
    from api.dialects.agent_memory.records import time_of

    wanted: list[int] = list(dict.fromkeys(arguments["ids"]))
    if not wanted:
        return shapes.listed([])
    if len(wanted) > MAX_IDS:
        raise CommandRejected(f"at most {MAX_IDS:,} at once", "ids")
    lacks = await door.caught_up()
    names = await door.queries.browse.numbers(door.tenant, "observation").ids(wanted)
    named = {name: number for number, name in zip(wanted, names, strict=True) if name is not None}
    known = await _observations(door, list(named))
    project = arguments["project"]
    found = [(named[name], one) for name, one in known.items() if project in (None, one.project)]
    found.sort(key=lambda pair: (time_of(pair[1]), pair[0]), reverse=arguments["orderBy"] == "date_desc")
    if arguments["limit"] is not None:
        found = found[: max(0, arguments["limit"])]
    return shapes.reminded([shapes.observation_in_full(number, one) for number, one in found], lacks)


async def save_memory(door: Door, arguments: dict[str, Any]) -> Answer:
    """Write an observation by hand, in the session that has all of these."""
    from api.dialects.agent_memory.records import Said, observe

    text, project = arguments["text"], arguments["project"] or MANUAL_PROJECT
    if not text.strip():
        raise CommandRejected("is empty", "text")
    title = arguments["title"] or shapes.default_title(text)
    session = {
        "status": "started",
        "event_id": MANUAL_SESSION,
        "project": project,
        "session_id": MANUAL_SESSION,
        "agent_type": "manual",
    }
    await door.write(parse_object(session, TrackSession))
    accepted = await door.write(observe(Said(title=title, narrative=text), project, MANUAL_SESSION))
    (number,) = await door.queries.browse.numbers(door.tenant, "observation").numbers([accepted.id])
    return shapes.one_line({"saved": True, "id": number, "title": title})


async def searched(door: Door, request: "RecallRequest") -> tuple[list[tuple["Found", float]], list[str]]:
    """What a search finds with its scores, best first, and what it may lack."""
    answer, lacks = await recalled(door, request)
    known = await _observations(door, [one.id for one in answer.results])
    return [(known[one.id], one.score) for one in answer.results if one.id in known], lacks


async def recalled(door: Door, request: "RecallRequest") -> tuple["RecallAnswer", list[str]]:
    """What a search finds, having waited for the caller's own writes, and what it may lack."""
    from msgspec.structs import replace

    if not request.query.strip():
        raise CommandRejected("is blank", "query")
    reader = door.reader()

    async def ask(after: str) -> "RecallAnswer":
        return await door.queries.recall(replace(request, after=after), reader)

    answer, lacks = await door.read_own_writes(door.acting(), ask)
    return answer, [*lacks, *answer.degraded]


async def _nearest(door: Door, query: str, project: str | None) -> "Found | None":
    """The observation most like a query."""
    from projections.queries import RecallRequest

    request = RecallRequest(
        query=query, project=project or None, kinds=["observation"], limit=1, ranking="similarity", alpha=1.0
    )
    answer, _ = await recalled(door, request)
    known = await _observations(door, [one.id for one in answer.results])
    return next(iter(known.values()), None)


async def numbered(door: Door, number: int) -> "Found | None":
    """What goes by a number; None when there is nothing that the reader may see."""
    (name,) = await door.queries.browse.numbers(door.tenant, "observation").ids([number])
    return None if name is None else (await _observations(door, [name])).get(name)


async def _observations(door: Door, names: list[str]) -> "dict[str, Found]":
    """Those that the reader may see, by id, in the order asked for."""
    from projections.documents.lessons import Lesson
    from projections.documents.memories import Memory
    from projections.documents.observations import Observation
    from projections.documents.summaries import Summary

    located = await door.queries.browse.documents(names, door.reader())
    return {
        str(one.document.id): one.document
        for one in located
        if isinstance(one.document, Observation | Memory | Lesson | Summary)
    }


async def _numbers(door: Door, found: "Sequence[Found]") -> list[int]:
    return await door.queries.browse.numbers(door.tenant, "observation").numbers([one.id for one in found])
