"""Routes about what could not be applied: list, inspect, redrive, discard. An admin meets what is of its tenant and
projects, an operator also what names none."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.services import caller, reader, services
from ingest.errors import CommandRejected
from ingest.roles import ADMIN
from projections.maintenance.dead_letters import Outcome
from projections.operations.dead_letters import Done
from projections.queries.dead_letters import Place, Selection, State

Partition = Annotated[int, Meta(ge=0)]


class LettersRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class Why(Struct, frozen=True, kw_only=True):
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
    discarded: Why | None
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
        state=wanted.state, partition=wanted.partition, code=wanted.code, type=wanted.type, cursor=wanted.cursor
    )
    return Json(await services(request).queries.letters.page(selection, reader(request), wanted.limit))


async def get_letter(request: Request) -> Response:
    """One of them, with its event and its error."""
    letters = services(request).queries.letters
    place = Place.parse(request.path_params["position"], letters.partitions)
    return Json(await letters.show(place, reader(request)))


async def post_redrive(request: Request) -> Response:
    """Have the workers try some again; 202 with their positions."""
    wanted = await asked_for(request, RedriveRequest)
    at_hand = services(request)
    operations = at_hand.operations.letters
    if wanted.position:
        place = Place.parse(wanted.position, at_hand.queries.letters.partitions)
        return Json(await operations.redrive(place, reader(request)), 202)
    return Json(await operations.redrive_all(_selection(wanted), reader(request)), 202)


async def post_discard(request: Request) -> Response:
    """Say of some that nobody wants them applied; answers their positions."""
    wanted = await asked_for(request, DiscardRequest)
    at_hand, who = services(request), caller(request).agent_id
    operations = at_hand.operations.letters
    if wanted.position:
        place = Place.parse(wanted.position, at_hand.queries.letters.partitions)
        done = await operations.discard(place, reader(request), reason=wanted.reason, agent_id=who, erase=wanted.erase)
    else:
        done = await operations.discard_all(
            _selection(wanted), reader(request), reason=wanted.reason, agent_id=who, erase=wanted.erase
        )
    return Json(done)


def _selection(wanted: RedriveRequest) -> Selection:
    """The letters of a code or a type; raises CommandRejected when neither is named, which would be all there are."""
    if not (wanted.code or wanted.type):
        raise CommandRejected("name a position, a code or a type", "position")
    return Selection(partition=wanted.partition, code=wanted.code, type=wanted.type, cursor=wanted.cursor)


ENDPOINTS = [
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
]  # fmt: skip
