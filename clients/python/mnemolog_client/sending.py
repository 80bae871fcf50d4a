"""Sending a call until it is answered, without sending: what to do next, as a generator.

It yields a `Request` and is sent the response or the fault of the connection, or yields a `Pause` and is sent nothing
when it is over. A blocking client and an asyncio one carry the steps out; when to repeat, how long to wait and what
to wait for is decided here, once.
"""

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeVar, cast

import httpx

from mnemolog_client.calls import Call, Polled, decoded, not_done
from mnemolog_client.errors import MnemologError, error_of, unanswered
from mnemolog_client.position import Position
from mnemolog_client.retry import Attempts, Retry

T = TypeVar("T")

POLL_EVERY_S = 0.2
DEGRADED = "Mnemolog-Degraded"
"""The header of an answer that was made without what is on a node of a cluster that is away."""


class Request(NamedTuple):
    """One HTTP request."""

    method: str
    path: str
    query: dict[str, str]
    content: bytes | None
    headers: dict[str, str]


class Pause(NamedTuple):
    """Do nothing for a while."""

    seconds: float


Reply = httpx.Response | httpx.TransportError
OnDegraded = Callable[[str, str], None]
"""Called for an incomplete answer, with the request (`GET /v1/sessions`) and what was left out."""
Steps = Generator[Request | Pause, Reply | None, T]


class Sending(NamedTuple):
    """How calls are sent: to which server, which writes reads wait for, how often, and who hears what answers lack."""

    url: str
    position: Position
    retry: Retry
    on_degraded: OnDegraded | None = None


def steps(call: Call[T] | Polled[T], sending: Sending) -> Steps[T]:
    """What to do until there is an answer; raises a MnemologError.

    Reads wait for the position, writes are included in it.
    """
    return _answered(call, sending) if isinstance(call, Call) else _polled(call, sending)


def _answered(call: Call[T], sending: Sending) -> Steps[T]:
    url, position, retry, on_degraded = sending
    after = str(position)
    content = call.encoded(after)
    headers = {} if content is None else {"Content-Type": call.content_type}
    request = Request(call.method, call.path, call.parameters(after), content, headers)
    attempts, lost = Attempts(retry), False
    while True:
        reply = yield request
        if isinstance(reply, httpx.Response) and (reply.is_success or reply.status_code in call.also_answers):
            answer = decoded(call, reply)
            if call.position_of is not None:
                position.include(call.position_of(answer))
            if on_degraded is not None and (left_out := reply.headers.get(DEGRADED)):
                on_degraded(f"{call.method} {call.path}", left_out)
            return answer
        error = _error(reply, url)
        if error.code == call.none_for:
            return cast(T, None)
        error.after_lost_attempt = lost and not error.retryable
        if not error.retryable:
            raise error
        lost = lost or error.outcome_unknown
        yield Pause(attempts.pause_s(error, error.retry_after_s))


def _polled(polled: Polled[T], sending: Sending) -> Steps[T]:
    waited_s = 0.0
    while True:
        answer = yield from _answered(polled.call, sending)
        if polled.done(answer):
            return answer
        if waited_s + POLL_EVERY_S > polled.within_s:
            raise not_done(polled, answer)
        yield Pause(POLL_EVERY_S)
        waited_s += POLL_EVERY_S


def _error(reply: Reply | None, url: str) -> MnemologError:
    match reply:
        case httpx.Response():
            return error_of(reply)
        case httpx.TransportError():
            return unanswered(url, reply)
        case None:
            raise AssertionError("a request has a reply")
