"""Commits, and the sessions they were made in."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.endpoints import Arguments, chosen, command, door_of, needed
from api.dialects.agentmemory.sessions import session_records
from api.dialects.session_projects import home_of
from api.http.http import Json
from ingest.commands.requests import LinkCommit
from ingest.platform.clock import system_clock
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolContext
from projections.documents.access import Reader
from projections.queries.views import view

NAME_CHARS, TIME_CHARS, MAX_FILES = 512, 64, 2_000
MAX_LIMIT = 500
PAGE = 500
MAX_SEEN = 10_000
"""Commits that one request looks at, the newest linked first."""


async def link(request: Request, arguments: Arguments) -> Response:
    """Link a commit to the session it was made in."""
    sha, session, door = needed(arguments, "sha").strip(), chosen(arguments, "sessionId") or "", door_of(request)
    home = await home_of(request, session) if session else None
    files: list[str] = arguments["files"] or []
    linked = command(
        LinkCommit,
        commit=sha,
        session_id=session,
        project=home.project if home else arguments["project"],
        agent_id=chosen(arguments, "agentId") or (home.agent if home else None),
        message=arguments["message"],
        branch=_cut(arguments, "branch"),
        repo=_cut(arguments, "repo"),
        author=_cut(arguments, "author"),
        authored_at=(arguments["authoredAt"] or "")[:TIME_CHARS],
        files=[one[:NAME_CHARS] for one in files[:MAX_FILES]],
    )
    accepted = await door.write(linked)
    await door.caught_up(linked.agent_id)
    found = await door.queries.browse.documents([accepted.id], door.operator())
    known = view(found[0].document) if found else _as_said(linked)
    return Json({"commit": dialect.commit(known)})


async def by_commit(request: Request, arguments: Arguments) -> Response:
    """A commit, and the sessions it was made in."""
    sha, agent, door = needed(arguments, "sha").strip(), arguments["agentId"] or "", door_of(request)
    await door.caught_up(agent)
    reader = door.reader(agent)
    found = await _commits(door, reader, {"commit": sha}, 1)
    if not found:
        return Json({"error": f"no session is known for commit {sha}"}, 404)
    named = [await door.queries.browse.sessions_named(reader, name) for name in found[0]["session_ids"]]
    known = [view(one.document) for located in named for one in located]
    return Json({"commit": dialect.commit(found[0]), "sessions": await session_records(door, reader, known)})


async def commits(request: Request, arguments: Arguments) -> Response:
    """Commits, the newest linked first."""
    limit = int(arguments["limit"])
    if limit < 1:
        raise BadArgument("limit must be at least 1", "limit")
    door, agent = door_of(request), arguments["agentId"] or ""
    await door.caught_up(agent)
    wanted = {name: arguments[name] for name in ("branch", "repo") if arguments[name]}
    found = await _commits(door, door.reader(agent), wanted, min(limit, MAX_LIMIT))
    return Json({"commits": list(map(dialect.commit, found))})


async def _commits(door: ToolContext, reader: Reader, wanted: dict[str, str], limit: int) -> list[dict[str, Any]]:
    """The newest commits in which these fields are as wanted."""
    found: list[dict[str, Any]] = []
    cursor, seen = None, 0
    while len(found) < limit and seen < MAX_SEEN:
        page = await door.queries.browse.commits(reader, None, cursor, PAGE)
        found += [one for one in page.items if all(one[name] == value for name, value in wanted.items())]
        cursor, seen = page.next, seen + PAGE
        if cursor is None:
            break
    return found[:limit]


def _cut(arguments: Arguments, name: str) -> str:
    return (arguments[name] or "")[:NAME_CHARS]


def _as_said(linked: LinkCommit) -> dict[str, Any]:
    """A commit that is not projected in time."""
    return {
        "commit": linked.commit,
        "branch": linked.branch,
        "repo": linked.repo,
        "message": linked.message,
        "author": linked.author,
        "authored_at": linked.authored_at,
        "files": linked.files,
        "session_ids": [linked.session_id] if linked.session_id else [],
        "linked_at": system_clock(),
    }
