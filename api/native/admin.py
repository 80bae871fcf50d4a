"""Routes for operators: how far everything is, and orders to the workers."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json
from api.native.common import Queued
from api.services import services
from ingest.roles import OPERATOR


class Progress(Struct, frozen=True, kw_only=True):
    """How far a partition is; positions within it. `feed` and `to_embed` count entries, `worker` is who leases it."""

    partition: int
    generation: int
    head: str
    checkpoint: str
    searchable: str
    lag: int
    to_embed: int
    feed: int
    dead_letters: int
    worker: str | None


class Projections(Struct, frozen=True):
    """How far all partitions are."""

    partitions: list[Progress]


async def get_projections(request: Request) -> Response:
    """How far every partition is."""
    return Json({"partitions": await services(request).queries.progress()})


async def post_snapshot(request: Request) -> Response:
    """Write an index snapshot now; 202 with whether one was queued (not when one is being written)."""
    return Json({"queued": await services(request).jobs.enqueue("snapshot", True, job_id="snapshot")}, 202)


ENDPOINTS = [
    Endpoint("GET", "/v1/admin/projections", OPERATOR, get_projections, "How far every partition is.",
        answer=Projections),
    Endpoint("POST", "/v1/admin/snapshots", OPERATOR, post_snapshot, "Write an index snapshot now.", status=202,
        answer=Queued),
]  # fmt: skip
