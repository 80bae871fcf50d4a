"""Samples the health of a log and its projections, in a few round trips whatever its size.

Admission of writes (`pressure`), readiness, metrics and diagnosis are views of a sample. None is for what is unknown: a
managed server that forbids INFO, a folder that is on another machine.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import Struct
from redis.exceptions import ResponseError

from ingest.embedded.log_file import trouble
from ingest.errors import reason_of
from ingest.log.keys import LEASE_TTL, REPLICAS, WORKERS, PartitionKeys
from ingest.log.lag import entries_behind
from ingest.log.position import Position, stored_position
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client, down_nodes, info_of_nodes
from ingest.platform.partial import PATIENCE_S, UNREACHABLE, leave_out, partial_reads
from projections.index.replica import FeedPosition
from projections.index.waiting import STALE_MS
from projections.nouns.fold import rebuild_due
from projections.vectors.embedder import waiting_since_ms

COMMANDS = 8
"""For each partition, in one pipeline."""


class HealthSample(Struct, frozen=True, kw_only=True):
    """How everything is at one moment. Sizes are in bytes, counts are of all partitions together.

    `oldest_pending_s` is the age of the first event that is not projected, `pending_bytes` the size of all such events.
    `replicas` are API processes, `dimensions` those of new vectors. `memory_limit` is `maxmemory`, 0 for none; on a
    cluster both are of the fullest node. `index_partly`: the index is not ready, for some partitions alone.
    `embed_later` is about how many texts did not fit into the embedding queue, and are found by static vectors until
    they are queued; `oldest_to_embed_s` is how long the oldest queued text has waited. `outdated_s` is for how long the
    index has followed a generation that is no longer live, `rebuild_due` why documents need a rebuild, `lost_writes`
    which acknowledged events the log's server came back without. `away` are the partitions on cluster nodes that do not
    answer: no figure counts them; `nodes_down` names the nodes, also replicas. `log_folder_gone`: the folder that the
    log's server writes to was deleted. `jobs_trouble` is why the job queue's own server cannot be reached; empty where
    it can, or where it is the log's.
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
    rebuild_due: str = ""
    lost_writes: str = ""
    away: list[int] = []
    nodes_down: str = ""
    log_folder_gone: bool = False
    jobs_trouble: str = ""


class Sample(HealthSample, frozen=True, kw_only=True):
    """The figures of one moment, and `lag`: events not projected, by partition that has any."""

    lag: dict[int, int] = {}

    @property
    def behind(self) -> int:
        """Events not projected yet."""
        return sum(self.lag.values())

    @property
    def memory_share(self) -> float:
        """Used share of `maxmemory`; 0 without a limit, and where nothing is known."""
        return (self.memory_used or 0) / self.memory_limit if self.memory_limit else 0.0


class IndexState(Protocol):
    """What a sample reads of an index."""

    @property
    def ready(self) -> bool: ...
    @property
    def partly(self) -> bool: ...
    @property
    def at(self) -> Mapping[int, FeedPosition]: ...
    @property
    def trouble(self) -> str | None: ...


@dataclass
class HealthSampler:
    """Takes samples. `log_folder` is where the log's server writes, if that is on this machine; `dimensions` says how
    long vectors are, `ping_jobs` calls the job queue's server if it is another one."""

    _redis: Client
    partitions: int
    _index: IndexState
    _: KW_ONLY
    log_folder: Path | None = None
    snapshots: Path | None = None
    dimensions: Callable[[], int] = lambda: 0
    ping_jobs: Callable[[], Awaitable[object]] | None = None
    clock: Clock = system_clock

    def __post_init__(self) -> None:
        self._log_inode = _inode(self.log_folder)
        self._generations = [1] * self.partitions
        """The live generations as of the last sample: a guess that is right but for the moment after a switch."""
        self._outdated_since: dict[int, float] = {}
        self._alive = 0, 0
        """Workers and index replicas as of the last sample that knew."""

    async def sample(self) -> Sample:
        """How everything is now. Raises RedisError or OSError when the log's server does not answer.

        One pipeline reads the partitions, beside the lag and INFO; one more reads the age of what is pending, and the
        first is repeated after a switch of generations. On a cluster, nodes that do not answer are not waited for, and
        their figures are missing.
        """
        with partial_reads() as away:
            return await self._sample(away)

    async def _sample(self, away: Set[int]) -> Sample:
        now_ms = to_ms(self.clock())
        lag, (partitions, workers, replicas), local, jobs_trouble, nodes_down = await asyncio.gather(
            entries_behind(self._redis, self.partitions),
            self._partitions_and_workers(now_ms),
            asyncio.to_thread(_local, self.log_folder, self.snapshots),
            self._jobs_trouble(),
            down_nodes(self._redis),
        )
        disk_free, snapshot_age_s, lost_writes, inode = local
        # INFO comes after the rest: what is applied in between counts twice rather than not at all
        try:
            infos = await info_of_nodes(self._redis, "memory", "persistence", of_any=True)
        except ResponseError:
            infos = []
        nodes = [_Node.of(info) for info in infos]
        fullest = max(nodes, key=lambda node: node.fullness, default=_Node(None, 0, 0, None))
        written = [node.log_file_ok for node in nodes if node.log_file_ok is not None]
        figures = partitions.values()
        waiting = [partition.embed_since_ms for partition in figures if partition.embed_since_ms is not None]
        # for how long the index has followed an old generation; a switch takes it a moment
        now, followed = time.monotonic(), self._index.at
        self._outdated_since = {
            partition: self._outdated_since.get(partition, now)
            for partition, live in enumerate(self._generations)
            if partition in followed and followed[partition].generation != live
        }
        return Sample(
            lag=lag,
            oldest_pending_s=await self._oldest_pending_s(lag, partitions, now_ms),
            pending_bytes=sum(partitions[number].pending_bytes for number in lag if number in partitions),
            dead_letters=sum(partition.dead for partition in figures),
            to_embed=sum(partition.to_embed for partition in figures),
            embed_later=sum(partition.embed_later for partition in figures),
            oldest_to_embed_s=max(0.0, (now_ms - min(waiting, default=now_ms)) / 1000),
            feed_entries=sum(partition.feed for partition in figures),
            workers=workers,
            replicas=replicas,
            dimensions=self.dimensions(),
            memory_used=fullest.used,
            memory_limit=fullest.limit,
            machine_memory=fullest.machine,
            log_file_ok=all(written) if written else None,
            disk_free=disk_free,
            snapshot_age_s=snapshot_age_s,
            index_ready=self._index.ready,
            index_partly=self._index.partly,
            index_trouble=self._index.trouble or "",
            outdated_s=max((now - since for since in self._outdated_since.values()), default=0.0),
            rebuild_due=next(filter(None, (partition.rebuild_due for partition in figures)), ""),
            lost_writes=lost_writes,
            nodes_down=nodes_down,
            # the server goes on writing to files that have no name any more
            log_folder_gone=bool(self._log_inode) and inode not in (None, self._log_inode),
            away=sorted(away),
            jobs_trouble=jobs_trouble,
        )

    async def _partitions_and_workers(self, now_ms: int) -> tuple[dict[int, "_PartitionFigures"], int, int]:
        """The figures of the partitions that can be read, and how many workers and index replicas are alive."""
        while True:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.zcount(WORKERS, now_ms - LEASE_TTL.total_seconds() * 1000, "+inf")
                pipe.zcount(REPLICAS, now_ms - STALE_MS, "+inf")
                for number, generation in enumerate(self._generations):
                    partition = PartitionKeys(number)
                    keys = partition.of_generation(generation)
                    pipe.get(partition.generation)
                    pipe.mget(keys.checkpoint, keys.folded_by)
                    pipe.zcard(keys.embed_queue)
                    pipe.hget(keys.embed_later, "count")
                    pipe.zrange(keys.embed_queue, -1, -1, withscores=True)
                    pipe.xlen(keys.changes)
                    pipe.zcard(keys.dead)
                    pipe.mget(partition.appended, partition.applied)
                workers, replicas, *answers = await pipe.execute(raise_on_error=False)
            self._alive = _or(workers, self._alive[0]), _or(replicas, self._alive[1])
            rows = _readable({number: answers[number * COMMANDS :][:COMMANDS] for number in range(self.partitions)})
            generations = [
                int(rows[number][0] or 1) if number in rows else at for number, at in enumerate(self._generations)
            ]
            if generations == self._generations:
                return {number: _PartitionFigures.of(*row[1:]) for number, row in rows.items()}, *self._alive
            self._generations = generations

    async def _oldest_pending_s(
        self, lag: Mapping[int, int], partitions: Mapping[int, "_PartitionFigures"], now_ms: int
    ) -> float:
        """Seconds since the first event was recorded that is not applied; 0 without one."""
        late = [partition for partition in lag if partition in partitions]
        if not late:
            return 0.0
        async with self._redis.pipeline(transaction=False) as pipe:
            for partition in late:
                pipe.xrange(PartitionKeys(partition).log, min=f"({partitions[partition].checkpoint}", count=1)
            answers = await pipe.execute(raise_on_error=False)
        rows_of = _readable({partition: [rows] for partition, rows in zip(late, answers, strict=True)})
        oldest = [rows[0][0] for (rows,) in rows_of.values() if rows]
        return max((max(0, now_ms - Position.parse(at).ms) / 1000 for at in oldest), default=0.0)

    async def _jobs_trouble(self) -> str:
        try:
            # a server that hangs must not hold up the sample of the log's
            async with asyncio.timeout(PATIENCE_S):
                if self.ping_jobs is not None:
                    await self.ping_jobs()
        except TimeoutError:
            return f"no response within {PATIENCE_S:g} s"
        except UNREACHABLE as error:
            return reason_of(error)
        return ""


class _PartitionFigures(NamedTuple):
    checkpoint: Position
    rebuild_due: str
    to_embed: int
    embed_later: int
    embed_since_ms: float | None
    """Since when the last text of the embedding queue has waited; None for an empty queue."""
    feed: int
    dead: int
    pending_bytes: int

    @classmethod
    def of(
        cls,
        saved: Sequence[bytes | None],
        to_embed: int,
        later: bytes | None,
        last: Sequence[tuple[bytes, float]],
        feed: int,
        dead: int,
        sizes: Sequence[bytes | None],
    ) -> "_PartitionFigures":
        appended, applied = (int(size or 0) for size in sizes)
        checkpoint, folded_by = saved
        position = stored_position(checkpoint)
        due = rebuild_due(folded_by) if checkpoint else ""
        since_ms = waiting_since_ms(last[0][1]) if last else None
        return cls(position, due, to_embed, int(later or 0), since_ms, feed, dead, max(0, appended - applied))


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
    failed = {
        partition: error for partition, row in rows.items() for error in row[::-1] if isinstance(error, Exception)
    }
    for error in failed.values():
        if not isinstance(error, UNREACHABLE):
            raise error
    if failed:
        leave_out(failed, rows, next(iter(failed.values())))
    return {partition: row for partition, row in rows.items() if partition not in failed}


def _or(answer: int | Exception, previous: int) -> int:
    """The answer, or the previous one where the node that has it is away."""
    if isinstance(answer, UNREACHABLE):
        return previous
    if isinstance(answer, Exception):
        raise answer
    return answer


def _inode(folder: Path | None) -> int | None:
    """Return what tells a folder from another one at the same place: 0 for a missing one, None if it is unknown."""
    with suppress(OSError):
        if folder is not None:
            return folder.stat().st_ino if folder.exists() else 0
    return None


def _local(log_folder: Path | None, snapshots: Path | None) -> tuple[int | None, float | None, str, int | None]:
    """Free bytes of the log's disk, the age of the newest index snapshot, which writes the log is known to lack, and
    the inode of the log's folder."""
    free: int | None = None
    with suppress(OSError):
        free = None if log_folder is None else shutil.disk_usage(log_folder).free
    written: list[float] = []
    for path in snapshots.glob("[!.]*") if snapshots is not None else ():
        with suppress(FileNotFoundError):  # it was just pruned
            written.append(path.stat().st_mtime)
    age_s = max(0.0, time.time() - max(written)) if written else None
    return free, age_s, "" if log_folder is None else trouble(log_folder), _inode(log_folder)
