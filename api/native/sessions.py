"""Sessions: what was observed in them, what is condensed from them, and the commits that were made."""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.native.common import After, AnyProjectRequest, BoundedRead, InProject, ListRequest, read_request, with_notes
from api.services import caller, reader, services
from ingest.commands.command import Name, Names
from ingest.commands.decide import LinkCommit
from ingest.commands.handler import Accepted
from ingest.errors import NotFound
from ingest.platform.partial import check_missing
from ingest.roles import READ, READ_WRITE, WRITE
from projections.condensing.consolidation import Consolidated
from projections.condensing.crystals import Crystallized
from projections.condensing.reflection import Reflected
from projections.condensing.sessions import Digest
from projections.documents.sessions import Session
from projections.queries.observations import Enriched, ObservationView
from projections.queries.recall import LeastSure
from projections.queries.sessions import CommitView, SessionView, SummaryView
from projections.queries.views import Items, Page, SomeRetired, view


class Around(Struct, frozen=True, kw_only=True):
    """Observations in the order of time, each with its `relative_position`. Without an anchor `reason` says why."""

    items: list[dict[str, Any]]
    anchor_index: int
    reason: str | None


class SessionCommitsRequest(BoundedRead, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commits of some time made in a session."""

    project: Name | None = None


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
    min_confidence: LeastSure = None


async def get_timeline(request: Request) -> Response:
    """A project's observations, of all its sessions, by when they happened as their agents say."""
    wanted = await read_request(request, ListRequest)
    page = services(request).queries.observations.timeline(
        reader(request), wanted.project, wanted.cursor, wanted.limit, wanted.times
    )
    return Json(await with_notes(request, wanted, await page))


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
        wanted.min_confidence,
    )
    return Json(found)


async def list_sessions(request: Request) -> Response:
    """Sessions of one project or of all. Each observation makes its session the most recently active."""
    wanted = await read_request(request, AnyProjectRequest)
    queries = services(request).queries
    page = queries.sessions.page(reader(request), wanted.project, wanted.cursor, wanted.limit, wanted.times)
    return Json(await with_notes(request, wanted, await page))


async def get_session(request: Request) -> Response:
    """One session, and how much was observed in it. Without a project, 422 where several have one of that id."""
    wanted = await read_request(request, InProject)
    queries = services(request).queries
    found = await queries.sessions.one(reader(request), request.path_params["id"], wanted.project)
    return Json(view(found.document))


async def list_session_observations(request: Request) -> Response:
    """A session's observations, in the order they were recorded."""
    wanted = await read_request(request, AnyProjectRequest)
    page = services(request).queries.sessions.observations(
        reader(request), request.path_params["id"], wanted.project, wanted.cursor, wanted.limit, wanted.times
    )
    return Json(await with_notes(request, wanted, await page))


T = TypeVar("T")


class InSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of the sessions of that id."""

    project: Name | None = None


class SessionReflectRequest(InSession, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of the sessions of that id, and how many of its newest observations are looked at."""

    max_observations: Annotated[int, Meta(ge=1, le=200)] = 50


class CrystallizeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which finished actions."""

    action_ids: Annotated[list[Name], Meta(min_length=1, max_length=200)]


class ConsolidateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which project, and how many important observations it takes."""

    project: Name = ""
    min_observations: Annotated[int, Meta(ge=1, le=1000)] = 10


class ReflectRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which project, and how many clusters of what it knows."""

    project: Name = ""
    max_clusters: Annotated[int, Meta(ge=1, le=20)] = 10


class SummaryMade(Struct, frozen=True):
    """A session's summary and who made it; `fell_back` says why a model that was asked did not."""

    summary: Digest
    model: str
    fell_back: str
    position: str


class SlotsMade(Struct, frozen=True):
    """How many slots were changed, and of how many observations that was made."""

    slots_changed: int
    observations: int
    position: str


async def post_summary(request: Request) -> Response:
    """Summarise a session now; one that ends is summarised by itself."""
    wanted = await _optional(request, InSession)
    session = await _session(request, wanted.project)
    made = await services(request).operations.condensing.summarise(session, caller(request), reader(request))
    return Json(SummaryMade(*made), 202)


async def get_summary(request: Request) -> Response:
    """The summary of a session; 404 while there is none."""
    wanted = await read_request(request, InProject)
    queries, who = services(request).queries, reader(request)
    located = await queries.sessions.one(who, request.path_params["id"], wanted.project)
    found = await queries.summaries.of_session(who, located)
    if found is None:
        check_missing("a summary")
        raise NotFound(f"session {request.path_params['id']!r} has no summary yet; POST makes one")
    return Json(view(found))


async def list_summaries(request: Request) -> Response:
    """A project's session summaries: of each session the newest."""
    wanted = await read_request(request, ListRequest)
    queries = services(request).queries
    page = queries.summaries.page(reader(request), wanted.project, wanted.cursor, wanted.limit, wanted.times)
    return Json(await with_notes(request, wanted, await page))


async def post_reflect_session(request: Request) -> Response:
    """Bring the slots that follow the work up to date with a session."""
    wanted = await _optional(request, SessionReflectRequest)
    session = await _session(request, wanted.project)
    condensing = services(request).operations.condensing
    made = await condensing.reflect_slots(session, caller(request), wanted.max_observations, reader=reader(request))
    return Json(SlotsMade(*made), 202)


async def post_crystal(request: Request) -> Response:
    """A memory and lessons from a chain of finished actions."""
    wanted = await asked_for(request, CrystallizeRequest)
    condensing = services(request).operations.condensing
    return Json(await condensing.crystallize(wanted.action_ids, reader(request), caller(request)), 202)


async def post_consolidate(request: Request) -> Response:
    """Memories about what a project's observations have in common."""
    wanted = await _optional(request, ConsolidateRequest)
    condensing = services(request).operations.condensing
    made = condensing.consolidate(
        reader(request), wanted.project, caller(request), fewest_observations=wanted.min_observations
    )
    return Json(await made, 202)


async def post_reflect(request: Request) -> Response:
    """Insights from what a project's memories and lessons have in common."""
    wanted = await _optional(request, ReflectRequest)
    condensing = services(request).operations.condensing
    return Json(await condensing.reflect(reader(request), wanted.project, caller(request), wanted.max_clusters), 202)


async def _session(request: Request, project: str | None) -> Session:
    current = services(request).operations.current
    return await current.session(request.path_params["id"], project, reader(request))


async def _optional(request: Request, cls: type[T]) -> T:
    return await asked_for(request, cls, optional=True)


async def post_commit(request: Request) -> Response:
    """Link a version-control commit."""
    command = await asked_for(request, LinkCommit)
    return Json(await services(request).operations.work.link_commit(command, caller(request)), 202)


async def list_commits(request: Request) -> Response:
    """Commits of one project or of all, and the sessions in which they were made."""
    wanted = await read_request(request, AnyProjectRequest)
    queries = services(request).queries
    page = queries.commits.page(reader(request), wanted.project, wanted.cursor, wanted.limit, wanted.times)
    return Json(await with_notes(request, wanted, await page))


async def list_session_commits(request: Request) -> Response:
    """The commits made in a session."""
    wanted = await read_request(request, SessionCommitsRequest)
    commits = services(request).queries.commits
    found = await commits.of_session(reader(request), request.path_params["id"], wanted.times)
    return Json({"items": [view(commit) for commit in found if wanted.project in (None, commit.project)]})


ENDPOINTS = [
    Endpoint("GET", "/v1/timeline", READ, get_timeline,
        "A project's observations by the time they happened, newest first.", query=ListRequest,
        answer=SomeRetired[ObservationView]),
    Endpoint("GET", "/v1/around", READ, get_around, "The observations around a moment.", query=AroundRequest,
        answer=Around),
    Endpoint("POST", "/v1/enrich", READ, post_enrich, "What is known about files that are about to be worked on.",
        body=EnrichRequest, answer=Enriched),
    Endpoint("GET", "/v1/sessions", READ, list_sessions, "Sessions, the most recently active first.",
        query=AnyProjectRequest, answer=Page[SessionView]),
    Endpoint("GET", "/v1/sessions/{id:path}/observations", READ, list_session_observations,
        "A session's observations, in order.", query=AnyProjectRequest, answer=SomeRetired[ObservationView]),
    Endpoint("GET", "/v1/sessions/{id:path}", READ, get_session, "One session.", query=InProject, answer=SessionView),
    Endpoint("GET", "/v1/summaries", READ, list_summaries, "A project's session summaries, newest first.",
        query=ListRequest, answer=Page[SummaryView]),
    Endpoint("GET", "/v1/sessions/{id:path}/summary", READ, get_summary, "The summary of a session.", query=InProject,
        answer=SummaryView),
    Endpoint("POST", "/v1/sessions/{id:path}/summary", READ_WRITE, post_summary, "Summarise a session now.", status=202,
        body=InSession, optional=True, answer=SummaryMade),
    Endpoint("POST", "/v1/sessions/{id:path}/reflect", WRITE, post_reflect_session,
        "Bring the slots that follow the work up to date with a session.", status=202, body=SessionReflectRequest,
        optional=True, answer=SlotsMade),
    Endpoint("POST", "/v1/crystals", READ_WRITE, post_crystal, "A memory and lessons from a chain of finished actions.",
        status=202, body=CrystallizeRequest, answer=Crystallized, faults={404: "One of the actions is not there."}),
    Endpoint("POST", "/v1/consolidate", WRITE, post_consolidate,
        "Memories about what a project's observations have in common.", status=202, body=ConsolidateRequest,
        optional=True, answer=Consolidated),
    Endpoint("POST", "/v1/reflect", WRITE, post_reflect,
        "Insights from what a project's memories and lessons have in common.", status=202, body=ReflectRequest,
        optional=True, answer=Reflected),
    Endpoint("GET", "/v1/commits", READ, list_commits, "Commits, the newest linked first.", query=AnyProjectRequest,
        answer=Page[CommitView]),
    Endpoint("POST", "/v1/commits", WRITE, post_commit, "Link a version-control commit.", status=202, body=LinkCommit,
        answer=Accepted),
    Endpoint("GET", "/v1/sessions/{id:path}/commits", READ, list_session_commits, "The commits made in a session.",
        query=SessionCommitsRequest, answer=Items[CommitView]),
]  # fmt: skip
