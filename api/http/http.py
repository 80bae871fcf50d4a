"""Small HTTP helpers that every route uses: bodies with a limit, query strings as typed requests, JSON answers."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ingest.commands.parse import parse_json, rejected
from ingest.errors import RequestTooLarge
from ingest.names import with_nfc
from ingest.platform.tasks import INLINE_BYTES, in_thread

T = TypeVar("T")

MAX_BODY_BYTES = 16 << 20


class Json(Response):
    """A JSON answer, encoded by msgspec."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


async def body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The request's body; see read_body."""
    return await read_body(request.scope, request.receive, limit)


async def parsed(raw: bytes, parse: Callable[[bytes], T]) -> T:
    """What `parse` makes of a body; aside, when it is big."""
    return parse(raw) if len(raw) <= INLINE_BYTES else await in_thread(parse, raw)


async def asked_for(request: Request, cls: type[T], limit: int = MAX_BODY_BYTES, *, optional: bool = False) -> T:
    """The body as a request of type `cls`; where that is `optional`, of an empty body the one without any field.

    Raises RequestTooLarge, MalformedRequest or CommandRejected.
    """
    raw = await body(request, limit)
    return cls() if optional and not raw.strip() else await parsed(raw, partial(parse_json, cls=cls))


async def read_body(scope: Scope, receive: Receive, limit: int = MAX_BODY_BYTES) -> bytes:
    """The body of a request; raises RequestTooLarge as soon as it is known to be over `limit`, without reading on."""
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if declared.isdigit() and int(declared) > limit:
        raise RequestTooLarge("the body", int(declared), limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise RequestTooLarge("the body", size, limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def send_json(send: Send, status: int, content: Any) -> None:
    """Answer with JSON, without a Response in between: for the routes where that is felt."""
    encoded = msgspec.json.encode(content)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(encoded)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": encoded})


def query(request: Request, cls: type[T]) -> T:
    """The query string as a typed request; raises CommandRejected that names the parameter."""
    try:
        return msgspec.convert(with_nfc(dict(request.query_params)), cls, strict=False)
    except msgspec.ValidationError as error:
        raise rejected(error) from None
