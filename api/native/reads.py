"""The two questions, recall and context; documents by id; sessions, the timeline and the log itself."""

from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.native import shapes
from api.native.common import After, AnyProjectRequest, InProject, ListRequest, PageLimit, asked
from api.native.shapes import Items, Page
from api.services import reader, services
from ingest.commands.command import Name
from ingest.errors import NotFound
from ingest.roles import READ
from projections.documents.relations import Relation
from projections.queries import ContextRequest, RecallAnswer, RecallRequest, Wanted
from projections.queries.browse import EventsPage
from projections.queries.context import Context
from projections.queries.views import view


class MemoriesRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of memories; with `latest`, current versions only."""

    latest: bool = False


class LessonsRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of lessons; with `retired`, those that have faded, too."""

    retired: bool = False


class TimelineRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a project's observations, newest first, beginning at `until`."""

    until: datetime | None = None


class EventsRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the log; `after` is where to go on, and is not waited for."""

    limit: PageLimit = 100
    partition: int | None = None
    type: str = ""
    session_id: Name = ""
    project: Name | None = None
    agent_id: Name = ""


async def post_recall(request: Request) -> Response:
    """Find the right memories for a query."""
    wanted = await asked_for(request, RecallRequest)
    return Json(await services(request).queries.recall(wanted, reader(request)))


async def post_context(request: Request) -> Response:
    """Compile what an agent should know, within a token budget."""
    wanted = await asked_for(request, ContextRequest)
    return Json(await services(request).queries.context(wanted, reader(request, wanted.agent_id)))


async def get_document(request: Request) -> Response:
    """One document by id; a relation of what the reader may not see is not there."""
    await asked(request, After)
    name = request.path_params["id"]
    if name.partition("_")[0] != PREFIXES[request.url.path.split("/")[2]]:
        raise NotFound(f"{name!r} is not in this collection")
    browse, who = services(request).queries.browse, reader(request)
    document = (await browse.document(name, who)).document
    if isinstance(document, Relation) and not await browse.readable_relations([document], who):
        raise NotFound(f"there is no document {name!r}")
    return Json(view(document))


async def get_history(request: Request) -> Response:
    """Every version of a memory, oldest first."""
    await asked(request, After)
    versions = await services(request).queries.browse.history(request.path_params["id"], reader(request))
    return Json({"items": [view(version) for version in versions]})


async def list_memories(request: Request) -> Response:
    """A project's memories, newest first."""
    wanted = await asked(request, MemoriesRequest)
    browse = services(request).queries.browse
    return Json(
        await browse.memories(reader(request), wanted.project, wanted.cursor, wanted.limit, latest=wanted.latest)
    )


async def list_lessons(request: Request) -> Response:
    """A project's lessons, newest first."""
    wanted = await asked(request, LessonsRequest)
    browse = services(request).queries.browse
    return Json(
        await browse.lessons(reader(request), wanted.project, wanted.cursor, wanted.limit, retired=wanted.retired)
    )


async def list_sessions(request: Request) -> Response:
    """Sessions, the most recently active first."""
    wanted = await asked(request, AnyProjectRequest)
    browse = services(request).queries.browse
    return Json(await browse.sessions(reader(request), wanted.project, wanted.cursor, wanted.limit))


async def get_session(request: Request) -> Response:
    """One session."""
    wanted = await asked(request, InProject)
    browse = services(request).queries.browse
    found = await browse.session(reader(request), request.path_params["id"], wanted.project)
    return Json(view(found.document))


async def list_session_observations(request: Request) -> Response:
    """A session's observations, in the order they were recorded."""
    wanted = await asked(request, AnyProjectRequest)
    page = services(request).queries.browse.session_observations(
        reader(request), request.path_params["id"], wanted.project, wanted.cursor, wanted.limit
    )
    return Json(await page)


async def get_timeline(request: Request) -> Response:
    """A project's observations by the time they happened."""
    wanted = await asked(request, TimelineRequest)
    page = services(request).queries.browse.timeline(
        reader(request), wanted.project, wanted.until, wanted.cursor, wanted.limit
    )
    return Json(await page)


async def get_events(request: Request) -> Response:
    """The log itself, from behind a position."""
    wanted = query(request, EventsRequest)
    chosen = Wanted(reader(request), wanted.type, wanted.session_id, wanted.project, wanted.agent_id)
    page = services(request).queries.browse.events(chosen, wanted.after, wanted.limit, wanted.partition)
    return Json(await page)


PREFIXES = {
    "observations": "obs",
    "memories": "mem",
    "lessons": "lsn",
    "actions": "act",
    "relations": "rel",
    "commits": "cmt",
    "summaries": "sum",
}

SHAPES: dict[str, Any] = {
    "observations": shapes.Observation,
    "memories": shapes.Memory,
    "lessons": shapes.Lesson,
    "actions": shapes.Action,
    "relations": shapes.Relation,
    "commits": shapes.Commit,
    "summaries": shapes.Summary,
}
ENDPOINTS = [
    Endpoint(
        "POST", "/v1/recall", READ, post_recall, "Find the right memories for a query.",
        body=RecallRequest, answer=RecallAnswer,
    ),
    Endpoint(
        "POST", "/v1/context", READ, post_context, "What an agent should know before it starts.",
        body=ContextRequest, answer=Context,
    ),
    Endpoint("GET", "/v1/events", READ, get_events, "The log itself.", query=EventsRequest, answer=EventsPage),
    Endpoint(
        "GET", "/v1/memories", READ, list_memories, "A project's memories, newest first.",
        query=MemoriesRequest, answer=Page[shapes.Memory],
    ),
    Endpoint(
        "GET", "/v1/memories/{id}/history", READ, get_history, "Every version of a memory, oldest first.",
        query=After, answer=Items[shapes.Memory],
    ),
    Endpoint(
        "GET", "/v1/lessons", READ, list_lessons, "A project's lessons, newest first.",
        query=LessonsRequest, answer=Page[shapes.Lesson],
    ),
    *(
        Endpoint(
            "GET", f"/v1/{name}/{{id}}", READ, get_document, f"One of the {name}.", query=After, answer=SHAPES[name]
        )
        for name in PREFIXES
    ),
    Endpoint(
        "GET", "/v1/sessions", READ, list_sessions, "Sessions, the most recently active first.",
        query=AnyProjectRequest, answer=Page[shapes.Session],
    ),
    Endpoint(
        "GET", "/v1/sessions/{id:path}/observations", READ, list_session_observations,
        "A session's observations, in order.",
        query=AnyProjectRequest, answer=shapes.Observations,
    ),
    Endpoint(
        "GET", "/v1/sessions/{id:path}", READ, get_session, "One session.", query=InProject, answer=shapes.Session
    ),
    Endpoint(
        "GET", "/v1/timeline", READ, get_timeline, "A project's observations by the time they happened, newest first.",
        query=TimelineRequest, answer=shapes.Observations,
    ),
]  # fmt: skip
