"""Another embedder as an operator brings it about: over HTTP, from the command line, with real processes and models."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from waiting import wait_until

from ingest.platform.settings import to_environment
from tests.acceptance.running import Server, running
from tests.support.commands import run

BACKUPS = "Every night the whole database is copied to tape before the first train leaves"
QUESTION = "when do we save our data"
"""Has no word in common with BACKUPS."""


@pytest.fixture(scope="module")
def server(cache_dir: Path) -> Iterator[Server]:
    """Begun without an embedder; the tests go on where the one before has left it."""
    with running(cache_dir, partitions=4, embedder="none", embedders=("default",)) as server:
        yield server


async def mnemolog(server: Server, *arguments: str) -> tuple[int, Any]:
    """Exit code of `mnemolog rebuild` and the JSON it printed."""
    variables = to_environment(server.supervisor.settings)
    done = await asyncio.to_thread(run, variables, "rebuild", *arguments, "--json")
    return done.returncode, msgspec.json.decode(done.stdout)


async def remember(client: httpx.AsyncClient, *contents: str) -> str:
    batch = [{"type": "remember", "project": "atlas", "content": content} for content in contents]
    return (await client.post("/v1/events", json=batch)).json()["position"]


async def recalled(client: httpx.AsyncClient, after: str = "") -> tuple[list[str], list[str]]:
    """What is found by meaning alone, best first; and what is missing in the answer."""
    asked = {"query": QUESTION, "project": "atlas", "mode": "vector", "limit": 3, "after": after}
    answer = await client.post("/v1/recall", json=asked)
    while answer.status_code == 503:
        answer = await client.post("/v1/recall", json=asked)
    return [one["content"] for one in answer.json()["results"]], answer.json()["degraded"]


@pytest.mark.timeout(600)
@pytest.mark.nightly
async def test_a_log_changes_its_embedder_and_changes_it_back(server: Server):
    """One story: each step begins where the one before it ended."""
    await _gets_vectors_though_the_worker_is_killed(server)
    await _what_is_written_later_and_what_starts_later_has_the_new_embedder(server)
    await _is_rolled_back_from_the_command_line(server)
    await _waits_for_the_operator_where_that_is_wanted(server)


async def _gets_vectors_though_the_worker_is_killed(server: Server) -> None:
    async with server.client() as client:
        after = await remember(
            client, BACKUPS, *(f"Bed {k} of the garden has tulips in row {k % 7}" for k in range(1500))
        )
        assert await recalled(client, after) == ([], ["no embedder is configured: words only"])
        begun = await client.post("/v1/admin/rebuilds", json={"embedder": "default"})
        assert (begun.status_code, begun.json()["what"]) == (202, "embeddings")
        path = f"/v1/admin/rebuilds/{begun.json()['id']}"

        async def filling() -> bool:
            return (await client.get(path)).json()["done"] > 0

        await wait_until(filling, 60)
        worker = server.supervisor.worker
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)

        async def switched() -> bool:
            server.supervisor.watch()
            return (await client.get(path)).json()["state"] == "switched"

        await wait_until(switched, 240)
        shown = (await client.get(path)).json()
        assert shown["done"] == shown["total"] > 1000
        assert shown["canaries"]["agree"]
        assert "overlap@10" in shown["canaries"]["said"]

        async def by_meaning() -> bool:
            found, degraded = await recalled(client)
            return found[:1] == [BACKUPS] and not degraded

        await wait_until(by_meaning)
        assert server.supervisor.settings.embedder == "none"
        code, shown = await mnemolog(server, "--embedder", "default")
        assert (code, shown["error"]["code"]) == (1, "invalid")


async def _what_is_written_later_and_what_starts_later_has_the_new_embedder(server: Server) -> None:
    """Though the configuration names the one before, which is said."""
    server.supervisor.api.stop()
    server.supervisor.api.start()
    await wait_until(server.supervisor.ready, 60)
    async with server.client() as client:
        later = "Copies of all records are put in the safe at midnight"
        after = await remember(client, later)

        async def found() -> bool:
            contents, degraded = await recalled(client, after)
            return {later, BACKUPS} <= set(contents) and not degraded

        await wait_until(found)
    assert "which made the vectors that are live, not none" in server.supervisor.api.log.read_text()


async def _is_rolled_back_from_the_command_line(server: Server) -> None:
    code, shown = await mnemolog(server, "rollback")
    assert (code, shown["state"]) == (0, "rolled_back")
    async with server.client() as client:

        async def by_words() -> bool:
            return await recalled(client) == ([], ["no embedder is configured: words only"])

        await wait_until(by_words)


async def _waits_for_the_operator_where_that_is_wanted(server: Server) -> None:
    code, shown = await mnemolog(server, "--embedder", "default", "--manual")
    assert (code, shown["state"], shown["why"]) == (0, "ready", "waits for the order to switch")
    assert shown["model"].startswith("all-MiniLM-L6-v2:")
    code, shown = await mnemolog(server, "switch")
    assert (code, shown["state"]) == (0, "switched")
