"""The log itself, who wrote what, how healthy the memory is; and events as they are projected.

GET /v1/live is server-sent events, best effort for one reader at a time. A slow client holds up nobody: it reads the
log at its own pace, from where it is. `Last-Event-ID`, which browsers send when they connect again, goes on after that
position. In silence a comment tells that the connection stands. A stream ends when its key does.
"""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.access.keyring import still_holds
from api.http.endpoint import Endpoint, RequestHeader
from api.http.following import followed
from api.http.http import Json, query
from api.http.openapi import TEXT
from api.native.common import After, AnyProjectRequest, BoundedRead, PageLimit, read_request
from api.services import reader, services
from ingest.commands.command import Name
from ingest.errors import Overloaded
from ingest.log.position import Token
from ingest.roles import ADMIN, READ
from projections.health.diagnosis import Diagnosis
from projections.queries.log_events import AuditPage, EventFilter, EventsPage


class EventsRequest(BoundedRead, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the log; `after` is where to go on, and is not waited for."""

    limit: PageLimit = 100
    partition: int | None = None
    type: str = ""
    session_id: Name = ""
    project: Name | None = None
    agent_id: Name = ""


class AuditRequest(AnyProjectRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which writes: an event type (`*` for observations, too), an agent, a project."""

    operation: Name = ""
    agent_id: Name = ""


class DiagnoseRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which categories, separated by commas; all without any."""

    categories: str = ""


async def get_events(request: Request) -> Response:
    """The log itself, from behind a position."""
    wanted = query(request, EventsRequest)
    chosen = EventFilter(reader(request), wanted.type, wanted.session_id, wanted.project, wanted.agent_id, wanted.times)
    page = services(request).queries.log.page(chosen, wanted.after, wanted.limit, wanted.partition)
    return Json(await page)


async def get_audit(request: Request) -> Response:
    """Who wrote or deleted what, when; newest first."""
    wanted = await read_request(request, AuditRequest)
    page = services(request).queries.audit.entries(
        reader(request), wanted.operation, wanted.agent_id, wanted.project, wanted.cursor, wanted.limit, wanted.times
    )
    return Json(await page)


async def get_diagnose(request: Request) -> Response:
    """How the memory is: one check for every kind of trouble."""
    wanted = query(request, DiagnoseRequest)
    categories = [name.strip() for name in wanted.categories.split(",") if name.strip()]
    return Json(await services(request).queries.diagnose(reader(request), categories))


MAX_READERS = 200
"""Connections served at once; one more is told to come back later."""
EVENTS_AT_ONCE = 100


class LiveRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events; `after` begins behind a position instead of now."""

    type: str = ""
    session_id: Name = ""
    project: Name | None = None
    agent_id: Name = ""
    limit: Annotated[int, Meta(ge=0)] = 0
    """Ends the stream after so many events; 0 never."""


class LiveStreams:
    """The streams that are open."""

    def __init__(self) -> None:
        self._open = 0

    async def serve(self, request: Request) -> Response:
        """Events as they are projected, from now on or from behind a place; 429 while too many streams are open."""
        asked = query(request, LiveRequest)
        if self._open >= MAX_READERS:
            raise Overloaded(f"{self._open} live streams are open", retry_after_s=5)
        wanted = EventFilter(reader(request), asked.type, asked.session_id, asked.project, asked.agent_id)
        start = request.headers.get("last-event-id") or asked.after
        queries = services(request).queries
        at = queries.log.read_on(start) if start else queries.log.applied()
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        stream = self._stream(request, wanted, at, asked.limit)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _stream(self, request: Request, wanted: EventFilter, at: Token, limit: int) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            yield b": connected\n\n"
            async for chunk in _events(request, wanted, at, limit):
                yield chunk
        finally:
            self._open -= 1


async def _events(request: Request, wanted: EventFilter, at: Token, limit: int) -> AsyncIterator[bytes]:
    sent = 0
    async for page in followed(services(request), wanted, at, EVENTS_AT_ONCE):
        if not await still_holds(request.scope):
            return
        if not page:
            yield b": still here\n\n"
        for event in page:
            after = event.pop("after")
            data = msgspec.json.encode(event).decode()
            yield f"id: {after}\nevent: {event.get('type', '')}\ndata: {data}\n\n".encode()
            sent += 1
            if limit and sent >= limit:
                return


ENDPOINTS = [
    Endpoint("GET", "/v1/events", READ, get_events, "The log itself.", query=EventsRequest, answer=EventsPage),
    Endpoint("GET", "/v1/audit", READ, get_audit, "Who wrote or deleted what.", query=AuditRequest, answer=AuditPage),
    Endpoint("GET", "/v1/diagnose", ADMIN, get_diagnose, "How the memory is.", query=DiagnoseRequest, answer=Diagnosis),
    Endpoint("GET", "/v1/live", READ, LiveStreams().serve, "Events as they are projected, by server-sent events.",
        query=LiveRequest, answer=TEXT, media="text/event-stream",
        headers={"Last-Event-ID": RequestHeader("Goes on behind this position, as browsers do that connect again.")},
        faults={429: f"{MAX_READERS} streams are open."}),
]  # fmt: skip
