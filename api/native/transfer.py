"""Routes that hand out the log and take it in: export and import, streamed."""

import re
from collections.abc import AsyncIterator
from typing import NamedTuple

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.http.endpoint import Endpoint
from api.http.http import Json, query
from api.http.openapi import ANYTHING, TEXT
from api.http.serving import release_body
from api.services import operator, reader, services
from ingest.log.event_log import EventLog
from ingest.roles import ADMIN
from projections.documents.access import Reader
from projections.operations.exporting import EventDocuments, export_events
from projections.operations.importing import Imported, Importer, KnownEvents

NDJSON = "application/x-ndjson"
_NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Transfer(NamedTuple):
    """What these routes work with; the composition root puts it on the application as `state.transfer`."""

    log: EventLog
    documents: EventDocuments


class ExportRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of the tenant, or one project; an empty name is that of the nameless project."""

    project: str | None = None


async def get_export(request: Request) -> Response:
    """The log as the caller may read it."""
    return _export(request, reader(request))


async def get_admin_export(request: Request) -> Response:
    """All of the log, whoever may read it."""
    return _export(request, operator(request))


async def post_import(request: Request) -> Response:
    """Append what an export wrote, line by line; 202 with what became of the lines."""
    at_hand = services(request)
    at_hand.key_scope.check_whole()
    known = KnownEvents(at_hand.redis, _at_hand(request).log)
    count = at_hand.queries.memories.count_restatements
    importer = Importer(at_hand.commands, at_hand.tenant, known, at_hand.operations.current.settle, count)
    return Json(await importer.run(_lines_of(request)), 202)


async def _lines_of(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes; what was handed on is not held any more."""
    async for part in request.stream():
        release_body(request.scope)
        yield part


def _export(request: Request, who: Reader) -> Response:
    project = query(request, ExportRequest).project
    log, documents = _at_hand(request)
    name = "-".join(_NOT_IN_A_FILE_NAME.sub("_", part) for part in ("mnemolog", who.tenant, project) if part)
    return StreamingResponse(
        export_events(log, documents, who, project),
        media_type=NDJSON,
        headers={"Content-Disposition": f'attachment; filename="{name}.ndjson"'},
    )


def _at_hand(request: Request) -> Transfer:
    return request.app.state.transfer


ENDPOINTS = [
    Endpoint("GET", "/v1/export", ADMIN, get_export, "The log as the caller may read it, a line an event.",
        query=ExportRequest, answer=TEXT, media=NDJSON),
    Endpoint("GET", "/v1/admin/export", ADMIN, get_admin_export, "All of the log, whoever may read it.",
        query=ExportRequest, answer=TEXT, media=NDJSON),
    Endpoint("POST", "/v1/admin/import", ADMIN, post_import, "Append what an export wrote.", status=202,
        body={"type": "array", "items": ANYTHING}, taken=[NDJSON], answer=Imported),
]  # fmt: skip
