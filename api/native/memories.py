"""What an agent should know: recall, context, profile; a project's memories, their versions, how to change one."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.native.common import After, ListRequest, read_request, with_notes
from api.services import caller, reader, services
from ingest.commands.command import EventName, Name
from ingest.commands.handler import Accepted
from ingest.roles import READ, WRITE
from projections.condensing.profile import Profile
from projections.operations.memories import MemoryChanges
from projections.operations.work import Confirmed
from projections.queries.context import Context, ContextRequest
from projections.queries.memories import MemoryView
from projections.queries.recall import RecallAnswer, RecallRequest
from projections.queries.views import Items, Page, view


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


class ConfirmRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of what recall or a context told proved right, or was relied on."""

    ids: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    event_id: EventName = ""


class MemoriesRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of memories; with `latest`, current versions only."""

    latest: bool = False


async def post_confirm(request: Request) -> Response:
    """Count memories and lessons that proved right."""
    wanted = await asked_for(request, ConfirmRequest)
    confirm = services(request).operations.confirming.confirm
    return Json(await confirm(wanted.ids, reader(request), caller(request), wanted.event_id), 202)


async def list_memories(request: Request) -> Response:
    """A project's memories, newest first."""
    wanted = await read_request(request, MemoriesRequest)
    page = services(request).queries.memories.page(
        reader(request), wanted.project, wanted.cursor, wanted.limit, wanted.times, latest=wanted.latest
    )
    return Json(await with_notes(request, wanted, await page))


async def get_history(request: Request) -> Response:
    """Every version of a memory that the reader may see, whichever of them the id names."""
    await read_request(request, After)
    versions = await services(request).queries.memories.history(request.path_params["id"], reader(request))
    return Json({"items": [view(version) for version in versions]})


async def patch_memory(request: Request) -> Response:
    """Change a memory: a new version, or who may read it."""
    changes = await asked_for(request, MemoryChanges)
    operations = services(request).operations
    who = reader(request, changes.agent_id)
    return Json(await operations.memories.change(request.path_params["id"], changes, who, caller(request)), 202)


ENDPOINTS = [
    Endpoint("POST", "/v1/recall", READ, post_recall, "Find the right memories for a query.", body=RecallRequest,
        answer=RecallAnswer),
    Endpoint("POST", "/v1/context", READ, post_context, "What an agent should know before it starts.",
        body=ContextRequest, answer=Context),
    Endpoint("POST", "/v1/confirm", WRITE, post_confirm, "Count memories and lessons that proved right.", status=202,
        body=ConfirmRequest, answer=Confirmed),
    Endpoint("GET", "/v1/profile", READ, get_profile, "What a project is like, and what a user prefers.",
        query=ProfileRequest, answer=Known),
    Endpoint("GET", "/v1/memories", READ, list_memories, "A project's memories, newest first.", query=MemoriesRequest,
        answer=Page[MemoryView]),
    Endpoint("GET", "/v1/memories/{id}/history", READ, get_history, "Every version of a memory, oldest first.",
        query=After, answer=Items[MemoryView]),
    Endpoint("PATCH", "/v1/memories/{id}", WRITE, patch_memory, "Change a memory: a new version, or who may read it.",
        status=202, body=MemoryChanges, answer=Accepted,
        faults={403: "It is somebody else's: its creator or its owner may do that."}),
]  # fmt: skip
