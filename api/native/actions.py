"""Work items, and which of them can be done now."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.native.common import After, ListRequest, read_request
from api.services import caller, reader, services
from ingest.commands.command import Name
from ingest.commands.handler import Accepted
from ingest.commands.requests import WriteAction
from ingest.roles import READ, WRITE
from projections.queries.actions import ActionView
from projections.queries.views import Page, view


class ReadyAction(ActionView, frozen=True, kw_only=True):
    """A work item that nothing blocks; `leased` when somebody works on it."""

    score: float
    leased: bool


class Frontier(Struct, frozen=True, kw_only=True):
    """What can be done now, and how many work items are still to be done."""

    items: list[ReadyAction]
    open: int


class ActionsRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of actions; with `open`, those still to be done."""

    open: bool = False


class FrontierRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be done now: in one project, or in all; not what is leased to other agents than `agent_id`."""

    project: Name | None = None
    agent_id: Name = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


async def post_action(request: Request) -> Response:
    """Write down a work item; or change the one that the body names."""
    command = await asked_for(request, WriteAction)
    return Json(await services(request).operations.work.write_action(command, reader(request), caller(request)), 202)


async def patch_action(request: Request) -> Response:
    """Change a work item."""
    command = replace(await asked_for(request, WriteAction), action=request.path_params["id"])
    return Json(await services(request).operations.work.write_action(command, reader(request), caller(request)), 202)


async def list_actions(request: Request) -> Response:
    """A project's work items, newest first."""
    wanted = await read_request(request, ActionsRequest)
    queries = services(request).queries
    return Json(
        await queries.actions.page(reader(request), wanted.project, wanted.cursor, wanted.limit, open_only=wanted.open)
    )


async def get_frontier(request: Request) -> Response:
    """The work items that can be done now, most urgent first."""
    wanted = await read_request(request, FrontierRequest)
    who = reader(request, wanted.agent_id)
    queries = services(request).queries
    actions, ready, _ = await queries.actions.open_work(who, wanted.project, wanted.agent_id or who.agent_id)
    items = [{**view(actions[one.item.id]), "score": one.score, "leased": one.leased} for one in ready[: wanted.limit]]
    return Json({"items": items, "open": len(actions)})


ENDPOINTS = [
    Endpoint("GET", "/v1/actions", READ, list_actions, "A project's work items.", query=ActionsRequest,
        answer=Page[ActionView]),
    Endpoint("POST", "/v1/actions", WRITE, post_action, "Write down a work item.", status=202, body=WriteAction,
        answer=Accepted, faults={404: "There is no action of that id to change."}),
    Endpoint("PATCH", "/v1/actions/{id}", WRITE, patch_action, "Change a work item.", status=202, body=WriteAction,
        answer=Accepted),
    Endpoint("GET", "/v1/frontier", READ, get_frontier, "What can be done now.", query=FrontierRequest,
        answer=Frontier),
]  # fmt: skip
