"""Slots: small named texts."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.native.common import After, read_request
from api.services import caller, reader, services
from ingest.commands.command import Name
from ingest.commands.handler import Accepted
from ingest.commands.requests import DeleteSlot, SetSlot
from ingest.events.slot import SlotScope
from ingest.roles import READ, WRITE
from projections.queries.slots import SlotView
from projections.queries.views import Items, view


class SlotsRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose slots."""

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
    wanted = await read_request(request, SlotsRequest)
    found = await services(request).queries.slots.of_project(reader(request), wanted.project)
    return Json({"items": [view(slot) for slot in found]})


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
    """Remove a slot."""
    wanted = query(request, SlotDelete)
    command = DeleteSlot(label=request.path_params["label"], project=wanted.project, scope=wanted.scope)
    return Json(await services(request).operations.slots.delete(command, caller(request)), 202)


ENDPOINTS = [
    Endpoint("GET", "/v1/slots", READ, list_slots, "A project's slots.", query=SlotsRequest, answer=Items[SlotView]),
    Endpoint("POST", "/v1/slots", WRITE, post_slot, "Create a slot, replace its text, or add a line.", status=202,
        body=SlotWrite, answer=Accepted,
        faults={404: "There is no slot of that label to add a line to.",
            409: "There is one of that label, and it was not to be overwritten.",
            413: "The text would exceed the slot's limit, or the body is too large."}),
    Endpoint("GET", "/v1/slots/{label}", READ, get_slot, "A slot.", query=SlotsRequest, answer=SlotView),
    Endpoint("DELETE", "/v1/slots/{label}", WRITE, delete_slot, "Remove a slot.", status=202, query=SlotDelete,
        answer=Accepted),
]  # fmt: skip
