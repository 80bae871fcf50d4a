"""Forgetting, by name and by age; checking the server and what it holds; who wrote or deleted what."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.answers import answer, succeeded
from api.dialects.agentmemory.endpoints import (
    Arguments,
    call_of,
    failure,
    one_session,
    read_query,
    reply,
    session_of,
    success,
)
from api.dialects.agentmemory.operations import DRY_RUN, fields
from api.dialects.session_projects import home_of, homes
from ingest.errors import NotFound, ReaderUnknown
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import server_version
from mcp_gateway.tools.tool import ToolAnswer, ToolContext
from projections.documents.observations import Observation
from projections.forgetting.forget import Sweep
from projections.queries.log_events import AuditEntry


async def post_forget(request: Request, arguments: Arguments) -> Response:
    """Forget a memory, some observations of a session, or the whole session, for good."""
    session = arguments.chosen("sessionId")
    home = await home_of(request, session) if session else None
    answer = await forget(call_of(request), arguments | {"project": home.project if home else None})
    if session and not arguments["observationIds"] and arguments.chosen("memoryId") is None:
        homes(request).forget(session)
    return reply(answer)


async def auto_forget(request: Request, arguments: Arguments) -> Response:
    """Forget expired memories and old observations that hardly mattered; with dryRun, only say which.

    Two memories that say the same are never both the newest: saving sees to that, so there are no contradictions.
    """
    in_query = read_query(request, fields(DRY_RUN))
    dry_run, call = bool(arguments["dryRun"] or in_query["dryRun"]), call_of(request)
    await call.wait_for_own_writes()
    reader, caller, operations = call.reader(), call.caller(), call.operations
    sweep = Sweep(operations.current, call.queries.lookup, operations.forgetting)
    swept = await sweep.run(reader, caller, dry_run=dry_run)
    call.wrote(caller.agent_id, swept.position)
    return success(
        ttlExpired=swept.expired,
        contradictions=[],
        lowValueObs=swept.unimportant,
        evictedMemories=swept.expired,
        evictedObservations=swept.unimportant,
        evicted=0 if dry_run else len(swept.expired) + len(swept.unimportant),
        dryRun=dry_run,
    )


async def forget(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_forget: a memory, some observations of a session, or the whole session."""
    memory, names = arguments.chosen("memoryId"), arguments["observationIds"]
    if memory is None and arguments.chosen("sessionId") is None:
        raise BadArgument("memoryId or sessionId is required", "memoryId")
    forgetting, caller, reader = call.operations.forgetting, call.caller(), call.reader()
    try:
        if memory is not None:
            forgotten = await forgetting.document(memory, reader, caller)
            deleted = forgotten.total
        elif names:
            await call.wait_for_own_writes()
            found = await call.queries.lookup.documents(names, reader)
            seen = [one.document for one in found if isinstance(one.document, Observation)]
            of_session = [one.id for one in seen if one.session_id == arguments["sessionId"]]
            forgotten = await forgetting.documents(of_session, reader, caller)
            deleted = forgotten.documents.get("observation", 0)
        else:
            forgotten = await forgetting.session(session_of(await one_session(call, arguments)), caller)
            deleted = forgotten.documents.get("observation", 0) + 2  # the session and its summary count, too
    except NotFound:
        return succeeded(deleted=0)
    call.wrote(caller.agent_id, forgotten.position)
    return succeeded(deleted=deleted)


async def diagnose(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_diagnose: what was looked at, and how well the server is."""
    await call.wait_for_own_writes()
    found = await call.queries.diagnose(call.reader(), arguments["categories"] or ())
    return answer(
        {
            "success": True,
            "status": found.status,
            "service": "agentmemory",
            "version": server_version() or "0.0.0",
            "database": "valkey",
            "databaseStatus": "connected",
            "checks": found.checks,
            "summary": found.summary,
        }
    )


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
    "memory.confirmed": "memory_strengthen",
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


async def audit(request: Request, arguments: Arguments) -> Response:
    """Who wrote or deleted what, the newest first."""
    if arguments["limit"] < 1:
        raise BadArgument("limit must be at least 1", "limit")
    call, limit = call_of(request), min(MAX_LIMIT, int(arguments["limit"]))
    try:
        found = await entries(call, arguments["operation"] or "", limit, arguments["agentId"] or "")
    except ReaderUnknown as why:
        return failure(str(why), entries=[])
    return success(entries=list(map(audit_record, found)))


async def entries(call: ToolContext, operation: str, limit: int, agent: str = "") -> list[AuditEntry]:
    """Entries of the audit log, newest first; of one operation, in agentmemory's words or ours."""
    found: list[AuditEntry] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await call.queries.audit.entries(
            call.reader(agent), _EVENTS.get(operation, operation), cursor=cursor, limit=limit - len(found)
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
