"""Routes that change what exists: memories, lessons, slots, actions, relations, commits. Each looks first."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.native import shapes
from api.native.common import After, AnyProjectRequest, InProject, ListRequest, asked
from api.native.shapes import Items, Page
from api.services import caller, reader, services
from ingest.commands.command import EventName, Name
from ingest.commands.handler import Accepted
from ingest.commands.requests import DeleteSlot, LinkCommit, Relate, ReviseLesson, SetSlot, WriteAction
from ingest.events.slot import SlotScope
from ingest.roles import READ, WRITE
from projections.operations import MemoryChanges
from projections.queries.views import view


class SlotsRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose slots."""

    project: Name = ""


class SlotDelete(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which slot to remove."""

    project: Name = ""
    scope: SlotScope = "project"


class Repeatable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A write without a body; its event id makes a retry harmless."""

    event_id: EventName = ""


class SlotWrite(SetSlot, frozen=True, kw_only=True, tag="slot"):
    """A slot to write; `overwrite` false refuses to replace one that is there."""

    overwrite: bool = True


class ActionsRequest(ListRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of actions; with `open`, those still to be done."""

    open: bool = False


class FrontierRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be done now: in one project, or in all; not what is leased to other agents than `agent_id`."""

    project: Name | None = None
    agent_id: Name = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


class LessonPatch(ReviseLesson, frozen=True, kw_only=True, tag="revise_lesson"):
    """What to change of a lesson; null stays."""

    lesson: Name = ""


async def patch_memory(request: Request) -> Response:
    """Change a memory: a new version, or who may read it."""
    changes = await asked_for(request, MemoryChanges)
    operations = services(request).operations
    who = reader(request, changes.agent_id)
    return Json(await operations.memories.change(request.path_params["id"], changes, who, caller(request)), 202)


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
    """Count that a lesson was shown to an agent."""
    trigger = services(request).operations.work.trigger
    event_id = query(request, Repeatable).event_id
    return Json(await trigger(request.path_params["id"], reader(request), caller(request), event_id), 202)


async def list_slots(request: Request) -> Response:
    """A project's slots and the global ones, by label."""
    wanted = await asked(request, SlotsRequest)
    found = await services(request).queries.browse.slots(reader(request), wanted.project)
    return Json({"items": [view(slot) for slot in found]})


async def get_slot(request: Request) -> Response:
    """The slot of a project, else the global one of that label."""
    wanted = await asked(request, SlotsRequest)
    operations = services(request).operations
    return Json(view(await operations.slots.get(reader(request), wanted.project, request.path_params["label"])))


async def post_slot(request: Request) -> Response:
    """Create a slot, replace its text, or add a line."""
    wanted = await asked_for(request, SlotWrite)
    command = SetSlot(**{name: getattr(wanted, name) for name in SetSlot.__struct_fields__})
    return Json(await services(request).operations.slots.set(command, caller(request), overwrite=wanted.overwrite), 202)


async def delete_slot(request: Request) -> Response:
    """Remove a slot."""
    wanted = query(request, SlotDelete)
    command = DeleteSlot(label=request.path_params["label"], project=wanted.project, scope=wanted.scope)
    return Json(await services(request).operations.slots.delete(command, caller(request)), 202)


async def post_action(request: Request) -> Response:
    """Write down a work item; or change the one that the body names."""
    command = await asked_for(request, WriteAction)
    return Json(await services(request).operations.work.write_action(command, reader(request), caller(request)), 202)


async def patch_action(request: Request) -> Response:
    """Change a work item."""
    command = replace(await asked_for(request, WriteAction), action=request.path_params["id"])
    return Json(await services(request).operations.work.write_action(command, reader(request), caller(request)), 202)


async def list_actions(request: Request) -> Response:
    """A project's work items, newest first."""
    wanted = await asked(request, ActionsRequest)
    browse = services(request).queries.browse
    return Json(
        await browse.actions(reader(request), wanted.project, wanted.cursor, wanted.limit, open_only=wanted.open)
    )


async def get_frontier(request: Request) -> Response:
    """The work items that can be done now, most urgent first."""
    wanted = await asked(request, FrontierRequest)
    who = reader(request, wanted.agent_id)
    browse = services(request).queries.browse
    actions, ready, _ = await browse.open_work(who, wanted.project, wanted.agent_id or who.agent_id)
    items = [{**view(actions[one.item.id]), "score": one.score, "leased": one.leased} for one in ready[: wanted.limit]]
    return Json({"items": items, "open": len(actions)})


async def post_relation(request: Request) -> Response:
    """Relate two documents, or withdraw that."""
    command = await asked_for(request, Relate)
    return Json(await services(request).operations.work.relate(command, reader(request), caller(request)), 202)


async def list_relations(request: Request) -> Response:
    """A project's relations, newest first."""
    wanted = await asked(request, ListRequest)
    browse = services(request).queries.browse
    return Json(await browse.relations(reader(request), wanted.project, wanted.cursor, wanted.limit))


async def post_commit(request: Request) -> Response:
    """Link a version-control commit."""
    command = await asked_for(request, LinkCommit)
    return Json(await services(request).operations.work.link_commit(command, caller(request)), 202)


async def list_commits(request: Request) -> Response:
    """Commits, the newest linked first."""
    wanted = await asked(request, AnyProjectRequest)
    browse = services(request).queries.browse
    return Json(await browse.commits(reader(request), wanted.project, wanted.cursor, wanted.limit))


async def list_session_commits(request: Request) -> Response:
    """The commits made in a session."""
    wanted = await asked(request, InProject)
    found = await services(request).queries.browse.session_commits(reader(request), request.path_params["id"])
    return Json({"items": [view(commit) for commit in found if wanted.project in (None, commit.project)]})


ENDPOINTS = [
    Endpoint(
        "PATCH", "/v1/memories/{id}", WRITE, patch_memory, "Change a memory: a new version, or who may read it.",
        status=202, body=MemoryChanges, answer=Accepted,
        faults={403: "It is somebody else's: its creator or its owner may do that."},
    ),
    Endpoint(
        "PATCH", "/v1/lessons/{id}", WRITE, patch_lesson, "Edit a lesson.",
        status=202, body=LessonPatch, answer=Accepted
    ),
    Endpoint(
        "POST", "/v1/lessons/{id}/reinforce", WRITE, post_reinforce, "Say that a lesson proved right again.",
        status=202, query=Repeatable, answer=Accepted,
    ),
    Endpoint(
        "POST", "/v1/lessons/{id}/trigger", WRITE, post_trigger, "Count that a lesson was shown to an agent.",
        status=202, query=Repeatable, answer=Accepted,
    ),
    Endpoint("GET", "/v1/slots", READ, list_slots, "A project's slots.", query=SlotsRequest, answer=Items[shapes.Slot]),
    Endpoint(
        "POST", "/v1/slots", WRITE, post_slot, "Create a slot, replace its text, or add a line.",
        status=202, body=SlotWrite, answer=Accepted,
        faults={
            404: "There is no slot of that label to add a line to.",
            409: "There is one of that label, and it was not to be overwritten.",
            413: "The text would exceed the slot's limit, or the body is too large.",
        },
    ),
    Endpoint("GET", "/v1/slots/{label}", READ, get_slot, "A slot.", query=SlotsRequest, answer=shapes.Slot),
    Endpoint(
        "DELETE", "/v1/slots/{label}", WRITE, delete_slot, "Remove a slot.",
        status=202, query=SlotDelete, answer=Accepted
    ),
    Endpoint(
        "GET", "/v1/actions", READ, list_actions, "A project's work items.",
        query=ActionsRequest, answer=Page[shapes.Action]
    ),
    Endpoint(
        "POST", "/v1/actions", WRITE, post_action, "Write down a work item.",
        status=202, body=WriteAction, answer=Accepted, faults={404: "There is no action of that id to change."},
    ),
    Endpoint(
        "PATCH", "/v1/actions/{id}", WRITE, patch_action, "Change a work item.",
        status=202, body=WriteAction, answer=Accepted
    ),
    Endpoint(
        "GET", "/v1/frontier", READ, get_frontier, "What can be done now.",
        query=FrontierRequest, answer=shapes.Frontier
    ),
    Endpoint(
        "GET", "/v1/relations", READ, list_relations, "A project's relations, newest first.",
        query=ListRequest, answer=Page[shapes.Relation],
    ),
    Endpoint(
        "POST", "/v1/relations", WRITE, post_relation, "Relate two documents, or withdraw that.",
        status=202, body=Relate, answer=Accepted, faults={404: "One of the two is not there."},
    ),
    Endpoint(
        "GET", "/v1/commits", READ, list_commits, "Commits, the newest linked first.",
        query=AnyProjectRequest, answer=Page[shapes.Commit],
    ),
    Endpoint(
        "POST", "/v1/commits", WRITE, post_commit, "Link a version-control commit.",
        status=202, body=LinkCommit, answer=Accepted,
    ),
    Endpoint(
        "GET", "/v1/sessions/{id:path}/commits", READ, list_session_commits, "The commits made in a session.",
        query=InProject, answer=Items[shapes.Commit],
    ),
]  # fmt: skip
