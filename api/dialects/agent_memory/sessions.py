"""Sessions: begun, changed, listed."""

import asyncio

from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import STATUSES, Done, SessionAnswer, default_title, session_answer, time_text
from api.dialects.agent_memory.asking import HOOKS, SOURCE, asked, door, listed, numbers
from api.dialects.agent_memory.bodies import NewSession, SessionChanges, SessionsQuery
from api.dialects.agent_memory.queued import started
from api.dialects.agent_memory.records import name_of, wanted_project
from api.dialects.detail import parse_query
from api.dialects.homes import home_of, homes, settled
from api.http.http import Json
from api.services import services
from ingest.commands.requests import SummariseSession, TrackSession
from ingest.errors import AlreadyThere, NotFound
from ingest.platform.clock import from_ms, system_clock, to_ms
from mcp_gateway.tools.tool import Door

OURS = {theirs: ours for ours, theirs in STATUSES.items()}
"""What a status is called here."""


async def create(request: Request) -> Response:
    """Begin a session. AlreadyThere when one of its id was heard of, also by the queue, whatever its project."""
    asked_for = await asked(request, NewSession)
    session, project = name_of(asked_for.session_id), name_of(asked_for.project)
    home, is_new = await settled(request, session, project, "")
    if not is_new:
        raise AlreadyThere(f"Session {session} already exists")
    through = door(request)
    now = from_ms(to_ms(system_clock()))  # sessions know milliseconds
    begun = started(session, home.project, asked_for.project_path, asked_for.agent_type)
    try:
        accepted = await through.write(replace(begun, occurred_at=now))
    except BaseException:
        homes(request).forget(session)
        raise
    homes(request).wrote(session, accepted.position)
    (number,), (project_number,) = await _numbers(through, [session], [home.project])
    return Json(
        SessionAnswer(
            id=number,
            session_id=session,
            project_id=project_number,
            project_name=home.project,
            agent_type=begun.agent_type,
            status="active",
            started_at=time_text(now),
        )
    )


async def patch(request: Request) -> Response:
    """Say what became of a session: that it goes on, is over or failed, or what it came to."""
    asked_for = await asked(request, SessionChanges)
    if not asked_for.status and not asked_for.summary:
        raise HTTPException(400, "Nothing to update: give a status or a summary")
    session = name_of(request.path_params["session_id"])
    home = await home_of(request, session)
    if home is None:
        raise NotFound("Session not found")
    through = door(request)
    if asked_for.summary:
        await _summarise(request, through, session, home.project, asked_for.summary)
    if asked_for.status:
        command = TrackSession(
            status="started" if asked_for.status == "active" else "ended",
            project=home.project,
            session_id=session,
            outcome="failed" if asked_for.status == "failed" else "completed",
        )
        homes(request).wrote(session, (await through.write(command)).position)
    return Json(Done(status="updated"))


async def listing(request: Request) -> Response:
    """Sessions, those first that began last."""
    asked_for = parse_query(SessionsQuery, request)
    through = door(request)
    await through.caught_up(HOOKS)
    statuses = [OURS[asked_for.status]] if asked_for.status else list(STATUSES)
    found = await listed(request).sessions(
        through.reader(), wanted_project(asked_for.project), statuses, asked_for.limit
    )
    found.reverse()  # what is older gets lower numbers
    names = [one.session.session_id for one in found], [one.session.project for one in found]
    known_as, projects = await _numbers(through, *names)
    answers = [session_answer(*row) for row in zip(found, known_as, projects, strict=True)]
    return Json(answers[::-1])


async def _summarise(request: Request, through: Door, session: str, project: str, text: str) -> None:
    """Put a summary in the place of the one there was. It covers what was observed so far."""
    known = await services(request).operations.current.session(session, project, through.reader())
    command = SummariseSession(
        project=project,
        session_id=session,
        title=default_title(" ".join(text.split())),
        narrative=text,
        model=SOURCE,
        observation_count=max(1, known.observation_count),
        forgotten_at=known.told_from,
    )
    caller = through.caller()
    accepted = await through.commands.handle(command, caller)
    through.wrote(caller.agent_id, accepted.position)


async def _numbers(through: Door, sessions: list[str], projects: list[str]) -> tuple[list[int], list[int]]:
    return await asyncio.gather(numbers(through, "session", sessions), numbers(through, "project", projects))
