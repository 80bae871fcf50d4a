"""How fast a running server accepts writes, makes them findable, and answers recall.

The load generator shares the machine with the server.
"""

import asyncio
import json
import random
import time
from contextlib import suppress
from itertools import count
from statistics import median

from benchmarks.corpus import SEED, observation, question, text
from benchmarks.driving import Http, Load, Pool, Refused, backlogs, closed_loop, fill, percentile, settled, until
from benchmarks.figures import Figures, Row, benchmark
from benchmarks.servers import Server, hello

RECALL = "/v1/recall"
REPEATED = 300
CLIENTS = 8
BATCH = 500
SINGLE_CONNECTIONS = 64
ASK_EVERY_S = 0.01
GIVE_UP_S = 10.0
MARKED_PER_S = 5


async def _batches(server: Server, payloads: list[bytes]) -> float:
    """Events per second of four clients that write the payloads in batches."""

    async def write(own: list[bytes]) -> None:
        http = Http(server.url, server.secret)
        await http.open()
        for start in range(0, len(own), BATCH):
            answer = json.loads(await http.post("/v1/events", b"[" + b",".join(own[start : start + BATCH]) + b"]"))
            if answer["rejected"] or answer["duplicates"]:
                raise RuntimeError(f"not all accepted: {answer}")
        http.close()

    began = time.perf_counter()
    await asyncio.gather(*(write(payloads[number::4]) for number in range(4)))
    return len(payloads) / (time.perf_counter() - began)


@benchmark(
    Row(
        "single writes, 64 connections",
        "single_per_s",
        "/s",
        at_least=5_000,
        raw="hello_per_s",
        raw_name="uvicorn hello",
    ),
    Row("batched writes", "batch_per_s", "/s"),
    quick={"events": 4_000, "rounds": 2},
)
async def ingest(server: Server, events: int = 20_000, rounds: int = 5) -> Figures:
    """How fast are writes, one per request and in batches?

    Rounds alternate between batches and singles (half as many), so that drift of the machine favors neither. Each
    starts when everything before it is projected; embedding continues in the background.
    """
    pool, run = server.pool(), f"bench-{time.time_ns():x}"
    batch, single, bodies = list[float](), list[float](), list[bytes]()
    for number in range(rounds):
        first = number * 2 * events
        payloads = [json.dumps(observation(run, first + n)).encode() for n in range(events)]
        bodies = [json.dumps(observation(run, first + events + n)).encode() for n in range(events // 2)]
        await settled(pool)
        batch.append(await _batches(server, payloads))
        await settled(pool)
        load = await closed_loop(server.url, "/v1/observations", bodies, SINGLE_CONNECTIONS, server.secret)
        if load.refused:
            raise RuntimeError(f"{load.refused} of {len(bodies)} were refused")
        single.append(load.per_s)
    with hello() as url:
        least = await closed_loop(url, "/", bodies, SINGLE_CONNECTIONS)
    return {
        "batch_per_s": round(median(batch)),
        "single_per_s": round(median(single)),
        "hello_per_s": round(least.per_s),
    }


async def _write(pool: Pool, run: str, number: int, content: str) -> str:
    """Store one observation; returns its position."""
    names = {"event_id": f"{run}-{number}", "session_id": f"session-{number % 23}", "agent_id": f"agent-{number % 11}"}
    return (await pool.post("/v1/observations", {**names, "project": run, "content": content}))["position"]


async def _finds(pool: Pool, run: str, word: str, after: str = "") -> bool:
    """Whether recall finds the document with this word, by words only."""
    try:
        body = {"query": word, "project": run, "limit": 1, "mode": "lexical", "after": after}
        results = (await pool.post(RECALL, body))["results"]
    except Refused:
        return False
    return bool(results) and word in results[0]["content"]


async def _time_to_find(pool: Pool, run: str, number: int, word: str) -> tuple[float, bool]:
    """Milliseconds until a marked write was found, and whether a request with its position found it at once."""
    position = await _write(pool, run, number, f"{text(number, 200)} {word}")
    acknowledged = time.perf_counter()
    with_position = asyncio.create_task(_finds(pool, run, word, position))
    with suppress(TimeoutError):
        await until(lambda: _finds(pool, run, word), ASK_EVERY_S, GIVE_UP_S)
    return (time.perf_counter() - acknowledged) * 1000, await with_position


@benchmark(
    Row("time until recall finds a write, p50 at 300/s", "p50_ms", "ms", at_most=100),
    Row("time until recall finds a write, p99", "p99_ms", "ms"),
    quick={"seconds": 6},
)
async def freshness(server: Server, rate: int = 300, seconds: int = 30) -> Figures:
    """How soon after its acknowledgement does recall find a write?

    Observations are written one by one at a steady rate. Five per second contain a unique word, which is queried
    again and again from the acknowledgement on. Each is also queried once with its position: that must find it at
    once.
    """
    pool, dice, run = server.pool(), random.Random(SEED), f"fresh-{time.time_ns():x}"
    samples, writes = list[asyncio.Task[tuple[float, bool]]](), list[asyncio.Task[str]]()
    await _write(pool, run, -1, "started")
    await until(lambda: _finds(pool, run, "started"))  # a server that has just started loads its model first
    began = time.perf_counter()
    for number in range(rate * seconds):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        if number % (rate // MARKED_PER_S) == 0:
            word = f"zq{number}x{dice.randrange(10**9)}"
            samples.append(asyncio.create_task(_time_to_find(pool, run, number, word)))
        else:
            writes.append(asyncio.create_task(_write(pool, run, number, text(number))))
    await asyncio.gather(*writes)
    reached = rate * seconds / (time.perf_counter() - began)
    results = await asyncio.gather(*samples)
    times = [ms for ms, _ in results]
    return {
        "events_per_s": round(reached),
        "samples": len(times),
        "p50_ms": round(percentile(times, 0.50)),
        "p99_ms": round(percentile(times, 0.99)),
        "max_ms": round(max(times)),
        "found_with_position": sum(at_once for _, at_once in results),
    }


class _Questions:
    """Requests about stored documents; each is used once unless it is repeated on purpose."""

    def __init__(self, run: str, documents: int) -> None:
        self._project, self._documents, self._next = f"{run}-0", documents, count()

    def new(self, number: int) -> list[bytes]:
        """So many that were never asked before."""
        return [self._body(next(self._next)) for _ in range(number)]

    def _body(self, place: int) -> bytes:
        # far apart, so that they are about all sessions; once all were asked, the same again in a new way
        number, turn = place * 7919 % self._documents, place // self._documents
        query = question(number) + f" ({turn})" * bool(turn)
        return json.dumps({"query": query, "project": self._project}).encode()


HELLO, EIGHT = ("hello_p50_ms", "uvicorn hello"), ("eight_hello_per_s", "uvicorn hello")


@benchmark(
    Row("recall, 1 client, new questions, p50", "new_p50_ms", "ms", None, 9, *HELLO),
    Row("recall, 1 client, cached vectors, p50", "cached_p50_ms", "ms", None, 4, *HELLO),
    Row("recall, 1 client, equal questions, p50", "equal_p50_ms", "ms", None, 0.3, *HELLO),
    Row("recall, 8 clients, new questions", "eight_new_per_s", "/s", 200, None, *EIGHT),
    Row("recall, 8 clients, repeated questions", "eight_cached_per_s", "/s", 450, None, *EIGHT),
    quick={"documents": 5_000, "questions": 100},
)
async def recall(server: Server, documents: int = 100_000, questions: int = 1_000, embedded: bool = False) -> Figures:
    """How fast is recall: new, repeated and equal questions, one client and eight?

    All documents are in one project. The vector of a new question was never made before; those of repeated questions
    were, but they are too many for their answers to be cached. The answer to equal questions is cached.
    Contextual vectors are made in the background unless `--embedded` waits for them.
    """
    run, pool = f"recall-{time.time_ns():x}", server.pool()
    asked = _Questions(run, documents)
    began = time.perf_counter()
    await fill(pool, (observation(run, number, projects=1) for number in range(documents)))
    await settled(pool, embedded=embedded)
    loaded_s = time.perf_counter() - began
    known = asked.new(REPEATED)
    await closed_loop(server.url, RECALL, known, 1, server.secret)
    repeated = [known[number % REPEATED] for number in range(4 * questions)]

    async def ask(bodies: list[bytes], clients: int) -> Load:
        return await closed_loop(server.url, RECALL, bodies, clients, server.secret)

    loads = {
        "new": await ask(asked.new(questions), 1),
        "cached": await ask(repeated[:questions], 1),
        "eight_new": await ask(asked.new(4 * questions), CLIENTS),
        "eight_cached": await ask(repeated, CLIENTS),
        "equal": await ask(known[:1] * questions, 1),
    }
    with hello() as url:
        loads["hello"] = await closed_loop(url, RECALL, repeated, 1)
        loads["eight_hello"] = await closed_loop(url, RECALL, repeated, CLIENTS)
    figures: Figures = {"documents": documents, "loaded_s": round(loaded_s, 1)}
    for name, load in loads.items():
        figures |= load.figures(name)
    figures["refused"] = sum(load.refused for load in loads.values())
    figures["without_vector"] = (await backlogs(pool))[1]
    return figures
