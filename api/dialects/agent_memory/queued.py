"""What the post-tool-use hook reports, as commands: from POST /api/queue, or from a file in the spool folder.

No hook reads an answer, so a refusal would lose the event: a report that the log does not take just now is kept in the
spool folder. The file's name and content make the event's id, so what the log took without saying so in time is stored
once all the same.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Sequence
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import Done
from api.dialects.agent_memory.common import HOOKS, context_of
from api.dialects.agent_memory.records import AGENT_TYPE, name_of, project_of
from api.dialects.agent_memory.state import state
from api.dialects.detail import Unprocessable, parse
from api.dialects.fitting import fitted
from api.dialects.session_projects import homes, settled
from api.http.http import Json, body, parsed
from api.services import services
from ingest.commands.requests import Observe, TrackSession, WriteCommand
from ingest.errors import LogUnavailable, MalformedRequest, Overloaded
from ingest.log.spool import Spool
from ingest.platform.clock import from_ms
from ingest.platform.files import sync
from ingest.platform.settings import Settings

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
"""What the hook makes of a response that is not there."""
_SPOOLED_AT = re.compile(r"(\d{13})-")
"""How the name of a spool file begins: the milliseconds at which it was written."""
MAX_FILES = 10_000
_numbers = count()


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
    except Unprocessable as fault:
        first = fault.errors[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MalformedRequest(f"no item of the queue: {where}: {first['msg']}") from None
    return [] if item.skipped else [observe(item, content, project_of(item.cwd), name)]


def new_name() -> str:
    """A name for a file, as the hooks name theirs; no other has it."""
    return f"{time.time_ns() // 1_000_000}-{os.getpid()}-{next(_numbers)}.json"


def keep(folder: Path, name: str, body: bytes) -> bool:
    """Leave a body of POST /api/queue in the folder, on disk when this returns; false when MAX_FILES are there.

    Blocks on files. Raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(os.listdir(folder)) >= MAX_FILES:  # noqa: PTH208 - names are enough
        return False
    unfinished = folder / f".{name}"
    with unfinished.open("xb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(folder / name)
    sync(folder)
    return True


def hook_spool(settings: Settings) -> Spool:
    """The folder where hooks, and `keep`, leave reports."""
    return Spool(settings.agent_memory_spool, spooled)


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
    at_hand, caller = services(request), context_of(request).caller()
    for command in commands:
        accepted = await at_hand.commands.handle(command, caller)
        homes(request).wrote(session, accepted.position)
        at_hand.last_writes.wrote(HOOKS, accepted.position)
