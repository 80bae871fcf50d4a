"""Small HTTP helpers that every route uses: bodies with a limit, query strings as typed requests, JSON answers."""

from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingest.commands.parse import rejected
from ingest.errors import RequestTooLarge

T = TypeVar("T")

MAX_BODY_BYTES = 16 << 20


class Json(Response):
    """A JSON answer, encoded by msgspec."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


async def body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The request's body; raises RequestTooLarge as soon as it is known to be over `limit`, without reading on."""
    declared = request.headers.get("content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise RequestTooLarge("the body", int(declared), limit)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise RequestTooLarge("the body", size, limit)
        parts.append(part)
    return b"".join(parts)


def query(request: Request, cls: type[T]) -> T:
    """The query string as a typed request; raises CommandRejected that names the parameter."""
    try:
        return msgspec.convert(dict(request.query_params), cls, strict=False)
    except msgspec.ValidationError as error:
        raise rejected(error) from None
