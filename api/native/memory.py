"""Recall, context and profile; a project's memories, their versions, and editing."""

from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct

from api.access.principal import Principal
from api.http.endpoint import Endpoint
from api.native.common import APPLIED, VERSION_CONFLICT, After, Fields, ListRequest, PageLimit, router
from api.services import NativeCall
from ingest.commands.decide import Remember
from ingest.commands.handler import Accepted
from ingest.errors import NotFound
from ingest.nouns.command import EventName, Name
from ingest.roles import ADMIN, READ, WRITE
from projections.operations.feedback import Feedback, FeedbackRequest
from projections.operations.memory import MemoryChanges
from projections.operations.work import Confirmed
from projections.queries.context import Context, ContextRequest
from projections.queries.memory import MemoryView, RememberAnswer
from projections.queries.profile import Profile
from projections.queries.recall import RecallAnswer, RecallRequest
from projections.queries.views import Items, Page, views
from projections.store.read_ledger import SeenRead

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class Known(Struct, frozen=True, kw_only=True):
    """A project's profile; null for an unknown project."""

    profile: Profile | None
    cached: bool


class ProfileRequest(After, frozen=True, kw_only=True):
    """Whose profile; `refresh` computes it again."""

    project: Name
    user_id: Name = ""
    refresh: bool = False


class ConfirmRequest(Fields, frozen=True, kw_only=True):
    """Ids of recalled memories or lessons that proved correct."""

    ids: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    event_id: EventName = ""


class ReadsRequest(Fields, frozen=True, kw_only=True):
    """The document's id, and its project; a deleted document's project has to be named."""

    document: Name
    project: Name | None = None
    cursor: str | None = None
    limit: PageLimit = 50


class MemoriesRequest(ListRequest, frozen=True, kw_only=True):
    """A page of memories; with `latest`, current versions only."""

    latest: bool = False


@route("POST /v1/recall", READ)
async def post_recall(call: NativeCall, body: RecallRequest) -> RecallAnswer:
    """Find the documents that answer a query."""
    if not body.prompt_of:
        call.queries.context.count_recall(call.tenant, body.project)
    return await call.queries.recall(body, call.reader())


@route("POST /v1/context", READ)
async def post_context(call: NativeCall, body: ContextRequest) -> Context:
    """Compile the context for an agent that starts working.

    Fits a token budget.
    """
    return await call.queries.context(body, call.reader(body.agent_id))


@route("POST /v1/confirm", WRITE, 202)
async def post_confirm(call: NativeCall, body: ConfirmRequest) -> Confirmed:
    """Confirm memories and lessons that proved correct."""
    return await call.operations.confirming.confirm(body.ids, call.reader(), call.caller(), body.event_id)


@route("POST /v1/feedback", WRITE, 202)
async def post_feedback(call: NativeCall, body: FeedbackRequest) -> Feedback:
    """Judge memories and lessons that the agent was given.

    `helped` ranks them higher, the other verdicts lower. Verdicts of different writers count, and fade with time.
    """
    return await call.operations.feedback(body, call.reader(body.agent_id), call.caller(body.agent_id))


@route("GET /v1/reads", ADMIN, faults={404: "No such document, and no project is named."})
async def get_reads(call: NativeCall, query: ReadsRequest) -> Page[SeenRead]:
    """Which answers gave a document to an agent, newest first.

    Also a deleted document. Of each project, the newest 100,000 answers are known.
    """
    project = query.project
    if project is None:
        try:
            located = await call.queries.lookup.document(query.document, call.operator())
        except NotFound as error:
            raise NotFound(f"{error}; of a deleted document, name the project") from None
        project = str(getattr(located.document, "project", ""))
    if not call.key_scope.allows(project):
        return Page([], None)
    return Page(*await call.queries.reads.of_document(call.tenant, project, query.document, query.cursor, query.limit))


@route("GET /v1/profile", READ)
async def get_profile(call: NativeCall, query: ProfileRequest) -> Known:
    """A project's profile, and a user's preferences."""
    profiles = call.queries.profiles
    profile, cached = await profiles.of(call.reader(), query.project, query.user_id, refresh=query.refresh)
    return Known(profile=profile, cached=cached)


@route("GET /v1/memories", READ, answer=Page[MemoryView])
async def list_memories(call: NativeCall, query: MemoriesRequest) -> Page[Any]:
    """A project's memories, newest first."""
    return await call.queries.memories.page(call.reader(), *query.page, latest=query.latest)


@route("GET /v1/memories/{id}/history", READ, answer=Items[MemoryView])
async def get_history(call: NativeCall, id: str, query: After) -> Items[Any]:
    """All versions of a memory, oldest first.

    Only those that the reader can see; the id can be of any version.
    """
    return views(await call.queries.memories.history(id, call.reader()))


@route("PATCH /v1/memories/{id}", WRITE, 202, answers=APPLIED,
    faults={403: "Only the document's creator or owner can do this.", **VERSION_CONFLICT})  # fmt: skip
async def patch_memory(call: NativeCall, id: str, body: MemoryChanges) -> Accepted:
    """Change a memory: record a new version, or change its readers."""
    return await call.operations.memories.change(id, body, call.reader(body.agent_id), call.caller())


@route("POST /v1/memories", WRITE, 202)
async def post_memory(call: NativeCall, body: Remember, principal: Principal) -> RememberAnswer:
    """Save a long-term memory."""
    accepted = await call.commands.handle(body, call.caller())
    if not principal.may(READ):
        return accepted  # pyright: ignore[reportReturnType]  # without the fields for readers
    return await call.queries.memories.answer_to(accepted, partial(call.reader_named, body.agent_id or call.agent))
