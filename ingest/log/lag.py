"""The number of pending log entries, and waiting until they are projected."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from ingest.errors import ProjectionBehind
from ingest.log.keys import CONSUMER_GROUP, PartitionKeys
from ingest.log.position import Position, Token, stored_position
from ingest.platform.connections import Client
from ingest.platform.partial import UNREACHABLE, leave_out

LAG_LOOK_S = 0.1
"""Between two reads of the checkpoints."""


async def entries_behind(redis: Client, partitions: int) -> dict[int, int]:
    """Log entries not projected yet, by partition, for those partitions that have any. One round trip. Counts what the
    consumer group has not read or not acknowledged. Where Redis cannot say (entries were erased that the group had not
    read), everything in the log counts: too much rather than too little."""
    keys = [PartitionKeys(partition) for partition in range(partitions)]
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.xinfo_groups(key.log)
            pipe.xlen(key.log)
        answers = await pipe.execute(raise_on_error=False)
    rows = {n: answers[2 * n : 2 * n + 2] for n in range(partitions)}
    unread = {partition for partition, row in rows.items() if any(isinstance(answer, UNREACHABLE) for answer in row)}
    if unread:
        leave_out(unread, rows, next(answer for answer in answers if isinstance(answer, UNREACHABLE)))
    behind = {partition: _entries_behind(*row) for partition, row in rows.items() if partition not in unread}
    return {partition: count for partition, count in behind.items() if count}


async def wait_projected(redis: Client, token: Token, timeout_s: float) -> None:
    """Return once the documents cover a position; raises ProjectionBehind after `timeout_s`. For processes without an
    index replica (which follows every step): this polls ten times a second."""
    deadline = time.monotonic() + timeout_s
    while not token.covered_by(await checkpoints(redis, token)):
        if time.monotonic() > deadline:
            raise ProjectionBehind(timeout_s, await entries_behind(redis, max(token) + 1))
        await asyncio.sleep(LAG_LOOK_S)


async def checkpoints(redis: Client, partitions: Iterable[int]) -> Token:
    """Up to where each partition is projected."""
    numbers = list(partitions)
    rows = await asyncio.gather(*(checkpoint(redis, PartitionKeys(number)) for number in numbers))
    return Token(zip(numbers, rows, strict=True))


async def checkpoint(redis: Client, keys: PartitionKeys) -> Position:
    """Up to where a partition's live generation has applied the log: what comes after, the runner reads."""
    generation = int(await redis.get(keys.generation) or 1)
    stored = await redis.get(keys.of_generation(generation).checkpoint)
    return stored_position(stored)


def _entries_behind(groups: Sequence[dict[str, Any]] | Exception, length: int) -> int:
    if isinstance(groups, ResponseError):  # no such stream: nothing was ever appended
        return 0
    if isinstance(groups, Exception):
        raise groups
    group = next((group for group in groups if group["name"] == CONSUMER_GROUP.encode()), None)
    if group is None or group.get("lag") is None:
        return length
    return int(group["lag"]) + int(group["pending"])
