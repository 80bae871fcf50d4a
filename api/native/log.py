"""The log itself, who wrote what, and how healthy the memory is."""

from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, query
from api.native.common import After, AnyProjectRequest, PageLimit, read_request
from api.services import reader, services
from ingest.commands.command import Name
from ingest.roles import ADMIN, READ
from projections.health.diagnosis import Diagnosis
from projections.queries import WantedEvents
from projections.queries.audit import AuditPage
from projections.queries.log_events import EventsPage


class EventsRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the log; `after` is where to go on, and is not waited for."""

    limit: PageLimit = 100
    partition: int | None = None
    type: str = ""
    session_id: Name = ""
    project: Name | None = None
    agent_id: Name = ""


class AuditRequest(AnyProjectRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which writes: an event type (`*` for observations, too), an agent, a project."""

    operation: Name = ""
    agent_id: Name = ""


class DiagnoseRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which categories, separated by commas; all without any."""

    categories: str = ""


async def get_events(request: Request) -> Response:
    """The log itself, from behind a position."""
    wanted = query(request, EventsRequest)
    chosen = WantedEvents(reader(request), wanted.type, wanted.session_id, wanted.project, wanted.agent_id)
    page = services(request).queries.log.page(chosen, wanted.after, wanted.limit, wanted.partition)
    return Json(await page)


async def get_audit(request: Request) -> Response:
    """Who wrote or deleted what, when; newest first."""
    wanted = await read_request(request, AuditRequest)
    page = services(request).queries.audit.entries(
        reader(request), wanted.operation, wanted.agent_id, wanted.project, wanted.cursor, wanted.limit
    )
    return Json(await page)


async def get_diagnose(request: Request) -> Response:
    """How the memory is: one check for every kind of trouble."""
    wanted = query(request, DiagnoseRequest)
    categories = [name.strip() for name in wanted.categories.split(",") if name.strip()]
    return Json(await services(request).queries.diagnose(reader(request), categories))


ENDPOINTS = [
    Endpoint("GET", "/v1/events", READ, get_events, "The log itself.", query=EventsRequest, answer=EventsPage),
    Endpoint("GET", "/v1/audit", READ, get_audit, "Who wrote or deleted what.", query=AuditRequest, answer=AuditPage),
    Endpoint("GET", "/v1/diagnose", ADMIN, get_diagnose, "How the memory is.", query=DiagnoseRequest, answer=Diagnosis),
]  # fmt: skip
