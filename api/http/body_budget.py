"""How much of request bodies is held at once, over all doors, and what is done with the memory afterwards."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.errors import Overloaded
from ingest.platform.processes import give_back
from ingest.platform.tasks import in_thread

MAX_HELD_BYTES = 96 << 20
SMALL_BYTES = 64 << 10
"""A body that says that it is no longer is not counted: a connection takes as much for its buffers."""
GIVE_BACK_AFTER_S = 5.0
"""Bodies that end within so long give their memory back together: looking through the heap holds up who allocates."""
BIG_BYTES = 1 << 20
_HELD = "mnemolog.held"
"""In a request's scope: what is held of its body."""


class BodyBudget:
    """Counts the bytes of big bodies while their requests last, and refuses what is over MAX_HELD_BYTES."""

    def __init__(self, limit: int = MAX_HELD_BYTES) -> None:
        self._limit = limit
        self._giving_back: asyncio.Task[None] | None = None
        self.held = 0

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request served by `app`, to which reading its body raises Overloaded when there is no room for it."""
        if scope["type"] != "http" or _is_small(scope):
            await app(scope, receive, send)
            return
        held = scope[_HELD] = _Held(self)

        async def receive_counted() -> Message:
            message = await receive()
            held.more(len(message.get("body", b"")))
            return message

        try:
            await app(scope, receive_counted, send)
        finally:
            big = held.release() >= BIG_BYTES
            if big and self._giving_back is None:
                self._giving_back = asyncio.create_task(self._give_back(), name="give memory back")

    async def _give_back(self) -> None:
        try:
            await asyncio.sleep(GIVE_BACK_AFTER_S)
            await in_thread(give_back)
        finally:
            self._giving_back = None

    def take(self, size: int) -> None:
        """Count so many more; raises Overloaded."""
        if self.held + size > self._limit:
            raise Overloaded(
                f"{self.held >> 20} MiB of request bodies are being worked on; the limit is {self._limit >> 20}"
            )
        self.held += size


class _Held:
    """What a request holds of its body."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget, self._size = budget, 0

    def more(self, size: int) -> None:
        self._budget.take(size)
        self._size += size

    def release(self) -> int:
        """Returns what was held."""
        size, self._size = self._size, 0
        self._budget.held -= size
        return size


def release_body(scope: Scope) -> None:
    """Say that what was read of a request's body so far is not held any more: it is read as a stream, or counted
    otherwise."""
    if (held := scope.get(_HELD)) is not None:
        held.release()


def _is_small(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return value.isdigit() and int(value) <= SMALL_BYTES
        if name == b"transfer-encoding":
            return False
    return True
