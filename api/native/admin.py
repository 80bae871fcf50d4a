"""Routes for operators: how far everything is, orders to the workers, reconciliation; and what could not be applied.

Of dead letters an admin meets what is of its tenant and projects, an operator also what names none.
"""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct, convert
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.native.common import Bounds, Queued
from api.services import caller, reader, services
from ingest.errors import CommandRejected
from ingest.roles import ADMIN, OPERATOR
from projections.dead_letters.records import Outcome, State
from projections.dead_letters.room import Done, LogLocation, Reason, Selection
from projections.maintenance.repairs import Fault, Findings, load_report


class Progress(Struct, frozen=True, kw_only=True):
    """How far a partition is; positions within it. `feed` and `to_embed` count entries, `worker` is who leases it."""

    partition: int
    generation: int
    head: str
    checkpoint: str
    searchable: str
    lag: int
    to_embed: int
    feed: int
    dead_letters: int
    worker: str | None


class Projections(Struct, frozen=True):
    """How far all partitions are."""

    partitions: list[Progress]


async def get_projections(request: Request) -> Response:
    """How far every partition is: what is recorded, applied and searchable, and who applies it."""
    return Json({"partitions": await services(request).queries.progress()})


async def post_snapshot(request: Request) -> Response:
    """Write an index snapshot now; 202 with whether one was queued (not when one is being written)."""
    return Json({"queued": await services(request).jobs.enqueue("snapshot", True, job_id="snapshot")}, 202)


Partition = Annotated[int, Meta(ge=0)]


class LettersRequest(Bounds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of dead letters, or of those that were discarded."""

    state: State = "parked"
    partition: Partition | None = None
    code: str = ""
    type: str = ""
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class RedriveRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to try again: one by its position, or all of a code or an event type."""

    position: str = ""
    partition: Partition | None = None
    code: str = ""
    type: str = ""
    cursor: str | None = None


class DiscardRequest(RedriveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters nobody wants applied, why, and whether what they say is to be erased from the log."""

    reason: Annotated[str, Meta(min_length=1, max_length=512)]
    erase: bool = False


class DiscardReason(Struct, frozen=True, kw_only=True):
    """Why, by whom and when a letter was discarded, and whether its event was erased."""

    reason: str
    agent_id: str
    at: datetime
    erased: bool


class LetterView(Struct, frozen=True, kw_only=True):
    """An event that could not be applied. `message` is empty for who may not read the event, which is null once gone;
    `tried_at` and `release` are of the last try."""

    position: str
    state: State
    code: str
    message: str
    type: str
    attempts: int
    parked_at: datetime | None
    tried_at: datetime | None
    release: str
    redrive_requested: bool
    discarded: DiscardReason | None
    event: dict[str, Any] | None


class LettersView(Struct, frozen=True, kw_only=True):
    """A page of letters, the cursor of the next one, and what became of letters ever, of all that there were.

    `counts` are of the whole server, and null for who is not its operator.
    """

    dead_letters: list[LetterView]
    next: str | None
    counts: dict[Outcome, int] | None


async def list_letters(request: Request) -> Response:
    """Events that could not be applied, in the order of partitions and positions."""
    wanted = query(request, LettersRequest)
    selection = Selection(
        state=wanted.state,
        partition=wanted.partition,
        code=wanted.code,
        type=wanted.type,
        cursor=wanted.cursor,
        times=wanted.times,
    )
    return Json(await services(request).operations.letters.page(selection, reader(request), wanted.limit))


async def get_letter(request: Request) -> Response:
    """An event that could not be applied, as far as the reader may see it, with its error."""
    letters = services(request).operations.letters
    place = LogLocation.parse(request.path_params["position"], letters.partitions)
    return Json(await letters.show(place, reader(request)))


async def post_redrive(request: Request) -> Response:
    """Have the workers try some again; 202 with their positions."""
    wanted = await asked_for(request, RedriveRequest)
    operations = services(request).operations.letters
    if wanted.position:
        place = LogLocation.parse(wanted.position, operations.partitions)
        return Json(await operations.redrive(place, reader(request)), 202)
    return Json(await operations.redrive_all(_selection(wanted), reader(request)), 202)


async def post_discard(request: Request) -> Response:
    """Say of some that nobody wants them applied; answers their positions."""
    wanted = await asked_for(request, DiscardRequest)
    operations = services(request).operations.letters
    why = Reason(reason=wanted.reason, agent_id=caller(request).agent_id, erase=wanted.erase)
    if wanted.position:
        place = LogLocation.parse(wanted.position, operations.partitions)
        done = await operations.discard(place, reader(request), why)
    else:
        done = await operations.discard_all(_selection(wanted), reader(request), why)
    return Json(done)


def _selection(wanted: RedriveRequest) -> Selection:
    """The letters of a code or a type; raises CommandRejected when neither is named, which would be all there are."""
    if not (wanted.code or wanted.type):
        raise CommandRejected("name a position, a code or a type", "position")
    return Selection(partition=wanted.partition, code=wanted.code, type=wanted.type, cursor=wanted.cursor)


class ReportView(Struct, frozen=True, kw_only=True):
    """A reconciliation, finished or under way: what it found in each partition and in all, and what a person has to do.

    `next` is the partition that it goes on with, null when it is over.
    """

    started_at: datetime
    finished_at: datetime | None
    next: int | None
    partitions: list[Findings]
    found: dict[Fault, int]
    advice: list[str]


class Newest(Struct, frozen=True):
    """The newest reconciliation; null when there was none."""

    report: ReportView | None


async def get_reconcile(request: Request) -> Response:
    """What the newest reconciliation found and repaired; null when there was none."""
    report = await load_report(services(request).redis)
    return Json(Newest(None if report is None else convert(report, ReportView, from_attributes=True)))


async def post_reconcile(request: Request) -> Response:
    """Reconcile now; 202 with whether that was queued (not while one that was ordered before waits or runs)."""
    return Json({"queued": await services(request).jobs.enqueue("reconcile", True, job_id="reconcile-now")}, 202)


ENDPOINTS = [
    Endpoint("GET", "/v1/admin/projections", OPERATOR, get_projections, "How far every partition is.",
        answer=Projections),
    Endpoint("POST", "/v1/admin/snapshots", OPERATOR, post_snapshot, "Write an index snapshot now.", status=202,
        answer=Queued),
    Endpoint("GET", "/v1/admin/dead-letters", ADMIN, list_letters, "Events that could not be applied.",
        query=LettersRequest, answer=LettersView),
    Endpoint("POST", "/v1/admin/dead-letters/redrive", ADMIN, post_redrive, "Have the workers try some again.",
        status=202, body=RedriveRequest, answer=Done, faults={404: "There is no such dead letter."}),
    Endpoint("POST", "/v1/admin/dead-letters/discard", ADMIN, post_discard,
        "Say of some that nobody wants them applied.", body=DiscardRequest, answer=Done,
        faults={404: "There is no such dead letter.", 409: "Its partition is being rebuilt: `being_rebuilt`."}),
    Endpoint("GET", "/v1/admin/dead-letters/{position}", ADMIN, get_letter,
        "One of them, with its event and its error.", answer=LetterView,
        faults={422: "That is no place in the log, or nobody says who reads an isolated scope."}),
    Endpoint("GET", "/v1/admin/reconcile", OPERATOR, get_reconcile, "What the newest reconciliation found.",
        answer=Newest),
    Endpoint("POST", "/v1/admin/reconcile", OPERATOR, post_reconcile, "Reconcile now.", status=202, answer=Queued),
]  # fmt: skip
