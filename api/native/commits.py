"""Version-control commits and the sessions they were made in."""

from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.native.common import AnyProjectRequest, InProject, read_request
from api.services import caller, reader, services
from ingest.commands.handler import Accepted
from ingest.commands.requests import LinkCommit
from ingest.roles import READ, WRITE
from projections.queries.commits import CommitView
from projections.queries.views import Items, Page, view


async def post_commit(request: Request) -> Response:
    """Link a version-control commit."""
    command = await asked_for(request, LinkCommit)
    return Json(await services(request).operations.work.link_commit(command, caller(request)), 202)


async def list_commits(request: Request) -> Response:
    """Commits, the newest linked first."""
    wanted = await read_request(request, AnyProjectRequest)
    queries = services(request).queries
    return Json(await queries.commits.page(reader(request), wanted.project, wanted.cursor, wanted.limit))


async def list_session_commits(request: Request) -> Response:
    """The commits made in a session."""
    wanted = await read_request(request, InProject)
    found = await services(request).queries.commits.of_session(reader(request), request.path_params["id"])
    return Json({"items": [view(commit) for commit in found if wanted.project in (None, commit.project)]})


ENDPOINTS = [
    Endpoint("GET", "/v1/commits", READ, list_commits, "Commits, the newest linked first.", query=AnyProjectRequest,
        answer=Page[CommitView]),
    Endpoint("POST", "/v1/commits", WRITE, post_commit, "Link a version-control commit.", status=202, body=LinkCommit,
        answer=Accepted),
    Endpoint("GET", "/v1/sessions/{id:path}/commits", READ, list_session_commits, "The commits made in a session.",
        query=InProject, answer=Items[CommitView]),
]  # fmt: skip
