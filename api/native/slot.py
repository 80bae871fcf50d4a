"""Routes of slots."""

from api.http.endpoint import Endpoint
from api.native.common import APPLIED, VERSION_CONFLICT, After, BoundedRead, Fields, as_struct, router
from api.services import NativeCall
from ingest.commands.decide import DeleteSlot, SetSlot
from ingest.commands.handler import Accepted
from ingest.nouns.command import Name, Version
from ingest.nouns.slot import SlotScope
from ingest.roles import READ, WRITE
from projections.queries.views import Items, view, views
from projections.queries.work import SlotView

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class SlotsRequest(After, frozen=True, kw_only=True):
    """The project of the slot."""

    project: Name = ""


class ListSlotsRequest(BoundedRead, frozen=True, kw_only=True):
    """The project of the slots; times filter by the last write."""

    project: Name = ""


class SlotDelete(Fields, frozen=True, kw_only=True):
    """Which slot to remove."""

    project: Name = ""
    scope: SlotScope = "project"
    expected_version: Version | None = None


class SlotWrite(SetSlot, frozen=True, kw_only=True, tag="slot"):
    """A slot to write; with `overwrite` false, an existing one is not replaced."""

    overwrite: bool = True


@route("GET /v1/slots", READ)
async def list_slots(call: NativeCall, query: ListSlotsRequest) -> Items[SlotView]:
    """A project's slots and the global ones, by label."""
    slots = await call.queries.slots.of_project(call.reader(), query.project)
    return views(slot for slot in slots if query.times.of_document(slot))


@route("GET /v1/slots/{label}", READ)
async def get_slot(call: NativeCall, label: str, query: SlotsRequest) -> SlotView:
    """The slot of a project, else the global one with that label."""
    return view(await call.operations.slots.get(call.reader(), query.project, label))


@route("POST /v1/slots", WRITE, 202, faults={
    404: "No slot has that label, so no line can be added.",
    409: "A slot with that label exists and `overwrite` is false, or it has another version than expected.",
    413: "The text would exceed the slot's limit, or the body is too large."}, answers=APPLIED)  # fmt: skip
async def post_slot(call: NativeCall, body: SlotWrite) -> Accepted:
    """Create a slot, replace its text, or add a line."""
    return await call.operations.slots.set(as_struct(SetSlot, body), call.caller(), overwrite=body.overwrite)


@route("DELETE /v1/slots/{label}", WRITE, 202, faults=VERSION_CONFLICT, answers=APPLIED)
async def delete_slot(call: NativeCall, label: str, query: SlotDelete) -> Accepted:
    """Remove a slot.

    A default slot becomes empty again.
    """
    return await call.operations.slots.delete(as_struct(DeleteSlot, query, label=label), call.caller())
