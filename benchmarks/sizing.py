"""What events, documents and questions cost: memory, bytes in each store, and processor time of each process."""

import asyncio
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from urllib.parse import quote

from benchmarks.corpus import SEED, observation, question
from benchmarks.driving import Pool, backlogs, closed_loop, fill, settled, until
from benchmarks.figures import Figures, Row, benchmark
from benchmarks.relevance import events_of
from benchmarks.servers import SETTLE_S, Server, Stack, commit, machine, size_of, used_memory, valkey_processor_s
from ingest.platform.connections import Client, connect

FEW = 100
QUESTIONS_BEFORE = 20
SNAPSHOT_WITHIN_S = 600.0
FIRST_CHARACTERS = 300
OVER = ("switched", "failed", "cancelled", "rolled_back")
LOOK_EVERY_S = 1.0
IDLE_S = 8.0
SAMPLES = 200
CLIENTS = 8
PROCESSES = ("api", "worker", "valkey")
GROUPS = {
    "log": "log",
    "changes": "feed",
    "vec": "vectors",
    "doc": "documents",
    "row": "documents",
    "list": "documents",
}
"""The store that a family of keys belongs to; any other is `other`."""
KINDS = {"observation": "observe", "memory": "remember", "lesson": "lesson"}
NAMES = ("event_id", "project", "session_id")
_LOCATION = re.compile(r"^mnemolog:(?:row:)?\{p\d+\}:(?:g\d+:)?|^(?:row:)?mnemolog:row:\{p\d+\}:g\d+:")

Costs = dict[str, float]
Events = list[dict[str, Any]]


def family_of(key: str) -> str:
    """The family of a key, without partition and generation: `doc obs`, `row ses`, `list timeline`, `log`, `vec` and
    so on."""
    rest = _LOCATION.sub("", key)
    kind, _, name = rest.partition(":")
    if key.startswith("mnemolog:row:"):
        return f"row {rest.partition('_')[0]}"
    match kind:
        case "doc":
            return f"doc {name.partition('_')[0]}"
        case "list":
            return f"list {name.partition(':')[0]}"
        case "mnemolog":
            return "numbers" if "{numbers}" in name else name.partition(":")[0]
        case _:
            return kind


async def families(redis: Client, samples: int) -> dict[str, int]:
    """Bytes of each family of keys, estimated from the MEMORY USAGE of some, the biggest first."""
    counts: Counter[str] = Counter()
    chosen: defaultdict[str, list[str]] = defaultdict(list)
    async for raw in redis.scan_iter(match="*", count=2000):
        key = raw.decode(errors="surrogateescape")
        name = family_of(key)
        counts[name] += 1
        if len(chosen[name]) < samples:
            chosen[name].append(key)
    total = dict[str, int]()
    for name, keys in chosen.items():
        async with redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.execute_command("MEMORY", "USAGE", key, "SAMPLES", 0)
            sizes = [int(size) for size in await pipe.execute() if size is not None]
        total[name] = round(fmean(sizes) * counts[name]) if sizes else 0
    return dict(sorted(total.items(), key=lambda family: -family[1]))


@benchmark(quick={"observations": 200}, long=True)
async def key_families(server: Server, observations: int = 2_000, samples: int = SAMPLES) -> Figures:
    """How many bytes per observation does each family of keys take in Valkey?

    With `--url` the server is measured as it is, and `--observations` is what the bytes are divided by. Otherwise so
    many are written first, in sessions of 50. A key's slot in the table of keys (some 20 bytes) is not counted.
    """
    if isinstance(server, Stack):
        await fill(server.pool(), (observation("families", number) for number in range(observations)))
        await settled(server.pool())
    redis = connect(server.redis_url)
    found = await families(redis, samples)
    await redis.aclose()
    return {name: round(size / observations, 1) for name, size in {**found, "all": sum(found.values())}.items()}


async def _load(stack: Stack, first: int, count: int) -> int:
    """Write documents, wait, ask a few questions, so that what loads once is loaded; documents without a vector."""
    pool = stack.pool()
    await fill(pool, (observation("cost", first + number) for number in range(count)))
    await settled(pool)
    for number in range(QUESTIONS_BEFORE):
        await pool.post("/v1/recall", {"query": question(number), "project": "cost-0"})
    return (await backlogs(pool))[1]


async def _snapshot(stack: Stack) -> None:
    folder = stack.folder / "data/snapshots"

    def complete() -> set[str]:  # a snapshot is written beside, and renamed
        return {path.parent.name for path in folder.glob("*/manifest.json")}

    async def queued() -> bool:
        return (await Pool(stack.url).post("/v1/admin/snapshots", {}))["queued"]

    async def written() -> bool:
        return bool(complete() - before)

    before = complete()
    await until(queued, within_s=SNAPSHOT_WITHIN_S)
    await until(written, within_s=SNAPSHOT_WITHIN_S)


async def _memory(stack: Stack) -> tuple[int, int]:
    redis = connect(stack.redis_url)
    used = await used_memory(redis)
    await redis.aclose()
    return stack.memory("api"), used


@benchmark(
    Row("memory per document, API", "api_bytes", "B", at_most=2_200),
    Row("memory per document, Valkey with archive", "valkey_bytes", "B", at_most=2_000),
    quick={"documents": 5_000},
)
def footprint(documents: int = 100_000) -> Figures:
    """How much memory does a document take?

    Memory of the API processes (PSS) and of Valkey (used_memory after MEMORY PURGE), before and after the documents are
    projected, the log is sealed into the archive and a snapshot of the index is written.
    """
    with Stack(archive="{folder}/archive") as stack:
        asyncio.run(_load(stack, 0, FEW))
        api, valkey = asyncio.run(_memory(stack))
        without_vector = asyncio.run(_load(stack, FEW, documents))
        stack.run("archive", "seal")
        asyncio.run(_snapshot(stack))
        api_after, valkey_after = asyncio.run(_memory(stack))
    return {
        "documents": documents,
        "api_bytes": round((api_after - api) / documents),
        "valkey_bytes": round((valkey_after - valkey) / documents),
        "without_vector": without_vector,
    }


class _Processor(NamedTuple):
    """Seconds of processor time that each process has used, and when that was read."""

    used: tuple[float, ...]
    at: float


class _Meter:
    """A stack whose costs are measured; `idle` is what its processes use per second while nothing happens."""

    def __init__(self, stack: Stack, redis: Client, embedded: bool) -> None:
        self.stack, self.redis, self.embedded, self.pool = stack, redis, embedded, stack.pool()
        self._idle: tuple[float, ...] = (0.0,) * len(PROCESSES)

    async def processor(self) -> _Processor:
        """What the processes have used so far."""
        valkey = await valkey_processor_s(self.redis)
        return _Processor((self.stack.processor("api"), self.stack.processor("worker"), valkey), time.monotonic())

    async def rest(self) -> None:
        """Measure what the processes use while nothing happens."""
        before = await self.processor()
        for _ in range(round(IDLE_S / LOOK_EVERY_S)):
            await self.settled()
            await asyncio.sleep(LOOK_EVERY_S)
        after = await self.processor()
        self._idle = tuple((b - a) / (after.at - before.at) for a, b in zip(before.used, after.used, strict=True))

    async def settled(self) -> None:
        """Return when all written events are projected, indexed, and embedded if there is an embedder."""
        await settled(self.pool, embedded=self.embedded, every_s=LOOK_EVERY_S)

    async def since(self, before: _Processor, count: int) -> Costs:
        """Milliseconds of each process per item, less what it uses anyway."""
        after = await self.processor()
        used = zip(PROCESSES, before.used, after.used, self._idle, strict=True)
        spent = {name: now - then - rest * (after.at - before.at) for name, then, now, rest in used}
        return {name: round(max(0.0, seconds) / count * 1000, 3) for name, seconds in spent.items()}

    async def cost(self, work: Awaitable[Any], count: int) -> Costs:
        """The same, of work, until all of it is settled."""
        before = await self.processor()
        await work
        await self.settled()
        await asyncio.sleep(SETTLE_S)
        return await self.since(before, count)

    async def stored(self) -> Costs:
        """Bytes of each store."""
        await asyncio.sleep(SETTLE_S)
        total: Costs = dict.fromkeys((*dict.fromkeys(GROUPS.values()), "other"), 0.0)
        for name, size in (await families(self.redis, SAMPLES)).items():
            total[GROUPS.get(name.partition(" ")[0], "other")] += size
        return {**total, "file": float(size_of(self.stack.folder / "data/valkey/appendonlydir"))}


@asynccontextmanager
async def _measured(stack: Stack, *, embedded: bool) -> AsyncGenerator[_Meter]:
    redis = connect(stack.redis_url)
    meter = _Meter(stack, redis, embedded)
    await fill(meter.pool, [observation("first", number) for number in range(FEW)])
    await meter.pool.post("/v1/recall", {"query": question(1), "project": "first-0"})
    await meter.settled()
    await meter.rest()
    yield meter
    await redis.aclose()


def _observations(path: Path | None, count: int) -> Events:
    """So many observations, of real sessions or made up; no two have the same text.

    Real ones are repeated in other projects, their words in another order, until there are enough.
    """
    if path is None:
        return [observation("sizing", number) for number in range(count)]
    turns = [turn for conversation in json.loads(path.read_bytes()) for turn in events_of(conversation, "")]

    def repeated(number: int) -> dict[str, Any]:
        turn, time = turns[number % len(turns)], number // len(turns)
        words = turn["content"].split(" ")
        if time:
            random.Random(f"{SEED} {turn['event_id']} {time}").shuffle(words)
        return {**turn, **{name: f"{turn[name]} {time}" for name in NAMES}, "content": " ".join(words)}

    return [repeated(number) for number in range(count)]


def _kept(kind: str, observations: Events) -> Iterator[dict[str, Any]]:
    for event in observations:
        names = {"project": event["project"], "agent_id": event["agent_id"], "event_id": f"{kind} {event['event_id']}"}
        yield {"type": kind, **names, "content": f"{kind}: {event['content'][:FIRST_CHARACTERS]} {event['event_id']}"}


async def _write_each_kind(meter: _Meter, observations: Events, *, archive: bool) -> tuple[dict[str, Costs], ...]:
    """Processor milliseconds and bytes of an event of each kind, in batches; half as many memories and lessons.

    With an archive the observations are in it afterwards.
    """

    def sealed() -> int:
        meter.stack.run("archive", "seal")
        return size_of(meter.stack.folder / "archive")

    half = observations[: len(observations) // 2]
    costs, sizes, first = dict[str, Costs](), dict[str, Costs](), sealed() if archive else 0
    for kind, command in KINDS.items():
        events = observations if kind == "observation" else list(_kept(command, half))
        before = await meter.stored()
        costs[kind] = await meter.cost(fill(meter.pool, events), len(events))
        after = await meter.stored()
        sizes[kind] = {name: round((after[name] - before[name]) / len(events), 1) for name in after}
        if kind == "observation" and archive:
            sizes[kind]["archive"] = round((sealed() - first) / len(events), 1)
    return costs, sizes


async def _ask_each_kind(meter: _Meter, observations: Events, count: int) -> dict[str, Costs]:
    """Processor milliseconds of a question of each kind; no two are the same."""
    projects = sorted({event["project"] for event in observations})
    texts = [it["content"][:80] if number % 2 else question(number) for number, it in enumerate(observations[:count])]
    bodies = [{"query": text, "project": projects[number % len(projects)]} for number, text in enumerate(texts)]
    encoded = [json.dumps(body).encode() for body in bodies]

    async def list_timelines() -> None:
        for body in bodies:
            await meter.pool.get(f"/v1/timeline?limit=50&project={quote(body['project'])}")

    def post(path: str) -> Awaitable[Any]:
        return closed_loop(meter.stack.url, path, encoded, CLIENTS)

    return {
        "recall": await meter.cost(post("/v1/recall"), len(bodies)),
        "recall, repeated": await meter.cost(post("/v1/recall"), len(bodies)),
        "context": await meter.cost(post("/v1/context"), len(bodies)),
        "list": await meter.cost(list_timelines(), len(bodies)),
    }


async def _rebuild(pool: Pool) -> int:
    """Order a rebuild and wait for it; returns the number of log entries that it applied."""
    order = await pool.post("/v1/admin/rebuilds", {})
    state: dict[str, Any] = {}

    async def over() -> bool:
        state.update(await pool.get(f"/v1/admin/rebuilds/{order['id']}"))
        return state["state"] in OVER

    await until(over, 0.1)
    if state["state"] != "switched":
        raise RuntimeError(f"the rebuild is {state['state']}: {state['why']}")
    return state["done"]


async def _without_embedder(stack: Stack, observations: Events) -> tuple[dict[str, Costs], Costs]:
    """Costs without an embedder, including single writes, and of a rebuild."""
    async with _measured(stack, embedded=False) as meter:
        costs, _ = await _write_each_kind(meter, observations, archive=False)
        half = observations[: len(observations) // 2]
        again = [{**event, **{name: f"single {event[name]}" for name in NAMES}} for event in half]
        bodies = [json.dumps({name: it for name, it in event.items() if name != "type"}).encode() for event in again]
        singles = closed_loop(stack.url, "/v1/observations", bodies, CLIENTS)
        costs["observation alone"] = await meter.cost(singles, len(bodies))
        before = await meter.processor()
        return costs, await meter.since(before, await _rebuild(meter.pool))


async def _with_embedder(stack: Stack, observations: Events, questions: int) -> Figures:
    """Costs with the default embedder, of writes and questions; bytes in each store."""
    async with _measured(stack, embedded=True) as meter:
        costs, sizes = await _write_each_kind(meter, observations, archive=True)
        asked = await _ask_each_kind(meter, observations, questions)
        await _snapshot(stack)
        snapshot = max(map(size_of, (stack.folder / "data/snapshots").iterdir()))
        per_document = round(snapshot / (2 * len(observations)), 1)
        return {"ms": costs, "bytes": sizes, "snapshot_bytes": per_document, "questions_ms": asked}


@benchmark(quick={"events": 300, "questions": 40}, long=True)
def sizing(data: Mapping[str, Path], events: int = 4_000, questions: int = 400, write: str = "") -> Figures:
    """How many bytes in each store, and how much processor time of each process, do an event and a question take?

    Observations, then half as many memories, then lessons are written, first without an embedder, then with the
    default one, until everything is projected, indexed and embedded. Processor time, less what the processes use
    while nothing happens, changes less than seconds do if others use the machine. Texts are made up, or the turns of
    each `--data NAME=PATH` (as for `relevance`). `--write FILE` adds the figures to a file, under the names: `plan`
    reads benchmarks/sizing.json.
    """
    figures: Figures = {}
    for name, path in (data or {"made up": None}).items():
        observations: Sequence[dict[str, Any]] = _observations(path, events)
        with Stack(embedder="none") as stack:
            costs, rebuild = asyncio.run(_without_embedder(stack, [*observations]))
        with Stack(archive="{folder}/archive") as stack:
            embedded = asyncio.run(_with_embedder(stack, [*observations], questions))
        kept = _kept("remember", [*observations])
        figures[name] = {
            "taken": f"{datetime.now(UTC):%Y-%m-%d}",
            "commit": commit(),
            "machine": machine(),
            "events": events,
            "text_bytes": round(fmean(len(event["content"].encode()) for event in observations)),
            "kept_bytes": round(fmean(len(event["content"].encode()) for event in kept)),
            **embedded,
            "ms_without_embedder": costs,
            "rebuild_ms": rebuild,
        }
    if write:
        file = Path(write)
        existing: Figures = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**existing, **figures}, indent=1) + "\n")
    return figures
