"""The Lua scripts, each as a typed async function whose signature names every key and argument."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from redis.exceptions import NoScriptError

from ingest.log.event_log import Entry
from ingest.log.keys import RATE_TTL, GenerationKeys, NumberKeys, PartitionKeys
from ingest.log.position import Position, checksum, stored_position, written
from ingest.platform.connections import Client, ask_apart
from ingest.platform.redis_client import Command

Call: TypeAlias = tuple[Sequence[str], Sequence[str | bytes | int]]
"""Keys and arguments."""


class Script:
    """A Lua script; loads itself into a server that does not know it (a fresh one, or one that restarted)."""

    def __init__(self, name: str, *, past_limit: bool = False, package: str = "ingest.log") -> None:
        """With `past_limit` it may write although the server is at its `maxmemory`."""
        source = (files(package) / "lua" / f"{name}.lua").read_text()
        self.source = "#!lua flags=allow-oom\n" + source if past_limit else source
        self._sha: str | None = None

    async def sha(self, redis: Client, *, reload: bool = False) -> str:
        """The script's SHA-1; registers it with the server the first time or when `reload` is set."""
        if self._sha is None or reload:
            self._sha = str(await redis.script_load(self.source))
        return self._sha

    async def call(self, redis: Client, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
        """Run it once."""
        (answer,) = await self.call_each(redis, [(keys, args)])
        return answer

    async def call_each(self, redis: Client, calls: Sequence[Call]) -> list[Any]:
        """Run it with each of several keys and arguments, in one round trip; raises the first error. Calls with the
        same keys, one behind the other, are carried out in their order."""
        answers = await self.try_each(redis, calls)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def try_each(self, redis: Client, calls: Sequence[Call]) -> list[Any]:
        """The same; an error stands in the place of its answer. Runs again what a server did not know the script for. A
        server that does not answer at all is raised, but for nodes of a cluster."""
        answers = await ask_apart(redis, self._commands(calls, await self.sha(redis)))
        unknown = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:
            # a server that restarted, or took over, has no scripts; none of these calls was carried out
            sha = await self.sha(redis, reload=True)
            again = await ask_apart(redis, self._commands([calls[n] for n in unknown], sha))
            for n, answer in zip(unknown, again, strict=True):
                answers[n] = answer
        return answers

    @staticmethod
    def _commands(calls: Sequence[Call], sha: str) -> list[list[Command]]:
        """Those with the same keys together: they are carried out in their order."""
        return [
            [("EVALSHA", sha, len(keys), *keys, *args) for keys, args in together]
            for _, together in groupby(calls, key=itemgetter(0))
        ]


PARTS_PER_CALL = 1_000
"""Few enough not to block Redis for long (about 2 ms)."""

APPEND = Script("append")
APPEND_PAST_LIMIT = Script("append", past_limit=True)
_RESTORE = Script("restore")
_BEGIN_WINDOW = Script("begin_window")
_ACQUIRE_LEASE = Script("acquire_lease", past_limit=True)
_BEAT = Script("beat", past_limit=True)
_HEARD_OF = Script("heard_of")
_RENEW_LEASE = Script("renew_lease", past_limit=True)
_FINISH_EMBEDDING = Script("finish_embedding")
_BOUND_EMBED_QUEUE = Script("bound_embed_queue", past_limit=True)
_LOOK_BACK = Script("look_back")
_NUMBER = Script("number", past_limit=True)
_MEMBERS_OF_PARTS = Script("members_of_parts")
_TAKE_REQUESTS = Script("take_requests", past_limit=True)


def append_arguments(
    keys: PartitionKeys, window_ms: int, window_ids: int, entries: Sequence[Entry]
) -> tuple[Sequence[str], list[str | bytes | int]]:
    """Keys and arguments of APPEND for one partition's batch."""
    args: list[str | bytes | int] = [window_ms, window_ids]
    log = keys.log
    for dedup_id, payload, context in entries:
        args += (dedup_id, payload, f"{written(log, payload, context.encode()):010d}{context}")
    return (log, keys.dedup, keys.dedup_previous, keys.appended), args


async def restore_entries(
    redis: Client, keys: PartitionKeys, window_ids: int, entries: Sequence[tuple[Position, Entry]]
) -> int:
    """Append entries at the positions they had in another log; an empty dedup id is not remembered. The others are
    remembered without an end, until `begin_window`. Returns how many were appended. Raises ResponseError when the
    partition has something behind the first one."""
    args: list[str | bytes | int] = [window_ids]
    for position, entry in entries:
        args += [str(position), entry.dedup_id, entry.payload, checksum(keys.log, position, entry.payload)]
    return int(await _RESTORE.call(redis, (keys.log, keys.dedup, keys.dedup_previous, keys.appended), args))


async def begin_window(redis: Client, keys: Sequence[PartitionKeys], window_ms: int) -> None:
    """Have the window in which restored ids are remembered begin now, in each of these partitions."""
    await _BEGIN_WINDOW.call_each(redis, [((key.dedup, key.dedup_previous), (window_ms,)) for key in keys])


async def acquire_lease(redis: Client, keys: PartitionKeys, worker_id: str, ttl_ms: int) -> int:
    """A fencing token larger than every one before, or 0 when another worker holds the partition."""
    # the token comes with the lease in one script: a worker that lost it writes with an older one, which is refused
    return int(await _ACQUIRE_LEASE.call(redis, (keys.lease, keys.fence), (worker_id, ttl_ms)))


async def renew_leases(
    redis: Client, fences: Mapping[PartitionKeys, int], worker_id: str, ttl_ms: int
) -> list[bool | Exception]:
    """For each partition, with the fencing token of its lease, whether that was still this worker's, or had expired and
    was not taken since, and now lasts `ttl_ms` longer. One round trip. An error stands in the place of what is not
    known: the partitions of a cluster are on several nodes."""
    calls = [((keys.lease, keys.fence), (worker_id, ttl_ms, fence)) for keys, fence in fences.items()]
    answers = await _RENEW_LEASE.try_each(redis, calls)
    return [answer if isinstance(answer, Exception) else bool(answer) for answer in answers]


async def release_lease(redis: Client, keys: PartitionKeys, worker_id: str) -> None:
    """Give the partition up, if it is still this worker's."""
    await release(redis, keys.lease, worker_id)


async def renew(redis: Client, lease: str, who: str, ttl: timedelta) -> bool:
    """Have a lease last `ttl` from now; false, and nothing is changed, when it is not `who`'s any more."""
    return bool(await _RENEW_LEASE.call(redis, (lease,), (who, int(1000 * ttl.total_seconds()))))


async def release(redis: Client, lease: str, who: str) -> None:
    """Give a lease up, if it is still `who`'s."""
    await _RENEW_LEASE.call(redis, (lease,), (who, 0))


async def beat(redis: Client, registry: str, member: str, ttl_ms: int, earlier: str = "") -> list[str]:
    """Say that `member` is up; returns all that are, in the order of their names, by the server's clock. Members that
    begin with `earlier` are what the same one said before, and are taken out."""
    return [member.decode() for member in await _BEAT.call(redis, (registry,), (member, ttl_ms, earlier))]


async def heard_of(redis: Client, registry: str, ttl_ms: int) -> list[str]:
    """The members of a registry that said within `ttl_ms` that they are up, by the server's clock."""
    return [member.decode() for member in await _HEARD_OF.call(redis, (registry,), (ttl_ms,))]


async def finish_embedding(
    redis: Client, keys: GenerationKeys, feed_items: bytes, done: Sequence[tuple[str, float]]
) -> int:
    """Publish `feed_items` and take `(document id, score)` off the queue where the score is still the same."""
    args: list[str | bytes | int] = [feed_items]
    for name, score in done:
        args += [name, repr(score)]
    return int(await _FINISH_EMBEDDING.call(redis, (keys.embed_queue, keys.changes), args))


async def bound_embed_queues(redis: Client, partitions: Sequence[GenerationKeys], most: int) -> None:
    """Leave the `most` most urgent documents in each partition's embedding queue, and note where the others are."""
    await _BOUND_EMBED_QUEUE.call_each(redis, [((keys.embed_queue, keys.embed_later), (most,)) for keys in partitions])


class BackwardScan(NamedTuple):
    """Up to where a feed is trimmed, and whether the entry that was asked for is in it."""

    trimmed: Position
    is_there: bool


async def look_back(redis: Client, keys: GenerationKeys, entry: str) -> BackwardScan:
    """Whether an entry of a change feed is still there, in one moment with up to where it is trimmed."""
    trimmed, is_there = await _LOOK_BACK.call(redis, (keys.changes, keys.trimmed), (entry,))
    return BackwardScan(stored_position(trimmed), bool(is_there))


async def number(redis: Client, keys: NumberKeys, names: Sequence[str]) -> list[int]:
    """The number of each name, given on first sight: from 1 up, in the order of the names; at most 2,000 of them."""
    answers = await _NUMBER.call(redis, (keys.by_name, keys.by_number), names)
    return [int(answer) for answer in answers]


async def take_requests(redis: Client, bucket: str, per_minute: int, want: int, owed: int = 0) -> tuple[int, int]:
    """Up to `want` requests out of a bucket that refills evenly; how many, and the ms until there is one more. What was
    `owed` is taken first, also where the bucket does not have it."""
    taken, wait_ms = await _TAKE_REQUESTS.call(
        redis, (bucket,), (per_minute, want, int(1000 * RATE_TTL.total_seconds()), owed)
    )
    return int(taken), int(wait_ms)


async def members_of_parts(redis: Client, listing: str, beginnings: Sequence[str]) -> list[list[bytes]]:
    """The members of a listing that begin with each of these texts, in order; one round trip."""
    calls = [
        ([listing], beginnings[start : start + PARTS_PER_CALL]) for start in range(0, len(beginnings), PARTS_PER_CALL)
    ]
    answers: list[list[list[bytes]]] = await _MEMBERS_OF_PARTS.call_each(redis, calls)
    return [part for answer in answers for part in answer]
