"""Routes of lessons."""

from typing import Annotated

from msgspec import Meta, Struct

from api.http.endpoint import Endpoint
from api.native.common import (
    APPLIED,
    VERSION_CONFLICT,
    After,
    Fields,
    ListRequest,
    Repeatable,
    ShortLimit,
    as_struct,
    router,
)
from api.services import NativeCall
from ingest.commands.decide import (
    RecordLesson,
    ReviseLesson,
)
from ingest.commands.handler import Accepted
from ingest.names import visible_data
from ingest.nouns.command import Confidence, Name
from ingest.platform.clock import system_clock
from ingest.roles import READ, WRITE
from projections.queries.lesson import LessonView
from projections.queries.views import Items, Page, view
from projections.queries.work import ActionView
from projections.text.globs import edited_files

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class FoundLesson(LessonView, frozen=True, kw_only=True):
    """A lesson, and its score for a query."""

    score: float


class SureLesson(LessonView, frozen=True, kw_only=True):
    """A lesson, and its remaining confidence."""

    confidence_now: float


class LessonsRequest(ListRequest, frozen=True, kw_only=True):
    """A page of lessons; with `retired`, including retired ones."""

    retired: bool = False


class MatchRequest(After, frozen=True, kw_only=True):
    """The tool about to be used, and the beginning of its input."""

    tool_name: Name
    preview: Annotated[str, Meta(max_length=10_000)] = ""
    project: Name | None = None
    agent_id: Name = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 5


class LessonMatches(Struct, frozen=True, kw_only=True):
    """The lessons to show before a tool is used, and the actions of other agents whose claimed files it edits."""

    items: list[LessonView]
    claimed: list[ActionView]


class LessonSearch(Fields, frozen=True, kw_only=True):
    """Search the lessons of a project and the global ones, or all lessons."""

    query: Annotated[str, Meta(min_length=1, max_length=20_000)]
    project: Name | None = None
    min_confidence: Confidence = 0.1
    limit: ShortLimit = 10


class SurestRequest(After, frozen=True, kw_only=True):
    """Filters by project and by `origin`."""

    project: Name | None = None
    origin: Name = ""
    min_confidence: Confidence = 0.0
    limit: ShortLimit = 50


class LessonPatch(ReviseLesson, frozen=True, kw_only=True, tag="revise_lesson"):
    """What to change in a lesson; null keeps a field as it is."""

    lesson: Name = ""


@route("POST /v1/lessons", WRITE, 202)
async def post_lesson(call: NativeCall, body: RecordLesson) -> Accepted:
    """Record a lesson."""
    return await call.commands.handle(body, call.caller())


@route("GET /v1/lessons", READ)
async def list_lessons(call: NativeCall, query: LessonsRequest) -> Page[LessonView]:
    """A project's lessons, newest first."""
    return await call.queries.lessons.page(call.reader(), *query.page, retired=query.retired)


@route("GET /v1/lessons/match", READ)
async def get_match(call: NativeCall, query: MatchRequest) -> LessonMatches:
    """The lessons to show before a tool is used.

    The most severe first; their texts without control characters. If the tool edits files of the project that other
    agents have claimed, also these claims.
    """
    lessons, reader = call.queries.lessons, call.reader(query.agent_id)
    matching = await lessons.match(reader, query.tool_name, query.preview, query.project, query.limit)
    call.queries.reads.note(reader, "tool", ((lesson.project, lesson.id) for lesson in matching))
    files = edited_files(query.tool_name, query.preview)
    claimed = await call.queries.actions.claimed(reader, query.project or "", files) if files else []
    items, actions = (visible_data(list(map(view, documents))) for documents in (matching, claimed))
    return LessonMatches(items=items, claimed=actions)


@route("POST /v1/lessons/search", READ)
async def post_search(call: NativeCall, body: LessonSearch) -> Items[FoundLesson]:
    """Lessons about a query, best first.

    By relevance, confidence and recency.
    """
    lessons = await call.queries.lessons.search(
        call.reader(), body.query, body.project, system_clock(), min_confidence=body.min_confidence, limit=body.limit
    )
    return Items([view(lesson) | {"score": score} for lesson, score in lessons])


@route("GET /v1/lessons/surest", READ)
async def get_surest(call: NativeCall, query: SurestRequest) -> Items[SureLesson]:
    """The lessons with the most remaining confidence."""
    now = system_clock()
    lessons = await call.queries.lessons.surest(
        call.reader(), query.project, now, source=query.origin, min_confidence=query.min_confidence, limit=query.limit
    )
    return Items([view(lesson) | {"confidence_now": lesson.confidence_at(now)} for lesson in lessons])


@route("PATCH /v1/lessons/{id}", WRITE, 202, faults=VERSION_CONFLICT, answers=APPLIED)
async def patch_lesson(call: NativeCall, id: str, body: LessonPatch) -> Accepted:
    """Edit a lesson."""
    command = as_struct(ReviseLesson, body, lesson=id)
    return await call.operations.work.revise_lesson(command, call.reader(), call.caller())


@route("POST /v1/lessons/{id}/reinforce", WRITE, 202)
async def post_reinforce(call: NativeCall, id: str, query: Repeatable) -> Accepted:
    """Confirm a lesson again.

    Raises its confidence.
    """
    return await call.operations.work.reinforce(id, call.reader(), call.caller(), query.event_id)


@route("POST /v1/lessons/{id}/trigger", WRITE, 202)
async def post_trigger(call: NativeCall, id: str, query: Repeatable) -> Accepted:
    """Record that a lesson was shown to an agent.

    Updates its trigger count and time.
    """
    return await call.operations.work.trigger(id, call.reader(), call.caller(), query.event_id)
