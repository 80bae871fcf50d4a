"""Reconciling as an operator asks for it: a damaged listing is repaired, what nobody may repair is advice."""

import asyncio
from typing import Any

import msgspec

from ingest.platform.connections import connect
from ingest.platform.settings import to_environment
from tests.acceptance.running import Server
from tests.support.commands import run


async def reconcile(server: Server) -> tuple[int, dict[str, Any]]:
    """Exit code of `mnemolog reconcile` and the report that it printed."""
    variables = to_environment(server.supervisor.settings)
    done = await asyncio.to_thread(run, variables, "reconcile", "--json", "--wait", "120")
    return done.returncode, msgspec.json.decode(done.stdout)["report"]


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
