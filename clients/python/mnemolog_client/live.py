"""Following a feed of server-sent events, without sending: what to request, what came, and when to give up."""

from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

import httpx
import msgspec

from mnemolog_client.calls import Call, decoding
from mnemolog_client.errors import MnemologError, ServerFault, Unreachable, error_of, unanswered
from mnemolog_client.retry import Attempts
from mnemolog_client.sending import Sending

T = TypeVar("T")

STREAM = "text/event-stream"
SILENCE_S = 45.0
"""The server sends a comment every 15 s: after this long the connection is lost."""


class Following(Generic[T]):
    """Where the reader of a feed is. It continues behind the newest event after each loss of the connection."""

    def __init__(self, call: Call[T], sending: Sending) -> None:
        self._call, self._sending = call, sending
        self._rest = b""
        self._attempts = Attempts(sending.retry)

    def request(self, timeout: httpx.Timeout) -> dict[str, Any]:
        """The request that opens the stream, or continues it, as arguments of httpx."""
        self._rest = b""
        patient = httpx.Timeout(timeout.connect, read=SILENCE_S)
        opened = {"method": "GET", "url": self._call.path, "headers": {"Accept": STREAM}, "timeout": patient}
        return {**opened, "params": self._call.parameters("")}

    def check(self, response: httpx.Response) -> None:
        """Raises the error of an answer that is no stream."""
        if not response.is_success:
            raise error_of(response)
        if not response.headers.get("Content-Type", "").startswith(STREAM):
            message = f"{response.url} answered without a stream of events"
            raise ServerFault("unreadable_answer", message, status=response.status_code)

    def take(self, part: bytes) -> list[T]:
        """The events that are complete with this part of the stream."""
        self._attempts = Attempts(self._sending.retry)
        *blocks, self._rest = (self._rest + part).split(b"\n\n")
        return [event for block in blocks for event in self._events(block)]

    def pause_s(self, fault: httpx.TransportError | MnemologError | None) -> float:
        """How long to wait before the next request; None is a stream that the server ended.

        Raises the error if repeating the request is useless, or was tried too often.
        """
        url = self._sending.url
        error = fault or Unreachable("unreachable", f"{url}: the stream ended")
        error = error if isinstance(error, MnemologError) else unanswered(url, error)
        if not error.retryable:
            raise error
        return self._attempts.pause_s(error, error.retry_after_s)

    def _events(self, block: bytes) -> list[T]:
        """The event of a block, if it has one: an id without data is a place to continue from."""
        fields = {name: value for name, _, value in (line.partition(b": ") for line in block.split(b"\n"))}
        if b"id" in fields:
            self._call = replace(self._call, query={**self._call.query, "after": fields[b"id"].decode()})
        if b"data" not in fields:
            return []
        with decoding(f"{self._sending.url}{self._call.path} sent an event"):
            event: Any = self._call.read(fields[b"data"])
        return [cast(T, msgspec.structs.replace(event, after=self._call.query["after"]))]
