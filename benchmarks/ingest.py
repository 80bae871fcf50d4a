"""How fast are writes? Single and batch over HTTP, beside raw pipelined XADD of the same payloads, in one run.

    python -m benchmarks.ingest --redis-url unix:///PATH/valkey.sock [--url http://127.0.0.1:3111]

Rounds alternate (XADD, batch, single), so that a machine whose speed drifts does not favour one; the ratio of batch to
XADD is taken round by round and its median printed. Each way starts when the worker has projected what came
before (embedding goes on in the background: it takes minutes); while events are written it projects them as it can. The
load generator shares the machine with the server.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop
from redis.asyncio import Redis
from rich.console import Console
from rich.table import Table

from benchmarks.corpus import observation
from benchmarks.driving import Pool, closed_loop, percentile, settled
from benchmarks.hello import hello
from benchmarks.wire import Http


async def rate(work: Callable[[int], Awaitable[int]], concurrency: int) -> float:
    """Events per second of `concurrency` workers that each return how many they wrote."""
    began = time.perf_counter()
    written = await asyncio.gather(*(work(number) for number in range(concurrency)))
    return sum(written) / (time.perf_counter() - began)


async def xadd(redis: "Redis[bytes]", payloads: list[bytes], batch: int) -> float:
    """Raw XADD in pipelines of `batch`, over 16 streams; the streams are deleted afterwards."""

    async def work(number: int) -> int:
        mine = payloads[number::4]
        for start in range(0, len(mine), batch):
            async with redis.pipeline(transaction=False) as pipe:
                for n, payload in enumerate(mine[start : start + batch]):
                    pipe.xadd(f"bench:raw:{n % 16}", {"e": payload})
                await pipe.execute()
        return len(mine)

    found = await rate(work, 4)
    await redis.unlink(*(f"bench:raw:{n}" for n in range(16)))
    return found


async def batches(options: argparse.Namespace, payloads: list[bytes]) -> float:
    """POST /v1/events with `--batch` events a request on four connections."""

    async def work(number: int) -> int:
        connection = Http(options.url, options.secret)
        await connection.open()
        mine = payloads[number::4]
        for start in range(0, len(mine), options.batch):
            answer = json.loads(
                await connection.post("/v1/events", b"[" + b",".join(mine[start : start + options.batch]) + b"]")
            )
            if answer["rejected"] or answer["duplicates"]:
                raise RuntimeError(f"not all accepted: {answer}")
        connection.close()
        return len(mine)

    return await rate(work, 4)


async def singles(options: argparse.Namespace, payloads: list[bytes]) -> tuple[float, list[float]]:
    """POST /v1/observations, one event a request, on `--connections` connections; rate and latencies in ms."""
    load = await closed_loop(options.url, "/v1/observations", payloads, options.connections, options.secret)
    if load.refused:
        raise RuntimeError(f"{load.refused} of {len(payloads)} were refused")
    return load.per_s, load.times


async def main() -> None:
    """Alternate the three ways of writing and print rates and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--redis-url", required=True)
    parser.add_argument("--events", type=int, default=10_000, help="per round and way (singles: half)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    redis: Redis[bytes] = Redis.from_url(options.redis_url)
    pool, run = Pool(options.url, options.secret), f"bench-{time.time_ns():x}"
    raw: list[float] = []
    batch: list[float] = []
    single: list[float] = []
    times: list[float] = []
    few: list[bytes] = []
    for number in range(options.rounds):
        first = number * 2 * options.events
        events = [json.dumps(observation(run, first + n)).encode() for n in range(options.events)]
        few = [json.dumps(observation(run, first + options.events + n)).encode() for n in range(options.events // 2)]
        await settled(pool)
        raw.append(await xadd(redis, events, options.batch))
        batch.append(await batches(options, events))
        await settled(pool)
        rate_, latencies = await singles(options, few)
        single.append(rate_)
        times += latencies
    await redis.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    with hello() as url:
        least = await closed_loop(url, "/", few, options.connections)
    ratios = [b / r for b, r in zip(batch, raw, strict=True)]
    figures = {
        "xadd_per_s": round(statistics.median(raw)),
        "batch_per_s": round(statistics.median(batch)),
        "batch_to_xadd": round(statistics.median(ratios), 3),
        "single_per_s": round(statistics.median(single)),
        "single_p50_ms": round(percentile(times, 0.50), 1),
        "single_p99_ms": round(percentile(times, 0.99), 1),
        "hello_per_s": round(least.per_s),
    }
    if options.json:
        print(json.dumps(figures))
        return
    table = Table("figure", "median", "rounds", title=f"{options.rounds} rounds of {options.events:,} events")
    table.add_row("raw XADD, pipelined, events/s", f"{figures['xadd_per_s']:,}", " ".join(f"{r:,.0f}" for r in raw))
    table.add_row("HTTP batch, events/s", f"{figures['batch_per_s']:,}", " ".join(f"{r:,.0f}" for r in batch))
    table.add_row("ratio batch / XADD", f"{figures['batch_to_xadd']:.2f}", " ".join(f"{r:.2f}" for r in ratios))
    table.add_row("HTTP single, events/s", f"{figures['single_per_s']:,}", " ".join(f"{r:,.0f}" for r in single))
    table.add_row("the same from a server that does nothing", f"{figures['hello_per_s']:,}", "")
    table.add_row("single latency, ms", f"p50 {figures['single_p50_ms']}", f"p99 {figures['single_p99_ms']}")
    Console().print(table)


if __name__ == "__main__":
    uvloop.run(main())
