"""Observations by time: a project's timeline, what surrounds a moment, and what is known about files."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.native.common import (
    After,
    ListRequest,
    read_request,
)
from api.services import reader, services
from ingest.commands.command import Name, Names
from ingest.roles import READ
from projections.condensing.enrichment import Enriched
from projections.queries.observations import ObservationView
from projections.queries.views import SomeRetired, view


class Around(Struct, frozen=True, kw_only=True):
    """Observations in the order of time, each with its `relative_position`. Without an anchor `reason` says why."""

    items: list[dict[str, Any]]
    anchor_index: int
    reason: str | None


class TimelineRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a project's observations, newest first, beginning at `until`."""

    until: datetime | None = None


class AroundRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Observations around a date, an observation's id, or the newest that says some words."""

    anchor: Annotated[str, Meta(min_length=1, max_length=1000)]
    project: Name | None = None
    session_id: Name = ""
    before: Annotated[int, Meta(ge=0, le=200)] = 5
    behind: Annotated[int, Meta(ge=0, le=200)] = 5


class EnrichRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is about to be worked on."""

    files: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    session_id: Name = ""
    terms: Names = []
    tool_name: Name = ""
    project: Name | None = None
    limit_chars: Annotated[int, Meta(ge=200, le=100_000)] = 4000


async def get_timeline(request: Request) -> Response:
    """A project's observations by the time they happened."""
    wanted = await read_request(request, TimelineRequest)
    page = services(request).queries.observations.timeline(
        reader(request), wanted.project, wanted.until, wanted.cursor, wanted.limit
    )
    return Json(await page)


async def get_around(request: Request) -> Response:
    """The observations around an anchor."""
    wanted = await read_request(request, AroundRequest)
    found = await services(request).queries.around.timeline(
        reader(request), wanted.anchor, wanted.project, wanted.session_id, wanted.before, wanted.behind
    )
    items = [{**view(one.observation), "relative_position": one.position} for one in found.entries]
    return Json({"items": items, "anchor_index": found.anchor_index, "reason": found.reason})


async def post_enrich(request: Request) -> Response:
    """What is known about files that are about to be worked on, as text."""
    wanted = await asked_for(request, EnrichRequest)
    found = await services(request).queries.around.enrich(
        reader(request),
        wanted.session_id,
        wanted.files,
        wanted.terms,
        wanted.tool_name,
        wanted.project,
        wanted.limit_chars,
    )
    return Json(found)


ENDPOINTS = [
    Endpoint("GET", "/v1/timeline", READ, get_timeline,
        "A project's observations by the time they happened, newest first.", query=TimelineRequest,
        answer=SomeRetired[ObservationView]),
    Endpoint("GET", "/v1/around", READ, get_around, "The observations around a moment.", query=AroundRequest,
        answer=Around),
    Endpoint("POST", "/v1/enrich", READ, post_enrich, "What is known about files that are about to be worked on.",
        body=EnrichRequest, answer=Enriched),
]  # fmt: skip
