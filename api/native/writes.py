"""Batches of writes: decode the commands, execute them, acknowledge with 202."""

from msgspec import Struct
from starlette.requests import Request

from api.http.endpoint import JSON, Endpoint
from api.http.http import body
from api.native.common import router
from api.services import NativeCall
from ingest.commands.decide import WriteCommand
from ingest.commands.parse import parse_batch, parse_batch_at_once
from ingest.durability import Durability
from ingest.platform.tasks import in_thread
from ingest.roles import WRITE

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class Rejection(Struct, frozen=True, omit_defaults=True):
    """Why one item of a batch was rejected."""

    index: int
    code: str
    message: str
    field: str | None = None


class BatchAnswer(Struct, frozen=True):
    """The result of a batch: counts, errors by index, one token for all of it, and its durability."""

    accepted: int
    duplicates: int
    rejected: list[Rejection]
    position: str
    durability: Durability


@route("POST /v1/events", WRITE, 202, body=list[WriteCommand],
    taken=[JSON, "application/x-ndjson", "application/msgpack"])  # fmt: skip
async def post_events(call: NativeCall, request: Request) -> BatchAnswer:
    """Write a batch of commands.

    JSON array, NDJSON or msgpack array; up to 10,000 items or 16 MiB.
    """
    raw, content_type = await body(request), request.headers.get("content-type", "application/json")
    commands = parse_batch_at_once(raw, content_type)
    if commands is None:
        commands = await in_thread(parse_batch, raw, content_type)
    outcome = await call.commands.handle_batch(commands, call.caller())
    rejected = [Rejection(index, error.code, error.message, error.field) for index, error in outcome.rejected]
    return BatchAnswer(outcome.accepted, outcome.duplicates, rejected, str(outcome.token), outcome.durability)
