"""EventLog on Redis Streams: one stream per partition, one Lua call per partition and batch, one round trip per
append."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,
    OutOfMemoryError,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType] - not in the stubs
    RedisError,
    ResponseError,
    TimeoutError,
)

from ingest.durability import Durability, weakest
from ingest.errors import (
    DurabilityUnavailable,
    LogFull,
    LogRefused,
    LogUnavailable,
    PartitionCountMismatch,
    RestoreUnfinished,
)
from ingest.log.event_log import Appended, Entry, LogHistory, Stored, read_history, refuse_if_closed, refuse_unfinished
from ingest.log.keys import DEDUP_IDS, DEDUP_WINDOW, MANIFEST, RESTORING, PartitionKeys
from ingest.log.position import ALTERED, START, Position, checksum, payload_of
from ingest.log.scripts import APPEND, APPEND_PAST_LIMIT, Script, append_arguments
from ingest.platform.clock import system_clock, to_ms
from ingest.platform.connections import Client, Commands, info_of_nodes, on_each_node, past_memory_limit, server_of
from ingest.platform.partial import PATIENCE_S
from ingest.platform.tasks import waiting_at_most

logger = logging.getLogger(__name__)

ENTRIES_PER_CALL = 2_000
"""Lua passes at most about 8,000 values to one command; a call looks up each id once and stores two values for it."""

CONFIRM_WITHIN_S = 3.0
"""How long a write waits for a disk or a replica. Shorter than the connection timeout, which would drop the
connection."""
RECEIVED_WITHIN = 0.1
"""The part of that time for a replica to confirm receipt, before it is asked whether the write is on its disk."""
CONFIRM_KEY_TTL_S = 60
CONFIRM = "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], '', 'EX', ARGV[1])"
"""A write to wait for that works even if the server is out of memory, because deletions are confirmed as well."""
TIME = "return redis.call('TIME')"
"""The time of the server that has the key."""
LOST_WITHIN_MS = 60_000
"""A replica that becomes the primary has at least the data that the primary had this long ago."""

_NO_WAITAOF = "its server does not support WAITAOF (Redis >= 7.2 or Valkey >= 8 do)"
_NO_FILE = "its server writes no append-only file; set `appendonly yes`, or request 'memory'"
_NO_REPLICA = "its server has no replica; attach one (`REPLICAOF`), or request 'fsync'"
_DUPLICATE = ord("=")
_STUB = re.compile(rb"\d{14}-\d{6}\|")


class RedisLog:
    """The log of one Redis or Valkey server (or cluster)."""

    def __init__(
        self, redis: Client, partitions: int, *, window_ms: int | None = None, window_ids: int = DEDUP_IDS
    ) -> None:
        self._redis = redis
        self._keys = [PartitionKeys(n) for n in range(partitions)]
        self._window_ms = int(DEDUP_WINDOW.total_seconds() * 1000) if window_ms is None else window_ms
        self._window_ids = window_ids
        self.history = LogHistory(partitions)
        self._closed: str | None = None
        """Why writes are disabled."""

    @property
    def partitions(self) -> int:
        return len(self._keys)

    def server_of(self, partition: int) -> str:
        return server_of(self._redis, self._keys[partition].log)

    async def create_or_check(self) -> None:
        """Record a new log's number of partitions and its creation time by its server's clock. Raises
        PartitionCountMismatch for another number in an old log, or what `refuse_unfinished` raises."""
        refuse_unfinished(await self._redis.hget(MANIFEST, RESTORING))
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.execute_command("EVAL", TIME, 1, MANIFEST)
            ((seconds, microseconds),) = await pipe.execute()
        now = datetime.fromtimestamp(int(seconds), UTC) + timedelta(microseconds=int(microseconds))
        async with past_memory_limit(self._redis) as pipe:  # a process also starts where there is no memory left
            # of two processes that start on an empty log, the first one decides
            pipe.hsetnx(MANIFEST, "partitions", str(self.partitions))
            pipe.hsetnx(MANIFEST, "created_at", now.isoformat())
            pipe.hget(MANIFEST, "partitions")
            recorded = int((await pipe.execute())[-1] or 0)
        if recorded != self.partitions:
            raise PartitionCountMismatch(recorded, self.partitions)
        self.history = await read_history(self._redis, self.partitions)

    async def look_whether_open(self) -> None:
        """From now on refuse appends where the log is incomplete; else accept them. A running process calls
        this after each heartbeat. Whatever closes a log checks heartbeats afterward, so it need not reach every
        process."""
        try:
            await refuse_if_closed(self._redis)
        except RestoreUnfinished as error:
            if self._closed is None:
                logger.error("this process has stopped writing: %s", error)
            self._closed = str(error)
        else:
            self._closed = None

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        """Append every batch in one round trip; see EventLog. A server that refuses writes raises LogUnavailable."""
        return await self._append(APPEND, batches)

    async def append_past_limit(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        return await self._append(APPEND_PAST_LIMIT, batches)

    async def _append(self, script: Script, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        if self._closed is not None:  # a restore into it began while this process ran
            raise LogRefused(self._closed)
        calls = [
            (partition, batch[start : start + ENTRIES_PER_CALL])
            for partition, batch in batches.items()
            for start in range(0, len(batch), ENTRIES_PER_CALL)
        ]
        arguments = [
            append_arguments(self._keys[partition], self._window_ms, self._window_ids, entries)
            for partition, entries in calls
        ]
        try:
            answers = await script.try_each(self._redis, arguments)
        except (ConnectionError, TimeoutError, BusyLoadingError, OSError) as error:
            # unknown what was appended; the dedup ids make a repeat harmless
            raise LogUnavailable(f"Redis did not respond: {error}") from error
        for answer in answers:
            if isinstance(answer, (ConnectionError, TimeoutError)):
                raise LogUnavailable(f"Redis did not respond: {answer}") from answer
            if isinstance(answer, OutOfMemoryError):
                raise LogFull(f"Redis is out of memory: {answer}") from answer
            if isinstance(answer, RedisError):
                raise LogRefused(f"Redis refused the write: {answer}") from answer
        appended: dict[int, list[Appended]] = {partition: [] for partition in batches}
        for (partition, _), answer in zip(calls, answers, strict=True):
            appended[partition].extend(_parse(raw) for raw in answer)
        return appended

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        # one moment: an entry erased between two reads would be in neither, or in both
        async with self._redis.pipeline(transaction=True) as pipe:
            queue_page(pipe, self._keys[partition], after, limit)
            rows, stubs = await pipe.execute()
        return merged(self._keys[partition], rows, stubs)[:limit]

    async def read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        async with self._redis.pipeline(transaction=True) as pipe:
            queue_page_back(pipe, self._keys[partition], before, limit)
            rows, stubs = await pipe.execute()
        return merged(self._keys[partition], rows, stubs, newest_first=True)[:limit]

    async def head(self, partition: int) -> Position:
        """The stream's last generated id: stays when the newest entry is erased."""
        try:
            info: dict[str, Any] = await self._redis.xinfo_stream(self._keys[partition].log)
        except ResponseError:  # no such key: nothing was ever appended
            return START
        return Position.parse(info["last-generated-id"])

    async def standing_durability(self) -> Durability:
        """`fsync` on a server that is known to write every command to disk before it answers, else `memory`."""
        try:
            with waiting_at_most(PATIENCE_S):
                config = await self._redis.config_get("append*")
        except ResponseError:  # managed services forbid CONFIG
            return "memory"
        except (ConnectionError, TimeoutError, BusyLoadingError, OSError) as error:
            raise LogUnavailable(f"Redis did not respond: {error}") from error
        settings = {_text(key): _text(value) for key, value in config.items()}
        on_disk = settings.get("appendonly") == "yes" and settings.get("appendfsync") == "always"
        return "fsync" if on_disk else "memory"

    async def why_never(self, requested: Durability) -> str:
        """By INFO; of a cluster, where all primaries are alike, those that answer."""
        try:
            with waiting_at_most(PATIENCE_S):
                nodes = await info_of_nodes(self._redis, "server", "replication", "persistence", of_any=True)
        except ResponseError:  # managed services forbid INFO
            return ""
        except (ConnectionError, TimeoutError, BusyLoadingError, OSError) as error:
            raise LogUnavailable(f"Redis did not respond: {error}") from error
        reasons = [_why_never(info, requested) for info in nodes]
        return reasons[0] if reasons and all(reasons) else ""

    async def confirm(self, newest: Mapping[int, Position], requested: Durability) -> Durability:
        """WAITAOF after a small write to each partition; see EventLog."""
        if requested == "memory":
            return requested
        # WAITAOF waits for what its own connection wrote, and so for everything the server received before: also for
        # the first of two appends of one event id, the second of which wrote nothing. The server may be a new primary,
        # or the same one without what it had not written to disk: so the newest entries are looked up
        async with self._redis.pipeline(transaction=False) as pipe:
            for partition, position in sorted(newest.items()):
                keys, sort_key = self._keys[partition], position.sort_key
                pipe.execute_command("EVAL", CONFIRM, 1, keys.confirmed, CONFIRM_KEY_TTL_S)
                pipe.xrange(keys.log, min=str(position), max=str(position), count=1)
                pipe.zrange(keys.erased, f"[{sort_key}|".encode(), _behind(position), bylex=True, offset=0, num=1)
            replicas, timeout_ms = int(requested == "replicated"), round(CONFIRM_WITHIN_S * 1000)
            received_ms = round(timeout_ms * RECEIVED_WITHIN)
            # a replica that is asked while it receives a write answers before the write is on its disk, and then only
            # once a second: after WAIT it has written what it received
            on_each_node(pipe, "WAIT", replicas, received_ms)
            answers_of = on_each_node(pipe, "WAITAOF", 1, replicas, timeout_ms - received_ms)
            try:
                with waiting_at_most(CONFIRM_WITHIN_S):
                    *rows, _, answer = await pipe.execute(raise_on_error=False)
            except (ConnectionError, TimeoutError, BusyLoadingError, OSError) as error:
                raise LogUnavailable(f"Redis did not respond: {error}") from error
        _check_there(newest, rows)
        return weakest([_reached(reply, requested) for reply in answers_of(answer)])


def _why_never(info: Mapping[str, Any], requested: Durability) -> str:
    """Why a server with this INFO never reaches a durability; empty where it does, or does not say."""
    version = [int(part) for part in str(info.get("redis_version", "")).split(".")[:2] if part.isdigit()]
    if requested == "memory":
        return ""
    if version and version < [7, 2]:
        return _NO_WAITAOF
    if not int(info.get("aof_enabled", 1)):
        return _NO_FILE
    # a server that had a replica keeps a backlog for it, an hour by default: writes may wait for that replica
    replicas = int(info.get("connected_slaves", 1)) or int(info.get("repl_backlog_active", 1))
    return "" if requested == "fsync" or replicas else _NO_REPLICA


def _check_there(newest: Mapping[int, Position], rows: Sequence[Any]) -> None:
    """Raise LogUnavailable unless each newest entry, or its stub, is among the rows (three for each partition)."""
    for n, (partition, position) in enumerate(sorted(newest.items())):
        answers = rows[3 * n : 3 * n + 3]
        for answer in answers:
            if isinstance(answer, Exception):
                raise LogUnavailable(f"Redis did not confirm the write: {answer}") from answer
        # an older one may have left the log for other reasons, and its loss would have been noticed
        if not answers[1] and not answers[2] and to_ms(system_clock()) - position.ms < LOST_WITHIN_MS:
            raise LogUnavailable(f"the log has lost the events appended to partition {partition}; send them again")


def _reached(answer: Any, requested: Durability) -> Durability:
    """What one server says to WAITAOF."""
    match answer:
        case [local, replicas]:
            return ("replicated" if replicas else "fsync") if local else "memory"
        case ResponseError() as refused if "unknown command" in str(refused):
            raise DurabilityUnavailable(requested, _NO_WAITAOF)
        case ResponseError() as refused if "appendonly is disabled" in str(refused):
            raise DurabilityUnavailable(requested, _NO_FILE)
        case error:
            raise LogUnavailable(f"Redis did not confirm the write: {error}")


def _parse(raw: bytes) -> Appended:
    """One answer of the script; written by Redis, so not checked like a caller's position."""
    duplicate = raw[0] == _DUPLICATE
    ms, _, seq = raw[duplicate:].partition(b"-")
    return Appended(Position(int(ms), int(seq)), duplicate)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def stub_member(keys: PartitionKeys, stub: Stored) -> bytes:
    """A stub as a member of the sorted set of erased entries: it sorts by its position, and has a checksum."""
    written = checksum(keys.erased, stub.position, stub.payload)
    return b"%b|=%b|%b" % (stub.position.sort_key.encode(), written, stub.payload)


def read_stub(keys: PartitionKeys, member: bytes) -> Stored:
    """The stub in a member of the sorted set; those of earlier releases have no checksum."""
    sort_key, _, payload = member.partition(b"|")
    position = Position(*map(int, sort_key.split(b"-")))
    if payload.startswith(b"="):
        written, _, payload = payload[1:].partition(b"|")
        if written != checksum(keys.erased, position, payload):
            payload = ALTERED + payload
    return Stored(position, payload)


def read_stubs(keys: PartitionKeys, members: Iterable[bytes]) -> list[Stored]:
    """The stubs in members of the sorted set, in their order, without those whose position was altered."""
    return [read_stub(keys, member) for member in members if _STUB.match(member)]


def queue_page(pipe: Commands, keys: PartitionKeys, after: Position, limit: int) -> None:
    """Queue a page of the stream and the first stubs after a position, oldest first; `merged` reads both answers."""
    pipe.xrange(keys.log, min=f"({after}", max="+", count=limit)
    queue_stubs(pipe, keys, after, None, limit)


def queue_page_back(pipe: Commands, keys: PartitionKeys, before: Position | None, limit: int) -> None:
    """Queue a page of the stream and the last stubs before a position, newest first."""
    pipe.xrevrange(keys.log, max="+" if before is None else f"({before}", min="-", count=limit)
    high = b"+" if before is None else f"({before.sort_key}".encode()  # a stub at `before` sorts behind it
    pipe.zrange(keys.erased, high, b"-", desc=True, bylex=True, offset=0, num=limit)


def queue_stubs(pipe: Commands, keys: PartitionKeys, after: Position, until: Position | None, limit: int) -> Any:
    """Queue (or, with a client, read) the first stubs after a position and up to another (None: to the end)."""
    high = b"+" if until is None else _behind(until)
    return pipe.zrange(keys.erased, _behind(after), high, bylex=True, offset=0, num=limit)


def read_entries(keys: PartitionKeys, rows: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> list[Stored]:
    """Rows of the stream, each compared with its checksum; one without fields is an entry that was erased."""
    log, entries = keys.log, list[Stored]()
    for row_id, fields in rows:
        position = Position.parse(row_id)
        entries.append(Stored(position, payload_of(log, position, fields) if fields else b""))
    return entries


def merged(
    keys: PartitionKeys,
    rows: Sequence[tuple[bytes, Mapping[bytes, bytes]]],
    stubs: Sequence[bytes],
    *,
    newest_first: bool = False,
) -> list[Stored]:
    """Rows of the stream with stubs at their places; both are sorted as asked for."""
    entries = read_entries(keys, rows)
    if not stubs:
        return entries
    both = [*entries, *read_stubs(keys, stubs)]
    return sorted(both, key=lambda stored: stored.position, reverse=newest_first)


def _behind(position: Position) -> bytes:
    """A limit behind every stub at a position: ~ sorts after the separator."""
    return f"[{position.sort_key}~".encode()
