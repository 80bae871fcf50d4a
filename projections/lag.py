"""How far the documents are behind the log."""

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from ingest.connections import Client
from ingest.log.keys import CONSUMER_GROUP, PartitionKeys


async def entries_behind(redis: Client, partitions: int) -> dict[int, int]:
    """Log entries not projected yet, by partition, for those partitions that have any. One round trip.

    Counts what the consumer group has not read or not acknowledged. Where Redis cannot say (entries were erased that
    the group had not read), everything in the log counts: too much rather than too little.
    """
    keys = [PartitionKeys(partition) for partition in range(partitions)]
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.xinfo_groups(key.log)
            pipe.xlen(key.log)
        answers = await pipe.execute(raise_on_error=False)
    behind = [_behind(groups, length) for groups, length in zip(answers[::2], answers[1::2], strict=True)]
    return {partition: count for partition, count in enumerate(behind) if count}


def _behind(groups: Sequence[dict[str, Any]] | Exception, length: int) -> int:
    if isinstance(groups, ResponseError):  # no such stream: nothing was ever appended
        return 0
    if isinstance(groups, Exception):
        raise groups
    group = next((one for one in groups if one["name"] == CONSUMER_GROUP.encode()), None)
    if group is None or group.get("lag") is None:
        return length
    return int(group["lag"]) + int(group["pending"])
