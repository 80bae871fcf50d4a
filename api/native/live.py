"""GET /v1/live: events as they are projected, by server-sent events. Best effort for one reader at a time.

A slow client holds up nobody: it reads the log at its own pace, from where it is. `Last-Event-ID`, which browsers send
when they connect again, goes on behind that position. In silence a comment tells that the connection stands. A stream
ends when its key does.
"""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.access.keyring import still_holds
from api.http.endpoint import Endpoint, Header
from api.http.following import followed
from api.http.http import query
from api.http.openapi import TEXT
from api.native.common import After
from api.services import reader, services
from ingest.commands.command import Name
from ingest.errors import Overloaded
from ingest.log.position import Token
from ingest.roles import READ
from projections.queries import Wanted

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


class Live:
    """The streams that are open."""

    def __init__(self) -> None:
        self._open = 0

    async def serve(self, request: Request) -> Response:
        """Open a stream; raises Overloaded past MAX_READERS."""
        asked = query(request, LiveRequest)
        if self._open >= MAX_READERS:
            raise Overloaded(f"{self._open} live streams are open", retry_after_s=5)
        wanted = Wanted(reader(request), asked.type, asked.session_id, asked.project, asked.agent_id)
        start = request.headers.get("last-event-id") or asked.after
        queries = services(request).queries
        at = Token.parse(start).check(queries.log.partitions) if start else queries.log.applied()
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        stream = self._stream(request, wanted, at, asked.limit)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _stream(self, request: Request, wanted: Wanted, at: Token, limit: int) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            yield b": connected\n\n"
            async for chunk in _events(request, wanted, at, limit):
                yield chunk
        finally:
            self._open -= 1


async def _events(request: Request, wanted: Wanted, at: Token, limit: int) -> AsyncIterator[bytes]:
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
    Endpoint("GET", "/v1/live", READ, Live().serve, "Events as they are projected, by server-sent events.",
        query=LiveRequest, answer=TEXT, media="text/event-stream",
        headers={"Last-Event-ID": Header("Goes on behind this position, as browsers do that connect again.")},
        faults={429: f"{MAX_READERS} streams are open."}),
]  # fmt: skip
