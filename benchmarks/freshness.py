"""How soon is a write findable? Time from its acknowledgement to the first recall that finds it.

    python -m benchmarks.freshness [--rate 300] [--seconds 30] [--url http://127.0.0.1:3111]

Observations are written one by one at a steady rate. Every so often one of them holds a word that no other has, and a
prober asks for that word, without a token, again and again from the moment of the acknowledgement; the time until a
recall finds it is a sample. Beside that, each sampled write is asked for once with its token: that must find it at
once, always.
"""

import argparse
import asyncio
import json
import os
import random
import time
from typing import Any

import uvloop

from benchmarks.corpus import SEED, text
from benchmarks.driving import Pool, percentile
from benchmarks.wire import Refused

ASK_EVERY_S = 0.01
GIVE_UP_S = 10.0


async def write(pool: Pool, run: str, number: int, content: str) -> str:
    """Store one observation; returns its token."""
    event = {
        "event_id": f"{run}-{number}",
        "project": run,
        "session_id": f"session-{number % 23}",
        "agent_id": f"agent-{number % 11}",
        "content": content,
    }
    return (await pool.post("/v1/observations", event))["position"]


async def found(pool: Pool, run: str, word: str, after: str = "") -> bool:
    """Whether recall (words only: the text is what must be findable) finds the word's document."""
    asked = {"query": word, "project": run, "limit": 1, "mode": "lexical", "after": after}
    try:
        results: list[dict[str, Any]] = (await pool.post("/v1/recall", asked))["results"]
    except Refused:
        return False
    return bool(results) and word in results[0]["content"]


async def sample(pool: Pool, run: str, number: int, dice: random.Random) -> tuple[float, bool]:
    """Seconds until a marked write was found, and whether its token found it at once."""
    word = f"zq{number}x{dice.randrange(10**9)}"
    token = await write(pool, run, number, f"{text(number, 200)} {word}")
    acknowledged = time.perf_counter()
    with_token = asyncio.create_task(found(pool, run, word, token))
    while not await found(pool, run, word):
        if time.perf_counter() - acknowledged > GIVE_UP_S:
            break
        await asyncio.sleep(ASK_EVERY_S)
    return time.perf_counter() - acknowledged, await with_token


async def main() -> None:
    """Write at the rate, sample, print percentiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--samples-per-second", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    secret = os.environ.get("MNEMOLOG_SECRET")
    dice, run = random.Random(SEED), f"fresh-{time.time_ns():x}"
    pool = Pool(options.url, secret)
    began = time.perf_counter()
    samples: list[asyncio.Task[tuple[float, bool]]] = []
    writes: list[asyncio.Task[str]] = []
    for number in range(options.rate * options.seconds):
        await asyncio.sleep(max(0.0, began + number / options.rate - time.perf_counter()))
        if number % (options.rate // options.samples_per_second) == 0:
            samples.append(asyncio.create_task(sample(pool, run, number, dice)))
        else:
            writes.append(asyncio.create_task(write(pool, run, number, text(number))))
    await asyncio.gather(*writes)
    reached = (len(writes) + len(samples)) / (time.perf_counter() - began)
    results = await asyncio.gather(*samples)
    times = [seconds * 1000 for seconds, _ in results]
    figures = {
        "events_per_s": round(reached),
        "samples": len(times),
        "p50_ms": round(percentile(times, 0.50)),
        "p99_ms": round(percentile(times, 0.99)),
        "max_ms": round(max(times)),
        "found_with_token": f"{sum(with_token for _, with_token in results)}/{len(results)}",
    }
    print(json.dumps(figures) if options.json else "\n".join(f"{name:>18}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    uvloop.run(main())
