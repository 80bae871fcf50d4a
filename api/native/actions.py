"""Slots; work items, and which of them can be done now."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.native.common import After, BoundedRead, ListRequest, read_request, with_notes
from api.services import caller, reader, services
from ingest.commands.command import Name
from ingest.commands.decide import DeleteSlot, SetSlot, WriteAction
from ingest.commands.handler import Accepted
from ingest.events.slot import SlotScope
from ingest.roles import READ, WRITE
from projections.queries.views import Items, Page, view
from projections.queries.work import ActionView, SlotView


class SlotsRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose slots."""

    project: Name = ""


class ListSlotsRequest(BoundedRead, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose slots, of those that were last written at some time."""

    project: Name = ""


class SlotDelete(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which slot to remove."""

    project: Name = ""
    scope: SlotScope = "project"


class SlotWrite(SetSlot, frozen=True, kw_only=True, tag="slot"):
    """A slot to write; `overwrite` false refuses to replace one that is there."""

    overwrite: bool = True


async def list_slots(request: Request) -> Response:
    """A project's slots and the global ones, by label."""
    wanted = await read_request(request, ListSlotsRequest)
    found = await services(request).queries.slots.of_project(reader(request), wanted.project)
    return Json({"items": [view(slot) for slot in found if wanted.times.of_document(slot)]})


async def get_slot(request: Request) -> Response:
    """The slot of a project, else the global one of that label."""
    wanted = await read_request(request, SlotsRequest)
    operations = services(request).operations
    return Json(view(await operations.slots.get(reader(request), wanted.project, request.path_params["label"])))


async def post_slot(request: Request) -> Response:
    """Create a slot, replace its text, or add a line."""
    wanted = await asked_for(request, SlotWrite)
    command = SetSlot(**{name: getattr(wanted, name) for name in SetSlot.__struct_fields__})
    return Json(await services(request).operations.slots.set(command, caller(request), overwrite=wanted.overwrite), 202)


async def delete_slot(request: Request) -> Response:
    """Remove a slot; one that is there from the start is empty again."""
    wanted = query(request, SlotDelete)
    command = DeleteSlot(label=request.path_params["label"], project=wanted.project, scope=wanted.scope)
    return Json(await services(request).operations.slots.delete(command, caller(request)), 202)


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
    page = services(request).queries.actions.page(
        reader(request), wanted.project, wanted.cursor, wanted.limit, wanted.times, open_only=wanted.open
    )
    return Json(await with_notes(request, wanted, await page))


async def get_frontier(request: Request) -> Response:
    """The work items that can be done now, most urgent first."""
    wanted = await read_request(request, FrontierRequest)
    who = reader(request, wanted.agent_id)
    queries = services(request).queries
    actions, ready, _ = await queries.actions.open_work(who, wanted.project, wanted.agent_id or who.agent_id)
    items = [{**view(actions[one.item.id]), "score": one.score, "leased": one.leased} for one in ready[: wanted.limit]]
    return Json({"items": items, "open": len(actions)})


ENDPOINTS = [
    Endpoint("GET", "/v1/slots", READ, list_slots, "A project's slots.", query=ListSlotsRequest,
        answer=Items[SlotView]),
    Endpoint("POST", "/v1/slots", WRITE, post_slot, "Create a slot, replace its text, or add a line.", status=202,
        body=SlotWrite, answer=Accepted,
        faults={404: "There is no slot of that label to add a line to.",
            409: "There is one of that label, and it was not to be overwritten.",
            413: "The text would exceed the slot's limit, or the body is too large."}),
    Endpoint("GET", "/v1/slots/{label}", READ, get_slot, "A slot.", query=SlotsRequest, answer=SlotView),
    Endpoint("DELETE", "/v1/slots/{label}", WRITE, delete_slot, "Remove a slot.", status=202, query=SlotDelete,
        answer=Accepted),
    Endpoint("GET", "/v1/actions", READ, list_actions, "A project's work items.", query=ActionsRequest,
        answer=Page[ActionView]),
    Endpoint("POST", "/v1/actions", WRITE, post_action, "Write down a work item.", status=202, body=WriteAction,
        answer=Accepted, faults={404: "There is no action of that id to change."}),
    Endpoint("PATCH", "/v1/actions/{id}", WRITE, patch_action, "Change a work item.", status=202, body=WriteAction,
        answer=Accepted),
    Endpoint("GET", "/v1/frontier", READ, get_frontier, "What can be done now.", query=FrontierRequest,
        answer=Frontier),
]  # fmt: skip
