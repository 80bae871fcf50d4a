"""What Redis knows of a partition's archive: the version that counts, its chain, up to where the stream was trimmed.

The archive is what Redis says it is: a manifest that Redis does not name was never committed, or has been replaced.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ingest.log.keys import ARCHIVE_ID, MANIFEST, PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client, Commands

VERSION, FILE, CHAIN, SEALED, TRIMMED, STUBS = "version", "file", "chain", "sealed", "trimmed", "stubs"
"""Fields of `{pNN}:archived`."""
_FIELDS = (VERSION, FILE, CHAIN, SEALED, TRIMMED)


class Archived(NamedTuple):
    """The archive of a partition as Redis knows it. Behind `trimmed` the stream has everything.

    What lies between `trimmed` and `sealed` is in both. Version 0 is an archive without any
    file; else `file` is its manifest, and `chain` how that must end.
    """

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
    version, file, chain, sealed, trimmed = answer
    return Archived(
        int(version or 0), (file or b"").decode(), (chain or b"").decode(), _position(sealed), _position(trimmed)
    )


async def load_archived(redis: Commands, keys: PartitionKeys) -> Archived:
    """The archive of a partition as it is now; also within a transaction, before its `multi`."""
    return read_archived(await redis.hmget(keys.archived, _FIELDS))


async def count_erased(redis: Client, partitions: int) -> int:
    """How many entries were ever erased from the log: stubs beside the streams, and those that moved into segments.

    Both numbers of a partition are of one moment: a stub that moves is counted once.
    """
    count = 0
    for partition in range(partitions):
        keys = PartitionKeys(partition)
        async with redis.pipeline(transaction=True) as pipe:
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


def _position(raw: bytes | None) -> Position:
    return Position.parse(raw) if raw else START
