"""The projects and agents that a reader finds something of: what a choice of either is made from."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json
from api.native.common import After, PageLimit, read_request
from api.services import reader, services
from ingest.commands.command import Name
from ingest.errors import CommandRejected
from ingest.roles import READ
from projections.queries.views import Page

_BEHIND = ">"
"""Begins a cursor, whose name may be empty: an empty cursor is none."""


class NamesRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of names."""

    cursor: str | None = None
    limit: PageLimit = 50


class AgentsRequest(NamesRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the agents of one project, or of all."""

    project: Name | None = None


class ProjectCount(Struct, frozen=True):
    """A project, `""` the nameless one, and how many documents of it the reader may find."""

    project: str
    documents: int


class AgentCount(Struct, frozen=True):
    """An agent, and how many documents that it wrote the reader may find."""

    agent_id: str
    documents: int


async def list_projects(request: Request) -> Response:
    """The projects of what the reader may find, and how much that is."""
    wanted = await read_request(request, NamesRequest)
    found, follows = _page(await services(request).queries.lookup.names(reader(request), "project"), wanted)
    return Json(Page([ProjectCount(*one) for one in found], follows))


async def list_agents(request: Request) -> Response:
    """The agents who wrote what the reader may find, and how much that is."""
    wanted = await read_request(request, AgentsRequest)
    names = await services(request).queries.lookup.names(reader(request), "agent", wanted.project)
    found, follows = _page(names, wanted)
    return Json(Page([AgentCount(*one) for one in found], follows))


def _page(names: Sequence[tuple[str, int]], wanted: NamesRequest) -> tuple[Sequence[tuple[str, int]], str | None]:
    """The names behind the cursor, and the cursor of those that follow."""
    if wanted.cursor and not wanted.cursor.startswith(_BEHIND):
        raise CommandRejected("not a cursor; pass on the `next` of the page before", "cursor")
    left = [one for one in names if not wanted.cursor or one[0] > wanted.cursor.removeprefix(_BEHIND)]
    found = left[: wanted.limit]
    return found, _BEHIND + found[-1][0] if len(left) > len(found) else None


ENDPOINTS = [
    Endpoint("GET", "/v1/projects", READ, list_projects, "Projects, by name.", query=NamesRequest,
        answer=Page[ProjectCount]),
    Endpoint("GET", "/v1/agents", READ, list_agents, "Agents, by name.", query=AgentsRequest,
        answer=Page[AgentCount]),
]  # fmt: skip
