"""How fast workers project and embed."""

import asyncio
import time
from statistics import median

from benchmarks.corpus import observation
from benchmarks.driving import backlogs, fill, projected, settled
from benchmarks.figures import Figures, Row, benchmark
from benchmarks.servers import Server

LOOK_EVERY_S = 0.05
KEPT_UP = 0.2
"""A backlog of at most this share after the load: the worker kept up, and the rate is that of the whole run."""


@benchmark(
    Row("projected by one worker next to the API", "projected_per_s", "/s", at_least=8_000),
    settings={"workers": "1"},
    quick={"events": 15_000},
    name="backlog",
)
async def beside_api(server: Server, events: int = 100_000) -> Figures:
    """How fast does one worker project beside the API?

    A backlog is written as fast as the server accepts it. The rate is that of the time after the last
    acknowledgement, when only projecting is left (embedding waits for it); if the worker kept up, it is that of the
    whole run.
    """
    run, pool = f"backlog-{time.time_ns():x}", server.pool()
    made = [observation(run, number) for number in range(events)]
    began = time.perf_counter()
    await fill(pool, made)
    written_s = time.perf_counter() - began
    left = (await backlogs(pool))[0]
    since = time.perf_counter()
    await projected(pool)
    ended = time.perf_counter()
    counted, seconds = (left, ended - since) if left > KEPT_UP * events else (events, ended - began)
    return {
        "events": events,
        "written_per_s": round(events / written_s),
        "left_at_end": left,
        "projected_per_s": round(counted / seconds),
        "seconds": round(ended - began, 1),
    }


@benchmark(Row("contextual embedding", "embedded_per_s", "/s"), quick={"texts": 200, "rounds": 2})
async def embedding(server: Server, texts: int = 1_500, rounds: int = 3) -> Figures:
    """How many texts per second does a worker embed with the default model, with nothing else to do?

    The queue of observations that are projected, and have no contextual vector yet, is timed until it is empty.
    """
    pool, rates = server.pool(), list[float]()
    for number in range(rounds):
        run, first = f"embed-{time.time_ns():x}", number * texts
        await fill(pool, (observation(run, first + n) for n in range(texts)))
        await settled(pool)
        _, waiting = await backlogs(pool)
        began, left = time.perf_counter(), waiting
        while left:
            await asyncio.sleep(LOOK_EVERY_S)
            _, left = await backlogs(pool)
        rates.append(waiting / (time.perf_counter() - began))
        await settled(pool, embedded=True)
    return {"documents": texts * rounds, "embedded_per_s": round(median(rates), 1)}
