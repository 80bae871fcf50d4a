"""GET /v1/live: events as they are projected, for whoever may see them."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.asking import write
from tests.acceptance.running import Server, fault

Client = httpx.AsyncClient


class Told(NamedTuple):
    """One event of a stream."""

    id: str
    type: str
    event: dict[str, Any]


async def events(answer: httpx.Response) -> AsyncIterator[Told]:
    """The events of an open stream as they come."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if not line and "data" in fields:
            yield Told(fields["id"], fields["event"], json.loads(fields["data"]))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


async def first(client: Client, count: int, *, after_id: str = "", **asked: Any) -> list[Told]:
    """The first events of a stream that ends by itself."""
    headers = {"Last-Event-ID": after_id} if after_id else {}
    query = {**asked, "limit": count}
    async with client.stream("GET", "/v1/live", params=query, headers=headers) as answer, asyncio.timeout(30):
        assert answer.status_code == 200
        return [told async for told in events(answer)]


async def test_an_event_arrives_as_soon_as_it_can_be_read(client: Client, project: str):
    """What was written before is not repeated; other projects' events do not come."""
    await write(client, "/v1/memories", project=project, content="from before")
    async with client.stream("GET", "/v1/live", params={"project": project}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache"
        stream = events(answer)
        lines = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.2)
        await write(client, "/v1/memories", project=f"{project}-other", content="elsewhere")
        told = await write(client, "/v1/observations", project=project, session_id="s1", content="here and now")
        async with asyncio.timeout(30):
            came = await lines
            while came.event["data"].get("content") == "from before":  # it may have been projected only just now
                came = await anext(stream)
        assert (came.type, came.event["position"]) == ("observation.recorded", told["position"])
        assert came.event["data"]["content"] == "here and now"
        found = await client.get(f"/v1/observations/{told['id']}")
        assert found.status_code == 200


async def test_a_reader_that_comes_back_misses_nothing(client: Client, project: str):
    written = [await write(client, "/v1/memories", project=project, content=f"number {n}") for n in range(4)]
    partition, _, place = written[0]["position"].partition(":")
    before = f"{partition}:{int(place.partition('-')[0]) - 1}-0"
    start = await first(client, 2, project=project, after=before)
    assert [one.event["position"] for one in start] == [one["position"] for one in written[:2]]
    rest = await first(client, 2, project=project, after_id=start[-1].id)
    assert [one.event["position"] for one in rest] == [one["position"] for one in written[2:]]


async def test_a_stream_may_be_narrowed(client: Client, project: str):
    session = f"{project}-s"
    said = {"project": project, "session_id": session, "agent_id": "ada"}
    seen = await write(client, "/v1/observations", **said, content="x")
    await write(client, "/v1/observations", **{**said, "agent_id": "bob"}, content="y")
    ended = await write(client, "/v1/sessions", **said, status="ended")
    partition = seen["position"].partition(":")[0]
    asked = {"session_id": session, "after": f"{partition}:1-0"}
    assert [one.type for one in await first(client, 1, **asked, type="session.ended")] == ["session.ended"]
    mine = await first(client, 2, **asked, agent_id="ada")
    assert [one.event["position"] for one in mine] == [seen["position"], ended["position"]]


async def test_private_content_is_withheld_from_strangers(server: Server, client: Client, project: str):
    async with server.client("ada") as ada:
        hidden = await write(ada, "/v1/memories", project=project, content="under the mat", visibility="private")
        partition = hidden["position"].partition(":")[0]
        asked = {"project": project, "after": f"{partition}:1-0"}
        (own,) = await first(ada, 1, **asked)
        (other,) = await first(client, 1, **asked)
    assert own.event["data"]["content"] == "under the mat"
    assert other.event["data"] == {"visibility": "private", "withheld": True}


@pytest.mark.parametrize("place", ["yesterday", "99:1-0", "0:1--5"])
async def test_a_place_that_is_none_is_refused(client: Client, place: str):
    for headers, query in (({"Last-Event-ID": place}, {}), ({}, {"after": place})):
        answer = await client.get("/v1/live", headers=headers, params={**query, "limit": 1})
        assert (answer.status_code, fault(answer)["field"]) == (422, "after")
