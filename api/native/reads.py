"""GET routes and the two questions, recall and context, of the native API."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.http import Json, body, query
from api.services import reader, services
from ingest.commands.parse import parse_json
from ingest.errors import NotFound
from ingest.log.position import Token
from projections.queries import ContextRequest, RecallRequest, Wanted
from projections.queries.recall import WAIT_S
from projections.queries.views import view

PageLimit = Annotated[int, Meta(ge=1, le=1000)]


class After(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A read that may wait for a position."""

    after: str = ""


class ListRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of one project's documents."""

    project: str = ""
    cursor: str | None = None
    limit: PageLimit = 50
    after: str = ""


class SessionsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of sessions (of one project, or of all), or of one session's observations."""

    project: str | None = None
    cursor: str | None = None
    limit: PageLimit = 50
    after: str = ""


class TimelineRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a project's observations, newest first, beginning at `until`."""

    project: str = ""
    until: datetime | None = None
    cursor: str | None = None
    limit: PageLimit = 50
    after: str = ""


class EventsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the log."""

    after: str = ""
    limit: PageLimit = 100
    partition: int | None = None
    type: str = ""
    session_id: str = ""


async def post_recall(request: Request) -> Response:
    """Find the right memories for a query."""
    asked = parse_json(await body(request), RecallRequest)
    at_hand = services(request)
    return Json(await at_hand.queries.recall(asked, at_hand.tenant, reader(request)))


async def post_context(request: Request) -> Response:
    """Compile what an agent should know, within a token budget."""
    asked = parse_json(await body(request), ContextRequest)
    at_hand = services(request)
    return Json(await at_hand.queries.context(asked, at_hand.tenant, reader(request)))


async def get_document(request: Request) -> Response:
    """One observation, memory or lesson."""
    await _wait(request, query(request, After).after)
    at_hand = services(request)
    found = await at_hand.queries.browse.document(request.path_params["id"], at_hand.tenant, reader(request))
    if found.document.id.partition("_")[0] != _PREFIXES[request.url.path.split("/")[2]]:
        raise NotFound(f"{request.path_params['id']!r} is not in this collection")
    return Json(view(found.document))


async def list_memories(request: Request) -> Response:
    """A project's memories, newest first."""
    asked = query(request, ListRequest)
    await _wait(request, asked.after)
    at_hand = services(request)
    page = at_hand.queries.browse.memories(at_hand.tenant, asked.project, reader(request), asked.cursor, asked.limit)
    return Json(await page)


async def list_lessons(request: Request) -> Response:
    """A project's lessons, newest first."""
    asked = query(request, ListRequest)
    await _wait(request, asked.after)
    at_hand = services(request)
    return Json(await at_hand.queries.browse.lessons(at_hand.tenant, asked.project, asked.cursor, asked.limit))


async def list_sessions(request: Request) -> Response:
    """Sessions, the most recently active first."""
    asked = query(request, SessionsRequest)
    await _wait(request, asked.after)
    at_hand = services(request)
    return Json(await at_hand.queries.browse.sessions(at_hand.tenant, asked.project, asked.cursor, asked.limit))


async def get_session(request: Request) -> Response:
    """One session."""
    asked = query(request, SessionsRequest)
    await _wait(request, asked.after)
    at_hand = services(request)
    found = await at_hand.queries.browse.session(at_hand.tenant, request.path_params["id"], asked.project)
    return Json(view(found.document))


async def list_session_observations(request: Request) -> Response:
    """A session's observations, in the order they were recorded."""
    asked = query(request, SessionsRequest)
    await _wait(request, asked.after)
    at_hand = services(request)
    page = at_hand.queries.browse.session_observations(
        at_hand.tenant, request.path_params["id"], asked.project, asked.cursor, asked.limit
    )
    return Json(await page)


async def get_timeline(request: Request) -> Response:
    """A project's observations by the time they happened."""
    asked = query(request, TimelineRequest)
    await _wait(request, asked.after)
    at_hand = services(request)
    page = at_hand.queries.browse.timeline(at_hand.tenant, asked.project, asked.until, asked.cursor, asked.limit)
    return Json(await page)


async def get_events(request: Request) -> Response:
    """The log itself, from behind a position."""
    asked = query(request, EventsRequest)
    at_hand = services(request)
    wanted = Wanted(at_hand.tenant, asked.type, asked.session_id, reader(request))
    page = at_hand.queries.browse.events(wanted, asked.after, asked.limit, asked.partition)
    return Json(await page)


async def _wait(request: Request, after: str) -> None:
    if after:
        await services(request).replica.wait_for(Token.parse(after), WAIT_S)


_PREFIXES = {"observations": "obs", "memories": "mem", "lessons": "lsn"}

ROUTES = [
    Route("/v1/recall", post_recall, methods=["POST"]),
    Route("/v1/context", post_context, methods=["POST"]),
    Route("/v1/events", get_events, methods=["GET"]),
    Route("/v1/memories", list_memories, methods=["GET"]),
    Route("/v1/lessons", list_lessons, methods=["GET"]),
    *(Route(f"/v1/{name}/{{id}}", get_document, methods=["GET"]) for name in _PREFIXES),
    Route("/v1/sessions", list_sessions, methods=["GET"]),
    Route("/v1/sessions/{id}", get_session, methods=["GET"]),
    Route("/v1/sessions/{id}/observations", list_session_observations, methods=["GET"]),
    Route("/v1/timeline", get_timeline, methods=["GET"]),
]
