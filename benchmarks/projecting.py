"""How fast workers project, embed, rebuild and replay."""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from benchmarks.corpus import mixed, observation
from benchmarks.driving import Pool, backlogs, fill, partitions, projected, settled, until
from benchmarks.figures import Figures, Row, benchmark
from benchmarks.servers import Server, valkey_processor_s
from ingest.commands.decide import Caller, WriteCommand
from ingest.commands.handler import CommandHandler
from ingest.embedded.valkey import EmbeddedValkey
from ingest.ids import MEMORY, document_id, new_event_id
from ingest.log.archive.archive import Archive, look
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.sealing import Sealing
from ingest.log.archive.store import store_of
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.lag import wait_projected
from ingest.log.position import START, Position, Token, project_route
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect
from ingest.platform.processes import tune_interpreter
from projections.dead_letters.room import PartitionDeadLetters
from projections.documents.access import Reader
from projections.forgetting.forget import Forgetting
from projections.maintenance.differences import manifest_differences, manifest_of
from projections.operations.current import Current
from projections.queries.documents import DocumentReader
from projections.rebuilding.documents import fill as fill_generation
from projections.rebuilding.documents import switch
from workers.host import RunnerHost

BATCH = 500
KEPT_UP = 0.2
"""A backlog of at most this share after the load: the worker kept up, and the rate is that of the whole run."""
PAGE = 1_000
COMPARED = " was compared with "
OVER = ("switched", "failed", "cancelled", "rolled_back")
LOOK_EVERY_S = 0.05
TENANT = "default"
LATE = Position(10**14 - 1, 0)
FORGET_EVERY = 1_000
WAIT_S = 600.0


@benchmark(
    Row(
        "projected by one worker next to the API", "projected_per_s", "/s", at_least=8_000,
        raw="projection.events_per_s", raw_name="the worker alone",
    ),
    settings={"workers": "1"},
    quick={"events": 15_000},
    name="backlog",
)  # fmt: skip
async def beside_api(server: Server, events: int = 100_000, mix: bool = False) -> Figures:
    """How fast does one worker project beside the API?

    A backlog is written as fast as the server accepts it. The rate is that of the time after the last
    acknowledgement, when only projecting is left (embedding waits for it); if the worker kept up, it is that of the
    whole run.
    """
    run, pool = f"backlog-{time.time_ns():x}", server.pool()
    made = [(mixed if mix else observation)(run, number) for number in range(events)]
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


@asynccontextmanager
async def _own_log(partitions: int, archive: bool) -> AsyncGenerator[tuple[Client, Client, RedisLog]]:
    """A Valkey that fsyncs each append, with a log in a temporary folder; the second client is for blocking reads."""
    with tempfile.TemporaryDirectory(prefix="mnemo-") as folder:
        valkey = EmbeddedValkey(Path(folder) / "valkey")
        await asyncio.to_thread(valkey.start)
        redis, blocking = connect(valkey.url), connect(valkey.url, connections=2 * partitions + 4)
        try:
            log = RedisLog(redis, partitions)
            if archive:
                log = ArchivedLog(redis, partitions, Archive(redis, store_of(str(Path(folder) / "archive"))))
            await log.create_or_check()
            yield redis, blocking, log
        finally:
            await redis.aclose()
            await blocking.aclose()
            await asyncio.to_thread(valkey.stop)


async def _append(handler: CommandHandler, events: Sequence[dict[str, Any]]) -> None:
    commands = [msgspec.convert(event, WriteCommand) for event in events]
    outcome = await handler.handle_batch(commands, Caller(TENANT))
    if outcome.rejected:
        raise RuntimeError(f"not all accepted: {outcome.rejected[0]}")


async def _heads(log: RedisLog) -> Token:
    return Token({partition: await log.head(partition) for partition in range(log.partitions)})


def _runners(redis: Client, blocking: Client, log: RedisLog) -> RunnerHost:
    return RunnerHost(redis, blocking, log, str(new_event_id()), lambda partition, changes: None, PartitionDeadLetters)


@benchmark(
    Row("projected by one worker alone", "events_per_s", "/s"),
    Row("processor time per event, worker", "cpu_us_per_event", "us"),
    Row("processor time per event, Valkey", "server_cpu_us_per_event", "us"),
    quick={"events": 15_000},
)
async def projection(events: int = 100_000, mix: bool = False, partitions: int = 16) -> Figures:
    """How fast does one worker project a log that was written before, and how much processor time does an event take?

    Nothing is embedded, and no index follows. With `--mix`, of twenty events one each is a memory, lesson, slot and
    action, and six are tool uses.
    """
    async with _own_log(partitions, archive=False) as (redis, blocking, log):
        handler, make = CommandHandler(GroupCommit(log), log.partitions), mixed if mix else observation
        for start in range(0, events, BATCH):
            await _append(handler, [make("projection", number) for number in range(start, min(events, start + BATCH))])
        heads = await _heads(log)
        tune_interpreter()
        host = _runners(redis, blocking, log)
        valkey_s = await valkey_processor_s(redis)
        began, cpu_s = time.perf_counter(), time.process_time()
        host.start()
        await wait_projected(redis, heads, WAIT_S)
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
        valkey_s = await valkey_processor_s(redis) - valkey_s
        await host.aclose()
    return {
        "events": events,
        "seconds": round(seconds, 2),
        "events_per_s": round(events / seconds),
        "cpu_us_per_event": round(1e6 * cpu_s / events, 1),
        "server_cpu_us_per_event": round(1e6 * valkey_s / events, 1),
    }


async def rebuilt(pool: Pool) -> tuple[int, float]:
    """Order a rebuild and wait for it; the log entries that it applied, and the seconds."""
    began = time.perf_counter()
    order = await pool.post("/v1/admin/rebuilds", {})
    state: dict[str, Any] = {}

    async def over() -> bool:
        state.update(await pool.get(f"/v1/admin/rebuilds/{order['id']}"))
        return state["state"] in OVER

    await until(over, 0.1)
    if state["state"] != "switched":
        raise RuntimeError(f"the rebuild is {state['state']}: {state['why']}")
    return state["done"], time.perf_counter() - began


async def _read_raw(redis_url: str, partitions: int) -> tuple[int, float]:
    redis = connect(redis_url)
    began, entries = time.perf_counter(), 0
    for partition in range(partitions):
        start: Any = "-"
        while rows := await redis.xrange(PartitionKeys(partition).log, min=start, count=PAGE):
            entries += len(rows)
            start = b"(" + rows[-1][0]
    await redis.aclose()
    return entries, time.perf_counter() - began


@benchmark(
    Row(
        "rebuilt: mixed events, documents and index", "with_index_per_s", "/s", at_least=10_000, raw="raw_read_per_s",
        raw_name="XRANGE",
    ),
    Row("rebuilt, until readers are switched", "rebuilt_per_s", "/s", raw="raw_read_per_s", raw_name="XRANGE"),
    settings={"embedder": "none", "log_level": "info"},
    quick={"events": 20_000},
)  # fmt: skip
async def rebuild(server: Server, events: int = 500_000) -> Figures:
    """How many events per second does a rebuild of documents and index take, with nothing else to do?

    It is timed from the order until readers are switched, and until the one API process, as its log says, has
    compared its index with the new documents of every partition. The server has no embedder.
    """
    run, pool = f"rebuild-{time.time_ns():x}", server.pool()
    await fill(pool, (mixed(run, number) for number in range(events)))
    await settled(pool)
    count, api_log = len(await partitions(pool)), server.api_log

    def compared() -> int:
        return api_log.read_text(errors="replace").count(COMPARED) if api_log else 0

    async def all_compared() -> bool:
        return compared() >= before + count

    before, began = compared(), time.perf_counter()
    entries, seconds = await rebuilt(pool)
    figures = {"events": entries, "seconds": round(seconds, 1), "rebuilt_per_s": round(entries / seconds)}
    if api_log:
        await until(all_compared, 0.1)
        figures["with_index_per_s"] = round(entries / (time.perf_counter() - began))
    read, read_s = await _read_raw(server.redis_url, count)
    return {**figures, "raw_read_per_s": round(read / read_s)}


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


async def _position_at(log: RedisLog, partition: int, share: float) -> Position:
    """The position up to which a share of the partition's entries lies."""
    positions: list[Position] = []
    while rows := await log.read(partition, positions[-1] if positions else START, 2_000):
        positions += (row.position for row in rows)
    return positions[int(len(positions) * share) - 1] if len(positions) * share >= 1 else START


@benchmark(
    Row("replayed from archive and stream", "replay_per_s", "/s"),
    Row("archived", "archive_per_s", "/s"),
    Row("documents and listings that differ after a replay", "differing", at_most=0),
    quick={"events": 10_000, "partitions": 4},
    long=True,
)
async def replay(events: int = 200_000, partitions: int = 16, archived: float = 0.8) -> Figures:
    """How fast is a replay of archive and stream, and does it produce the live documents byte for byte?

    A fleet's mixed load is appended and projected in this process. Of every thousand events one memory is forgotten,
    half of them after a share of the log was sealed and trimmed. Then each partition is rebuilt from position zero,
    one after the other, and digests of all documents and listings of both generations are compared. Nothing is
    embedded.
    """
    async with _own_log(partitions, archive=True) as (redis, blocking, log):
        assert isinstance(log, ArchivedLog)
        handler, memories, host = (
            CommandHandler(GroupCommit(log), partitions),
            list[str](),
            _runners(redis, blocking, log),
        )

        async def settle() -> None:
            await wait_projected(redis, await _heads(log), WAIT_S)

        async def forget(names: Sequence[str]) -> None:
            documents, wait = DocumentReader(redis, partitions), partial(wait_projected, redis, timeout_s=WAIT_S)
            current = Current(handler, documents, log, wait)
            await Forgetting(current).documents(names, Reader(TENANT, operator=True), Caller(TENANT))
            await settle()

        host.start()
        began = time.perf_counter()
        for start in range(0, events, BATCH):
            made = [mixed("replay", number) for number in range(start, min(events, start + BATCH))]
            await _append(handler, made)
            memories += (
                document_id(MEMORY, project_route(TENANT, event["project"]), event["event_id"])
                for number, event in enumerate(made, start)
                if event["type"] == "remember" and number % FORGET_EVERY == 3
            )
        appended_s = time.perf_counter() - began
        await settle()
        live_s = time.perf_counter() - began
        await forget(memories[::2])
        sealing, began = Sealing(redis, log), time.perf_counter()
        for partition in range(partitions):
            until_position = await _position_at(log, partition, archived)
            while await sealing.seal(partition, until_position, LATE):
                await sealing.let_go(partition)
        archived_s = time.perf_counter() - began
        await forget(memories[1::2])
        looks = [await look(redis, log.archive, partition) for partition in range(partitions)]
        in_archive, in_stream = sum(it.entries for it in looks), sum(it.waiting for it in looks)
        live, began = await manifest_of(redis, range(partitions), 1), time.perf_counter()
        for partition in range(partitions):
            while not (await fill_generation(redis, log, partition, 2, WAIT_S)).level:
                continue
            assert await switch(redis, partition, 1, 2)
        replayed_s = time.perf_counter() - began
        again = await manifest_of(redis, range(partitions), 2)
        await host.aclose()
    return {
        "events": events,
        "forgotten": len(memories),
        "archived_entries": in_archive,
        "stream_entries": in_stream,
        "append_per_s": round(events / appended_s),
        "append_and_project_per_s": round(events / live_s),
        "archive_per_s": round(in_archive / archived_s),
        "replay_per_s": round((in_archive + in_stream) / replayed_s),
        "replay_s": round(replayed_s, 1),
        "documents": sum(len(it.documents) for it in live.partitions.values()),
        "differing": len(list(manifest_differences(live, again))),
    }
