"""The Lua scripts, each as a typed async function whose signature names every key and argument."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

from ingest.connections import Client
from ingest.log.event_log import Entry
from ingest.log.keys import GenerationKeys, PartitionKeys


class Script:
    """A Lua script; loads itself into a server that does not know it (a fresh one, or one that restarted)."""

    def __init__(self, name: str) -> None:
        self.source = (files("ingest.log") / "lua" / f"{name}.lua").read_text()
        self._sha: str | None = None

    async def sha(self, redis: Client, *, reload: bool = False) -> str:
        """The script's SHA-1; registers it with the server the first time or when `reload` is set."""
        if self._sha is None or reload:
            self._sha = str(await redis.script_load(self.source))
        return self._sha

    async def call(self, redis: Client, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
        """Run it once."""
        sha = await self.sha(redis)
        try:
            return await redis.evalsha(sha, len(keys), *keys, *args)
        except NoScriptError:
            sha = await self.sha(redis, reload=True)
            return await redis.evalsha(sha, len(keys), *keys, *args)

    async def call_each(self, redis: Client, calls: Sequence[tuple[Sequence[str], Sequence[str | int]]]) -> list[Any]:
        """Run it with each of several keys and arguments, in one round trip; raises the first error."""
        sha = await self.sha(redis)
        for reload in (False, True):
            async with redis.pipeline(transaction=False) as pipe:
                for keys, args in calls:
                    pipe.evalsha(sha, len(keys), *keys, *args)
                answers = await pipe.execute(raise_on_error=False)
            error = next((answer for answer in answers if isinstance(answer, Exception)), None)
            if error is None:
                return answers
            if reload or not isinstance(error, NoScriptError):
                raise error
            sha = await self.sha(redis, reload=True)
        raise AssertionError("unreachable")


APPEND = Script("append")
_ACQUIRE_LEASE = Script("acquire_lease")
_RENEW_LEASE = Script("renew_lease")
_FINISH_EMBEDDING = Script("finish_embedding")


def append_arguments(
    keys: PartitionKeys, window_ms: int, window_ids: int, entries: Sequence[Entry]
) -> tuple[Sequence[str], list[str | bytes | int]]:
    """Keys and arguments of APPEND for one partition's batch."""
    args: list[str | bytes | int] = [window_ms, window_ids]
    for dedup_id, payload in entries:
        args.append(dedup_id)
        args.append(payload)
    return (keys.log, keys.dedup, keys.dedup_previous), args


async def acquire_lease(redis: Client, keys: PartitionKeys, worker_id: str, ttl_ms: int) -> int:
    """A fencing token larger than every one before, or 0 when another worker holds the partition."""
    return int(await _ACQUIRE_LEASE.call(redis, (keys.lease, keys.fence), (worker_id, ttl_ms)))


async def renew_leases(redis: Client, keys: Sequence[PartitionKeys], worker_id: str, ttl_ms: int) -> list[bool]:
    """For each partition, whether its lease was still this worker's and now lasts `ttl_ms` longer. One round trip."""
    calls = [((partition.lease,), (worker_id, ttl_ms)) for partition in keys]
    return [bool(held) for held in await _RENEW_LEASE.call_each(redis, calls)]


async def release_lease(redis: Client, keys: PartitionKeys, worker_id: str) -> None:
    """Give the partition up, if it is still this worker's."""
    await _RENEW_LEASE.call(redis, (keys.lease,), (worker_id, 0))


async def finish_embedding(
    redis: Client, keys: GenerationKeys, feed_items: bytes, done: Sequence[tuple[str, float]]
) -> int:
    """Publish `feed_items` and take `(document id, score)` off the queue where the score is still the same."""
    args: list[str | bytes | int] = [feed_items]
    for name, score in done:
        args += [name, repr(score)]
    return int(await _FINISH_EMBEDDING.call(redis, (keys.embed_queue, keys.changes), args))
