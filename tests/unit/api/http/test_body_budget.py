"""Bodies of requests are held up to a limit, over all doors; what is over it is refused, and what is done is let go."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send
from waiting import wait_until

from api.http.serving import SMALL_BYTES, BodyBudget, release_body
from ingest.errors import Overloaded

PART = 100 << 10


def scope(*headers: tuple[bytes, bytes]) -> Scope:
    """A request's."""
    return {"type": "http", "headers": list(headers)}


def body(parts: int) -> Receive:
    """A body of so many parts."""
    left = parts

    async def receive() -> Message:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": b"x" * PART, "more_body": left > 0}

    return receive


async def nowhere(message: Message) -> None:
    """Nobody reads the answer."""


LONG = (b"content-length", b"1000000")


@pytest.mark.parametrize("header", [LONG, (b"transfer-encoding", b"chunked")])
async def test_a_body_over_the_limit_is_refused_and_what_was_read_is_let_go(header: tuple[bytes, bytes]):
    budget = BodyBudget(3 * PART)

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass

    await budget.serve(read, scope(header), body(3), nowhere)
    with pytest.raises(Overloaded) as refused:
        await budget.serve(read, scope(header), body(4), nowhere)
    assert refused.value.retry_after_s > 0
    assert budget.held == 0


async def test_bodies_are_held_until_their_requests_end():
    budget, ends = BodyBudget(3 * PART), asyncio.Event()

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await receive()
        await ends.wait()

    first = asyncio.create_task(budget.serve(work, scope(LONG), body(2), nowhere))
    await wait_until(lambda: budget.held == 2 * PART)
    with pytest.raises(Overloaded):
        await budget.serve(work, scope(LONG), body(2), nowhere)
    assert budget.held == 2 * PART
    ends.set()
    await first
    assert budget.held == 0


async def test_a_stream_is_held_as_far_as_it_is_not_handed_on():
    budget = BodyBudget(PART)

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            release_body(scope)

    await budget.serve(stream, scope(LONG), body(10), nowhere)
    assert budget.held == 0


async def test_a_small_body_is_not_counted():
    budget = BodyBudget(0)

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    await budget.serve(read, scope((b"content-length", str(SMALL_BYTES).encode())), body(1), nowhere)
    await budget.serve(read, scope(), body(1), nowhere)
