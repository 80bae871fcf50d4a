"""Rebuilding, reconciling and dead letters as an operator sees them, over HTTP and from the command line."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import wait_until

from ingest.platform.connections import connect
from tests.acceptance.parking import LETTERS, PARTITIONS, dream, home, newer_worker, parked
from tests.acceptance.running import Server, fault, mnemolog, running


async def remember(client: httpx.AsyncClient, n: int, since: int = 0) -> str:
    batch = [
        {"type": "remember", "project": f"p{k % 5}", "content": f"memory {k} is about topic {k % 7}"}
        for k in range(since, since + n)
    ]
    return (await client.post("/v1/events", json=batch)).json()["position"]


async def known(client: httpx.AsyncClient, after: str) -> dict[str, list[str]]:
    """The ids of every project's memories."""
    found: dict[str, list[str]] = {}
    for number in range(5):
        asked = {"project": f"p{number}", "after": after, "limit": 1000}
        answer = await client.get("/v1/memories", params=asked)
        while answer.status_code == 503:
            answer = await client.get("/v1/memories", params=asked)
        found[f"p{number}"] = [one["id"] for one in answer.json()["items"]]
    return found


async def generations(client: httpx.AsyncClient) -> set[int]:
    rows = (await client.get("/v1/admin/projections")).json()["partitions"]
    return {row["generation"] for row in rows}


async def test_an_operator_rebuilds_looks_switches_and_goes_back(rebuildable: Server):
    """Nothing that readers see changes at any step, but for what is written meanwhile."""
    async with rebuildable.client() as client:
        before = await known(client, await remember(client, 120))
        begun = await client.post("/v1/admin/rebuilds", json={"switch": "manual"})
        assert begun.status_code == 202
        rebuild = begun.json()["id"]
        refused = await client.post("/v1/admin/rebuilds")
        assert (refused.status_code, fault(refused)["code"]) == (409, "rebuild_under_way")
        assert fault(refused)["rebuild"] == rebuild

        async def state() -> str:
            return (await client.get(f"/v1/admin/rebuilds/{rebuild}")).json()["state"]

        async def is_ready() -> bool:
            return await state() == "ready"

        await wait_until(is_ready)
        code, shown = await mnemolog(rebuildable, "rebuild", "status")
        assert (code, shown["id"], shown["why"]) == (0, rebuild, "waits for the command to switch")
        assert shown["done"] == shown["total"] >= 120
        assert shown["canaries"]["agree"]
        assert await generations(client) == {1}

        code, shown = await mnemolog(rebuildable, "rebuild", "switch")
        assert (code, shown["state"], await generations(client)) == (0, "switched", {2})
        between = await known(client, await remember(client, 30, since=120))
        assert {name: set(ids) for name, ids in before.items()} == {
            name: set(ids) & set(before[name]) for name, ids in between.items()
        }
        code, shown = await mnemolog(rebuildable, "rebuild", "rollback")
        assert (code, shown["state"], await generations(client)) == (0, "rolled_back", {1})
        assert await known(client, await remember(client, 0)) == between
        after = await known(client, await remember(client, 10, since=150))
        assert sum(map(len, after.values())) == sum(map(len, between.values())) + 10
        again = await client.post(f"/v1/admin/rebuilds/{rebuild}/cancel")
        assert (again.status_code, fault(again)["code"]) == (409, "wrong_rebuild_state")
        assert (await client.get("/v1/admin/rebuilds/nobody")).status_code == 404


@pytest.mark.nightly
async def test_a_rebuild_outlives_the_worker_that_began_it(rebuildable: Server):
    """The worker is killed; the supervisor starts another, which goes on when the leases of the first have run out."""
    async with rebuildable.client() as client:
        batch = [
            {"type": "observe", "project": "p0", "session_id": f"s{k % 40}", "content": f"step {k}"}
            for k in range(6000)
        ]
        told = await client.post("/v1/events", json=batch)
        before = await known(client, told.json()["position"])
        old = await generations(client)
        rebuild = (await client.post("/v1/admin/rebuilds")).json()["id"]

        async def begun() -> bool:
            return (await client.get(f"/v1/admin/rebuilds/{rebuild}")).json()["done"] > 0

        await wait_until(begun)
        worker = rebuildable.supervisor.worker
        assert worker is not None
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)

        async def switched() -> bool:
            rebuildable.supervisor.watch()
            return (await client.get(f"/v1/admin/rebuilds/{rebuild}")).json()["state"] == "switched"

        await wait_until(switched, 120)
        assert not old & await generations(client)
        assert await known(client, "") == before


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({"embedder": "onnx:/nowhere"}, "/nowhere"),
        ({"embedder": "onnx:/somewhere"}, "this embedder is not configured"),
        ({"what": "embeddings"}, "none is already the live embedding model: choose another embedder"),
        ({"what": "documents", "embedder": "default"}, "a rebuild of documents takes no embedder"),
        ({"embedder": "default", "partitions": [1]}, "embeddings are rebuilt for all partitions"),
    ],
    ids=["unavailable", "not named", "live", "documents", "partitions"],
)
async def test_an_order_that_makes_no_sense_is_refused_at_once(rebuildable: Server, order: dict[str, Any], why: str):
    async with rebuildable.client() as client:
        answer = await client.post("/v1/admin/rebuilds", json=order)
        assert (answer.status_code, fault(answer)["code"]) == (422, "invalid")
        assert why in fault(answer)["detail"]
        assert all(one["state"] != "running" for one in (await client.get("/v1/admin/rebuilds")).json()["rebuilds"])


async def test_the_command_waits_and_shows_what_was_done(rebuildable: Server):
    async with rebuildable.client() as client:
        await known(client, await remember(client, 40))
    code, shown = await mnemolog(rebuildable, "rebuild", "--partition", "1")
    assert (code, shown["state"], [part["partition"] for part in shown["partitions"]]) == (0, "switched", [1])
    assert shown["estimate_s"] == 0
    assert shown["can_roll_back_until"]
    code, shown = await mnemolog(rebuildable, "rebuild", "--partition", "9")
    assert (code, shown["error"]["code"]) == (2, "invalid")


async def reconcile(server: Server) -> tuple[int, dict[str, Any]]:
    """Exit code of `mnemolog admin reconcile` and the report that it printed."""
    code, answer = await mnemolog(server, "reconcile", "--wait", "120")
    return code, answer["report"]


async def test_a_listing_that_lost_a_memory_has_it_again(broken: Server, project: str):
    server = broken
    redis = connect(server.redis_url)
    async with server.client() as client:
        batch = [{"type": "remember", "project": project, "content": f"shelf {k} is full"} for k in range(5)]
        after = (await client.post("/v1/events", json=batch)).json()["position"]
        asked = {"project": project, "after": after}
        before = (await client.get("/v1/memories", params=asked)).json()["items"]
        assert len(before) == 5
        code, report = await reconcile(server)
        assert (code, {name: count for name, count in report["found"].items() if count}) == (0, {})
        assert sum(one["documents"] for one in report["partitions"]) >= 5

        damaged = [key async for key in redis.scan_iter(match="mnemolog:*:g1:list:memories:*", count=1000)]
        assert damaged
        for key in damaged:
            (member,) = await redis.zrange(key.decode(), 0, 0)
            await redis.zrem(key.decode(), member)
        assert len((await client.get("/v1/memories", params=asked)).json()["items"]) == 4
        code, report = await reconcile(server)
        assert (code, report["found"]["missing_from_listing"]) == (0, len(damaged))
        assert (await client.get("/v1/memories", params=asked)).json()["items"] == before
    await redis.aclose()


@pytest.fixture(scope="module")
def server(cache_dir: Path) -> Iterator[Server]:
    """The server of these tests: the worker of a later release would apply what is parked elsewhere."""
    with running(cache_dir, embedder="none", partitions=PARTITIONS) as started:
        yield started


async def metrics(client: httpx.AsyncClient) -> Counter[str]:
    """The samples that /metrics has of dead letters."""
    lines = (await client.get("/metrics")).text.splitlines()
    samples = [line.rpartition(" ") for line in lines if line.startswith("mnemolog_dead_letter")]
    return Counter({sample: int(float(value)) for sample, _, value in samples})


async def test_what_a_later_release_can_apply_is_redriven_after_the_upgrade(server: Server, project: str):
    async with server.client("eve") as client:
        before = (await client.get(LETTERS)).json()["counts"]
        places = await parked(server, client, project, dream("sheep", project), dream("rain", project), b"\xc1")
        code, page = await mnemolog(server, "dead-letters", "list", "--code", "unknown_event_type")
        assert (code, [one["position"] for one in page["dead_letters"]]) == (0, places[:2])
        code, one = await mnemolog(server, "dead-letters", "show", places[0])
        assert (code, one["type"], one["event"]["data"]) == (0, "dream.dreamt", {"of": "sheep"})
        code, told = await mnemolog(server, "dead-letters", "redrive", places[0])
        assert (code, [left["attempts"] for left in told["left"]]) == (1, [2]), "this release cannot"
        with newer_worker(server):
            code, told = await mnemolog(
                server, "dead-letters", "redrive", "--code", "unknown_event_type", "--wait", "50"
            )
            assert (code, told) == (0, {"requested": places[:2], "left": []})
        answer = await client.get("/v1/sessions/s1/observations", params={"project": project})
        assert [one["content"] for one in answer.json()["items"]] == ["dreamt of sheep", "dreamt of rain"]
        answer = (await client.get(LETTERS)).json()
        assert {one["position"] for one in answer["dead_letters"]} & {*places} == {places[2]}
        changes = {outcome: count - before[outcome] for outcome, count in answer["counts"].items()}
        assert changes == {"parked": 3, "redriven": 2, "redrive_failed": 1, "rebuilt": 0, "discarded": 0}


async def test_one_is_discarded_and_the_metrics_say_so(server: Server, project: str):
    async with server.client("eve") as client:
        before = await metrics(client)
        (first, second) = await parked(server, client, project, b"\xc1 one", b"\xc1 two")
        code, told = await mnemolog(
            server, "dead-letters", "discard", first, "--reason", "not ours", "--agent", "eve", "--erase"
        )
        assert (code, told) == (0, {"discarded": [first]})
        (one,) = (await client.get(LETTERS, params={"state": "discarded"})).json()["dead_letters"]
        assert one["discarded"]["agent_id"] == "eve"
        assert one["discarded"]["reason"] == "not ours"
        assert one["event"]["type"] == "event.erased"
        assert await metrics(client) - before == {
            'mnemolog_dead_letter_changes_total{outcome="discarded"}': 1,
            'mnemolog_dead_letter_changes_total{outcome="parked"}': 2,
            f'mnemolog_dead_letters{{partition="{home(project)}"}}': 1,
        }
        assert (await mnemolog(server, "dead-letters", "show", first))[1]["state"] == "discarded"
        assert (await mnemolog(server, "dead-letters", "show", second))[1]["state"] == "parked"


async def test_what_is_asked_wrongly_is_refused(server: Server):
    async with server.client() as client:
        assert (await client.get(f"{LETTERS}/0:1-1")).status_code == 404
        for place in ("x", "9:1-1", "0:x"):
            answer = await client.get(f"{LETTERS}/{place}")
            assert (answer.status_code, fault(answer)["field"]) == (422, "position")
        everything = await client.post(f"{LETTERS}/redrive", json={})
        assert fault(everything)["detail"] == "a position, a code or a type is required"
        without_reason = await client.post(f"{LETTERS}/discard", json={"code": "x"})
        assert without_reason.status_code == 422
        assert (await client.get(LETTERS, params={"limit": 1000})).status_code == 422
    assert (await mnemolog(server, "dead-letters", "show", "0:1-1"))[0] == 1
    assert (await mnemolog(server, "dead-letters", "redrive"))[0] == 2
    assert (await mnemolog(server, "dead-letters", "discard", "0:1-1"))[0] == 2
