"""What happens at the `maxmemory` of the log's server, played through against a real one.

    python -m tests.chaos.full_memory [--runs 50] [--seed 1]

A run starts a server, gives its Valkey a limit that is soon reached, and writes through the API until it is refused:
with a ceiling or without any, with a worker at work, paused, or killed meanwhile. What does not belong to mnemolog then
fills the rest. While the server is full a memory is deleted and a project forgotten. Then there is memory again.

A run is wrong when: a dead letter was made; with a ceiling, what was accepted did not fit in below the limit; DELETE or
POST /v1/forget was refused or had no effect while the server was full; an acknowledged observation is lost.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

import httpx
from msgspec import Struct, field
from redis.exceptions import (
    OutOfMemoryError,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType] - not in the stubs
)

from ingest.ids import document_id
from ingest.log.position import session_route
from ingest.platform.tasks import end
from tests.acceptance.running import Server, redis_of, running
from tests.support.waiting import wait_until

Worker = Literal["running", "paused", "killed"]
PATIENCE_S = 120.0
TENANT, SESSION = "default", "s"
KEPT, FORGOTTEN = "kept", "forgotten"
SIZES = (40, 400, 4_000)
FILLER = "filler"
WORDS = [f"{n * 7919 % 65_521:x}word"[:6] for n in range(1, 3_000)]


class Run(Struct):
    """One run: what is played, and what was seen."""

    seed: int
    ceiling: str
    worker: Worker
    acknowledged: list[str] = field(default_factory=list[str])
    """Event ids of the project that is kept."""
    refusals: int = 0
    highest: float = 0.0
    """Memory used once everything was projected, in shares of the limit; before anything else filled the rest."""
    faults: list[str] = field(default_factory=list[str])


async def play(run: Run, cache_dir: Path) -> Run:
    """Play one run; `faults` says what was wrong."""
    dice = random.Random(run.seed)
    changes: dict[str, Any] = {"secret": None, "embedder": "none", "partitions": 2, "memory_ceiling": run.ceiling}
    with running(cache_dir, **changes) as server:
        async with server.client() as client, redis_of(server) as redis:
            watching = asyncio.create_task(_watch(server))
            try:
                await _play(run, dice, server, client, redis)
            finally:
                await end(watching)
    return run


async def _play(run: Run, dice: random.Random, server: Server, client: httpx.AsyncClient, redis: Any) -> None:
    doomed = await client.post("/v1/memories", json={"content": "to be deleted", "project": KEPT})
    await client.get(f"/v1/memories/{doomed.json()['id']}", params={"after": doomed.json()["position"]})
    limit = (await redis.info("memory"))["used_memory"] + dice.randrange(6 << 20, 12 << 20)
    await redis.config_set("maxmemory", limit)
    await client.get("/readyz")
    worker = server.supervisor.worker.pid
    assert worker is not None
    if run.worker == "paused":
        os.kill(worker, signal.SIGSTOP)
    await asyncio.gather(*(_write(run, client, random.Random(dice.random()), n) for n in range(4)))
    if run.worker == "paused":
        os.kill(worker, signal.SIGCONT)
    elif run.worker == "killed":
        os.kill(worker, signal.SIGKILL)
    if run.ceiling != "0":
        await _projected(client)
        run.highest = (await redis.info("memory"))["used_memory"] / limit
        _check(run, run.highest <= 1.0, f"what was accepted needs {run.highest:.0%} of the limit")
    await _fill(redis, limit)
    await _forget_while_full(run, client, redis, doomed.json()["id"])
    await _projected(client)
    await redis.delete(FILLER)
    await redis.config_set("maxmemory", 4 * limit)
    vitals = (await client.get("/readyz")).json()["vitals"]
    _check(run, vitals["dead_letters"] == 0, f"{vitals['dead_letters']} dead letters")
    missing = [one for one in run.acknowledged if not await _is_there(client, one)]
    _check(run, not missing, f"{len(missing)} acknowledged observations are not there")
    _check(run, await _takes_writes(client), "writes are refused though there is memory")


async def _watch(server: Server) -> None:
    """Start what has ended again, as `mnemolog up` does."""
    while True:
        server.supervisor.watch()
        await asyncio.sleep(0.5)


async def _write(run: Run, client: httpx.AsyncClient, dice: random.Random, writer: int) -> None:
    """Write batches until one is refused three times."""
    refused = 0
    for number in range(2_000):
        size, project = dice.choice(SIZES), KEPT if dice.random() < 0.7 else FORGOTTEN
        ids = [f"{writer}-{number}-{n}" for n in range(dice.choice((1, 5, 40)))]
        batch = [
            {
                "type": "observe",
                "event_id": one,
                "session_id": SESSION,
                "project": project,
                "content": _text(dice, one, size),
            }
            for one in ids
        ]
        answer = await client.post("/v1/events", json=batch)
        if answer.status_code == 202:
            run.acknowledged += ids if project == KEPT else []
            continue
        _check(run, answer.status_code == 429, f"a write was answered {answer.status_code}: {answer.text[:200]}")
        run.refusals += 1
        refused += 1
        if refused == 3:
            return
        await asyncio.sleep(0.2)


async def _fill(redis: Any, limit: int) -> None:
    """Something else of the same server takes what is left, and the limit is put below what is used."""
    left = limit - (await redis.info("memory"))["used_memory"]
    if left > 0:
        with suppress(cast(type[Exception], OutOfMemoryError)):  # a worker may have filled it since
            await redis.execute_command("SETRANGE", FILLER, left, "x")
    used = (await redis.info("memory"))["used_memory"]
    await redis.config_set("maxmemory", min(limit, used - (1 << 20)))


async def _forget_while_full(run: Run, client: httpx.AsyncClient, redis: Any, doomed: str) -> None:
    async def deleted() -> bool:
        answer = await client.delete(f"/v1/memories/{doomed}")
        if answer.status_code == 503 and answer.json()["code"] == "projection_behind":
            return False  # much was written just before: that is told, and worked off
        _check(run, answer.status_code == 202, f"DELETE was answered {answer.status_code}: {answer.text[:200]}")
        position = answer.json().get("position", "")
        found = await client.get(f"/v1/memories/{doomed}", params={"after": position})
        _check(run, found.status_code == 404, f"what was deleted is answered {found.status_code}")
        return True

    await wait_until(deleted, PATIENCE_S)
    asked = await client.post("/v1/forget", json={"kind": "project", "subject": FORGOTTEN})
    _check(run, asked.status_code == 202, f"POST /v1/forget was answered {asked.status_code}: {asked.text[:200]}")
    if asked.status_code != 202:
        return

    async def done() -> bool:
        return (await client.get(f"/v1/forget/{asked.json()['id']}")).json()["status"] == "done"

    await wait_until(done, PATIENCE_S)
    left = await client.get(f"/v1/sessions/{SESSION}/observations", params={"project": FORGOTTEN})
    gone = left.status_code == 404 or not left.json()["items"]
    _check(run, gone, f"documents of the forgotten project are left: {left.text[:200]}")
    info = await redis.info("memory")
    if info["used_memory"] < info["maxmemory"]:
        await redis.config_set("maxmemory", info["used_memory"] - (1 << 20))


async def _projected(client: httpx.AsyncClient) -> None:
    async def projected() -> bool:
        answer = (await client.get("/readyz")).json()
        return answer.get("lag") == {}

    await wait_until(projected, PATIENCE_S)


async def _is_there(client: httpx.AsyncClient, event_id: str) -> bool:
    name = document_id("obs", session_route(TENANT, KEPT, SESSION), event_id)
    return (await client.get(f"/v1/observations/{name}")).status_code == 200


async def _takes_writes(client: httpx.AsyncClient) -> bool:
    async def taken() -> bool:
        return (await client.post("/v1/memories", json={"content": "again", "project": KEPT})).status_code == 202

    await wait_until(taken, PATIENCE_S)
    return True


def _check(run: Run, holds: bool, fault: str) -> None:
    if not holds:
        run.faults.append(fault)


def _text(dice: random.Random, name: str, size: int) -> str:
    return " ".join([name, *dice.choices(WORDS, k=size // 7)])


def runs(count: int, seed: int) -> list[Run]:
    """So many runs, of every kind by turns."""
    kinds: list[tuple[str, Worker]] = [
        (ceiling, worker) for worker in ("running", "paused", "killed") for ceiling in ("85%", "0")
    ]
    return [Run(seed + n, *kinds[n % len(kinds)]) for n in range(count)]


async def main() -> None:
    """Play the runs, print one line each and how many were wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cache_dir, wrong = Path(tempfile.mkdtemp(prefix="mnemo-cache-")), 0
    try:
        for n, run in enumerate(runs(options.runs, options.seed), 1):
            try:
                await play(run, cache_dir)
            except Exception as error:  # the other runs are still worth playing
                run.faults.append(repr(error))
            wrong += bool(run.faults)
            told = "; ".join(run.faults) or "as promised"
            kind = f"ceiling {run.ceiling:>3}, worker {run.worker:7}"
            print(
                f"{n:3} {kind}: {len(run.acknowledged):5} kept, {run.refusals:2} refused, "
                f"{run.highest:4.0%} of the limit used: {told}",
                flush=True,
            )
    finally:
        shutil.rmtree(cache_dir, ignore_errors=True)
    print(f"{wrong} of {options.runs} runs were wrong")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    asyncio.run(main())
