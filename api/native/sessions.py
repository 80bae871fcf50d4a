"""Sessions and their observations."""

from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json
from api.native.common import AnyProjectRequest, InProject, read_request
from api.services import reader, services
from ingest.roles import READ
from projections.queries.observations import ObservationView
from projections.queries.sessions import SessionView
from projections.queries.views import Page, SomeRetired, view


async def list_sessions(request: Request) -> Response:
    """Sessions, the most recently active first."""
    wanted = await read_request(request, AnyProjectRequest)
    queries = services(request).queries
    return Json(await queries.sessions.page(reader(request), wanted.project, wanted.cursor, wanted.limit))


async def get_session(request: Request) -> Response:
    """One session."""
    wanted = await read_request(request, InProject)
    queries = services(request).queries
    found = await queries.sessions.one(reader(request), request.path_params["id"], wanted.project)
    return Json(view(found.document))


async def list_session_observations(request: Request) -> Response:
    """A session's observations, in the order they were recorded."""
    wanted = await read_request(request, AnyProjectRequest)
    page = services(request).queries.sessions.observations(
        reader(request), request.path_params["id"], wanted.project, wanted.cursor, wanted.limit
    )
    return Json(await page)


ENDPOINTS = [
    Endpoint("GET", "/v1/sessions", READ, list_sessions, "Sessions, the most recently active first.",
        query=AnyProjectRequest, answer=Page[SessionView]),
    Endpoint("GET", "/v1/sessions/{id:path}/observations", READ, list_session_observations,
        "A session's observations, in order.", query=AnyProjectRequest, answer=SomeRetired[ObservationView]),
    Endpoint("GET", "/v1/sessions/{id:path}", READ, get_session, "One session.", query=InProject, answer=SessionView),
]  # fmt: skip
