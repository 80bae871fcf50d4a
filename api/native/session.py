"""Sessions: their observations, the documents condensed from them, and their commits."""

from hashlib import blake2b
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, json
from msgspec.structs import replace

from api.http.endpoint import Endpoint
from api.native.common import AnyProjectRequest, Fields, InProject, ListRequest, ShortLimit, router
from api.services import NativeCall
from ingest.commands.decide import LinkCommit, Observe, TrackSession
from ingest.commands.handler import Accepted
from ingest.errors import NotFound
from ingest.nouns.command import Name
from ingest.platform.partial import check_missing
from ingest.platform.tasks import JobState
from ingest.roles import READ, READ_WRITE, WRITE
from projections.condensing.crystals import Crystallized
from projections.condensing.operations import ProjectOrder
from projections.condensing.summaries import Digest
from projections.queries.observation import ObservationView
from projections.queries.session import CommitView, SessionStory, SessionView, SummaryView
from projections.queries.views import Page, SomeRetired, view

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


@route("GET /v1/timeline", READ, answer=SomeRetired[ObservationView])
async def get_timeline(call: NativeCall, query: ListRequest) -> SomeRetired[Any]:
    """A project's observations by event time, newest first.

    From all sessions, by the time their agents state.
    """
    return await call.queries.observations.timeline(call.reader(), *query.page)


@route("GET /v1/sessions", READ)
async def list_sessions(call: NativeCall, query: AnyProjectRequest) -> Page[SessionView]:
    """Sessions, the most recently active first.

    Of one project or of all. Each observation makes its session the most recently active.
    """
    return await call.queries.sessions.page(call.reader(), *query.page)


@route("GET /v1/sessions/{id:path}", READ)
async def get_session(call: NativeCall, id: str, query: InProject) -> SessionView:
    """One session.

    With its number of observations. Without a project, 422 if several projects have a session with that id.
    """
    return view((await call.queries.sessions.one(call.reader(), id, query.project)).document)


@route("GET /v1/sessions/{id:path}/observations", READ, answer=SomeRetired[ObservationView])
async def list_session_observations(call: NativeCall, id: str, query: AnyProjectRequest) -> SomeRetired[Any]:
    """A session's observations, oldest first.

    In the order they were recorded.
    """
    return await call.queries.sessions.observations(call.reader(), id, *query.page)


class InSession(Fields, frozen=True, kw_only=True):
    """Which of the sessions with that id."""

    project: Name | None = None


class SessionReflectRequest(InSession, frozen=True, kw_only=True):
    """Which of the sessions with that id, and how many of its newest observations are read."""

    max_observations: ShortLimit = 50


class SummaryMade(Struct, frozen=True):
    """A session's summary and its author; `fell_back` says why a configured model did not write it."""

    summary: Digest
    model: str
    fell_back: str
    position: str


class SlotsMade(Struct, frozen=True):
    """The number of slots that were changed, and of observations that were read."""

    slots_changed: int
    observations: int
    position: str


@route("GET /v1/summaries", READ, answer=Page[SummaryView])
async def list_summaries(call: NativeCall, query: ListRequest) -> Page[Any]:
    """A project's session summaries, newest first.

    The newest summary of each session.
    """
    return await call.queries.summaries.page(call.reader(), *query.page)


@route("GET /v1/sessions/{id:path}/summary", READ, answer=SummaryView)
async def get_summary(call: NativeCall, id: str, query: InProject) -> Any:
    """The summary of a session.

    404 if it has none yet.
    """
    located = await call.queries.sessions.one(call.reader(), id, query.project)
    summary = await call.queries.summaries.of_session(call.reader(), located)
    if summary is None:
        check_missing("a summary")
        raise NotFound(f"session {id!r} has no summary yet; create it with POST")
    return view(summary)


@route("GET /v1/sessions/{id:path}/story", READ)
async def get_story(call: NativeCall, id: str, query: InProject) -> SessionStory:
    """What a session came to so far.

    Decisions in force, open work, and the newest requests with their answers, from what the user and the agent said.
    Available while the session runs; no model is called.
    """
    return await call.queries.sessions.story(call.reader(), id, query.project)


@route("POST /v1/sessions/{id:path}/summary", READ_WRITE, 202, optional=True)
async def post_summary(call: NativeCall, id: str, body: InSession) -> SummaryMade:
    """Summarize a session now.

    A session that ends is summarized automatically.
    """
    session = await call.operations.current.session(id, body.project, call.reader())
    return SummaryMade(*await call.operations.condensing.summarise(session, call.caller(), call.reader()))


@route("POST /v1/sessions/{id:path}/reflect", WRITE, 202, optional=True)
async def post_reflect_session(call: NativeCall, id: str, body: SessionReflectRequest) -> SlotsMade:
    """Update the automatic slots from a session."""
    session = await call.operations.current.session(id, body.project, call.reader())
    reflect = call.operations.condensing.reflect_slots
    return SlotsMade(*await reflect(session, call.caller(), body.max_observations, reader=call.reader()))


class CrystallizeRequest(Fields, frozen=True, kw_only=True):
    """The finished actions."""

    action_ids: Annotated[list[Name], Meta(min_length=1, max_length=200)]


class ConsolidateRequest(Fields, frozen=True, kw_only=True):
    """The project, and how many important observations are needed."""

    project: Name = ""
    min_observations: Annotated[int, Meta(ge=1, le=1000)] = 10


class ReflectRequest(Fields, frozen=True, kw_only=True):
    """The project, and how many clusters of its memories and lessons."""

    project: Name = ""
    max_clusters: Annotated[int, Meta(ge=1, le=20)] = 10


@route("POST /v1/crystals", READ_WRITE, 202, faults={404: "One of the actions was not found."})
async def post_crystal(call: NativeCall, body: CrystallizeRequest) -> Crystallized:
    """Create a memory and lessons from a chain of finished actions."""
    return await call.operations.condensing.crystallize(body.action_ids, call.reader(), call.caller())


class JobView(Struct, frozen=True, kw_only=True):
    """A job: `result` once it is `done`, `error` once it `failed`."""

    id: str
    status: JobState
    result: dict[str, int | str] | None = None
    error: str = ""


@route("POST /v1/consolidate", WRITE, 202, optional=True)
async def post_consolidate(call: NativeCall, body: ConsolidateRequest) -> JobView:
    """Create memories of what a project's observations have in common.

    A worker does it: `GET /v1/jobs/{id}` has the result.
    """
    return await _ordered(call, "consolidate", body.project, body.min_observations)


@route("POST /v1/reflect", WRITE, 202, optional=True)
async def post_reflect(call: NativeCall, body: ReflectRequest) -> JobView:
    """Create insights from what a project's memories, lessons and sessions have in common.

    A worker does it: `GET /v1/jobs/{id}` has the result.
    """
    return await _ordered(call, "reflect", body.project, body.max_clusters)


async def _ordered(call: NativeCall, what: Literal["consolidate", "reflect"], project: str, amount: int) -> JobView:
    reader, caller = call.reader(), call.caller()
    order = ProjectOrder(what=what, project=project, amount=amount, reader=reader, caller=caller)
    # the same order is one job, however often it is sent, or one caller could fill the queue that all tenants share
    same = json.encode(replace(order, reader=reader._replace(now=None)))
    job = JobView(id=f"job_{blake2b(same, digest_size=10).hexdigest()}", status="queued")
    await call.jobs.enqueue("project", order, job_id=f"{call.tenant}:{job.id}", again=True)
    return job


@route("GET /v1/jobs/{id}", WRITE, faults={404: "No such job, or it ended over an hour ago."})
async def get_job(call: NativeCall, id: str) -> JobView:
    """How far a job is, and its result.

    Results are kept for an hour.
    """
    state = await call.jobs.state(f"{call.tenant}:{id}")
    if state is None:
        raise NotFound(f"there is no job {id!r}; results are kept for an hour")
    status, result = state
    if status == "failed":
        return JobView(id=id, status=status, error="it failed; the worker's log has the reason. Send the order again")
    return JobView(id=id, status=status, result=result)


@route("GET /v1/commits", READ)
async def list_commits(call: NativeCall, query: AnyProjectRequest) -> Page[CommitView]:
    """Commits, most recently linked first.

    Of one project or of all, with their sessions.
    """
    return await call.queries.commits.page(call.reader(), *query.page)


@route("POST /v1/commits", WRITE, 202)
async def post_commit(call: NativeCall, body: LinkCommit) -> Accepted:
    """Link a version-control commit."""
    return await call.operations.work.link_commit(body, call.caller())


@route("POST /v1/observations", WRITE, 202,
    faults={409: "The session has reached its limit of observations; nothing was stored."})  # fmt: skip
async def post_observation(call: NativeCall, body: Observe) -> Accepted:
    """Record what an agent saw or did."""
    return await call.commands.handle(body, call.caller())


@route("POST /v1/sessions", WRITE, 202)
async def post_session(call: NativeCall, body: TrackSession) -> Accepted:
    """Start or end a session."""
    return await call.commands.handle(body, call.caller())
