"""Sessions; and what the post-tool-use hook reports: from POST /api/queue, or from a file in the spool folder.

No hook reads an answer, so a refusal would lose the event: a report that the log does not take just now is kept in the
spool folder. The file's name and content make the event's id, so what the log took without saying so in time is stored
once all the same.
"""

import asyncio
import logging
import os
import re
import time
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel
from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import STATUSES, Done, SessionAnswer, default_title, session_answer, time_text
from api.dialects.agent_memory.common import (
    HOOKS,
    SOURCE,
    NewSession,
    SessionChanges,
    SessionsQuery,
    change,
    context_of,
    listed,
    numbers,
    state,
)
from api.dialects.agent_memory.records import AGENT_TYPE, name_of, project_of, wanted_project
from api.dialects.errors import Unprocessable, parse, parse_query, read_model
from api.dialects.fitting import fitted
from api.dialects.session_projects import home_of, homes, settled
from api.http.http import Json, body, parsed
from api.services import services
from ingest.commands.decide import Observe, SummariseSession, TrackSession, WriteCommand
from ingest.commands.spool import Spool
from ingest.errors import AlreadyThere, LogUnavailable, MalformedRequest, NotFound, Overloaded
from ingest.platform.clock import from_ms, system_clock, to_ms
from ingest.platform.files import sync, write_whole
from ingest.platform.settings import Settings
from mcp_gateway.tools.tool import Call

OURS = {theirs: ours for ours, theirs in STATUSES.items()}
"""What a status is called here."""


async def create(request: Request) -> Response:
    """Begin a session. AlreadyThere when one of its id was heard of, also by the queue, whatever its project."""
    body = await read_model(NewSession, request)
    session, project = name_of(body.session_id), name_of(body.project)
    home, is_new = await settled(request, session, project, "")
    if not is_new:
        raise AlreadyThere(f"Session {session} already exists")
    context = context_of(request)
    now = from_ms(to_ms(system_clock()))  # sessions know milliseconds
    command = started(session, home.project, body.project_path, body.agent_type)
    try:
        accepted = await context.write(replace(command, occurred_at=now))
    except BaseException:  # canceled as well: nothing is stored, so the session can still start elsewhere
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
            agent_type=command.agent_type,
            status="active",
            started_at=time_text(now),
        )
    )


async def patch(request: Request) -> Response:
    """Say what became of a session: that it goes on, is over or failed, or what it came to."""
    changes = await read_model(SessionChanges, request)
    if not changes.status and not changes.summary:
        raise HTTPException(400, "Nothing to update: give a status or a summary")
    session = name_of(request.path_params["session_id"])
    home = await home_of(request, session)
    if home is None:
        raise NotFound("Session not found")
    context = context_of(request)
    if changes.summary:
        await _summarise(request, context, session, home.project, changes.summary)
    if changes.status:
        command = TrackSession(
            status="started" if changes.status == "active" else "ended",
            project=home.project,
            session_id=session,
            outcome="failed" if changes.status == "failed" else "completed",
        )
        homes(request).wrote(session, (await context.write(command)).position)
    return Json(Done(status="updated"))


async def listing(request: Request) -> Response:
    """Sessions, those first that began last."""
    query = parse_query(SessionsQuery, request)
    context = context_of(request)
    await context.wait_for_own_writes(HOOKS)
    statuses = [OURS[query.status]] if query.status else list(STATUSES)
    rows = await listed(request).sessions(context.reader(), wanted_project(query.project), statuses, query.limit)
    rows.reverse()  # older sessions get lower numbers
    names = [row.session.session_id for row in rows], [row.session.project for row in rows]
    ids, project_ids = await _numbers(context, *names)
    answers = [session_answer(*row) for row in zip(rows, ids, project_ids, strict=True)]
    return Json(answers[::-1])


async def _summarise(request: Request, context: Call, session: str, project: str, text: str) -> None:
    """Put a summary in the place of the one there was. It covers what was observed so far."""
    current = await services(request).operations.current.session(session, project, context.reader())
    command = SummariseSession(
        project=project,
        session_id=session,
        title=default_title(" ".join(text.split())),
        narrative=text,
        model=SOURCE,
        observation_count=max(1, current.observation_count),
        forgotten_at=current.told_from,
    )
    await change(context, command)


async def _numbers(context: Call, sessions: list[str], projects: list[str]) -> tuple[list[int], list[int]]:
    return await asyncio.gather(numbers(context, "session", sessions), numbers(context, "project", projects))


logger = logging.getLogger(__name__)

MAX_ITEM_BYTES = 32 << 20
PREVIEW_CHARS = 2_000
PATH_CHARS = 4_096
SKIPPED = frozenset(
    (
        "ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion", "TaskCreate", "TaskUpdate",
        "TaskGet", "TaskList", "TaskOutput", "TaskStop", "EnterPlanMode", "ExitPlanMode",
    )
)  # fmt: skip
"""Tools whose use says nothing about the work."""
_NO_ANSWER = '""'
"""What the hook sends for a missing response."""
_SPOOLED_AT = re.compile(r"(\d{13})-")
"""How the name of a spool file begins: the milliseconds at which it was written."""
MAX_FILES = 10_000
_file_numbers = count()


class QueueItem(BaseModel):
    """One use of a tool."""

    session_id: str
    tool_name: str | None = None
    tool_input: dict[str, Any] | None = None
    tool_response_preview: str | None = None
    cwd: str | None = None
    last_user_message: str | None = None

    @property
    def session(self) -> str:
        """The session as the log names it."""
        return name_of(self.session_id)

    @property
    def skipped(self) -> bool:
        """Whether nothing is recorded of it."""
        return self.tool_name in SKIPPED


def event_id(content: bytes, name: str) -> str:
    """The id of a report's event: of a body that is, or would be, in a file of that name."""
    return f"hook-{blake2b(name.encode(errors='replace') + bytes(1) + content, digest_size=16).hexdigest()}"


def observe(item: QueueItem, content: bytes, project: str, name: str) -> Observe:
    """The command that records a report, which the log takes whatever its size and depth.

    It happened when `name` says, the name of the file that `content` is in, or would be.
    """
    at = _SPOOLED_AT.match(name)
    data: dict[str, Any] = {"tool_name": (item.tool_name or "")[:PREVIEW_CHARS]}
    if item.tool_response_preview and item.tool_response_preview != _NO_ANSWER:
        data["tool_output"] = item.tool_response_preview[: 2 * PREVIEW_CHARS]  # cut to half when secrets are gone
    if item.last_user_message:
        data["prompt"] = item.last_user_message
    if item.tool_input:
        data["tool_input"] = item.tool_input
    data = fitted(data).data
    if "tool_output" in data:
        data["tool_output"] = data["tool_output"][:PREVIEW_CHARS]
    return Observe(
        event_id=event_id(content, name),
        project=project,
        session_id=item.session,
        occurred_at=from_ms(int(at[1])) if at else None,
        data=data,
    )


def started(session_id: str, project: str, folder: str | None, agent_type: str = AGENT_TYPE) -> TrackSession:
    """The command that says that a session began."""
    return TrackSession(
        status="started",
        project=project,
        session_id=session_id,
        cwd=(folder or "")[:PATH_CHARS],
        agent_type=name_of(agent_type),
    )


def spooled(content: bytes, name: str) -> list[WriteCommand]:
    """The command of a spool file, which is a body of POST /api/queue; none for a tool that is skipped.

    Raises MalformedRequest.
    """
    try:
        item = parse(QueueItem, content)
    except Unprocessable as error:
        first = error.errors[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MalformedRequest(f"no item of the queue: {where}: {first['msg']}") from None
    return [] if item.skipped else [observe(item, content, project_of(item.cwd), name)]


def new_name() -> str:
    """A name for a file, as the hooks name theirs; no other has it."""
    return f"{time.time_ns() // 1_000_000}-{os.getpid()}-{next(_file_numbers)}.json"


def keep(folder: Path, name: str, body: bytes) -> bool:
    """Leave a body of POST /api/queue in the folder, on disk when this returns; false when MAX_FILES are there.

    Blocks on files. Raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(os.listdir(folder)) >= MAX_FILES:  # noqa: PTH208 - names are enough
        return False
    write_whole(folder / name, body)
    sync(folder)
    return True


def hook_spool(settings: Settings) -> Spool:
    """The folder where hooks, and `keep`, leave reports."""
    return Spool(settings.agent_memory_spool, spooled)


async def queue(request: Request) -> Response:
    """Record the use of a tool, without waiting until it is projected. Of 13 tools only the session is recorded.

    A refusal would be a lost event, for the hook reads no answer: only what is no JSON, or no item, is refused.
    """
    raw = await body(request, MAX_ITEM_BYTES)
    item = await parsed(raw, lambda raw: parse(QueueItem, raw))
    name, dependencies = new_name(), services(request)
    try:
        await _record(request, item, raw, name)
    except (LogUnavailable, Overloaded, RedisError) as error:
        if not (dependencies.key_scope.whole and dependencies.tenant == state(request).settings.tenant):
            raise  # the spool is stored without a check of who wrote to it
        if not await asyncio.to_thread(keep, state(request).settings.agent_memory_spool, name, raw):
            raise
        logger.warning("a hook's report waits in the spool folder: %s", error)
    return Json(Done(status="queued"))


async def _record(request: Request, item: QueueItem, raw: bytes, name: str) -> None:
    home, is_new = await settled(request, item.session, project_of(item.cwd), "")
    commands: list[WriteCommand] = [started(item.session, home.project, item.cwd)] if is_new else []
    if not item.skipped:
        commands.append(await parsed(raw, lambda _: observe(item, raw, home.project, name)))
    dependencies, caller = services(request), context_of(request).caller()
    try:
        for command in commands:
            accepted = await dependencies.commands.handle(command, caller)
            homes(request).wrote(item.session, accepted.position)
            dependencies.last_writes.wrote(HOOKS, accepted.position)
    except BaseException:  # canceled as well: what is not stored has opened no session
        if is_new:
            homes(request).forget(item.session)
        raise
