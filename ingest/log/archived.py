"""What Redis says of a log's archive. Every log has that, also one whose beginning was never archived."""

from collections.abc import Sequence
from typing import NamedTuple

from ingest.log.keys import ARCHIVE_ID, MANIFEST, PartitionKeys
from ingest.log.position import START, Position, stored_position
from ingest.platform.connections import Client, Commands

VERSION, FILE, CHAIN, SEALED, TRIMMED, STUBS = "version", "file", "chain", "sealed", "trimmed", "stubs"
"""Fields of `{pNN}:archived`."""
_FIELDS = (VERSION, FILE, CHAIN, SEALED, TRIMMED)


class Archived(NamedTuple):
    """The archive of a partition by Redis. After `trimmed` the stream has everything; up to `sealed` the archive does.
    Version 0 is an archive without files; else `file` is its manifest, and `chain` how that must end."""

    version: int = 0
    file: str = ""
    chain: str = ""
    sealed: Position = START
    trimmed: Position = START


def queue_archived(pipe: Commands, keys: PartitionKeys) -> None:
    """Queue the question; `read_archived` reads its answer."""
    pipe.hmget(keys.archived, _FIELDS)


def read_archived(answer: Sequence[bytes | None]) -> Archived:
    """What the answer says."""
    version, file, chain, *positions = answer
    sealed, trimmed = (stored_position(position) for position in positions)
    return Archived(int(version or 0), (file or b"").decode(), (chain or b"").decode(), sealed, trimmed)


async def load_archived(redis: Commands, keys: PartitionKeys) -> Archived:
    """The archive of a partition as it is now; also within a transaction, before its `multi`."""
    return read_archived(await redis.hmget(keys.archived, _FIELDS))


async def count_erased(redis: Client, partitions: int) -> int:
    """How many entries were ever erased from the log: stubs beside the streams, and those that moved into segments."""
    count = 0
    for partition in range(partitions):
        keys = PartitionKeys(partition)
        async with redis.pipeline(transaction=True) as pipe:  # one moment: a stub that moves is counted once
            pipe.zcard(keys.erased)
            pipe.hget(keys.archived, STUBS)
            beside, moved = await pipe.execute()
        count += int(beside) + int(moved or 0)
    return count


async def forget_archive(redis: Client, partitions: int) -> None:
    """Let a log have no archive: what is in segments then belongs to another life of it. Only for an empty log."""
    await redis.hdel(MANIFEST, ARCHIVE_ID)
    for partition in range(partitions):
        await redis.delete(PartitionKeys(partition).archived)
