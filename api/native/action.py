"""Routes of actions, the work items that agents share."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from api.http.endpoint import Endpoint
from api.native.common import After, ListRequest, router
from api.services import NativeCall
from ingest.commands.decide import WriteAction
from ingest.commands.handler import Accepted
from ingest.nouns.command import Name
from ingest.roles import READ, WRITE
from projections.queries.views import Page, view
from projections.queries.work import ActionView

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class ReadyAction(ActionView, frozen=True, kw_only=True):
    """A work item that nothing blocks; `leased` while an agent works on it."""

    score: float
    leased: bool


class Frontier(Struct, frozen=True, kw_only=True):
    """The work items that can be done now, and the number of open ones."""

    items: list[ReadyAction]
    open: int


class ActionsRequest(ListRequest, frozen=True, kw_only=True):
    """A page of actions; with `open`, only open ones."""

    open: bool = False


class FrontierRequest(After, frozen=True, kw_only=True):
    """Of one project, or of all; omits items leased to agents other than `agent_id`."""

    project: Name | None = None
    agent_id: Name = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


@route("GET /v1/actions", READ)
async def list_actions(call: NativeCall, query: ActionsRequest) -> Page[ActionView]:
    """A project's work items, newest first."""
    return await call.queries.actions.page(call.reader(), *query.page, open_only=query.open)


@route("POST /v1/actions", WRITE, 202, faults={404: "No action has that id."})
async def post_action(call: NativeCall, body: WriteAction) -> Accepted:
    """Create a work item, or change the one that the body names."""
    return await call.operations.work.write_action(body, call.reader(), call.caller())


@route("PATCH /v1/actions/{id}", WRITE, 202)
async def patch_action(call: NativeCall, id: str, body: WriteAction) -> Accepted:
    """Change a work item."""
    return await call.operations.work.write_action(replace(body, action=id), call.reader(), call.caller())


@route("GET /v1/frontier", READ)
async def get_frontier(call: NativeCall, query: FrontierRequest) -> Frontier:
    """The work items that can be done now, most urgent first."""
    reader = call.reader(query.agent_id)
    actions, ready, _ = await call.queries.actions.open_work(reader, query.project, query.agent_id or reader.agent_id)
    tasks = ready[: query.limit]
    items = [view(actions[task.item.id]) | {"score": task.score, "leased": task.leased} for task in tasks]
    return Frontier(items=items, open=len(actions))
