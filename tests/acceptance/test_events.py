"""Events that wake agents: consumers that are killed, receivers that are down, and what a reader may not see.

A real server and worker, consumers in processes of their own, the MCP SDK's client, and webhooks that Standard
Webhooks' own library verifies.
"""

import asyncio
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from typing import Any
from uuid import uuid4

import httpx
import httpx2
import mcp.types as types
import pytest
from mcp.client import Client
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict
from standardwebhooks import Webhook
from waiting import wait_until

from tests.acceptance.asking import write
from tests.acceptance.running import Server, new_tenant, running

CONSUMER = Path(__file__).parents[1] / "support" / "events_consumer.py"
NODE = Path(__file__).parents[1] / "node"
SECRET = "whsec_" + "QUJD" * 8


@pytest.fixture(scope="module")
def server(cache_dir: Path) -> Iterator[Server]:
    with running(cache_dir, webhook_private=True) as server:
        yield server


@pytest.fixture
def project() -> str:
    return f"p{uuid4().hex[:8]}"


@pytest.fixture
async def ada(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client("ada") as client:
        yield client


class Receiver:
    """A webhook receiver. It verifies each message, answers `status` to events, and can go down."""

    def __init__(self) -> None:
        self.status, self.port, self.headers = 200, 0, dict[str, str]()
        self.events: list[dict[str, Any]] = []
        self.controls: list[dict[str, Any]] = []
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def up(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                message = Webhook(SECRET).verify(body, dict(self.headers))
                receiver.headers, status = dict(self.headers), 200
                if "type" in message:
                    receiver.controls.append(message)
                elif (status := receiver.status) == 200:
                    receiver.events.append(message)
                answer = json.dumps({"challenge": message.get("challenge")}).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        Thread(target=self._server.serve_forever, daemon=True).start()

    def down(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    async def contents(self, count: int, within_s: float = 30) -> list[str]:
        async def complete() -> bool:
            return len(self.events) >= count

        await wait_until(complete, within_s)
        return [event["data"]["data"].get("content", "") for event in self.events]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.down()


async def subscribe(client: httpx.AsyncClient, receiver: Receiver, project: str, **fields: Any) -> dict[str, Any]:
    criteria = {"project": project, **fields.pop("criteria", {})}
    body = {"url": receiver.url, "type": "memory.*", "criteria": criteria, "secret": SECRET, **fields}
    answer = await client.post("/v1/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def remember(client: httpx.AsyncClient, project: str, content: str, **fields: Any) -> dict[str, Any]:
    return await write(client, "/v1/memories", project=project, content=content, **fields)


@pytest.mark.parametrize(
    ("events", "kills"), [(600, 4), pytest.param(10_000, 50, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
)
async def test_killed_consumer_misses_nothing_and_sees_each_partition_in_order(
    server: Server, tmp_path: Path, events: int, kills: int
):
    agent, file = f"writer-{uuid4().hex[:8]}", tmp_path / "events"

    async def produce() -> None:
        async with server.client() as client:
            for start in range(0, events, 50):
                batch = [
                    {"type": "observe", "project": f"p{n % 7}", "session_id": "s", "agent_id": agent, "content": f"{n}"}
                    for n in range(start, start + 50)
                ]
                (await client.post("/v1/events", json=batch)).raise_for_status()

    def seen() -> list[str]:
        whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
        return [line.partition(" ")[2] for line in whole.splitlines()]

    async def consume(until: Callable[[], bool]) -> None:
        """A consumer that is killed when it has seen as much."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(CONSUMER), server.url, server.secret, agent, str(file)
        )

        async def done() -> bool:
            return until()

        await wait_until(done, 120)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    producing = asyncio.create_task(produce())
    for _ in range(kills):
        before = len(seen())
        await consume(lambda before=before: len(seen()) > min(before, events - 1))
    await producing
    expected = set(await positions(server, agent))
    await consume(lambda: expected <= set(seen()))
    missed = expected - set(seen())
    by_partition = defaultdict[str, list[tuple[int, ...]]](list)
    for position in dict.fromkeys(seen()):
        partition, _, place = position.partition(":")
        by_partition[partition].append(tuple(map(int, place.split("-"))))
    unordered = [partition for partition, places in by_partition.items() if places != sorted(places)]
    print(f"consumer killed {kills} times over {events} events: missed {len(missed)}, unordered {len(unordered)}")
    assert (len(expected), len(by_partition) > 1) == (events, True)
    assert (missed, unordered) == (set(), [])


async def positions(server: Server, agent: str) -> list[str]:
    """The log's own list of an agent's events."""
    listed, after = list[str](), ""
    async with server.client() as client:
        while page := (
            await client.get("/v1/events", params={"agent_id": agent, "limit": 1000, "after": after})
        ).json():
            if not page["events"]:
                return listed
            listed += [event["position"] for event in page["events"]]
            after = page["next"]
    return listed


@pytest.mark.parametrize("down_s", [3, pytest.param(300, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])])
async def test_receiver_that_was_down_gets_every_event_in_order(
    ada: httpx.AsyncClient, receiver: Receiver, project: str, down_s: int
):
    webhook = await subscribe(ada, receiver, project)
    receiver.down()
    written = [await remember(ada, project, f"number {n}") for n in range(20)]
    await asyncio.sleep(down_s)
    receiver.up()
    assert await receiver.contents(20, within_s=down_s + 60) == [f"number {n}" for n in range(20)]
    assert [event["eventId"] for event in receiver.events] == [each["position"] for each in written]
    assert receiver.headers["webhook-id"] == written[-1]["position"]
    assert receiver.headers["X-MCP-Subscription-Id"] == webhook["id"]


async def test_webhook_never_has_what_its_owner_cannot_see_at_delivery(
    server: Server, ada: httpx.AsyncClient, receiver: Receiver, project: str
):
    async with server.client("bob") as bob:
        await subscribe(bob, receiver, project)
        await remember(ada, project, "private from the beginning", visibility="private")
        receiver.down()
        await asyncio.sleep(1)
        hidden = await remember(ada, project, "private meanwhile", agent_id="ada")
        answer = await ada.patch(f"/v1/memories/{hidden['id']}", json={"visibility": "private"})
        assert answer.is_success, answer.text
        await remember(ada, project, "public")
        receiver.up()
        assert await receiver.contents(1) == ["public"]
        await asyncio.sleep(2)
        assert "private" not in json.dumps(receiver.events)


async def test_revoked_key_ends_its_webhooks(server: Server, receiver: Receiver, project: str):
    async with server.client() as operator:
        key = (await operator.post("/v1/admin/keys", json={"name": "k", "roles": ["read", "write"]})).json()
        async with server.client("ada", secret=key["key"]) as owner:
            await wait_for_key(owner)
            await subscribe(owner, receiver, project)
            await remember(owner, project, "before")
            assert await receiver.contents(1) == ["before"]
        await operator.delete(f"/v1/admin/keys/{key['id']}")
        await remember(operator, project, "after")

        async def ended() -> bool:
            return "terminated" in [message["type"] for message in receiver.controls]

        await wait_until(ended, 30)
        assert receiver.controls[-1]["error"]["code"] == -32024
        assert receiver.url not in (await operator.get("/v1/webhooks")).text
    assert len(receiver.events) == 1


async def wait_for_key(client: httpx.AsyncClient) -> None:
    async def works() -> bool:
        return (await client.get("/v1/webhooks")).is_success

    await wait_until(works, 30)


async def test_refused_event_is_a_dead_letter_that_can_be_retried(
    ada: httpx.AsyncClient, receiver: Receiver, project: str
):
    path = f"/v1/webhooks/{(await subscribe(ada, receiver, project))['id']}/dead-letters"
    receiver.status = 413
    refused = await remember(ada, project, "refused at first")

    async def letters(count: int) -> list[dict[str, Any]]:
        async def as_many() -> bool:
            return len((await ada.get(path)).json()["items"]) == count

        await wait_until(as_many, 30)
        return (await ada.get(path)).json()["items"]

    (letter,) = await letters(1)
    assert (letter["position"], letter["error"]) == (refused["position"], "http_4xx")
    assert "refused at first" not in str(letter)
    receiver.status = 200
    await remember(ada, project, "next")
    assert await receiver.contents(1) == ["next"]
    assert (await ada.post(f"{path}/retry")).status_code == 202
    assert await receiver.contents(2) == ["next", "refused at first"]
    await letters(0)


async def test_gone_disables_a_webhook_until_it_is_created_again(
    ada: httpx.AsyncClient, receiver: Receiver, project: str
):
    webhook = await subscribe(ada, receiver, project)
    receiver.status = 410
    await remember(ada, project, "one")

    async def disabled() -> bool:
        listed = (await ada.get("/v1/webhooks")).json()["items"]
        return [each["disabled"] for each in listed if each["id"] == webhook["id"]] == [True]

    await wait_until(disabled, 30)
    receiver.status = 200
    assert (await subscribe(ada, receiver, project))["id"] == webhook["id"]
    assert await receiver.contents(1) == ["one"]


async def test_filters_choose_kinds_subjects_and_patterns_of_types(ada: httpx.AsyncClient, project: str):
    rule = await remember(ada, project, "Always run the tests.", memory_type="rule")
    await remember(ada, project, "a fact")
    (await ada.post("/v1/confirm", json={"ids": [rule["id"]]})).raise_for_status()
    await write(ada, "/v1/lessons", project=project, content="Read the log first.")

    async def kinds(**query: str) -> list[str]:
        query |= {"project": project, "after": "0:1-0"}
        async with ada.stream("GET", "/v1/live", params={**query, "limit": 2}) as answer, asyncio.timeout(30):
            return [line.partition(": ")[2] async for line in answer.aiter_lines() if line.startswith("event: ")]

    assert await kinds(kind="rule") == ["memory.recorded", "memory.confirmed"]
    assert await kinds(subject=rule["id"]) == ["memory.recorded", "memory.confirmed"]
    assert await kinds(type="lesson.*,memory.confirmed") == ["memory.confirmed", "lesson.recorded"]


async def test_webhook_of_another_key_is_not_shown(
    server: Server, ada: httpx.AsyncClient, receiver: Receiver, project: str
):
    webhook = await subscribe(ada, receiver, project)
    assert "secret" not in (await ada.get("/v1/webhooks")).text
    other = await new_tenant(server, f"t{uuid4().hex[:6]}")
    async with other.client() as stranger:
        assert (await stranger.get("/v1/webhooks")).json() == {"items": []}
        assert (await stranger.delete(f"/v1/webhooks/{webhook['id']}")).status_code == 404
    assert (await ada.delete(f"/v1/webhooks/{webhook['id']}")).status_code == 204


class Received(types.NotificationParams):
    model_config = ConfigDict(extra="allow")


class Follows(ClientExtension):
    identifier = "io.modelcontextprotocol/events"

    def __init__(self) -> None:
        self.received = asyncio.Queue[dict[str, Any]]()

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        async def put(params: Received) -> None:
            self.received.put_nowait(params.model_dump(by_alias=True))

        kinds = ("active", "event")
        return [
            NotificationBinding(method=f"notifications/events/{kind}", params_type=Received, handler=put)
            for kind in kinds
        ]


@asynccontextmanager
async def mcp_client(server: Server, agent: str, extension: Follows | None = None) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {server.secret}", "X-Agent-Id": agent}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(f"{server.url}/mcp", http_client=http), extensions=[extension] if extension else []
        ) as client,
    ):
        yield client


class Answer(types.Result):
    model_config = ConfigDict(extra="allow")


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request = types.Request[dict[str, Any], str](method=f"events/{method}", params=params)
    return (await client.session.send_request(request, Answer)).model_dump(by_alias=True)


async def test_mcp_client_polls_what_its_agent_can_see(server: Server, ada: httpx.AsyncClient, project: str):
    async with mcp_client(server, "bob") as client:
        capabilities = client.session.server_capabilities
        assert capabilities is not None
        assert "io.modelcontextprotocol/events" in (capabilities.extensions or {})
        names = {event["name"] for event in (await ask(client, "list"))["events"]}
        assert {"*", "memory.*", "memory.recorded"} <= names
        request = {"name": "memory.recorded", "arguments": {"project": project}}
        start = await ask(client, "poll", **request)
        assert (start["events"], start["hasMore"]) == ([], False)
        await remember(ada, project, "hidden", visibility="private")
        written = [await remember(ada, project, f"number {number}") for number in range(3)]
        await ada.get("/v1/memories", params={"project": project, "after": str(written[-1]["position"])})
        cursor, contents = start["cursor"], list[str]()
        for _ in range(10):
            page = await ask(client, "poll", **request, cursor=cursor, maxEvents=1)
            cursor, contents = page["cursor"], contents + [each["data"]["data"]["content"] for each in page["events"]]
        assert contents == ["number 0", "number 1", "number 2"]
        old = await ask(client, "poll", **request, cursor=start["cursor"], maxAgeMs=0)
        assert (old["events"], old["truncated"]) == ([], True)
        other_log = await ask(client, "poll", **request, cursor="0:1000000000001-0")
        assert other_log["truncated"]
        with pytest.raises(MCPError) as refused:
            await ask(client, "poll", name="nothing")
        assert refused.value.error.code == -32023


async def test_mcp_client_gets_a_stream_of_events(server: Server, ada: httpx.AsyncClient, project: str):
    follows = Follows()
    async with mcp_client(server, "bob", follows) as client:
        request = {"name": "*", "arguments": {"project": project}}
        streaming = asyncio.create_task(ask(client, "stream", **request))
        async with asyncio.timeout(30):
            active = await follows.received.get()
            await remember(ada, project, "hidden", visibility="private")
            await remember(ada, project, "shown")
            event = await follows.received.get()
        assert (active["truncated"], event["name"]) == (False, "*")
        assert event["data"]["data"]["content"] == "shown"
        later = await ask(client, "poll", **request, cursor=active["cursor"])
        assert [each["eventId"] for each in later["events"]] == [event["eventId"]]
        streaming.cancel()
        with suppress(asyncio.CancelledError):
            await streaming


async def test_mcp_client_subscribes_a_webhook(
    server: Server, ada: httpx.AsyncClient, receiver: Receiver, project: str
):
    async with mcp_client(server, "ada") as client:
        key = {"name": "memory.*", "arguments": {"project": project}}
        delivery = {"mode": "webhook", "url": receiver.url, "secret": SECRET}
        granted = await ask(client, "subscribe", **key, delivery=delivery, ttlMs=5_000)
        again = await ask(client, "subscribe", **key, delivery=delivery, ttlMs=None)
        assert (again["id"], again["deliveryStatus"]["active"]) == (granted["id"], True)
        assert (granted["refreshBefore"] > "2026", again.get("refreshBefore")) == (True, None)
        await remember(ada, project, "wake up")
        assert await receiver.contents(1) == ["wake up"]
        assert receiver.events[0]["name"] == "memory.*"
        for secret in ("whsec_short", "plain"):
            with pytest.raises(MCPError) as refused:
                await ask(client, "subscribe", **key, delivery={**delivery, "secret": secret})
            assert refused.value.error.code == types.INVALID_PARAMS
        assert await ask(client, "unsubscribe", **key, delivery={"url": receiver.url})
        with pytest.raises(MCPError) as unknown:
            await ask(client, "unsubscribe", **key, delivery={"url": receiver.url})
        assert unknown.value.error.code == -32023


@pytest.mark.skipif(
    not (NODE / "node_modules" / "@ai-sdk").exists(), reason="`make tests/node/node_modules/.installed` has not run"
)
async def test_ai_sdk_subscribes_and_accepts_deliveries(server: Server, ada: httpx.AsyncClient, project: str):
    """A consumer that was written elsewhere: its client, its webhook handler, its check of signatures."""
    process = await asyncio.create_subprocess_exec(
        "node", "ai_sdk_consumer.mjs", server.url, server.secret, project, cwd=NODE, stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert "memory.*" in json.loads(await process.stdout.readline())
        subscription = json.loads(await process.stdout.readline())
        await remember(ada, f"{project}-other", "elsewhere")
        await remember(ada, project, "wake up")
        event = json.loads(await process.stdout.readline())
        assert (event["name"], event["data"]["data"]["content"]) == ("memory.*", "wake up")
        process.stdin.write(b"unsubscribe\n")
        assert await process.wait() == 0
    assert subscription["id"] not in (await ada.get("/v1/webhooks")).text
