"""Sessions: begun, changed, listed."""

import asyncio

from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import STATUSES, Done, SessionAnswer, default_title, session_answer, time_text
from api.dialects.agent_memory.bodies import NewSession, SessionChanges, SessionsQuery
from api.dialects.agent_memory.common import HOOKS, SOURCE, context_of, listed, numbers, read_body
from api.dialects.agent_memory.queued import started
from api.dialects.agent_memory.records import name_of, wanted_project
from api.dialects.detail import parse_query
from api.dialects.session_projects import home_of, homes, settled
from api.http.http import Json
from api.services import services
from ingest.commands.requests import SummariseSession, TrackSession
from ingest.errors import AlreadyThere, NotFound
from ingest.platform.clock import from_ms, system_clock, to_ms
from mcp_gateway.tools.tool import ToolContext

OURS = {theirs: ours for ours, theirs in STATUSES.items()}
"""What a status is called here."""


async def create(request: Request) -> Response:
    """Begin a session. AlreadyThere when one of its id was heard of, also by the queue, whatever its project."""
    wanted = await read_body(request, NewSession)
    session, project = name_of(wanted.session_id), name_of(wanted.project)
    home, is_new = await settled(request, session, project, "")
    if not is_new:
        raise AlreadyThere(f"Session {session} already exists")
    context = context_of(request)
    now = from_ms(to_ms(system_clock()))  # sessions know milliseconds
    begun = started(session, home.project, wanted.project_path, wanted.agent_type)
    try:
        accepted = await context.write(replace(begun, occurred_at=now))
    except BaseException:
        homes(request).forget(session)
        raise
    homes(request).wrote(session, accepted.position)
    (number,), (project_number,) = await _numbers(context, [session], [home.project])
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
    wanted = await read_body(request, SessionChanges)
    if not wanted.status and not wanted.summary:
        raise HTTPException(400, "Nothing to update: give a status or a summary")
    session = name_of(request.path_params["session_id"])
    home = await home_of(request, session)
    if home is None:
        raise NotFound("Session not found")
    context = context_of(request)
    if wanted.summary:
        await _summarise(request, context, session, home.project, wanted.summary)
    if wanted.status:
        command = TrackSession(
            status="started" if wanted.status == "active" else "ended",
            project=home.project,
            session_id=session,
            outcome="failed" if wanted.status == "failed" else "completed",
        )
        homes(request).wrote(session, (await context.write(command)).position)
    return Json(Done(status="updated"))


async def listing(request: Request) -> Response:
    """Sessions, those first that began last."""
    wanted = parse_query(SessionsQuery, request)
    context = context_of(request)
    await context.caught_up(HOOKS)
    statuses = [OURS[wanted.status]] if wanted.status else list(STATUSES)
    found = await listed(request).sessions(context.reader(), wanted_project(wanted.project), statuses, wanted.limit)
    found.reverse()  # what is older gets lower numbers
    names = [one.session.session_id for one in found], [one.session.project for one in found]
    known_as, projects = await _numbers(context, *names)
    answers = [session_answer(*row) for row in zip(found, known_as, projects, strict=True)]
    return Json(answers[::-1])


async def _summarise(request: Request, context: ToolContext, session: str, project: str, text: str) -> None:
    """Put a summary in the place of the one there was. It covers what was observed so far."""
    known = await services(request).operations.current.session(session, project, context.reader())
    command = SummariseSession(
        project=project,
        session_id=session,
        title=default_title(" ".join(text.split())),
        narrative=text,
        model=SOURCE,
        observation_count=max(1, known.observation_count),
        forgotten_at=known.told_from,
    )
    caller = context.caller()
    accepted = await context.commands.handle(command, caller)
    context.wrote(caller.agent_id, accepted.position)


async def _numbers(context: ToolContext, sessions: list[str], projects: list[str]) -> tuple[list[int], list[int]]:
    return await asyncio.gather(numbers(context, "session", sessions), numbers(context, "project", projects))
