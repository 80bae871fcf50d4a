"""What does an event cost, and what a question: bytes in every store, and processor time in every process?

    python -m benchmarks.sizing [--data PATH [--name NAME]] [--events 4000] [--write benchmarks/sizing.json]

Starts servers of its own and writes observations, then memories, then lessons: first without an embedder, then with
the default one, waiting each time until all is projected, indexed and embedded. Bytes are those that each kind of event
adds to Valkey, by key family, and to its append-only file; that observations are in the archive, and all documents in
the snapshot of the index. (What a document takes in an API process shows with many: `benchmarks.footprint`.) Processor
time is that of each process (utime and stime, of Valkey INFO cpu), so that others who use the machine change it less
than they change seconds; what the processes take while nothing is written is taken off. Questions are asked at the end,
and the log without an embedder is rebuilt.

Texts are those of `corpus.py`, or with `--data` the turns of real sessions (the shape is that of
`benchmarks.relevance`), which come again, their words in another order, until there are enough. Memories and lessons
are their first 300 characters. `--write FILE` puts the figures into that file under `--name`.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.all import commit, machine
from benchmarks.corpus import SEED, observation, question
from benchmarks.driving import Pool, closed_loop, fill, settled
from benchmarks.footprint import seal, snapshot
from benchmarks.key_families import families
from benchmarks.rebuild_rate import rebuilt
from benchmarks.relevance import events_of
from benchmarks.stack import Stack
from ingest.platform.connections import Client, connect

FIRST_CHARACTERS = 300
LOOK_EVERY_S = 1.0
IDLE_S = 8.0
SETTLE_S = 3.0
"""Behind the last change: vectors come through the feed, heaps are trimmed."""
SAMPLES = 200
CLIENTS = 8
PROCESSES = ("api", "worker", "valkey")
STORES: tuple[str, ...] = ("log", "documents", "feed", "vectors", "other")
GROUPS = {"log": "log", "changes": "feed", "vec": "vectors"}
"""Families of keys that are a store of their own; `doc`, `row` and `list` are documents."""

Figures = dict[str, float]
Texts = list[dict[str, Any]]


class Processor(NamedTuple):
    """Seconds of processor time that the processes have taken, and when that was read."""

    taken: tuple[float, ...]
    at: float


async def processor(stack: Stack, redis: Client) -> Processor:
    """What the processes have taken so far."""
    info = await redis.info("cpu")
    valkey = float(info["used_cpu_user"]) + float(info["used_cpu_sys"])
    return Processor((stack.processor("api"), stack.processor("worker"), valkey), time.monotonic())


def per_event(before: Processor, after: Processor, idle: Sequence[float], count: int) -> Figures:
    """Milliseconds of each process for one of `count`; `idle` are the seconds a second that they take anyway."""
    seconds = after.at - before.at
    taken = (now - then - rest * seconds for then, now, rest in zip(before.taken, after.taken, idle, strict=True))
    return {name: round(max(0.0, one) / count * 1000, 3) for name, one in zip(PROCESSES, taken, strict=True)}


class Server:
    """A stack that is measured, and what it takes while nothing happens but the looks of this program."""

    def __init__(self, stack: Stack, redis: Client, *, embedded: bool) -> None:
        self.stack, self.redis, self.embedded = stack, redis, embedded
        self.pool = Pool(stack.url)
        self.idle: tuple[float, ...] = (0.0,) * len(PROCESSES)

    async def rest(self) -> None:
        """Find out what it takes while nothing happens."""
        before = await processor(self.stack, self.redis)
        for _ in range(round(IDLE_S / LOOK_EVERY_S)):
            await self.settled()
            await asyncio.sleep(LOOK_EVERY_S)
        after = await processor(self.stack, self.redis)
        self.idle = tuple((b - a) / (after.at - before.at) for a, b in zip(before.taken, after.taken, strict=True))

    async def settled(self) -> None:
        """Return when all that was written is projected, indexed, and embedded where there is an embedder."""
        await settled(self.pool, embedded=self.embedded, every_s=LOOK_EVERY_S)

    async def cost(self, work: Awaitable[Any], count: int) -> Figures:
        """Processor milliseconds of one of `count`, until all of it is settled."""
        before = await processor(self.stack, self.redis)
        await work
        await self.settled()
        await asyncio.sleep(SETTLE_S)
        return per_event(before, await processor(self.stack, self.redis), self.idle, count)

    async def stored(self) -> Figures:
        """Bytes of each store."""
        await asyncio.sleep(SETTLE_S)
        found: Figures = dict.fromkeys(STORES, 0.0)
        for family in await families(self.redis, SAMPLES):
            kind = family.name.partition(" ")[0]
            group = "documents" if kind in ("doc", "row", "list") else GROUPS.get(kind, "other")
            found[group] += family.bytes
        return {**found, "file": float(size(self.stack.folder / "data/valkey/appendonlydir"))}


def size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def sealed(stack: Stack) -> int:
    """Bytes of the archive, with all in it that is projected."""
    seal(stack)
    return size(stack.folder / "archive")


def turns(data: Path | None, count: int) -> Texts:
    """So many observations, of real sessions or made up; no two have the same text."""
    if data is None:
        return [observation("sizing", number) for number in range(count)]
    known = [turn for conversation in json.loads(data.read_bytes()) for turn in events_of(conversation, "")]
    return [_again(known[number % len(known)], number // len(known)) for number in range(count)]


def _again(turn: dict[str, Any], time: int) -> dict[str, Any]:
    """The turn in another project; from the second time on its words are in another order, so that it is not known."""
    names = {name: f"{turn[name]} {time}" for name in ("event_id", "project", "session_id")}
    words = turn["content"].split(" ")
    if time:
        random.Random(f"{SEED} {turn['event_id']} {time}").shuffle(words)
    return {**turn, **names, "content": " ".join(words)}


def kept(kind: str, observations: Texts) -> Iterator[dict[str, Any]]:
    """Memories, or lessons, of what was observed."""
    for one in observations:
        said = {"project": one["project"], "agent_id": one["agent_id"], "event_id": f"{kind} {one['event_id']}"}
        yield {"type": kind, **said, "content": f"{kind}: {one['content'][:FIRST_CHARACTERS]} {one['event_id']}"}


async def written(server: Server, observations: Texts) -> tuple[dict[str, Figures], dict[str, Figures]]:
    """Processor milliseconds and bytes of an event of each kind, in batches; of memories and lessons half as many.

    The observations are in the archive then, where there is one.
    """
    half = observations[: len(observations) // 2]
    events = {"observation": observations, "memory": list(kept("remember", half)), "lesson": list(kept("lesson", half))}
    costs, sizes = dict[str, Figures](), dict[str, Figures]()
    archived = "MNEMOLOG_ARCHIVE" in server.stack.environment
    first = sealed(server.stack) if archived else 0
    for kind, some in events.items():
        before = await server.stored()
        costs[kind] = await server.cost(fill(server.pool, some), len(some))
        after = await server.stored()
        sizes[kind] = {name: round((after[name] - before[name]) / len(some), 1) for name in after}
        if kind == "observation" and archived:
            sizes[kind]["archive"] = round((sealed(server.stack) - first) / len(some), 1)
    return costs, sizes


async def asked(server: Server, observations: Texts, count: int) -> dict[str, Figures]:
    """Processor milliseconds of a question of each kind; no two ask for the same."""
    projects = sorted({one["project"] for one in observations})
    texts = [one["content"][:80] if number % 2 else question(number) for number, one in enumerate(observations[:count])]
    places = [projects[number % len(projects)] for number in range(len(texts))]
    queries = [{"query": text, "project": place} for text, place in zip(texts, places, strict=True)]
    contexts = [{"project": place, "query": text} for text, place in zip(texts, places, strict=True)]

    def post(path: str, bodies: Sequence[dict[str, Any]]) -> Awaitable[Any]:
        return closed_loop(server.stack.url, path, [json.dumps(one).encode() for one in bodies], CLIENTS)

    async def listed() -> None:
        for place in places:
            await server.pool.get(f"/v1/timeline?limit=50&project={place.replace(' ', '%20')}")

    return {
        "recall": await server.cost(post("/v1/recall", queries), len(queries)),
        "recall, repeated": await server.cost(post("/v1/recall", queries), len(queries)),
        "context": await server.cost(post("/v1/context", contexts), len(contexts)),
        "list": await server.cost(listed(), len(places)),
    }


async def singles(server: Server, observations: Texts) -> Figures:
    """Processor milliseconds of an observation that is a request of its own."""
    names = ("event_id", "project", "session_id")
    bodies = [{**one, **{name: f"single {one[name]}" for name in names}} for one in observations]
    encoded = [json.dumps({name: one[name] for name in one if name != "type"}).encode() for one in bodies]
    return await server.cost(closed_loop(server.stack.url, "/v1/observations", encoded, CLIENTS), len(encoded))


async def without_embedder(stack: Stack, observations: Texts) -> dict[str, Any]:
    """Costs without an embedder, of single writes, and of a rebuild."""
    async with _server(stack, embedded=False) as server:
        costs, _ = await written(server, observations)
        costs["observation alone"] = await singles(server, observations[: len(observations) // 2])
        before = await processor(stack, server.redis)
        entries, _ = await rebuilt(server.pool)
        after = await processor(stack, server.redis)
        return {"ms": costs, "rebuild_ms": per_event(before, after, server.idle, entries)}


async def with_embedder(stack: Stack, observations: Texts, questions: int) -> dict[str, Any]:
    """Costs with the default embedder, of questions; bytes in every store."""
    async with _server(stack, embedded=True) as server:
        costs, sizes = await written(server, observations)
        questioned = await asked(server, observations, questions)
        await snapshot(stack)
        snapshots = map(size, (stack.folder / "data/snapshots").iterdir())
        whole = round(max(snapshots) / (2 * len(observations)), 1)
        return {"ms": costs, "bytes": sizes, "snapshot_bytes": whole, "questions_ms": questioned}


class _server:
    """A measured stack as a context."""

    def __init__(self, stack: Stack, *, embedded: bool) -> None:
        self._redis = connect(stack.redis_url)
        self._measured = Server(stack, self._redis, embedded=embedded)

    async def __aenter__(self) -> Server:
        await fill(self._measured.pool, [observation("first", number) for number in range(100)])
        await self._measured.pool.post("/v1/recall", {"query": question(1), "project": "first-0"})
        await self._measured.settled()
        await self._measured.rest()
        return self._measured

    async def __aexit__(self, *_: object) -> None:
        await self._redis.aclose()


def measure(data: Path | None, events: int, questions: int) -> dict[str, Any]:
    """All figures of one run."""
    observations = turns(data, events)
    about = {"taken": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), "machine": machine(), "events": events}
    with Stack(embedder="none") as stack:
        plain = asyncio.run(without_embedder(stack, observations))
    with Stack(archive="{folder}/archive") as stack:
        figures = asyncio.run(with_embedder(stack, observations, questions))
    return {
        **about,
        "text_bytes": round(fmean(len(one["content"].encode()) for one in observations)),
        "kept_bytes": round(fmean(len(one["content"].encode()) for one in kept("remember", observations))),
        **figures,
        "ms_without_embedder": plain["ms"],
        "rebuild_ms": plain["rebuild_ms"],
    }


def main() -> None:
    """Print the figures, and write them down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="sessions, as of benchmarks.relevance")
    parser.add_argument("--name", default="made up", help="of the texts, in the file")
    parser.add_argument("--events", type=int, default=4_000)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--write", type=Path, help="a file of figures to add these to")
    options = parser.parse_args()
    figures = measure(options.data, options.events, options.questions)
    print(json.dumps(figures, indent=1))
    if options.write:
        known: dict[str, Any] = json.loads(options.write.read_text()) if options.write.exists() else {}
        options.write.write_text(json.dumps({**known, options.name: figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
