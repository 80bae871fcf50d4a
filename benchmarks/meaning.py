"""Is what was written findable by meaning as soon as it is projected, and do contextual vectors catch up?

    python -m benchmarks.meaning [--rate 3000] [--seconds 60] [--sample 300] [--url http://127.0.0.1:3111]

Observations are written at a steady rate in batches. At the first moment when nothing waits to be projected, a sample
of them is asked for by vectors alone (`mode` `vector`), each by its own text: a document that has a vector is the
nearest. The share that is among the first ten is the figure; its own question, in other words, is asked as well.
Backlogs are read four times a second, during the load and for some seconds behind it: the contextual one shrinks from
the first reading on behind which every later one is smaller.
"""

import argparse
import asyncio
import json
import os
import random
import time
from collections.abc import Sequence
from typing import Any

import uvloop

from benchmarks.corpus import SEED, observation, question, text
from benchmarks.driving import Pool, behind, projected

TICK_S = 0.1
READ_EVERY_S = 0.25
WATCH_S = 5.0
"""How long the backlogs are read behind the load at least."""
AT_A_TIME = 8
WRITERS = 4

Reading = tuple[float, int, int, int]
"""Seconds since the load began; events written by then; events not projected; documents without contextual vector."""


async def load(pool: Pool, batches: Sequence[bytes], written: list[int]) -> float:
    """Send each batch at its time; `written` has how many events were acknowledged. Returns the seconds it took."""
    waiting = ((number * TICK_S, batch) for number, batch in enumerate(batches))
    began = time.perf_counter()

    async def work() -> None:
        for at, batch in waiting:
            await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
            answer = await pool.send("/v1/events", batch)
            written[0] += answer["accepted"]

    await asyncio.gather(*(work() for _ in range(WRITERS)))
    return time.perf_counter() - began


async def read_on(pool: Pool, began: float, written: list[int], readings: list[Reading], stop: asyncio.Event) -> None:
    """Note the backlogs until told to stop."""
    while not stop.is_set():
        lag, to_embed = await behind(pool)
        readings.append((round(time.perf_counter() - began, 2), written[0], lag, to_embed))
        await asyncio.sleep(READ_EVERY_S)


async def found(pool: Pool, run: str, numbers: Sequence[int], ask: Any) -> float:
    """The share of these documents that `ask(number)` finds by vectors alone."""
    hits, waiting = 0, iter(numbers)

    async def work() -> None:
        nonlocal hits
        for number in waiting:
            one = observation(run, number)
            body = {"query": ask(number), "project": one["project"], "mode": "vector", "limit": 10}
            results = (await pool.post("/v1/recall", body))["results"]
            hits += any(one["content"] in result["content"] for result in results)

    await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
    return hits / len(numbers)


def shrinking_after(readings: Sequence[Reading], ended: float) -> float | None:
    """Seconds from the load's end to the reading from which on the contextual backlog falls; None: it does not.

    It falls when the last reading is below this one, and none in between above it.
    """
    behind_it = [(at - ended, to_embed) for at, _, _, to_embed in readings if at >= ended]
    for place, (after, size) in enumerate(behind_it[:-1]):
        later = [one for _, one in behind_it[place + 1 :]]
        if max(later) <= size and later[-1] < size:
            return round(after, 2)
    return 0.0 if behind_it and not behind_it[-1][1] else None


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Load, wait until all is projected, ask."""
    run, pool = f"meaning-{time.time_ns():x}", Pool(options.url, options.secret)
    readings, written, stop = list[Reading](), [0], asyncio.Event()
    size = int(options.rate * TICK_S)
    batches = [
        json.dumps([observation(run, first + n) for n in range(size)]).encode()  # made before the load begins
        for first in range(0, int(options.rate * options.seconds), size)
    ]
    began = time.perf_counter()
    reading = asyncio.create_task(read_on(pool, began, written, readings, stop))
    took = await load(pool, batches, written)
    ended = time.perf_counter() - began
    await projected(pool, 0.02)
    projected_s = time.perf_counter() - began - ended
    numbers = random.Random(SEED).sample(range(written[0]), min(options.sample, written[0]))
    share = await found(pool, run, numbers, text)
    await asyncio.sleep(max(0.0, began + ended + WATCH_S - time.perf_counter()))
    stop.set()
    await reading
    return {
        "written": written[0],
        "written_per_s": round(written[0] / took),
        "projected_after_s": round(projected_s, 2),
        "found_by_text": round(share, 3),
        "found_by_question": round(await found(pool, run, numbers, question), 3),
        "without_vector_at_end": next((row[3] for row in readings if row[0] >= ended), 0),
        "without_vector_at_last": readings[-1][3],
        "shrinking_after_s": shrinking_after(readings, ended),
        "timeline": readings,
    }


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--rate", type=int, default=3_000, help="observations a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--sample", type=int, default=300, help="documents that are asked for")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    if options.json:
        print(json.dumps(figures))
        return
    print("\n".join(f"{name:>24}: {value}" for name, value in figures.items() if name != "timeline"))


if __name__ == "__main__":
    uvloop.run(main())
