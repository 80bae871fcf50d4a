"""Lessons, slots, and work items."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from api.http.endpoint import Endpoint
from api.native.common import After, BoundedRead, ListRequest, Repeatable, as_struct, router
from api.services import NativeCall
from ingest.commands.decide import DeleteSlot, ReviseLesson, SetSlot, WriteAction
from ingest.commands.handler import Accepted
from ingest.names import visible_data
from ingest.nouns.command import Confidence, Name
from ingest.nouns.slot import SlotScope
from ingest.platform.clock import system_clock
from ingest.roles import READ, WRITE
from projections.queries.lesson import LessonView
from projections.queries.views import Items, Page, view, views
from projections.queries.work import ActionView, SlotView

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class FoundLesson(LessonView, frozen=True, kw_only=True):
    """A lesson, and its score for a query."""

    score: float


class SureLesson(LessonView, frozen=True, kw_only=True):
    """A lesson, and its remaining confidence."""

    confidence_now: float


class LessonsRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of lessons; with `retired`, including retired ones."""

    retired: bool = False


class MatchRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tool about to be used, and the beginning of its input."""

    tool_name: Name
    preview: Annotated[str, Meta(max_length=10_000)] = ""
    project: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 5


class LessonSearch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Search the lessons of a project and the global ones, or all lessons."""

    query: Annotated[str, Meta(min_length=1, max_length=20_000)]
    project: Name | None = None
    min_confidence: Confidence = 0.1
    limit: Annotated[int, Meta(ge=1, le=200)] = 10


class SurestRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters by project and by `origin`."""

    project: Name | None = None
    origin: Name = ""
    min_confidence: Confidence = 0.0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class LessonPatch(ReviseLesson, frozen=True, kw_only=True, tag="revise_lesson"):
    """What to change in a lesson; null keeps a field as it is."""

    lesson: Name = ""


@route("GET /v1/lessons", READ)
async def list_lessons(call: NativeCall, query: LessonsRequest) -> Page[LessonView]:
    """A project's lessons, newest first."""
    return await call.queries.lessons.page(call.reader(), *query.page, retired=query.retired)


@route("GET /v1/lessons/match", READ)
async def get_match(call: NativeCall, query: MatchRequest) -> Items[LessonView]:
    """The lessons to show before a tool is used.

    The most severe first; their texts without control characters.
    """
    lessons = call.queries.lessons
    matching = await lessons.match(call.reader(), query.tool_name, query.preview, query.project, query.limit)
    return Items(visible_data(list(map(view, matching))))


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


@route("PATCH /v1/lessons/{id}", WRITE, 202)
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


class SlotsRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The project of the slot."""

    project: Name = ""


class ListSlotsRequest(BoundedRead, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The project of the slots; times filter by the last write."""

    project: Name = ""


class SlotDelete(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which slot to remove."""

    project: Name = ""
    scope: SlotScope = "project"


class SlotWrite(SetSlot, frozen=True, kw_only=True, tag="slot"):
    """A slot to write; with `overwrite` false, an existing one is not replaced."""

    overwrite: bool = True


@route("GET /v1/slots", READ)
async def list_slots(call: NativeCall, query: ListSlotsRequest) -> Items[SlotView]:
    """A project's slots and the global ones, by label."""
    slots = await call.queries.slots.of_project(call.reader(), query.project)
    return views(slot for slot in slots if query.times.of_document(slot))


@route("GET /v1/slots/{label}", READ)
async def get_slot(call: NativeCall, label: str, query: SlotsRequest) -> SlotView:
    """The slot of a project, else the global one with that label."""
    return view(await call.operations.slots.get(call.reader(), query.project, label))


@route("POST /v1/slots", WRITE, 202, faults={
    404: "No slot has that label, so no line can be added.",
    409: "A slot with that label exists, and `overwrite` is false.",
    413: "The text would exceed the slot's limit, or the body is too large."})  # fmt: skip
async def post_slot(call: NativeCall, body: SlotWrite) -> Accepted:
    """Create a slot, replace its text, or add a line."""
    return await call.operations.slots.set(as_struct(SetSlot, body), call.caller(), overwrite=body.overwrite)


@route("DELETE /v1/slots/{label}", WRITE, 202)
async def delete_slot(call: NativeCall, label: str, query: SlotDelete) -> Accepted:
    """Remove a slot.

    A default slot becomes empty again.
    """
    return await call.operations.slots.delete(as_struct(DeleteSlot, query, label=label), call.caller())


class ReadyAction(ActionView, frozen=True, kw_only=True):
    """A work item that nothing blocks; `leased` while an agent works on it."""

    score: float
    leased: bool


class Frontier(Struct, frozen=True, kw_only=True):
    """The work items that can be done now, and the number of open ones."""

    items: list[ReadyAction]
    open: int


class ActionsRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of actions; with `open`, only open ones."""

    open: bool = False


class FrontierRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one project, or of all; omits items leased to agents other than `agent_id`."""

    project: Name | None = None
    agent_id: Name = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


@route("GET /v1/actions", READ)
async def list_actions(call: NativeCall, query: ActionsRequest) -> Page[ActionView]:
    """A project's work items, newest first."""
    return await call.queries.actions.page(call.reader(), *query.page, open_only=query.open)


@route("POST /v1/actions", WRITE, 202, faults={404: "No action has that id."})
async def post_action(call: NativeCall, body: WriteAction) -> Accepted:
    """Create a work item, or change the one that the body names."""
    return await call.operations.work.write_action(body, call.reader(), call.caller())


@route("PATCH /v1/actions/{id}", WRITE, 202)
async def patch_action(call: NativeCall, id: str, body: WriteAction) -> Accepted:
    """Change a work item."""
    return await call.operations.work.write_action(replace(body, action=id), call.reader(), call.caller())


@route("GET /v1/frontier", READ)
async def get_frontier(call: NativeCall, query: FrontierRequest) -> Frontier:
    """The work items that can be done now, most urgent first."""
    reader = call.reader(query.agent_id)
    actions, ready, _ = await call.queries.actions.open_work(reader, query.project, query.agent_id or reader.agent_id)
    tasks = ready[: query.limit]
    items = [view(actions[task.item.id]) | {"score": task.score, "leased": task.leased} for task in tasks]
    return Frontier(items=items, open=len(actions))
