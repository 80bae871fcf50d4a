"""A rebuild as an operator sees it, over HTTP and from the command line, with real processes."""

import asyncio
import os
import signal
from typing import Any

import httpx
import msgspec
import pytest
from waiting import wait_until

from ingest.platform.settings import to_environment
from tests.acceptance.running import Server, fault
from tests.support.commands import run


async def mnemolog(server: Server, *arguments: str) -> tuple[int, Any]:
    """Exit code of `mnemolog rebuild` and the JSON it printed."""
    variables = to_environment(server.supervisor.settings)
    done = await asyncio.to_thread(run, variables, "rebuild", *arguments, "--json")
    return done.returncode, msgspec.json.decode(done.stdout)


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
        code, shown = await mnemolog(rebuildable, "status")
        assert (code, shown["id"], shown["why"]) == (0, rebuild, "waits for the order to switch")
        assert shown["done"] == shown["total"] >= 120
        assert shown["canaries"]["agree"]
        assert await generations(client) == {1}

        code, shown = await mnemolog(rebuildable, "switch")
        assert (code, shown["state"], await generations(client)) == (0, "switched", {2})
        between = await known(client, await remember(client, 30, since=120))
        assert {name: set(ids) for name, ids in before.items()} == {
            name: set(ids) & set(before[name]) for name, ids in between.items()
        }
        code, shown = await mnemolog(rebuildable, "rollback")
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
        ({"embedder": "crystal-ball"}, "embedder 'crystal-ball': is none of default, none, onnx:<directory>"),
        ({"embedder": "onnx:/nowhere"}, "/nowhere"),
        ({"embedder": "onnx:/somewhere"}, "the server's settings do not name this embedder"),
        ({"what": "embeddings"}, "vectors of none are live: name another embedder"),
        ({"what": "documents", "embedder": "default"}, "documents need no embedder"),
        ({"embedder": "default", "partitions": [1]}, "one embedder is for all partitions"),
    ],
    ids=["unknown", "unavailable", "not named", "live", "documents", "partitions"],
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
    code, shown = await mnemolog(rebuildable, "--partition", "1")
    assert (code, shown["state"], [part["partition"] for part in shown["partitions"]]) == (0, "switched", [1])
    assert shown["estimate_s"] == 0
    assert shown["can_roll_back_until"]
    code, shown = await mnemolog(rebuildable, "--partition", "9")
    assert (code, shown["error"]["code"]) == (1, "invalid")
