"""Routes about reconciliation: what the newest one found, and one now."""

from datetime import datetime

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json
from api.native.common import Queued
from api.services import services
from ingest.roles import OPERATOR
from projections.maintenance.reconciling.report import Fault, Findings, Report, load_report


class ReportView(Struct, frozen=True, kw_only=True):
    """A reconciliation, finished or under way: what it found in each partition and in all, and what a person has to do.

    `next` is the partition that it goes on with, null when it is over.
    """

    started_at: datetime
    finished_at: datetime | None
    next: int | None
    partitions: list[Findings]
    found: dict[Fault, int]
    advice: list[str]


class Newest(Struct, frozen=True):
    """The newest reconciliation; null when there was none."""

    report: ReportView | None


async def get_reconcile(request: Request) -> Response:
    """What the newest reconciliation found and repaired; null when there was none."""
    report = await load_report(services(request).redis)
    return Json(Newest(None if report is None else _shown(report)))


async def post_reconcile(request: Request) -> Response:
    """Reconcile now; 202 with whether that was queued (not while one that was ordered before waits or runs)."""
    return Json({"queued": await services(request).jobs.enqueue("reconcile", True, job_id="reconcile-now")}, 202)


def _shown(report: Report) -> ReportView:
    return ReportView(
        started_at=report.started_at,
        finished_at=report.finished_at,
        next=report.next,
        partitions=report.partitions,
        found=report.found,
        advice=report.advice,
    )


ENDPOINTS = [
    Endpoint("GET", "/v1/admin/reconcile", OPERATOR, get_reconcile, "What the newest reconciliation found.",
        answer=Newest),
    Endpoint("POST", "/v1/admin/reconcile", OPERATOR, post_reconcile, "Reconcile now.", status=202, answer=Queued),
]  # fmt: skip
