"""Slots. Over REST a new one is the project's; without a project named, that is the set that every project sees."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.asking import (
    BOOLEAN,
    NUMBER,
    TEXT,
    Properties,
    asked,
    asked_in_query,
    door,
    failed,
    otherwise,
    reply,
)
from api.dialects.agentmemory.mcp import slots as tools
from api.dialects.agentmemory.mcp.asking import needed
from api.dialects.agentmemory.mcp.condense import reflect
from api.dialects.agentmemory.shapes import COUNT, SLOT, fields, listed, outcome
from api.dialects.homes import home_of
from api.http.endpoint import Endpoint
from ingest.errors import CommandRejected, MnemologError
from ingest.roles import READ, READ_WRITE
from mcp_gateway.lenient import BadArgument

IN_PROJECT = {"project": TEXT}
LABEL = {"label": TEXT, **IN_PROJECT}
MAX_REVIEWED = 200
CREATE_FIELDS: Properties = {
    **LABEL,
    "content": otherwise(TEXT, ""),
    "sizeLimit": otherwise(NUMBER, 2000),
    "description": TEXT,
    "pinned": otherwise(BOOLEAN, True),
    "scope": otherwise(TEXT, "project"),
    "overwrite": BOOLEAN,
}
APPEND_FIELDS: Properties = {**LABEL, "text": TEXT}
REPLACE_FIELDS: Properties = {**LABEL, "content": TEXT}
REFLECT_SESSION_FIELDS: Properties = {"sessionId": TEXT, "maxObservations": otherwise(NUMBER, 50)}


async def list_slots(request: Request) -> Response:
    """All slots, by label."""
    return reply(await tools.slots(door(request), asked_in_query(request, IN_PROJECT)))


async def get_slot(request: Request) -> Response:
    """One slot, and which scope it is of."""
    return reply(await tools.read(door(request), asked_in_query(request, LABEL, ("label",))))


async def create(request: Request) -> Response:
    """A new slot, or another text for one that is there; 409 where that may not be."""
    said, through = await asked(request, CREATE_FIELDS, ("label",)), door(request)
    try:
        return reply(await tools.create(through, said), 201)
    except BadArgument:
        raise
    except CommandRejected as refused:
        if refused.field != "label":
            raise
        try:
            held = (await tools.read(through, said)).data
        except MnemologError:
            raise refused from None
        read_only = isinstance(held, dict) and held["slot"]["readOnly"]
        if not read_only:
            raise
        return failed(refused.message, 409)


async def append(request: Request) -> Response:
    """A line more; 413 where it would not fit."""
    said = await asked(request, APPEND_FIELDS, ("label", "text"))
    return reply(await tools.append(door(request), said))


async def replace(request: Request) -> Response:
    """Another text, which may be empty; 413 where it would not fit."""
    said = await asked(request, REPLACE_FIELDS, ("label", "content"))
    return reply(await tools.replace(door(request), said))


async def delete(request: Request) -> Response:
    """Remove a slot."""
    return reply(await tools.delete(door(request), asked_in_query(request, LABEL, ("label",))))


async def reflect_session(request: Request) -> Response:
    """Bring the slots that follow the work up to date with a session."""
    said = await asked(request, REFLECT_SESSION_FIELDS, ("sessionId",))
    if not 1 <= said["maxObservations"] <= MAX_REVIEWED:
        raise BadArgument(f"maxObservations must be from 1 to {MAX_REVIEWED}", "maxObservations")
    home = await home_of(request, needed(said, "sessionId"))
    return reply(await reflect(door(request), {**said, "project": home.project if home else None}))


_NO_SLOT = {400: "The label is missing.", 404: "There is no such slot."}
_WRITTEN = {**_NO_SLOT, 413: "The text would exceed the slot's limit; says its size and the limit."}
ENDPOINTS = [
    Endpoint(
        "GET",
        "/agentmemory/slots",
        READ,
        list_slots,
        "All slots, by label.",
        "S",
        query=fields(IN_PROJECT),
        answer=outcome({"slots": listed(SLOT)}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/slot",
        READ,
        get_slot,
        "One slot.",
        "S",
        faults=_NO_SLOT,
        query=fields(LABEL, ("label",)),
        answer=outcome({"slot": SLOT, "scope": TEXT}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/slot",
        READ_WRITE,
        create,
        "Create a slot, or replace its text.",
        "S",
        201,
        faults={400: "Not a label, or a limit out of bounds.", 409: "It is there, and not to be overwritten."},
        body=fields(CREATE_FIELDS, ("label",)),
        answer=outcome({"slot": SLOT}),
    ),
    Endpoint(
        "DELETE",
        "/agentmemory/slot",
        READ_WRITE,
        delete,
        "Remove a slot.",
        "S",
        faults=_NO_SLOT,
        query=fields(LABEL, ("label",)),
        answer=outcome(),
    ),
    Endpoint(
        "POST",
        "/agentmemory/slot/append",
        READ_WRITE,
        append,
        "Add a line to a slot.",
        "S",
        faults=_WRITTEN,
        body=fields(APPEND_FIELDS, ("label", "text")),
        answer=outcome({"slot": SLOT, "size": COUNT}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/slot/replace",
        READ_WRITE,
        replace,
        "Replace a slot's text.",
        "S",
        faults=_WRITTEN,
        body=fields(REPLACE_FIELDS, ("label", "content")),
        answer=outcome({"slot": SLOT, "size": COUNT}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/slot/reflect",
        READ_WRITE,
        reflect_session,
        "Bring the slots that follow the work up to date with a session.",
        "S",
        faults={400: "The session is missing."},
        body=fields(REFLECT_SESSION_FIELDS, ("sessionId",)),
        answer=outcome({"applied": COUNT, "observationsReviewed": COUNT}, {"reason": TEXT}),
    ),
]
