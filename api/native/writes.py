"""POST routes of the native API: decode a command, hand it on, acknowledge with 202."""

from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.http import Json, body
from api.services import caller, reader, services
from ingest.commands.parse import parse_batch, parse_json
from ingest.commands.requests import Command, ForgetSubject, Observe, RecordLesson, Remember, TrackSession
from ingest.errors import CommandRejected, RequestTooLarge
from ingest.events.subject import SubjectKind
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation

MAX_BATCH_ITEMS = 10_000

_DOCUMENTS = {"observations": Observation, "memories": Memory, "lessons": Lesson}


class Rejection(Struct, frozen=True, omit_defaults=True):
    """Why one item of a batch was rejected."""

    index: int
    code: str
    message: str
    field: str | None = None


class BatchAnswer(Struct, frozen=True):
    """What became of a batch: counts, the faults by index, and one token for all of it."""

    accepted: int
    duplicates: int
    rejected: list[Rejection]
    position: str


async def post_events(request: Request) -> Response:
    """A batch of commands: JSON array, NDJSON or msgpack array; up to 10,000 items or 16 MiB."""
    commands = parse_batch(await body(request), request.headers.get("content-type", "application/json"))
    if len(commands) > MAX_BATCH_ITEMS:
        raise RequestTooLarge("the batch", len(commands), MAX_BATCH_ITEMS, "items")
    outcome = await services(request).commands.handle_batch(commands, caller(request))
    rejected = [Rejection(index, fault.code, fault.message, fault.field) for index, fault in outcome.rejected]
    return Json(BatchAnswer(outcome.accepted, outcome.duplicates, rejected, str(outcome.token)), 202)


def post(cls: type[Command]) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint that takes one command of a kind."""

    async def endpoint(request: Request) -> Response:
        command = parse_json(await body(request), cls)
        return Json(await services(request).commands.handle(command, caller(request)), 202)  # type: ignore[arg-type]

    return endpoint


async def delete_document(request: Request) -> Response:
    """Forget one document: its content leaves the documents, the index and the log; 404 when it is not there."""
    collection, name = request.url.path.split("/")[2], request.path_params["id"]
    at_hand = services(request)
    found = (await at_hand.queries.browse.document(name, at_hand.tenant, reader(request))).document
    if not isinstance(found, _DOCUMENTS[collection]):
        raise CommandRejected(f"{name} is not one of the {collection}", "id")
    command = ForgetSubject(
        kind=_kind(found),
        subject=name,
        project=found.project,
        session_id=found.session_id if isinstance(found, Observation) else "",
        agent_id=reader(request),
        reason=request.query_params.get("reason", ""),
    )
    return Json(await at_hand.commands.handle(command, caller(request)), 202)


def _kind(document: Observation | Memory | Lesson) -> SubjectKind:
    return (
        "observation" if isinstance(document, Observation) else "memory" if isinstance(document, Memory) else "lesson"
    )


ROUTES = [
    Route("/v1/events", post_events, methods=["POST"]),
    Route("/v1/observations", post(Observe), methods=["POST"]),
    Route("/v1/memories", post(Remember), methods=["POST"]),
    Route("/v1/lessons", post(RecordLesson), methods=["POST"]),
    Route("/v1/sessions", post(TrackSession), methods=["POST"]),
    *(Route(f"/v1/{name}/{{id}}", delete_document, methods=["DELETE"]) for name in _DOCUMENTS),
]
