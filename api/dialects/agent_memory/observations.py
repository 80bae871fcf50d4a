"""The queue that hooks report to, and observations: made, listed, read, searched."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory import records as dialect
from api.dialects.agent_memory.answers import (
    Done,
    FoundAnswer,
    ObservationAnswer,
    observation_answer,
    stored_answer,
)
from api.dialects.agent_memory.asking import HOOKS, asked, door, listed, numbered
from api.dialects.agent_memory.bodies import MAX_FOUND, NewObservation, ObservationsQuery, SearchBody
from api.dialects.agent_memory.mcp.observations import numbered as observation_numbered
from api.dialects.agent_memory.mcp.observations import searched
from api.dialects.agent_memory.names import name_of, project_of, wanted_project
from api.dialects.agent_memory.queued import QueueItem, keep, new_name, observe, started
from api.dialects.agent_memory.state import state
from api.dialects.detail import parse, parse_query, path_value
from api.dialects.homes import homes, settled
from api.http.http import Json, body, parsed
from api.services import services
from ingest.commands.requests import WriteCommand
from ingest.errors import LogUnavailable, NotFound, Overloaded
from ingest.platform.clock import system_clock
from mcp_gateway.tools.tool import Door
from projections.queries import RecallRequest

logger = logging.getLogger(__name__)

MAX_ITEM_BYTES = 32 << 20
MAX_QUERY_CHARS = 20_000
_MODES: dict[str, Literal["hybrid", "lexical", "vector"]] = {"hybrid": "hybrid", "vector": "vector", "fts": "lexical"}


async def queue(request: Request) -> Response:
    """Record the use of a tool; nobody waits until it is projected. Of 13 tools only the session is taken note of.

    A refusal would be a lost event, for the hook reads no answer: only what is no JSON, or no item, is refused.
    """
    raw = await body(request, MAX_ITEM_BYTES)
    item = await parsed(raw, lambda raw: parse(QueueItem, raw))
    name, at_hand = new_name(), services(request)
    try:
        await _record(request, item, raw, name)
    except (LogUnavailable, Overloaded, RedisError) as error:
        if not (at_hand.reach.whole and at_hand.tenant == state(request).settings.tenant):
            raise  # what comes out of the spool is stored without a look at who put it in
        if not await asyncio.to_thread(keep, state(request).settings.agent_memory_spool, name, raw):
            raise
        logger.warning("a hook's report waits in the spool folder: %s", error)
    return Json(Done(status="queued"))


async def create(request: Request) -> Response:
    """Make an observation. It goes to the project it names, also when its session is at home in another one."""
    asked_for = await asked(request, NewObservation)
    project, session, now = name_of(asked_for.project), name_of(asked_for.session_id), system_clock()
    fields = asked_for.model_dump(exclude={"project", "session_id"})
    said = dialect.Said(**fields)
    through = door(request)
    accepted = await through.write(replace(dialect.observe(said, project, session), occurred_at=now))
    await settled(request, session, project, "")
    homes(request).wrote(session, accepted.position)
    (known_as,) = await numbered(through, [(accepted.id, session, project)])
    return Json(observation_answer(said, project, now, known_as, embedded=False))


async def listing(request: Request) -> Response:
    """Observations and memories, newest first."""
    asked_for = parse_query(ObservationsQuery, request)
    through = door(request)
    await through.caught_up()
    types = dialect.types_of(asked_for.type) if asked_for.type else []
    found = await listed(request).observations(
        through.reader(), wanted_project(asked_for.project), types, asked_for.offset, asked_for.limit
    )
    return Json(await _answers(request, through, [(one, None) for one in found]))


async def get(request: Request) -> Response:
    """One observation."""
    number = path_value(int, request, "id")
    through = door(request)
    found = await observation_numbered(through, number)
    if found is None:  # it may be too new
        await through.caught_up()
        found = await observation_numbered(through, number)
    if found is None:
        raise NotFound("Observation not found")
    return Json((await _answers(request, through, [(found, None)]))[0])


async def search(request: Request) -> Response:
    """What matches, best first, also what was remembered elsewhere; nothing for a mode or types that there are not."""
    asked_for = await asked(request, SearchBody)
    types = [kind for one in asked_for.type or () if one in dialect.TYPES for kind in dialect.types_of(one)]
    found: list[tuple[dialect.Found, float | None]] = []
    through = door(request)
    limit, mode = min(asked_for.limit, MAX_FOUND), _MODES.get(asked_for.mode)
    if mode and limit and asked_for.query.strip() and (types or not asked_for.type):
        asking = RecallRequest(
            query=asked_for.query[:MAX_QUERY_CHARS],
            project=None if asked_for.cross_project else wanted_project(asked_for.project),
            kinds=list(dialect.FOUND),
            types=types,
            limit=limit,
            mode=mode,
            ranking="rrf",
        )
        found += (await searched(through, asking))[0]
    answers = await _answers(request, through, found)
    return Json(FoundAnswer(observations=answers, query=asked_for.query, mode=asked_for.mode, total=len(answers)))


async def _record(request: Request, item: QueueItem, raw: bytes, name: str) -> None:
    home, is_new = await settled(request, item.session, project_of(item.cwd), "")
    commands: list[WriteCommand] = [started(item.session, home.project, item.cwd)] if is_new else []
    if not item.skipped:
        made = item, raw, home.project, name
        commands.append(await parsed(raw, lambda _: observe(*made)))
    try:
        await _write(request, item.session, commands)
    except BaseException:
        if is_new:
            homes(request).forget(item.session)
        raise


async def _write(request: Request, session: str, commands: Sequence[WriteCommand]) -> None:
    at_hand, caller = services(request), door(request).caller()
    for command in commands:
        accepted = await at_hand.commands.handle(command, caller)
        homes(request).wrote(session, accepted.position)
        at_hand.last_writes.wrote(HOOKS, accepted.position)


async def _answers(
    request: Request, through: Door, found: Sequence[tuple[dialect.Found, float | None]]
) -> list[ObservationAnswer]:
    in_order = sorted((one for one, _ in found), key=dialect.time_of)  # what is older gets lower numbers
    known_as = await numbered(through, [(one.id, dialect.session_of(one), one.project) for one in in_order])
    by_id = {one.id: numbers for one, numbers in zip(in_order, known_as, strict=True)}
    embedded = await listed(request).embedded(list(by_id))
    return [stored_answer(one, by_id[one.id], embedded=one.id in embedded, score=score) for one, score in found]
