"""Samples the health of a log and its projections, in a few round trips whatever there is to know.

Admission of writes (`pressure`), readiness, metrics and diagnosis are views of a sample. None stands for what nobody
can say: a managed server that forbids INFO, a folder that is on another machine.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import Struct
from redis.exceptions import ResponseError

from ingest.embedded.log_file import trouble
from ingest.log.keys import LEASE_TTL, REPLICAS, WORKERS, PartitionKeys
from ingest.log.lag import entries_behind
from ingest.log.position import START, Position
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client, info_of_nodes
from ingest.platform.partial import PATIENCE_S, UNREACHABLE, leave_out, partial_reads
from projections.search.replica import FeedPosition
from projections.search.waiting import STALE_MS
from projections.vectors.embedder import waiting_since_ms

QUESTIONS = 8
"""Commands for each partition, in one pipeline."""
PENDING_WARN_S = 10.0
"""An event is searchable well within a second while workers run; after this many they are late."""
STALLED_S = 15.0
"""An event that waits for so long while no worker is alive waits for nobody: three times a lease, and a worker that was
killed is started again well within it."""
OUTDATED_S = 10.0
"""Following a switch of generations takes an index a moment; after so long it is stuck on what was."""
EMBED_BACKLOG = 1_000
"""Texts that wait for a vector; keyword search finds them meanwhile."""


class HealthSample(Struct, frozen=True, kw_only=True):
    """How everything is at one moment. Sizes are in bytes, counts are of all partitions together.

    `oldest_pending_s` is how long the first event waits that is not projected, `pending_bytes` the size of all that
    are not. `replicas` are API processes, `dimensions` those of the vectors that are made. `memory_limit` is
    `maxmemory`, 0 for none; on a cluster both are of the fullest node. `index_partly`: the index is not ready, for
    some partitions alone. `embed_later` is about how many texts did not fit into the queue, and are found by static
    vectors until they are queued. `oldest_to_embed_s` is for how long the text that waits longest for its vector has
    waited. `outdated_s` says for how long it has followed a generation that is no longer the live one,
    `lost_writes` which acknowledged events the log's server came back without. `away` are the partitions on nodes of
    a cluster that do not answer: no figure counts what they have. `jobs_trouble` is why the job queue's own server
    cannot be reached; empty where it can, and where it is the log's.
    """

    oldest_pending_s: float = 0.0
    dead_letters: int = 0
    pending_bytes: int = 0
    to_embed: int = 0
    embed_later: int = 0
    oldest_to_embed_s: float = 0.0
    feed_entries: int = 0
    workers: int = 0
    replicas: int = 0
    dimensions: int = 0
    memory_used: int | None = None
    memory_limit: int = 0
    machine_memory: int = 0
    log_file_ok: bool | None = None
    disk_free: int | None = None
    snapshot_age_s: float | None = None
    index_ready: bool = True
    index_partly: bool = False
    index_trouble: str = ""
    outdated_s: float = 0.0
    lost_writes: str = ""
    away: list[int] = []
    jobs_trouble: str = ""


class Sample(HealthSample, frozen=True, kw_only=True):
    """The signs of one moment, and `lag`: events not projected, by partition that has any."""

    lag: dict[int, int] = {}

    @property
    def behind(self) -> int:
        """Events not projected yet."""
        return sum(self.lag.values())

    @property
    def is_late(self) -> bool:
        """Whether events wait for longer than they should."""
        return bool(self.lag) and self.oldest_pending_s >= PENDING_WARN_S

    @property
    def is_stalled(self) -> bool:
        """Whether events wait for a worker, and none comes."""
        return bool(self.lag) and not self.workers and self.oldest_pending_s >= STALLED_S

    @property
    def memory_share(self) -> float:
        """Of `maxmemory` that is used; 0 where there is no limit or nothing is known."""
        return (self.memory_used or 0) / self.memory_limit if self.memory_limit else 0.0

    @property
    def index_is_missing(self) -> bool:
        """Whether the index answers nothing at all."""
        return not self.index_ready and not self.index_partly

    @property
    def index_is_outdated(self) -> bool:
        """Whether the index is stuck on a generation that is not the live one."""
        return self.outdated_s >= OUTDATED_S

    @property
    def embedding_is_behind(self) -> bool:
        """Whether more texts wait for a vector than should; without an embedder none is made."""
        return bool(self.dimensions) and self.to_embed + self.embed_later > EMBED_BACKLOG


class IndexState(Protocol):
    """What is asked of an index replica."""

    @property
    def ready(self) -> bool: ...
    @property
    def partly(self) -> bool: ...
    @property
    def at(self) -> Mapping[int, FeedPosition]: ...
    @property
    def trouble(self) -> str | None: ...


class HealthSampler:
    """Takes samples. `log_folder` is where the log's server writes, if that is on this machine; `dimensions` says how
    long vectors are, `ping_jobs` asks the job queue's server where it is another one."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        index: IndexState,
        *,
        log_folder: Path | None = None,
        snapshots: Path | None = None,
        dimensions: Callable[[], int] = lambda: 0,
        ping_jobs: Callable[[], Awaitable[None]] | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self.partitions, self._index, self._clock = redis, partitions, index, clock
        self._ping_jobs = ping_jobs
        self._log_folder, self._snapshots, self._dimensions = log_folder, snapshots, dimensions
        self._generations = [1] * partitions
        """The live generations as of the last sample: a guess that is right but for the moment after a switch."""
        self._outdated_since: dict[int, float] = {}
        self._alive = 0, 0
        """Workers and index replicas as of the last sample that knew."""

    async def sample(self) -> Sample:
        """How everything is now. Raises RedisError or OSError when the log's server does not answer.

        What belongs to the partitions is asked in one pipeline, beside the lag and INFO; one more asks for the age of
        what waits, and the first is repeated after a switch of generations. On a cluster, nodes that do not answer are
        not waited for, and what is on them is not known.
        """
        with partial_reads() as away:
            return await self._sample(away)

    async def _sample(self, away: Set[int]) -> Sample:
        now_ms = to_ms(self._clock())
        lag, (partitions, workers, replicas), local, jobs_trouble = await asyncio.gather(
            entries_behind(self._redis, self.partitions),
            self._partitions_and_workers(now_ms),
            asyncio.to_thread(_local, self._log_folder, self._snapshots),
            self._jobs_trouble(),
        )
        disk_free, snapshot_age_s, lost_writes = local
        try:  # after the rest: what was applied meanwhile counts twice rather than not at all
            infos = await info_of_nodes(self._redis, "memory", "persistence", of_any=True)
        except ResponseError:
            infos = []
        nodes = [_Node.of(info) for info in infos]
        fullest = max(nodes, key=lambda node: node.fullness, default=_Node(None, 0, 0, None))
        written = [node.log_file_ok for node in nodes if node.log_file_ok is not None]
        vitals = partitions.values()
        return Sample(
            lag=lag,
            oldest_pending_s=await self._oldest_pending_s(lag, partitions, now_ms),
            pending_bytes=sum(partitions[number].pending_bytes for number in lag if number in partitions),
            dead_letters=sum(partition.dead for partition in vitals),
            to_embed=sum(partition.to_embed for partition in vitals),
            embed_later=sum(partition.embed_later for partition in vitals),
            oldest_to_embed_s=max((partition.seconds_to_embed(now_ms) for partition in vitals), default=0.0),
            feed_entries=sum(partition.feed for partition in vitals),
            workers=workers,
            replicas=replicas,
            dimensions=self._dimensions(),
            memory_used=fullest.used,
            memory_limit=fullest.limit,
            machine_memory=fullest.machine,
            log_file_ok=all(written) if written else None,
            disk_free=disk_free,
            snapshot_age_s=snapshot_age_s,
            index_ready=self._index.ready,
            index_partly=self._index.partly,
            index_trouble=self._index.trouble or "",
            outdated_s=self._outdated_s(),
            lost_writes=lost_writes,
            away=sorted(away),
            jobs_trouble=jobs_trouble,
        )

    async def _partitions_and_workers(self, now_ms: int) -> tuple[dict[int, "_PartitionVitals"], int, int]:
        """What is known of the partitions that can be read, and how many workers and index replicas are alive."""
        while True:
            live = [PartitionKeys(number).of_generation(at) for number, at in enumerate(self._generations)]
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.zcount(WORKERS, now_ms - LEASE_TTL.total_seconds() * 1000, "+inf")
                pipe.zcount(REPLICAS, now_ms - STALE_MS, "+inf")
                for keys in live:
                    partition = PartitionKeys(keys.partition)
                    pipe.get(partition.generation)
                    pipe.get(keys.checkpoint)
                    pipe.zcard(keys.embed_queue)
                    pipe.hget(keys.embed_later, "count")
                    pipe.zrange(keys.embed_queue, -1, -1, withscores=True)
                    pipe.xlen(keys.changes)
                    pipe.zcard(keys.dead)
                    pipe.mget(partition.appended, partition.applied)
                workers, replicas, *answers = await pipe.execute(raise_on_error=False)
            self._alive = _or(workers, self._alive[0]), _or(replicas, self._alive[1])
            rows = {number: answers[number * QUESTIONS :][:QUESTIONS] for number in range(self.partitions)}
            readable = _readable(rows)
            generations = [
                int(row[0] or 1) if (row := readable.get(number)) else at for number, at in enumerate(self._generations)
            ]
            if generations == self._generations:
                return {number: _PartitionVitals.of(*row[1:]) for number, row in readable.items()}, *self._alive
            self._generations = generations

    async def _oldest_pending_s(
        self, lag: Mapping[int, int], partitions: Mapping[int, "_PartitionVitals"], now_ms: int
    ) -> float:
        """Seconds since the first event was recorded that is not applied; 0 when there is none."""
        late = [partition for partition in lag if partition in partitions]
        if not late:
            return 0.0
        async with self._redis.pipeline(transaction=False) as pipe:
            for partition in late:
                pipe.xrange(PartitionKeys(partition).log, min=f"({partitions[partition].checkpoint}", count=1)
            answers = await pipe.execute(raise_on_error=False)
        readable = _readable({partition: [rows] for partition, rows in zip(late, answers, strict=True)})
        oldest = [rows[0][0] for (rows,) in readable.values() if rows]
        return max((max(0, now_ms - Position.parse(at).ms) / 1000 for at in oldest), default=0.0)

    async def _jobs_trouble(self) -> str:
        if self._ping_jobs is None:
            return ""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._ping_jobs()
        except TimeoutError:
            return f"nothing within {PATIENCE_S:g} s"
        except UNREACHABLE as error:
            return str(error) or type(error).__name__
        return ""

    def _outdated_s(self) -> float:
        """For how long the index has followed an old generation; a switch takes it a moment."""
        now = time.monotonic()
        followed = self._index.at
        self._outdated_since = {
            partition: self._outdated_since.get(partition, now)
            for partition, live in enumerate(self._generations)
            if partition in followed and followed[partition].generation != live
        }
        return max((now - since for since in self._outdated_since.values()), default=0.0)


class _PartitionVitals(NamedTuple):
    checkpoint: Position
    to_embed: int
    embed_later: int
    last_to_embed: float | None
    feed: int
    dead: int
    pending_bytes: int

    @classmethod
    def of(
        cls,
        checkpoint: bytes | None,
        to_embed: int,
        later: bytes | None,
        last: Sequence[tuple[bytes, float]],
        feed: int,
        dead: int,
        sizes: Sequence[bytes | None],
    ) -> "_PartitionVitals":
        appended, applied = (int(size or 0) for size in sizes)
        position = Position.parse(checkpoint) if checkpoint else START
        last_to_embed = last[0][1] if last else None
        return cls(position, to_embed, int(later or 0), last_to_embed, feed, dead, max(0, appended - applied))

    def seconds_to_embed(self, now_ms: int) -> float:
        """How long the last text of the queue has waited for its vector; 0 for an empty queue."""
        if self.last_to_embed is None:
            return 0.0
        return max(0.0, (now_ms - waiting_since_ms(self.last_to_embed)) / 1000)


class _Node(NamedTuple):
    used: int | None
    limit: int
    machine: int
    log_file_ok: bool | None

    @property
    def fullness(self) -> float:
        """The share of its memory that is used; 0 where that is not known."""
        limit = self.limit or self.machine
        return (self.used or 0) / limit if limit else 0.0

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> "_Node":
        written = info.get("aof_last_write_status") if info.get("aof_enabled") else None
        return cls(
            int(info["used_memory"]) if "used_memory" in info else None,
            int(info.get("maxmemory", 0)),
            int(info.get("total_system_memory", 0)),
            None if written is None else written == "ok",
        )


def _readable(rows: Mapping[int, Sequence[Any]]) -> dict[int, Sequence[Any]]:
    """The answers of the partitions whose node is reachable; the others are left out. Raises any other error."""
    errors = {
        partition: error
        for partition, row in rows.items()
        if (error := next((answer for answer in row if isinstance(answer, Exception)), None)) is not None
    }
    for error in errors.values():
        if not isinstance(error, UNREACHABLE):
            raise error
    if errors:
        leave_out(errors, rows, next(iter(errors.values())))
    return {partition: row for partition, row in rows.items() if partition not in errors}


def _or(answer: int | Exception, previous: int) -> int:
    """The answer, or the previous one where the node that has it is away."""
    if isinstance(answer, UNREACHABLE):
        return previous
    if isinstance(answer, Exception):
        raise answer
    return answer


def _local(log_folder: Path | None, snapshots: Path | None) -> tuple[int | None, float | None, str]:
    """Free bytes of the log's disk, the age of the newest index snapshot, and what is known to be lost of the log."""
    try:
        free = None if log_folder is None else shutil.disk_usage(log_folder).free
    except OSError:
        free = None
    written: list[float] = []
    for path in snapshots.glob("[!.]*") if snapshots is not None else ():
        with suppress(FileNotFoundError):  # pruned meanwhile
            written.append(path.stat().st_mtime)
    age_s = max(0.0, time.time() - max(written)) if written else None
    return free, age_s, "" if log_folder is None else trouble(log_folder)
