"""Slots. Over REST a new one is the project's; without a project named, that is the set that every project sees."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.asking import (
    Arguments,
    answered_by,
    door_of,
    endpoint,
    failed,
    needed,
    reply,
)
from api.dialects.agentmemory.mcp import slots as tools
from api.dialects.agentmemory.mcp.condense import reflect
from api.dialects.agentmemory.shapes import BOOLEAN, COUNT, NUMBER, SLOT, TEXT, fields, listed, otherwise, outcome
from api.dialects.homes import home_of
from ingest.errors import CommandRejected, MnemologError
from ingest.roles import READ, READ_WRITE
from mcp_gateway.lenient import BadArgument

IN_PROJECT = {"project": TEXT}
LABEL = {"label": TEXT, **IN_PROJECT}
MAX_REVIEWED = 200
CREATE_FIELDS = {
    **LABEL,
    "content": otherwise(TEXT, ""),
    "sizeLimit": otherwise(NUMBER, 2000),
    "description": TEXT,
    "pinned": otherwise(BOOLEAN, True),
    "scope": otherwise(TEXT, "project"),
    "overwrite": BOOLEAN,
}
APPEND_FIELDS = {**LABEL, "text": TEXT}
REPLACE_FIELDS = {**LABEL, "content": TEXT}
REFLECT_SESSION_FIELDS = {"sessionId": TEXT, "maxObservations": otherwise(NUMBER, 50)}


async def create(request: Request, arguments: Arguments) -> Response:
    """A new slot, or another text for one that is there; 409 where that may not be."""
    door = door_of(request)
    try:
        return reply(await tools.create(door, arguments), 201)
    except BadArgument:
        raise
    except CommandRejected as refused:
        if refused.field != "label":
            raise
        try:
            held = (await tools.read(door, arguments)).data
        except MnemologError:
            raise refused from None
        read_only = isinstance(held, dict) and held["slot"]["readOnly"]
        if not read_only:
            raise
        return failed(refused.message, 409)


async def append(request: Request, arguments: Arguments) -> Response:
    """A line more; 413 where it would not fit."""
    return reply(await tools.append(door_of(request), arguments))


async def replace(request: Request, arguments: Arguments) -> Response:
    """Another text, which may be empty; 413 where it would not fit."""
    return reply(await tools.replace(door_of(request), arguments))


async def reflect_session(request: Request, arguments: Arguments) -> Response:
    """Bring the slots that follow the work up to date with a session."""
    if not 1 <= arguments["maxObservations"] <= MAX_REVIEWED:
        raise BadArgument(f"maxObservations must be from 1 to {MAX_REVIEWED}", "maxObservations")
    home = await home_of(request, needed(arguments, "sessionId"))
    return reply(await reflect(door_of(request), {**arguments, "project": home.project if home else None}))


_NO_SLOT = {400: "The label is missing.", 404: "There is no such slot."}
_WRITTEN = {**_NO_SLOT, 413: "The text would exceed the slot's limit; says its size and the limit."}
ENDPOINTS = [
    endpoint(
        "GET", "/agentmemory/slots", READ, answered_by(tools.slots), "All slots, by label.", "S",
        query=fields(IN_PROJECT), answer=outcome({"slots": listed(SLOT)}),
    ),
    endpoint(
        "GET", "/agentmemory/slot", READ, answered_by(tools.read), "One slot.", "S", faults=_NO_SLOT,
        query=fields(LABEL, ("label",)), answer=outcome({"slot": SLOT, "scope": TEXT}),
    ),
    endpoint(
        "POST", "/agentmemory/slot", READ_WRITE, create, "Create a slot, or replace its text.", "S", 201,
        faults={400: "Not a label, or a limit out of bounds.", 409: "It is there, and not to be overwritten."},
        body=fields(CREATE_FIELDS, ("label",)), answer=outcome({"slot": SLOT}),
    ),
    endpoint(
        "DELETE", "/agentmemory/slot", READ_WRITE, answered_by(tools.delete), "Remove a slot.", "S", faults=_NO_SLOT,
        query=fields(LABEL, ("label",)), answer=outcome(),
    ),
    endpoint(
        "POST", "/agentmemory/slot/append", READ_WRITE, append, "Add a line to a slot.", "S", faults=_WRITTEN,
        body=fields(APPEND_FIELDS, ("label", "text")), answer=outcome({"slot": SLOT, "size": COUNT}),
    ),
    endpoint(
        "POST", "/agentmemory/slot/replace", READ_WRITE, replace, "Replace a slot's text.", "S", faults=_WRITTEN,
        body=fields(REPLACE_FIELDS, ("label", "content")), answer=outcome({"slot": SLOT, "size": COUNT}),
    ),
    endpoint(
        "POST", "/agentmemory/slot/reflect", READ_WRITE, reflect_session,
        "Bring the slots that follow the work up to date with a session.", "S", faults={400: "The session is missing."},
        body=fields(REFLECT_SESSION_FIELDS, ("sessionId",)),
        answer=outcome({"applied": COUNT, "observationsReviewed": COUNT}, {"reason": TEXT}),
    ),
]  # fmt: skip
