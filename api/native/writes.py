"""POST routes of the native API: decode a command, hand it on, acknowledge with 202."""

from functools import partial

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.access.principal import principal_of
from api.http.endpoint import JSON, Endpoint
from api.http.http import Json, body, parsed, read_body, send_json
from api.services import DURABILITY_HEADER, READER_HEADER, caller, services, services_of
from ingest.commands.decide import Observe, RecordLesson, Remember, TrackSession, WriteCommand
from ingest.commands.handler import Accepted
from ingest.commands.parse import parse_batch, parse_batch_at_once, parse_json
from ingest.durability import Durability, parse_durability
from ingest.names import sent_name
from ingest.platform.tasks import in_thread
from ingest.roles import READ, WRITE
from projections.queries.memories import RememberAnswer

READER_HEADER_BYTES, DURABILITY_HEADER_BYTES = READER_HEADER.encode(), DURABILITY_HEADER.lower().encode()


class Rejection(Struct, frozen=True, omit_defaults=True):
    """Why one item of a batch was rejected."""

    index: int
    code: str
    message: str
    field: str | None = None


class BatchAnswer(Struct, frozen=True):
    """What became of a batch: counts, the faults by index, one token for all of it, and what it survives."""

    accepted: int
    duplicates: int
    rejected: list[Rejection]
    position: str
    durability: Durability


async def post_events(request: Request) -> Response:
    """A batch of commands: JSON array, NDJSON or msgpack array; up to 10,000 items or 16 MiB."""
    raw, content_type = await body(request), request.headers.get("content-type", "application/json")
    commands = parse_batch_at_once(raw, content_type)
    if commands is None:
        commands = await in_thread(parse_batch, raw, content_type)
    outcome = await services(request).commands.handle_batch(commands, caller(request))
    rejected = [Rejection(index, fault.code, fault.message, fault.field) for index, fault in outcome.rejected]
    token = str(outcome.token)
    return Json(BatchAnswer(outcome.accepted, outcome.duplicates, rejected, token, outcome.durability), 202)


class Post:
    """Takes one command of a kind. An ASGI application of its own: at thousands of writes a second, request and
    response objects would cost as much as the write."""

    def __init__(self, cls: type[WriteCommand]) -> None:
        self._parse = partial(parse_json, cls=cls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        command = await parsed(await read_body(scope, receive), self._parse)
        at_hand = services_of(scope)
        agent, durability = "", None
        for name, value in scope["headers"]:
            if name == READER_HEADER_BYTES:
                agent = sent_name(value)
            elif name == DURABILITY_HEADER_BYTES:
                durability = value.decode("latin-1")
        wanted = parse_durability(durability, DURABILITY_HEADER)
        accepted = await at_hand.commands.handle(command, at_hand.caller(agent, durability=wanted))
        if isinstance(command, Remember) and principal_of(scope).may(READ):
            reader = partial(at_hand.reader, command.agent_id or agent)
            accepted = await at_hand.queries.memories.answer_to(accepted, reader)
        await send_json(send, 202, accepted)


SINGLES: dict[str, tuple[type[WriteCommand], str]] = {
    "/v1/observations": (Observe, "Record what an agent saw or did."),
    "/v1/memories": (Remember, "Keep something for a long time."),
    "/v1/lessons": (RecordLesson, "State something learned."),
    "/v1/sessions": (TrackSession, "Say that a session started or ended."),
}
_FULL = {409: "The session has its limit of observations; nothing was stored."}

ENDPOINTS = [
    Endpoint("POST", "/v1/events", WRITE, post_events, "A batch of commands.", status=202, body=list[WriteCommand],
        taken=[JSON, "application/x-ndjson", "application/msgpack"], answer=BatchAnswer),
    *(
        Endpoint("POST", path, WRITE, Post(cls), summary, status=202, body=cls,
            answer=RememberAnswer if cls is Remember else Accepted,
            faults=_FULL if cls is Observe else {})
        for path, (cls, summary) in SINGLES.items()
    ),
]  # fmt: skip
