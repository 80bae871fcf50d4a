"""Lessons: listed, searched, shown before a tool call, and changed."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.native.common import After, ListRequest, Repeatable, read_request, with_notes
from api.services import caller, reader, services
from ingest.commands.command import Confidence, Name
from ingest.commands.decide import ReviseLesson
from ingest.commands.handler import Accepted
from ingest.platform.clock import system_clock
from ingest.roles import READ, WRITE
from projections.queries.lessons import LessonView
from projections.queries.views import Items, Page, view


class FoundLesson(LessonView, frozen=True, kw_only=True):
    """A lesson, and how well it answers a query."""

    score: float


class SureLesson(LessonView, frozen=True, kw_only=True):
    """A lesson, and what is left of its confidence."""

    confidence_now: float


class LessonsRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of lessons; with `retired`, those that have faded, too."""

    retired: bool = False


class MatchRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool is about to be used, and the beginning of what for."""

    tool_name: Name
    preview: Annotated[str, Meta(max_length=10_000)] = ""
    project: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 5


class LessonSearch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lessons about what; of a project and global ones, or of all."""

    query: Annotated[str, Meta(min_length=1, max_length=20_000)]
    project: Name | None = None
    min_confidence: Confidence = 0.1
    limit: Annotated[int, Meta(ge=1, le=200)] = 10


class SurestRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The surest lessons: of a project, or of all; `origin` is who drew them."""

    project: Name | None = None
    origin: Name = ""
    min_confidence: Confidence = 0.0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class LessonPatch(ReviseLesson, frozen=True, kw_only=True, tag="revise_lesson"):
    """What to change of a lesson; null stays."""

    lesson: Name = ""


async def list_lessons(request: Request) -> Response:
    """A project's lessons, newest first."""
    wanted = await read_request(request, LessonsRequest)
    page = services(request).queries.lessons.page(
        reader(request), wanted.project, wanted.cursor, wanted.limit, wanted.times, retired=wanted.retired
    )
    return Json(await with_notes(request, wanted, await page))


async def get_match(request: Request) -> Response:
    """The lessons to show before a tool is used, the most severe first."""
    wanted = await read_request(request, MatchRequest)
    found = await services(request).queries.lessons.match(
        reader(request), wanted.tool_name, wanted.preview, wanted.project, wanted.limit
    )
    return Json({"items": [view(lesson) for lesson in found]})


async def post_search(request: Request) -> Response:
    """Lessons about a query, by relevance, confidence and recency."""
    wanted = await asked_for(request, LessonSearch)
    found = await services(request).queries.lessons.search(
        reader(request),
        wanted.query,
        wanted.project,
        system_clock(),
        min_confidence=wanted.min_confidence,
        limit=wanted.limit,
    )
    return Json({"items": [{**view(lesson), "score": score} for lesson, score in found]})


async def get_surest(request: Request) -> Response:
    """The surest lessons, with how sure they are now."""
    wanted = await read_request(request, SurestRequest)
    now = system_clock()
    found = await services(request).queries.lessons.surest(
        reader(request),
        wanted.project,
        now,
        source=wanted.origin,
        min_confidence=wanted.min_confidence,
        limit=wanted.limit,
    )
    return Json({"items": [{**view(lesson), "confidence_now": lesson.confidence_at(now)} for lesson in found]})


async def patch_lesson(request: Request) -> Response:
    """Edit a lesson."""
    edit = await asked_for(request, LessonPatch)
    said = {name: getattr(edit, name) for name in ReviseLesson.__struct_fields__}
    command = ReviseLesson(**{**said, "lesson": request.path_params["id"]})
    operations = services(request).operations
    return Json(await operations.work.revise_lesson(command, reader(request), caller(request)), 202)


async def post_reinforce(request: Request) -> Response:
    """Strengthen a lesson that proved right again."""
    reinforce = services(request).operations.work.reinforce
    event_id = query(request, Repeatable).event_id
    return Json(await reinforce(request.path_params["id"], reader(request), caller(request), event_id), 202)


async def post_trigger(request: Request) -> Response:
    """Count that a lesson was shown to an agent, and note when."""
    trigger = services(request).operations.work.trigger
    event_id = query(request, Repeatable).event_id
    return Json(await trigger(request.path_params["id"], reader(request), caller(request), event_id), 202)


ENDPOINTS = [
    Endpoint("GET", "/v1/lessons", READ, list_lessons, "A project's lessons, newest first.", query=LessonsRequest,
        answer=Page[LessonView]),
    Endpoint("GET", "/v1/lessons/match", READ, get_match, "The lessons to show before a tool is used.",
        query=MatchRequest, answer=Items[LessonView]),
    Endpoint("POST", "/v1/lessons/search", READ, post_search, "Lessons about a query, best first.", body=LessonSearch,
        answer=Items[FoundLesson]),
    Endpoint("GET", "/v1/lessons/surest", READ, get_surest, "The surest lessons.", query=SurestRequest,
        answer=Items[SureLesson]),
    Endpoint("PATCH", "/v1/lessons/{id}", WRITE, patch_lesson, "Edit a lesson.", status=202, body=LessonPatch,
        answer=Accepted),
    Endpoint("POST", "/v1/lessons/{id}/reinforce", WRITE, post_reinforce, "Say that a lesson proved right again.",
        status=202, query=Repeatable, answer=Accepted),
    Endpoint("POST", "/v1/lessons/{id}/trigger", WRITE, post_trigger, "Count that a lesson was shown to an agent.",
        status=202, query=Repeatable, answer=Accepted),
]  # fmt: skip
