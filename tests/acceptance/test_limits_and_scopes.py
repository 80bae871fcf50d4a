"""Servers that were set up otherwise: a cap on a session's observations, and agents that see only their own."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from waiting import wait_until

from ingest.log.keys import PartitionKeys
from ingest.log.position import partition_of, project_route
from tests.acceptance.asking import ask, names, read, recall, refused, write
from tests.acceptance.running import Server, fault, frozen, ids, redis_of, running, until_ready
from tests.acceptance.test_mcp_profiles import client_of

Client = httpx.AsyncClient


@pytest.fixture(scope="module")
def isolated(cache_dir: Path) -> Iterator[Server]:
    """A server set up for ada, who sees only her own."""
    with running(cache_dir, embedder="none", partitions=2, agent_id="ada", agent_scope="isolated") as started:
        yield started


# a session's observations


async def test_a_full_session_takes_no_more(small: Server, project: str):
    """The refusal says which session and what its limit is; other sessions and other writes go on."""
    async with small.client("ada") as client:
        said = {"project": project, "session_id": "s1"}
        for n in range(3):
            await write(client, "/v1/observations", **said, content=f"number {n}")
        answer = await client.post("/v1/observations", json={**said, "content": "one too many"})
        assert (answer.status_code, fault(answer)["code"], fault(answer)["field"]) == (
            409,
            "session_full",
            "session_id",
        )
        assert "3" in fault(answer)["detail"]
        await write(client, "/v1/observations", project=project, session_id="s2", content="elsewhere")
        await write(client, "/v1/memories", **said, content="a memory of the same session")
        ended = await write(client, "/v1/sessions", **said, status="ended")
        seen = await read(client, "/v1/sessions/s1", project=project, after=ended["position"])
        assert seen["observation_count"] == 3


async def test_a_retry_in_a_full_session_is_acknowledged(small: Server, project: str):
    """What is stored is stored: the client that did not hear so may ask again."""
    async with small.client("ada") as client:
        said = [{"project": project, "session_id": "s1", "content": f"n {n}", "event_id": f"e{n}"} for n in range(3)]
        first = [await write(client, "/v1/observations", **one) for one in said]
        again = [await write(client, "/v1/observations", **one) for one in said]
        assert again == [{**one, "duplicate": True} for one in first]
        batch = [{"type": "observe", **one} for one in said]
        told = (await client.post("/v1/events", json=batch)).json()
        assert (told["accepted"], told["duplicates"], told["rejected"]) == (0, 3, [])


# an agent's own


async def write_as(server: Server, agent: str, project: str) -> str:
    """A memory, an observation, a lesson and an action by an agent; the position behind them."""
    async with server.client("" if agent == "ada" else agent) as client:
        tokens = [
            (await write(client, path, project=project, **said))["position"]
            for path, said in [
                ("/v1/memories", {"content": f"The kiwi of {agent} sleeps"}),
                ("/v1/observations", {"session_id": f"s-{agent}", "content": f"The kiwi of {agent} woke up"}),
                ("/v1/lessons", {"content": f"Feed the kiwi of {agent}"}),
                ("/v1/actions", {"title": f"Walk the kiwi of {agent}"}),
            ]
        ]
        return ",".join(tokens)


async def seen_by(client: Client, project: str, after: str) -> dict[str, set[str]]:
    """Whose documents every way of reading shows."""
    found = await recall(client, "kiwi", project=project, after=after)
    compiled = (await ask(client, "/v1/context", project=project, query="kiwi"))["context"]
    listed = {
        "recall": {one["agent_id"] for one in found["results"]},
        "context": {agent for agent in ("ada", "bob") if f"kiwi of {agent}" in compiled},
        "memories": {*names(await read(client, "/v1/memories", project=project), "agent_id")},
        "lessons": {*names(await read(client, "/v1/lessons", project=project), "agent_id")},
        "actions": {*names(await read(client, "/v1/actions", project=project), "agent_id")},
        "frontier": {*names(await read(client, "/v1/frontier", project=project), "agent_id")},
        "sessions": {*names(await read(client, "/v1/sessions", project=project), "agent_id")},
        "timeline": {*names(await read(client, "/v1/timeline", project=project), "agent_id")},
        "log": {one["agent_id"] for one in (await read(client, "/v1/events", project=project))["events"]},
        "audit": {one["agent_id"] for one in (await read(client, "/v1/audit", project=project))["entries"]},
    }
    searched = await ask(client, "/v1/lessons/search", query="kiwi", project=project)
    return {**listed, "search": {*names(searched, "agent_id")}}


async def test_an_isolated_agent_sees_its_own_everywhere(isolated: Server, project: str):
    """Without a header that is the agent the server was set up for; a header names another; `*` lifts it."""
    after = ",".join([await write_as(isolated, agent, project) for agent in ("ada", "bob")])
    expected = {"": ["ada"], "ada": ["ada"], "bob": ["bob"], "*": ["ada", "bob"], "cy": []}
    for header, agents in expected.items():
        async with isolated.client(header) as client:
            seen = await seen_by(client, project, after)
            assert seen == {way: {*agents} for way in seen}, header


async def test_agentmemorys_tools_show_an_isolated_agent_its_own_actions_only(isolated: Server, project: str):
    """What waits for another agent's action waits all the same."""
    async with isolated.client("bob") as bob:
        first = await write(bob, "/v1/actions", project=project, title="Walk the kiwi of bob")
    async with isolated.client() as ada:
        waiting = {"title": "Feed the kiwi of ada", "edges": [{"type": "requires", "target": first["id"]}]}
        await write(ada, "/v1/actions", project=project, **waiting)
        free = await write(ada, "/v1/actions", project=project, title="Call the kiwi of ada")
        seen = await write(ada, "/v1/observations", project=project, session_id=project, content="The kiwi woke up")
        after = ",".join([first["position"], free["position"], seen["position"]])
        native = await read(ada, "/v1/frontier", project=project, after=after)
        assert (names(native, "title"), native["open"]) == (["Call the kiwi of ada"], 2)
    async with client_of(isolated, "agentmemory") as client:
        told = (await client.call_tool("memory_frontier", {"project": project})).structured_content
        assert told is not None
        assert [one["title"] for one in told["frontier"]] == ["Call the kiwi of ada"]
        assert (told["total"], told["totalActions"], told["totalUnblocked"]) == (1, 2, 1)


async def test_an_isolated_agent_is_not_shown_somebody_elses_document_by_id(isolated: Server, project: str):
    async with isolated.client("bob") as bob:
        told = await write(bob, "/v1/memories", project=project, content="a memory of bob's")
        assert (await read(bob, f"/v1/memories/{told['id']}", after=told["position"]))["agent_id"] == "bob"
    async with isolated.client() as ada:
        assert (await refused(ada, "GET", f"/v1/memories/{told['id']}"))[:2] == (404, "not_found")
        assert (await refused(ada, "PATCH", f"/v1/memories/{told['id']}", {"content": "x"}))[:2] == (404, "not_found")
        assert (await refused(ada, "DELETE", f"/v1/memories/{told['id']}"))[:2] == (404, "not_found")


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
        await until_ready(client)
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
