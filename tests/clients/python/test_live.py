"""The live stream: events as they come, and what happens when its connection is lost."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any, cast

import httpx
import pytest

from mnemolog_client import AsyncMnemolog, Mnemolog, Overloaded, Retry, ServerFault, Unauthorized, Unreachable
from mnemolog_client.answers import LiveEvent
from tests.acceptance.running import SECRET, Server
from tests.clients.python.stub import Reply, Stub, refused

HASTY = Retry(attempts=4, patience_s=60.0, first_pause_s=0.001, longest_pause_s=0.002)
Read = Callable[[int], list[LiveEvent]]


@pytest.fixture(params=["blocking", "asynchronous"])
def read(request: pytest.FixtureRequest, stub: Stub) -> Read:
    """Reads so many events of the stub with each of the clients."""

    def blocking(count: int) -> list[LiveEvent]:
        with Mnemolog(stub.url, "x", retry=HASTY) as client:
            return list(islice(client.live(project="shop"), count))

    async def asynchronous(count: int) -> list[LiveEvent]:
        async with AsyncMnemolog(stub.url, "x", retry=HASTY) as client:
            events: list[LiveEvent] = []
            async for event in client.live(project="shop"):
                events.append(event)
                if len(events) == count:
                    break
            return events

    return blocking if request.param == "blocking" else lambda count: asyncio.run(asynchronous(count))


def stream(*blocks: str) -> Reply:
    """A stream that the server ends after these blocks."""
    return Reply("".join(f"{block}\n\n" for block in blocks).encode(), 200, {"Content-Type": "text/event-stream"})


def block(number: int, content: str = "tea") -> str:
    event = {"position": f"0:{number}-0", "type": "memory.recorded", "data": {"content": content}}
    return f"id: 0:{number}-0,1:9-0\nevent: memory.recorded\ndata: {json.dumps(event, ensure_ascii=False)}"


def test_events_are_read_as_they_come_and_name_where_to_continue(stub: Stub, read: Read):
    odd = "lines \u2028 \x85 and 🍵"
    stub.answers.append(stream(": connected\nid: 0:1-0,1:9-0", ": still here", block(2), block(3, odd)))
    first, second = read(2)
    assert (first.position, first.after, first.type) == ("0:2-0", "0:2-0,1:9-0", "memory.recorded")
    assert second.data["content"] == odd
    assert stub.received[0].query == {"project": "shop"}


def test_a_stream_that_ends_or_is_cut_is_continued_behind_its_newest_event(stub: Stub, read: Read):
    unfinished = Reply(block(4).encode(), 200, {"Content-Type": "text/event-stream"})
    stub.answers.extend([stream(block(2), block(3)), unfinished, "cut", refused(503, "log_unavailable", "0")])
    stub.answers.append(stream(block(4)))
    assert [event.position for event in read(3)] == ["0:2-0", "0:3-0", "0:4-0"]
    assert [one.query.get("after") for one in stub.received] == [None, *["0:3-0,1:9-0"] * 4]


def test_a_stream_that_is_lost_before_its_first_event_continues_where_it_began(stub: Stub, read: Read):
    stub.answers.extend([stream(": connected\nid: 0:1-0,1:9-0"), stream(block(2))])
    read(1)
    assert stub.received[1].query["after"] == "0:1-0,1:9-0"


def test_each_event_gives_the_attempts_back(stub: Stub, read: Read):
    for number in range(10):
        stub.answers.extend(["cut", "cut", stream(block(number))])
    assert len(read(10)) == 10


@pytest.mark.parametrize(
    ("answer", "error", "requests"),
    [(refused(401, "unauthorized"), Unauthorized, 1), (Reply({"status": "ready"}), ServerFault, 1),
     (stream("data: tea"), ServerFault, 1), ("cut", Unreachable, 4), (refused(429, "overloaded", "0"), Overloaded, 4)],
    ids=["refused", "no stream", "no event", "cut", "full"],
)  # fmt: skip
def test_what_cannot_be_followed_is_an_error(
    stub: Stub, read: Read, answer: Any, error: type[Exception], requests: int
):
    stub.otherwise = answer
    with pytest.raises(error):
        read(1)
    assert len(stub.received) == requests


class Lossy(httpx.AsyncBaseTransport):
    """A real connection, of which streams are lost after their second part, and the first after its first part."""

    def __init__(self) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self.streams = 0
        self.lost = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if request.url.path != "/v1/live":
            return response
        self.streams += 1
        return httpx.Response(200, headers=response.headers, stream=_Parts(self, response, min(self.streams, 2)))


class _Parts(httpx.AsyncByteStream):
    def __init__(self, lossy: Lossy, response: httpx.Response, left: int) -> None:
        self._lossy, self._response, self._left = lossy, response, left

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in cast(httpx.AsyncByteStream, self._response.stream):
            yield part
            self._left -= 1
            if not self._left:
                break
        self._lossy.lost.set()
        raise httpx.ReadError("lost")

    async def aclose(self) -> None:
        await self._response.aclose()


async def test_a_reader_whose_connections_are_lost_misses_and_repeats_nothing(server: Server, project: str):
    lossy = Lossy()
    patient = Retry(attempts=1_000, patience_s=60.0, first_pause_s=0.001, longest_pause_s=0.01)
    async with (
        AsyncMnemolog(server.url, SECRET, agent="ada") as writer,
        AsyncMnemolog(server.url, SECRET, retry=patient, transport=lossy) as reader,
    ):
        live = reader.live(project=project)
        first = asyncio.ensure_future(anext(live))
        await lossy.lost.wait()
        written = [(await writer.add(f"number {n}", project=project)).position for n in range(5)]
        events = [await first, *[await anext(live) for _ in range(4)]]
        assert [event.position for event in events] == written
    assert lossy.streams > 1
    with Mnemolog(server.url, SECRET) as later:
        resumed: Iterator[LiveEvent] = later.live(events[2].after, project=project)
        assert [event.position for event in islice(resumed, 2)] == written[3:]
