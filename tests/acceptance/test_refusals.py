"""What clients get while something is broken, and that nothing acknowledged is lost, doubled or held up by it.

The tests break one server again and again: a Valkey that refuses writes, hangs or dies; a worker that stands still or
dies; events that this release cannot read. Each begins when the server has recovered from the one before.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
from waiting import wait_until

from ingest.log.keys import PartitionKeys
from ingest.log.position import partition_of, project_route
from tests.acceptance.running import Server, fault, frozen, ids, redis_of

PARTITIONS = 2
QUICK_S = 12.0
"""A write that cannot be stored is refused within this long: the read time-out of a connection, and some."""


def kill(pid: int | None) -> None:
    """The process dies at once."""
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


async def remember(client: httpx.AsyncClient, project: str, content: str, event_id: str = "") -> httpx.Response:
    """The answer to a memory."""
    command = {"project": project, "content": content, **({"event_id": event_id} if event_id else {})}
    return await client.post("/v1/memories", json=command)


async def stored(client: httpx.AsyncClient, project: str, content: str) -> int:
    """How many of the project's events say this."""
    found, after = 0, ""
    while (page := (await client.get("/v1/events", params={"after": after, "limit": 1000})).json())["events"]:
        said = [event["data"].get("content") for event in page["events"] if event.get("project") == project]
        found += said.count(content)
        after = page["next"]
    return found


async def found_by_recall(client: httpx.AsyncClient, project: str, content: str, after: str = "") -> bool:
    """Whether recall finds the memory that says this."""
    asked = {"query": content, "project": project, "after": after}
    answer = await client.post("/v1/recall", json=asked)
    return answer.status_code == 200 and content in [one["content"] for one in answer.json()["results"]]


def assert_unavailable(answer: httpx.Response, status: int = 503, code: str = "log_unavailable") -> None:
    """The write was refused, and the client is told what to do."""
    assert (answer.status_code, fault(answer)["code"]) == (status, code), answer.text
    assert "same event_id" in fault(answer)["retry"]
    assert int(answer.headers["retry-after"]) >= 1


# a Valkey that refuses


@asynccontextmanager
async def refusing_writes(redis: Any, setting: str) -> AsyncGenerator[None]:
    """Valkey has a setting of 1 meanwhile with which it takes no writes."""
    await redis.config_set(setting, "1")
    try:
        yield
    finally:
        await redis.config_set(setting, "0")


@pytest.mark.parametrize(
    ("setting", "says", "status", "code"),
    [
        ("maxmemory", "maxmemory", 429, "overloaded"),
        ("min-replicas-to-write", "replicas", 503, "log_unavailable"),
    ],
)
async def test_a_log_that_refuses_writes_is_told_and_reads_go_on(
    broken: Server, project: str, setting: str, says: str, status: int, code: str
):
    """Out of memory, or with too few replicas. When it takes writes again, the same event id is stored, once."""
    async with broken.client() as client, redis_of(broken) as redis:
        before = (await remember(client, project, "written before the trouble")).json()
        await wait_until(lambda: found_by_recall(client, project, "written before the trouble", before["position"]))
        batch = [{"type": "remember", "project": project, "content": "batched", "event_id": "trouble-2"}]
        async with refusing_writes(redis, setting):
            started = time.monotonic()
            answers = await asyncio.gather(
                remember(client, project, "written in trouble", "trouble-1"), client.post("/v1/events", json=batch)
            )
            assert time.monotonic() - started < QUICK_S
            for answer in answers:
                assert_unavailable(answer, status, code)
                assert says in fault(answer)["detail"]
            await wait_until(lambda: found_by_recall(client, project, "written before the trouble"))
            assert (await client.get(f"/v1/memories/{before['id']}")).status_code == 200
            assert (await client.get("/v1/memories", params={"project": project})).status_code == 200
            assert (await client.get("/v1/events")).status_code == 200
            assert (await client.get("/livez")).status_code == 200
        again = await remember(client, project, "written in trouble", "trouble-1")
        assert again.status_code == 202, again.text
        assert (await remember(client, project, "written in trouble", "trouble-1")).json()["duplicate"] is True
        await wait_until(lambda: found_by_recall(client, project, "written in trouble"))
        assert await stored(client, project, "written in trouble") == 1


# a Valkey that hangs or dies


async def test_a_log_that_hangs_is_told_within_seconds(broken: Server, project: str):
    """Nobody waits for ever; reads say that they cannot answer; afterwards the same event id is stored once."""
    assert broken.supervisor.valkey is not None
    async with broken.client() as client:
        kept = (await remember(client, project, "written before the trouble")).json()
        await wait_until(lambda: found_by_recall(client, project, "written before the trouble", kept["position"]))
        with frozen(broken.supervisor.valkey.pid):
            started = time.monotonic()
            answer, listing = await asyncio.gather(
                remember(client, project, "written in trouble", "trouble-1"),
                client.get("/v1/memories", params={"project": project}),
            )
            assert time.monotonic() - started < QUICK_S
            assert_unavailable(answer)
            assert (listing.status_code, fault(listing)["code"]) == (503, "log_unavailable")
            assert (await client.get("/livez")).status_code == 200
        again = await remember(client, project, "written in trouble", "trouble-1")
        assert again.status_code == 202
        await wait_until(lambda: found_by_recall(client, project, "written in trouble"))
        assert await stored(client, project, "written in trouble") == 1


async def test_a_log_that_dies_loses_nothing_and_doubles_nothing(broken: Server, project: str):
    """Writers that repeat what was not acknowledged end with each event stored once, whatever they were told."""
    valkey = broken.supervisor.valkey
    assert valkey is not None
    acknowledged: set[str] = set()

    async def persist(client: httpx.AsyncClient, name: str) -> None:
        while name not in acknowledged:
            answer = await remember(client, project, f"memory number {name}", name)
            if answer.status_code == 202:
                acknowledged.add(name)
            else:
                assert_unavailable(answer)
                await asyncio.sleep(0.2)

    async with broken.client() as client:
        assert (await remember(client, project, "written before the trouble")).status_code == 202
        writers = [asyncio.create_task(persist(client, f"{name}")) for name in range(20)]
        await wait_until(lambda: len(acknowledged) > 0)
        kill(valkey.pid)
        more = [asyncio.create_task(persist(client, f"{name}")) for name in range(20, 40)]
        await wait_until(lambda: valkey.pid is None)
        broken.supervisor.watch()  # in this thread: what a thread starts ends with it
        async with asyncio.timeout(20):
            await asyncio.gather(*writers, *more)
        for name in range(40):
            assert await stored(client, project, f"memory number {name}") == 1
        assert await stored(client, project, "written before the trouble") == 1
        last = (await remember(client, project, "written after the trouble")).json()
        await wait_until(
            lambda: found_by_recall(client, project, "written after the trouble", last["position"]), timeout_s=15
        )
        listed = await client.get("/v1/memories", params={"project": project, "limit": 1000})
        assert len(ids(listed.json())) == 42


async def test_reads_say_that_the_log_is_away(broken: Server, project: str):
    """Never an empty list and never a fault of the server's own: 503 until Valkey is back."""
    valkey = broken.supervisor.valkey
    assert valkey is not None
    async with broken.client() as client:
        kept = (await remember(client, project, "written before the trouble")).json()
        await wait_until(lambda: found_by_recall(client, project, "written before the trouble", kept["position"]))
        kill(valkey.pid)
        await wait_until(lambda: valkey.pid is None)
        ask = {"query": "trouble", "project": project}
        requests: list[tuple[str, str, dict[str, str] | None]] = [
            ("GET", "/livez", None),
            ("GET", "/readyz", None),
            ("GET", "/metrics", None),
            ("GET", "/v1/events", None),
            ("GET", f"/v1/memories?project={project}", None),
            ("GET", f"/v1/memories/{kept['id']}", None),
            ("GET", f"/v1/timeline?project={project}", None),
            ("GET", "/v1/sessions", None),
            ("GET", "/v1/admin/projections", None),
            ("GET", "/v1/admin/dead-letters", None),
            ("POST", "/v1/recall", ask),
            ("POST", "/v1/context", ask),
            ("POST", "/v1/admin/snapshots", None),
            ("DELETE", f"/v1/memories/{kept['id']}", None),
        ]
        answers: dict[str, int] = {}
        for method, path, body in requests:
            async with broken.client() as fresh:  # an unexpected fault closes its connection
                answers[f"{method} {path}"] = (await fresh.request(method, path, json=body)).status_code
        assert answers.pop("GET /livez") == 200
        assert answers == dict.fromkeys(answers, 503)
        broken.supervisor.watch()  # in this thread: what a thread starts ends with it

        async def is_ready() -> bool:
            return (await client.get("/readyz")).status_code == 200

        await wait_until(is_ready)
        await wait_until(lambda: found_by_recall(client, project, "written before the trouble"))


# a worker that stands still or dies


async def test_a_read_that_waits_for_a_worker_that_stands_still_is_told_how_far_behind_it_is(
    broken: Server, project: str
):
    """Writes go on; eventual reads answer at once; when the worker goes on, so do all."""
    async with broken.client() as client:
        kept = (await remember(client, project, "written before the trouble")).json()
        await wait_until(lambda: found_by_recall(client, project, "written before the trouble", kept["position"]))
        with frozen(broken.supervisor.worker.pid):
            written = [(await remember(client, project, f"written meanwhile {n}")).json() for n in range(3)]
            asked = {"query": "written", "project": project, "after": written[-1]["position"]}
            partition = written[-1]["position"].partition(":")[0]
            started = time.monotonic()
            answer = await client.post("/v1/recall", json=asked)
            assert 0.9 < time.monotonic() - started < QUICK_S
            assert (answer.status_code, fault(answer)["code"]) == (503, "projection_behind")
            assert fault(answer)["lag"] == {partition: 3}
            assert int(answer.headers["retry-after"]) >= 1
            assert "3 events" in fault(answer)["detail"]
            eventual = await client.post("/v1/recall", json={**asked, "consistency": "eventual"})
            assert eventual.status_code == 200
            assert [one["content"] for one in eventual.json()["results"]] == ["written before the trouble"]
            assert eventual.json()["lag"] == {partition: 3}
            gone = await client.get(f"/v1/memories/{written[0]['id']}", params={"after": written[0]["position"]})
            assert gone.status_code == 503
        await wait_until(lambda: found_by_recall(client, project, "written meanwhile 2", asked["after"]))


async def test_what_a_worker_that_died_left_is_projected_by_the_next(broken: Server, project: str):
    """The partitions of a dead worker are free within ten seconds; each event is applied once."""
    async with broken.client() as client:
        lesson = {"project": project, "content": "count once"}
        told = (await client.post("/v1/lessons", json=lesson)).json()
        await client.get(f"/v1/lessons/{told['id']}", params={"after": told["position"]})
        batch = [{"type": "lesson", **lesson}] * 200
        answer, _ = await asyncio.gather(
            client.post("/v1/events", json=batch), asyncio.to_thread(kill, broken.supervisor.worker.pid)
        )
        assert answer.json()["accepted"] == 200

        async def all_counted() -> bool:
            broken.supervisor.watch()
            after = {"after": answer.json()["position"]}
            found = await client.get(f"/v1/lessons/{told['id']}", params=after)
            return found.status_code == 200 and found.json()["reinforcements"] >= 200

        await wait_until(all_counted)
        assert (await client.get(f"/v1/lessons/{told['id']}")).json()["reinforcements"] == 200


# events that cannot be read


def payload(project: str, event_type: str, version: int, data: dict[str, Any]) -> bytes:
    """A stored event as another release may have written it."""
    fields = {"event_id": f"{event_type}-{version}", "type": event_type, "version": version, "tenant": "default"}
    return msgspec.msgpack.encode({**fields, "project": project, "data": data})


async def test_events_that_cannot_be_read_are_parked_with_their_payload_and_hold_nothing_up(
    broken: Server, project: str
):
    partition = partition_of(project_route("default", project), PARTITIONS)
    async with broken.client() as client, redis_of(broken) as redis:
        first = (await remember(client, project, "before the unreadable")).json()
        unreadable = {
            "newer": payload(project, "memory.recorded", 99, {"text": ["from", "the", "future"]}),
            "unknown": payload(project, "dream.dreamt", 1, {"of": "electric sheep"}),
            "garbage": b"\xc1 no msgpack at all",
            "wrong shape": payload(project, "memory.recorded", 2, {"content": 5}),
        }
        log = PartitionKeys(partition).log
        places = [f"{partition}:{(await redis.xadd(log, {'e': raw})).decode()}" for raw in unreadable.values()]
        last = (await remember(client, project, "after the unreadable")).json()
        await wait_until(lambda: found_by_recall(client, project, "after the unreadable", last["position"]))
        await wait_until(lambda: found_by_recall(client, project, "before the unreadable", first["position"]))
        letters = (await client.get("/v1/admin/dead-letters")).json()["dead_letters"]
        assert [letter["position"] for letter in letters] == places
        codes = ["newer_event_version", "unknown_event_type", "unreadable_event", "unreadable_event"]
        assert [letter["code"] for letter in letters] == codes
        assert all(letter["attempts"] == 1 and letter["message"] for letter in letters)
        newer, unknown, garbage, shape = (letter["event"] for letter in letters)
        assert (newer["version"], newer["data"]) == (99, {"text": ["from", "the", "future"]})
        assert (unknown["type"], unknown["data"]) == ("dream.dreamt", {"of": "electric sheep"})
        assert garbage["unreadable"]
        assert shape["data"] == {"content": 5}
        rows = (await client.get("/v1/admin/projections")).json()["partitions"]
        assert [row["dead_letters"] for row in rows] == [4 if n == partition else 0 for n in range(PARTITIONS)]
        assert [row["lag"] for row in rows] == [0] * PARTITIONS
        shown = (await client.get("/v1/events", params={"partition": partition, "limit": 1000})).json()["events"]
        assert set(places) <= {event["position"] for event in shown}


async def test_an_event_without_a_payload_is_passed_over(broken: Server, project: str):
    """Not ours: an entry that somebody added by hand with another field."""
    partition = partition_of(project_route("default", project), PARTITIONS)
    async with broken.client() as client, redis_of(broken) as redis:
        await redis.xadd(PartitionKeys(partition).log, {"hello": "world"})
        last = (await remember(client, project, "after the stranger")).json()
        await wait_until(lambda: found_by_recall(client, project, "after the stranger", last["position"]))
        assert (await client.get("/v1/events")).status_code == 200
