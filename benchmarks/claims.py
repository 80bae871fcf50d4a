"""How fast a fleet claims work."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from benchmarks.corpus import observation
from benchmarks.driving import Http, Load, Pool, closed_loop, fill, percentile, settled
from benchmarks.figures import Figures, Row, benchmark
from benchmarks.servers import Server

EVENTS_PER_S = 5_000
EVERY_S = 0.1
"""Between two batches of events."""
NEXT = "/v1/actions/claim_next"


@benchmark(
    Row("claims of one action, 64 agents", "contended_per_s", "/s"),
    Row("claims of free actions, 64 agents", "free_per_s", "/s"),
    Row("claim at rest, p50", "rest_p50_ms", "ms", at_most=30),
    Row("claim at rest, p99", "rest_p99_ms", "ms"),
    Row("claim beside 5,000 events/s, p50", "beside_p50_ms", "ms"),
    Row("claim beside 5,000 events/s, p99", "beside_p99_ms", "ms"),
    settings={"embedder": "none"},
    quick={"rounds": 2, "actions": 80, "alone": 10},
)
async def claims(server: Server, agents: int = 64, rounds: int = 30, actions: int = 1_000, alone: int = 200) -> Figures:
    """How many claims a second are decided, of one action and of many, and how long does one take?

    A claim is decided when it is answered, whether it is granted or refused. `alone` is the number of claims that one
    agent makes, at rest and beside EVENTS_PER_S observations a second in batches.
    """
    pool = server.pool()
    contended = [await _contend(server, pool, agents) for _ in range(rounds)]
    await _queue(pool, "free", actions)
    free = await closed_loop(server.url, NEXT, list(_requests("free", actions, agents)), agents, server.secret)
    await _queue(pool, "rest", alone)
    await settled(pool)
    rest = await closed_loop(server.url, NEXT, list(_requests("rest", alone, 1)), 1, server.secret)
    await _queue(pool, "beside", alone)
    load = asyncio.create_task(_write(pool))
    await asyncio.sleep(1)
    beside = await closed_loop(server.url, NEXT, list(_requests("beside", alone, 1)), 1, server.secret)
    load.cancel()
    with suppress(asyncio.CancelledError):
        await load
    return {
        "contended_per_s": round(agents * rounds / sum(seconds for _, seconds in contended)),
        "winners": sorted({winners for winners, _ in contended}),
        "free_per_s": round(free.per_s),
        **_times("rest", rest),
        **_times("beside", beside),
        "refused": [free.refused, rest.refused, beside.refused],
    }


async def _contend(server: Server, pool: Pool, agents: int) -> tuple[int, float]:
    """All agents claim one action at once; returns how many got it, and the seconds until all were answered."""
    created = await pool.post("/v1/actions", {"project": "one", "title": "Hold the lamp"})
    await settled(pool)
    connections = [Http(server.url, server.secret) for _ in range(agents)]
    await asyncio.gather(*(http.open() for http in connections))
    bodies = [json.dumps({"agent_id": f"agent-{n}", "lease_seconds": 3600}).encode() for n in range(agents)]
    path, began = f"/v1/actions/{created['id']}/claim", time.perf_counter()
    requests = zip(connections, bodies, strict=True)
    answers = await asyncio.gather(*(http.ask("POST", path, body) for http, body in requests))
    seconds = time.perf_counter() - began
    for http in connections:
        http.close()
    return sum(answer.status == 200 for answer in answers), seconds


async def _queue(pool: Pool, project: str, actions: int) -> None:
    queued = ({"type": "action", "project": project, "title": f"Task {n}", "priority": n % 7} for n in range(actions))
    await fill(pool, queued)
    await settled(pool)


def _requests(project: str, count: int, agents: int) -> Iterator[bytes]:
    for number in range(count):
        yield json.dumps({"project": project, "agent_id": f"agent-{number % agents}"}).encode()


async def _write(pool: Pool) -> None:
    """Write EVENTS_PER_S observations a second until canceled."""
    written, began = 0, time.perf_counter()
    while True:
        batch = [observation("beside", written + n) for n in range(int(EVENTS_PER_S * EVERY_S))]
        await pool.post("/v1/events", batch)
        written += len(batch)
        await asyncio.sleep(max(0.0, written / EVENTS_PER_S - (time.perf_counter() - began)))


def _times(name: str, load: Load) -> dict[str, float]:
    shares: Sequence[tuple[str, float]] = (("p50", 0.5), ("p99", 0.99))
    return {f"{name}_{label}_ms": round(percentile(load.times, share), 1) for label, share in shares}
