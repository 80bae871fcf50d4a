"""The log: events, the audit log, live events; diagnosis; export and import.

GET /v1/live is server-sent events, best effort for one reader at a time. Each client reads the log at its own pace and
position, so a slow client delays no others. `Last-Event-ID`, which browsers send when they reconnect, resumes after
that position. Without events, a comment is sent to keep the connection alive. A stream ends when its key becomes
invalid.
"""

import re
from collections.abc import AsyncIterator
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.access.keys import still_holds
from api.http.endpoint import Endpoint, RequestHeader
from api.http.openapi import ANYTHING, TEXT
from api.http.serving import release_body
from api.native.common import AnyProjectRequest, Bounds, Fields, PageLimit, as_struct, router
from api.services import NativeCall
from ingest.log.event_log import EventLog
from ingest.names import comma_separated
from ingest.nouns.command import Name
from ingest.roles import ADMIN, READ
from projections.health.diagnosis import Diagnosis
from projections.nouns.access import Reader
from projections.operations.transfer import EventDocuments, Imported, Importer, KnownEvents, export_events
from projections.queries.log_events import MAX_FOLLOWERS, AuditPage, Criteria, EventFilter, EventsPage

EVENTS_AT_ONCE = 100
NDJSON, EVENT_STREAM = "application/x-ndjson", "text/event-stream"
RESUMED = {"Last-Event-ID": RequestHeader("Resumes after this position, as browsers do when they reconnect.")}
STREAMED = {429: f"{MAX_FOLLOWERS} streams are open."}
_NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class EventsRequest(Bounds, frozen=True, kw_only=True):
    """A page of the log after the position `after`, without waiting for it."""

    after: str = ""
    limit: PageLimit = 100
    partition: int | None = None
    type: str = ""
    session_id: Name = ""
    project: Name | None = None
    agent_id: Name = ""
    kind: Name = ""
    subject: Name = ""


class AuditRequest(AnyProjectRequest, frozen=True, kw_only=True):
    """Filters for writes: an event type (`*` includes observations), an agent, a project."""

    operation: Name = ""
    agent_id: Name = ""


class DiagnoseRequest(Fields, frozen=True, kw_only=True):
    """Which categories, separated by commas; all by default. `after` is ignored."""

    after: str = ""
    categories: str = ""


class LiveRequest(Criteria, frozen=True, kw_only=True):
    """Which events; `after` starts after a position instead of now."""

    after: str = ""
    type: str = ""
    limit: Annotated[int, Meta(ge=0)] = 0
    """Ends the stream after this many events; 0 never."""


@route("GET /v1/events", READ, faults=STREAMED, headers=RESUMED)
async def get_events(call: NativeCall, query: EventsRequest, request: Request) -> EventsPage:
    """Events of the log.

    Starting after a position. With `Accept: text/event-stream`, the same events as a stream that does not end, once
    they are projected, as of `GET /v1/live`; `limit` and `partition` are ignored.
    """
    chosen = as_struct(Criteria, query).of(call.reader(), query.type, withheld=True, times=query.times)
    if EVENT_STREAM in request.headers.get("accept", ""):
        return _stream(call, chosen, query, request)  # pyright: ignore[reportReturnType]
    return await call.queries.log.page(chosen, query.after, query.limit, query.partition)


@route("GET /v1/audit", READ)
async def get_audit(call: NativeCall, query: AuditRequest) -> AuditPage:
    """Who wrote or deleted what, and when; newest first."""
    return await call.queries.audit.entries(call.reader(), query.operation, query.agent_id, *query.page)


@route("GET /v1/diagnose", ADMIN)
async def get_diagnose(call: NativeCall, query: DiagnoseRequest) -> Diagnosis:
    """Diagnosis: one check for every known kind of problem."""
    return await call.queries.diagnose(call.reader(), comma_separated(query.categories))


@route("GET /v1/live", READ, answer=TEXT, media=EVENT_STREAM, headers=RESUMED, faults=STREAMED)
async def get_live(call: NativeCall, query: LiveRequest, request: Request) -> Response:
    """Live events, as server-sent events, once they are projected.

    Starting now or after a position; 429 while too many streams are open.
    """
    return _stream(call, as_struct(Criteria, query).of(call.reader(), query.type, withheld=True), query, request)


def _stream(call: NativeCall, chosen: EventFilter, query: LiveRequest | EventsRequest, request: Request) -> Response:
    start = request.headers.get("last-event-id") or query.after
    at = call.queries.log.read_on(start) if start else call.queries.log.applied()
    pages = call.queries.log.follow(chosen, at, EVENTS_AT_ONCE)
    limit = query.limit if isinstance(query, LiveRequest) else 0

    async def frames() -> AsyncIterator[bytes]:
        sent = 0
        yield f": connected\nid: {at}\n\n".encode()
        async for page in pages:
            if not await still_holds(request.scope):
                return
            if not page:
                yield f": still here\nid: {at}\n\n".encode()
            for event in page:
                after = event.pop("after")
                data = msgspec.json.encode(event).decode()
                yield f"id: {after}\nevent: {event.get('type', '')}\ndata: {data}\n\n".encode()
                sent += 1
                if limit and sent >= limit:
                    return

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(frames(), media_type=EVENT_STREAM, headers=headers)


class Transfer(NamedTuple):
    """The services for export and import; the composition root sets it as `state.transfer`."""

    log: EventLog
    documents: EventDocuments


class ExportRequest(Fields, frozen=True, kw_only=True):
    """The whole tenant, or one project; an empty name is the nameless project."""

    project: str | None = None


@route("GET /v1/export", ADMIN, answer=TEXT, media=NDJSON)
async def get_export(call: NativeCall, query: ExportRequest, request: Request) -> Response:
    """Export the events that the caller can read, one line for each."""
    return _export(request, call.reader(), query.project)


@route("GET /v1/admin/export", ADMIN, answer=TEXT, media=NDJSON)
async def get_admin_export(call: NativeCall, query: ExportRequest, request: Request) -> Response:
    """Export all events, whatever their visibility."""
    return _export(request, call.operator(), query.project)


@route("POST /v1/admin/import", ADMIN, 202, body={"type": "array", "items": ANYTHING}, taken=[NDJSON])
async def post_import(call: NativeCall, request: Request) -> Imported:
    """Import an export.

    Appends it line by line; the response lists rejected lines.
    """
    call.key_scope.check_whole()
    transfer: Transfer = request.app.state.transfer
    existing = KnownEvents(call.redis, transfer.log)
    count = call.queries.memories.count_restatements
    importer = Importer(call.commands, call.tenant, existing, call.operations.current.settle, count)

    async def lines() -> AsyncIterator[bytes]:
        async for part in request.stream():
            release_body(request.scope)  # release bytes that were already forwarded
            yield part

    return await importer.run(lines())


def _export(request: Request, reader: Reader, project: str | None) -> Response:
    transfer: Transfer = request.app.state.transfer
    name = "-".join(_NOT_IN_A_FILE_NAME.sub("_", part) for part in ("mnemolog", reader.tenant, project) if part)
    return StreamingResponse(
        export_events(transfer.log, transfer.documents, reader, project),
        media_type=NDJSON,
        headers={"Content-Disposition": f'attachment; filename="{name}.ndjson"'},
    )
