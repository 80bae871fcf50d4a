"""Routes for operators: how far everything is, what could not be applied, and orders to the workers."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.http import Json, body
from api.services import reader, services
from ingest.commands.parse import parse_json
from ingest.errors import CommandRejected
from projections.queries import Wanted


class RebuildRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which partition to rebuild; all of them when none is named."""

    partition: Annotated[int, Meta(ge=0)] | None = None


async def get_projections(request: Request) -> Response:
    """How far every partition is."""
    return Json({"partitions": await services(request).queries.browse.projections()})


async def get_dead_letters(request: Request) -> Response:
    """Events that could not be applied."""
    at_hand = services(request)
    return Json(
        {"dead_letters": await at_hand.queries.browse.dead_letters(Wanted(at_hand.tenant, reader=reader(request)))}
    )


async def post_rebuild(request: Request) -> Response:
    """Rebuild documents from the log, beside the live ones; 202 with the partitions whose rebuild was queued.

    A partition that is being rebuilt already is not queued again. Its `generation` rises when it has switched.
    """
    raw = await body(request)
    asked = parse_json(raw, RebuildRequest) if raw.strip() else RebuildRequest()
    at_hand = services(request)
    count = at_hand.queries.browse.partitions
    if asked.partition is not None and asked.partition >= count:
        raise CommandRejected(f"there are partitions 0 to {count - 1}", "partition")
    wanted = range(count) if asked.partition is None else [asked.partition]
    queued = [number for number in wanted if await at_hand.jobs.enqueue("rebuild", number, job_id=f"rebuild:{number}")]
    return Json({"queued": queued}, 202)


async def post_snapshot(request: Request) -> Response:
    """Write an index snapshot now; 202 with whether one was queued (not when one is being written)."""
    return Json({"queued": await services(request).jobs.enqueue("snapshot", True, job_id="snapshot")}, 202)


ROUTES = [
    Route("/v1/admin/projections", get_projections, methods=["GET"]),
    Route("/v1/admin/projections/rebuild", post_rebuild, methods=["POST"]),
    Route("/v1/admin/dead-letters", get_dead_letters, methods=["GET"]),
    Route("/v1/admin/snapshots", post_snapshot, methods=["POST"]),
]
