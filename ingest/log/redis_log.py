"""EventLog on Redis Streams: one stream a partition, one Lua call a partition and batch, one round trip an append."""

from collections.abc import Mapping, Sequence
from typing import Any

from redis.exceptions import BusyLoadingError, ConnectionError, NoScriptError, RedisError, ResponseError, TimeoutError

from ingest.clock import Clock, system_clock
from ingest.connections import Client
from ingest.errors import LogRefused, LogUnavailable, PartitionCountMismatch
from ingest.log.event_log import Appended, Entry, Stored
from ingest.log.keys import DEDUP_IDS, DEDUP_WINDOW, MANIFEST, PartitionKeys
from ingest.log.position import START, Position
from ingest.log.scripts import APPEND, append_arguments

ENTRIES_PER_CALL = 2_000
"""Lua hands at most about 8,000 values to one command; a call looks up each id once and stores two values for it."""

_DUPLICATE = ord("=")


class RedisLog:
    """The log of one Redis or Valkey server (or cluster)."""

    def __init__(
        self, redis: Client, partitions: int, *, window_ms: int | None = None, window_ids: int = DEDUP_IDS
    ) -> None:
        self._redis = redis
        self._keys = [PartitionKeys(n) for n in range(partitions)]
        self._window_ms = int(DEDUP_WINDOW.total_seconds() * 1000) if window_ms is None else window_ms
        self._window_ids = window_ids

    @property
    def partitions(self) -> int:
        return len(self._keys)

    async def create_or_check(self, clock: Clock = system_clock) -> None:
        """Record the partition count in a new log; raises PartitionCountMismatch when an old one differs."""
        await self._redis.hsetnx(MANIFEST, "partitions", str(self.partitions))
        await self._redis.hsetnx(MANIFEST, "created_at", clock().isoformat())
        recorded = int(await self._redis.hget(MANIFEST, "partitions") or 0)
        if recorded != self.partitions:
            raise PartitionCountMismatch(recorded, self.partitions)

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        """Append every batch in one round trip; see EventLog. A server that refuses writes raises LogUnavailable."""
        calls = [
            (partition, batch[start : start + ENTRIES_PER_CALL])
            for partition, batch in batches.items()
            for start in range(0, len(batch), ENTRIES_PER_CALL)
        ]
        answered: dict[int, list[Appended]] = {partition: [] for partition in batches}
        for (partition, _), answer in zip(calls, await self._evaluate(calls), strict=True):
            answered[partition].extend(_parse(raw) for raw in answer)
        return answered

    async def _evaluate(self, calls: Sequence[tuple[int, Sequence[Entry]]]) -> list[Any]:
        """The script's answers; runs again whatever a restarted server refused because it did not know the script."""
        try:
            answers = await self._pipeline(calls, await APPEND.sha(self._redis))
            unknown = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            if unknown:
                sha = await APPEND.sha(self._redis, reload=True)
                for n, answer in zip(unknown, await self._pipeline([calls[n] for n in unknown], sha), strict=True):
                    answers[n] = answer
        except (ConnectionError, TimeoutError, BusyLoadingError, OSError) as error:
            raise LogUnavailable(f"the log did not answer: {error}") from error
        for answer in answers:
            if isinstance(answer, (ConnectionError, TimeoutError)):
                raise LogUnavailable(f"the log did not answer: {answer}") from answer
            if isinstance(answer, RedisError):
                raise LogRefused(f"the log refused the write: {answer}") from answer
        return answers

    async def _pipeline(self, calls: Sequence[tuple[int, Sequence[Entry]]], sha: str) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for partition, entries in calls:
                keys, args = append_arguments(self._keys[partition], self._window_ms, self._window_ids, entries)
                pipe.evalsha(sha, len(keys), *keys, *args)
            return await pipe.execute(raise_on_error=False)

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        keys = self._keys[partition]
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.xrange(keys.log, min=f"({after}", max="+", count=limit)
            low = f"[{after.sort_key}~".encode()  # behind every stub at `after`: ~ sorts after the separator
            pipe.zrange(keys.erased, low, b"+", bylex=True, offset=0, num=limit)
            rows, stubs = await pipe.execute()
        entries = [Stored(Position.parse(position), fields.get(b"e", b"")) for position, fields in rows]
        if not stubs:
            return entries
        return sorted([*entries, *map(_read_stub, stubs)], key=lambda stored: stored.position)[:limit]

    async def head(self, partition: int) -> Position:
        """The stream's last generated id: stays when the newest entry is erased."""
        try:
            info: dict[str, Any] = await self._redis.xinfo_stream(self._keys[partition].log)
        except ResponseError:  # no such key: nothing was ever appended
            return START
        return Position.parse(info["last-generated-id"])

    async def durability(self) -> str:
        """What an acknowledgement means on this server: `fsync`, `everysec` or `memory`; `unknown` if it won't say."""
        try:
            config = await self._redis.config_get("append*")
        except ResponseError:  # managed services forbid CONFIG
            return "unknown"
        settings = {_text(key): _text(value) for key, value in config.items()}
        if settings.get("appendonly") != "yes":
            return "memory"
        return "fsync" if settings.get("appendfsync") == "always" else "everysec"


def _parse(raw: bytes) -> Appended:
    """One answer of the script; written by Redis, so not checked like a caller's position."""
    duplicate = raw[0] == _DUPLICATE
    ms, _, seq = raw[duplicate:].partition(b"-")
    return Appended(Position(int(ms), int(seq)), duplicate)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def stub_member(stub: Stored) -> bytes:
    """A stub as a member of the sorted set of erased entries: it sorts by its position."""
    return stub.position.sort_key.encode() + b"|" + stub.payload


def _read_stub(member: bytes) -> Stored:
    place, _, payload = member.partition(b"|")
    ms, _, seq = place.decode().partition("-")
    return Stored(Position(int(ms), int(seq)), payload)
