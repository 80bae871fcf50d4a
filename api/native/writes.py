"""POST routes of the native API: decode a command, hand it on, acknowledge with 202."""

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import answer
from api.http import Json, body, read_body, send_json
from api.services import READER_HEADER, Services, caller, reader, services
from ingest.commands.decide import Caller
from ingest.commands.parse import parse_batch, parse_json
from ingest.commands.requests import ForgetSubject, Observe, RecordLesson, Remember, TrackSession, WriteCommand
from ingest.errors import MnemologError, NotFound, RequestTooLarge
from ingest.events.subject import SubjectKind
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation

MAX_BATCH_ITEMS = 10_000
READER_HEADER_BYTES = READER_HEADER.encode()

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


class Post:
    """Takes one command of a kind. An ASGI application of its own: at thousands of writes a second, request and
    response objects would cost as much as the write."""

    def __init__(self, cls: type[WriteCommand]) -> None:
        self._cls = cls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        command = parse_json(await read_body(scope, receive), self._cls)
        at_hand: Services = scope["app"].state.services
        agent = next((value for name, value in scope["headers"] if name == READER_HEADER_BYTES), b"").decode("latin-1")
        accepted = await at_hand.commands.handle(command, Caller(at_hand.tenant, "native", agent))
        await send_json(send, 202, accepted)


async def delete_document(request: Request) -> Response:
    """Forget one document: its content leaves the documents, the index and the log; 404 when it is not there."""
    collection, name = request.url.path.split("/")[2], request.path_params["id"]
    at_hand = services(request)
    found = (await at_hand.queries.browse.document(name, at_hand.tenant, reader(request))).document
    if not isinstance(found, _DOCUMENTS[collection]):
        raise NotFound(f"{name!r} is not one of the {collection}")
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


SINGLES = {
    "/v1/observations": Post(Observe),
    "/v1/memories": Post(Remember),
    "/v1/lessons": Post(RecordLesson),
    "/v1/sessions": Post(TrackSession),
}

ROUTES = [
    Route("/v1/events", post_events, methods=["POST"]),
    *(Route(path, post, methods=["POST"]) for path, post in SINGLES.items()),
    *(Route(f"/v1/{name}/{{id}}", delete_document, methods=["DELETE"]) for name in _DOCUMENTS),
]


class Shortcut:
    """ASGI middleware that takes single writes past routing and exception handling, whose work it does with less."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._routes = {route.path: route for route in ROUTES if route.path in SINGLES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get(scope.get("path", "")) if scope.get("method") == "POST" else None
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        try:
            await SINGLES[route.path](scope, receive, send)
        except MnemologError as error:
            await answer(error)(scope, receive, send)
        except ClientDisconnect:
            return  # before its body was complete: nothing was stored, and nobody waits for an answer
