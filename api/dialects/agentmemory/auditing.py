"""Who wrote or deleted what: the audit log in agentmemory's words."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.endpoints import Arguments, count, door_of, failure, success
from ingest.errors import ReaderUnknown
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolContext
from projections.queries.audit import AuditEntry

MAX_LIMIT = 1_000
MAX_PAGES = 20
"""Pages of the log that are looked at for entries of one kind."""
WORDS: Mapping[str, str] = {
    "observation.recorded": "observe",
    "observation.compressed": "compress",
    "memory.recorded": "remember",
    "memory.revised": "evolve",
    "memory.condensed": "consolidate",
    "memory.visibility_changed": "share",
    "lesson.recorded": "lesson_save",
    "lesson.reinforced": "lesson_strengthen",
    "lesson.revised": "lesson_update",
    "lesson.retired": "lesson_delete",
    "lesson.triggered": "lesson_trigger",
    "session.started": "session_start",
    "session.ended": "session_end",
    "session.summarised": "summarize",
    "session.committed": "session_commit",
    "session.retired": "session_retire",
    "slot.set": "slot_replace",
    "slot.appended": "slot_append",
    "slot.deleted": "slot_delete",
    "action.created": "action_create",
    "action.updated": "action_update",
    "relation.linked": "relate",
    "relation.unlinked": "unrelate",
    "subject.forgotten": "forget",
}
"""What agentmemory calls our events."""
_EVENTS: Mapping[str, str] = {word: event for event, word in WORDS.items()} | {"delete": "subject.forgotten"}
MAX_COMMITS = 500
SHA_CHARS, SHORT_CHARS = 40, 7
NOBODY = "mnemolog"


async def audit(request: Request, arguments: Arguments) -> Response:
    """Who wrote or deleted what, the newest first."""
    if arguments["limit"] < 1:
        raise BadArgument("limit must be at least 1", "limit")
    door, limit = door_of(request), min(MAX_LIMIT, int(arguments["limit"]))
    try:
        found = await entries(door, arguments["operation"] or "", limit, arguments["agentId"] or "")
    except ReaderUnknown as why:
        return failure(str(why), entries=[])
    return success(entries=list(map(audit_record, found)))


async def entries(door: ToolContext, operation: str, limit: int, agent: str = "") -> list[AuditEntry]:
    """Entries of the audit log, newest first; of one operation, in agentmemory's words or ours."""
    found: list[AuditEntry] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await door.queries.audit.entries(
            door.reader(agent), _EVENTS.get(operation, operation), cursor=cursor, limit=limit - len(found)
        )
        found += page.entries
        cursor = page.next
        if cursor is None or len(found) >= limit:
            break
    return found


def audit_record(entry: AuditEntry) -> dict[str, Any]:
    """An entry as agentmemory has it."""
    details = {
        "agentId": entry.agent_id,
        "project": entry.project,
        "sessionId": entry.session_id,
        "reason": entry.reason,
        "source": entry.source,
        "erased": entry.erased,
    }
    shown: dict[str, Any] = {
        "id": entry.id,
        "timestamp": dialect.iso(entry.at),
        "operation": WORDS.get(entry.operation, entry.operation),
        "functionId": entry.operation,
        "targetIds": entry.targets,
        "details": {name: value for name, value in details.items() if value},
    }
    return shown | ({"userId": entry.user_id} if entry.user_id else {})


async def commits_of_log(request: Request, arguments: Arguments) -> Response:
    """The audit log, told as commits; the newest first."""
    found = await entries(door_of(request), "", count(arguments, "limit", MAX_COMMITS))
    return success(commits=list(map(_commit, found)))


def _commit(entry: AuditEntry) -> dict[str, Any]:
    name = "".join(mark for mark in entry.id if mark.isalnum()).lower()
    agent = entry.agent_id or NOBODY
    what = WORDS.get(entry.operation, entry.operation)
    return {
        "sha": name[-SHA_CHARS:].rjust(SHA_CHARS, "0"),
        "shortSha": name[-SHORT_CHARS:],
        "agent": agent,
        "email": f"{agent}@{NOBODY}.invalid",
        "date": dialect.iso(entry.at),
        "message": " ".join([what, *entry.targets[:3]]),
    }
