"""How fast is recall, new questions and repeated ones, one client and eight, at rest and while a fleet writes?

    python -m benchmarks.recall [--documents 100000] [--questions 1000] [--writes 2000] [--embedded] [--url URL]

Observations of one project are loaded first, then every question goes to all of them. A new question has a vector that
nobody made before; repeated ones are 50 that were asked before. Then one client asks new questions at rest and, by
turns, while others write `--writes` observations a second in batches. Contextual vectors are made in the background
meanwhile; with `--embedded` they are waited for. Beside it: what the same clients get from a server that does nothing.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from itertools import count
from statistics import median
from typing import Any

import uvloop

from benchmarks.corpus import observation, question
from benchmarks.driving import Load, Pool, behind, closed_loop, fill, percentile, settled
from benchmarks.hello import hello
from benchmarks.wire import Http

PATH = "/v1/recall"
KNOWN = 50
CLIENTS = 8
TURNS = 3
BATCH_EVERY_S = 0.05


class Questions:
    """Bodies of requests: those of documents that are there, none of them twice unless asked for."""

    def __init__(self, run: str, documents: int) -> None:
        self._project, self._documents, self._next = f"{run}-0", documents, count()

    def new(self, number: int) -> list[bytes]:
        """So many that nobody asked before."""
        return [self._body(next(self._next)) for _ in range(number)]

    def again(self, bodies: list[bytes], number: int) -> list[bytes]:
        """So many of these, in turn."""
        return [bodies[place % len(bodies)] for place in range(number)]

    def _body(self, place: int) -> bytes:
        # some distance apart, so that they are of all sessions; behind the last the same text is asked for in a new way
        number, turn = place * 7919 % self._documents, place // self._documents
        asked = question(number) + f" ({turn})" * bool(turn)
        return json.dumps({"query": asked, "project": self._project}).encode()


async def write(url: str, secret: str | None, batches: Sequence[bytes], stop: asyncio.Event) -> int:
    """Send the batches at their times until told to stop; how many were sent. A late one is not waited for again."""
    http = Http(url, secret)
    await http.open()
    began = time.perf_counter()
    for number, batch in enumerate(batches):
        await asyncio.sleep(max(0.0, began + number * BATCH_EVERY_S - time.perf_counter()))
        if stop.is_set():
            return number
        await http.post("/v1/events", batch)
    return len(batches)


def batches_for(run: str, first: int, options: argparse.Namespace) -> list[bytes]:
    """What is written in one turn, made before it, so that making it takes no time from the clients."""
    size = int(options.writes * BATCH_EVERY_S)
    count = int(options.seconds / BATCH_EVERY_S)
    numbers = (range(first + n * size, first + (n + 1) * size) for n in range(count))
    return [json.dumps([observation(run, number, projects=1) for number in some]).encode() for some in numbers]


async def under_writes(options: argparse.Namespace, run: str, questions: Questions) -> dict[str, Any]:
    """p99 of one client at rest and while others write, by turns; medians of the turns."""
    pool, size = Pool(options.url, options.secret), int(options.writes * BATCH_EVERY_S)
    idle, busy, written = list[Load](), list[Load](), 0

    async def ask() -> Load:
        bodies = questions.new(options.questions * TURNS)
        return await closed_loop(options.url, PATH, bodies, 1, options.secret, options.seconds)

    for turn in range(TURNS):
        batches = batches_for(run, options.documents + turn * int(options.writes * options.seconds), options)
        idle.append(await ask())
        stop = asyncio.Event()
        writing = asyncio.create_task(write(options.url, options.secret, batches, stop))
        busy.append(await ask())
        stop.set()
        written += size * await writing
        await settled(pool)
    of_idle, of_busy = ([percentile(one.times, 0.99) for one in group] for group in (idle, busy))
    return {
        "idle_p99_ms": round(median(of_idle), 2),
        "writing_p99_ms": round(median(of_busy), 2),
        "writing_to_idle": round(median(b / i for b, i in zip(of_busy, of_idle, strict=True)), 2),
        "written_per_s": round(written / sum(one.seconds for one in busy)),
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Load, ask, sum up."""
    run = f"recall-{time.time_ns():x}"
    pool, questions = Pool(options.url, options.secret), Questions(run, options.documents)
    began = time.perf_counter()
    await fill(pool, (observation(run, number, projects=1) for number in range(options.documents)))
    await settled(pool, embedded=options.embedded)
    loaded_s = time.perf_counter() - began
    few, many = options.questions, 4 * options.questions
    known = questions.new(KNOWN)
    await closed_loop(options.url, PATH, known, 1, options.secret)

    async def ask(bodies: list[bytes], clients: int) -> Load:
        return await closed_loop(options.url, PATH, bodies, clients, options.secret)

    loads = {
        "new": await ask(questions.new(few), 1),
        "cached": await ask(questions.again(known, few), 1),
        "eight_new": await ask(questions.new(many), CLIENTS),
        "eight_cached": await ask(questions.again(known, many), CLIENTS),
    }
    with hello() as url:
        again = questions.again(known, many)
        loads["hello"] = await closed_loop(url, PATH, again, 1)
        loads["eight_hello"] = await closed_loop(url, PATH, again, CLIENTS)
    figures: dict[str, Any] = {"documents": options.documents, "loaded_s": round(loaded_s, 1)}
    for name, load in loads.items():
        figures |= load.figures(name)
    for name in ("new", "cached"):
        figures[f"{name}_p99_to_p50"] = round(figures[f"{name}_p99_ms"] / figures[f"{name}_p50_ms"], 2)
    figures["refused"] = sum(load.refused for load in loads.values())
    if options.writes:
        figures |= await under_writes(options, run, questions)
    figures["without_vector"] = (await behind(pool))[1]
    return figures


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=1_000, help="of one client; eight ask four times as many")
    parser.add_argument("--writes", type=int, default=2_000, help="a second, while one client asks; 0: leave that out")
    parser.add_argument("--seconds", type=float, default=10, help="of each turn at rest and while others write")
    parser.add_argument("--embedded", action="store_true", help="wait until all documents have contextual vectors")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:>20}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    uvloop.run(main())
