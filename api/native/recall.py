"""Recall, context and profile: what an agent should know."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.native.common import After, read_request
from api.services import reader, services
from ingest.commands.command import Name
from ingest.roles import READ
from projections.condensing.profile import Profile
from projections.queries import ContextRequest, RecallAnswer, RecallRequest
from projections.queries.context import Context


class Known(Struct, frozen=True, kw_only=True):
    """A project's profile; null for a project nobody knows."""

    profile: Profile | None
    cached: bool


class ProfileRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose profile; `refresh` makes it anew."""

    project: Name
    user_id: Name = ""
    refresh: bool = False


async def post_recall(request: Request) -> Response:
    """Find the right memories for a query."""
    wanted = await asked_for(request, RecallRequest)
    return Json(await services(request).queries.recall(wanted, reader(request)))


async def post_context(request: Request) -> Response:
    """Compile what an agent should know, within a token budget."""
    wanted = await asked_for(request, ContextRequest)
    return Json(await services(request).queries.context(wanted, reader(request, wanted.agent_id)))


async def get_profile(request: Request) -> Response:
    """What a project's work is about, and what a user prefers."""
    wanted = await read_request(request, ProfileRequest)
    profile, cached = await services(request).queries.profiles.of(
        reader(request), wanted.project, wanted.user_id, refresh=wanted.refresh
    )
    return Json({"profile": profile, "cached": cached})


ENDPOINTS = [
    Endpoint("POST", "/v1/recall", READ, post_recall, "Find the right memories for a query.", body=RecallRequest,
        answer=RecallAnswer),
    Endpoint("POST", "/v1/context", READ, post_context, "What an agent should know before it starts.",
        body=ContextRequest, answer=Context),
    Endpoint("GET", "/v1/profile", READ, get_profile, "What a project is like, and what a user prefers.",
        query=ProfileRequest, answer=Known),
]  # fmt: skip
