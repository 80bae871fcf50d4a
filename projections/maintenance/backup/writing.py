"""A log into the files of a backup: every entry at its position, and what else is for ever."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from ingest.log.event_log import EventLog
from ingest.log.keys import NUMBERS, RECEIPTS, PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.clock import Clock
from ingest.platform.connections import Client
from ingest.platform.release import release
from projections.maintenance.backup.manifest import MANIFEST, RECORDS, BackupFailed, Manifest, behind, name_of
from projections.maintenance.backup.records import HashField, LogEntry, Member, Record, Text, Writer, encode
from projections.maintenance.backup.state import measure

ENTRIES_PER_READ = 100
"""Entries in memory at once; each has at most 1 MiB."""
FIELDS_PER_WRITE = 500


async def write_backup(redis: Client, log: EventLog, folder: Path, clock: Clock) -> Manifest:
    """Write the log, up to where it is now, into the new folder `folder`; returns the manifest that is there.

    Raises BackupFailed when the log cannot be read up to its head.
    """
    state = await measure(redis, log)
    created_at = clock()
    await asyncio.to_thread(folder.mkdir, parents=True, mode=0o700)
    with Writer(folder / RECORDS) as writer:
        # receipts before the log: one that says `done` must not stand beside what it says is gone
        async for records in _kept(redis, log.partitions):
            await asyncio.to_thread(writer.write, [encode(one) for one in records])
        read: dict[int, Position] = {}
        events = 0
        for partition, head in state.heads.items():
            async for entries in _entries(log, partition, Position.parse(head)):
                events += len(entries)
                read[partition] = Position.parse(entries[-1].position)
                await asyncio.to_thread(writer.write, [encode(one) for one in entries])
        if short := behind(state.heads, read):
            raise BackupFailed(f"partition {short[0]} was read up to {read.get(short[0], START)}, which is not its end")
        await asyncio.to_thread(writer.finish)
    manifest = Manifest(
        log=state.log,
        heads=state.heads,
        forgotten=state.forgotten,
        name=name_of(created_at, writer.sha256),
        created_at=created_at,
        release=release(),
        partitions=log.partitions,
        events=events,
        records=writer.records,
        bytes=writer.bytes,
        sha256=writer.sha256,
    )
    await asyncio.to_thread((folder / MANIFEST).write_bytes, msgspec.json.encode(manifest))
    return manifest


async def _entries(log: EventLog, partition: int, head: Position) -> AsyncIterator[list[LogEntry]]:
    """The entries of a partition up to `head`, some at a time."""
    position = START
    while position < head and (rows := await log.read(partition, position, ENTRIES_PER_READ)):
        position = rows[-1].position
        found = [LogEntry(partition, str(row.position), row.payload) for row in rows if row.position <= head]
        if found:
            yield found


async def _kept(redis: Client, partitions: int) -> AsyncIterator[list[Record]]:
    """What is for ever and does not come out of the log: receipts, numbers of documents, what was asked of a
    model, and which dead letters are discarded.
    """
    hashes = [RECEIPTS, *sorted([key.decode() async for key in redis.scan_iter(match=NUMBERS, count=1000)])]
    for key in hashes:
        found: list[Record] = []
        async for field, value in redis.hscan_iter(key, count=FIELDS_PER_WRITE):
            found.append(HashField(key, field.decode(), value))
            if len(found) >= FIELDS_PER_WRITE:
                yield found
                found = []
        yield found
    places = [PartitionKeys(partition).enriched for partition in range(partitions)]
    yield [Text(key, value) for key, value in zip(places, await redis.mget(*places), strict=True) if value is not None]
    for partition in range(partitions):
        key, start = PartitionKeys(partition).discarded, 0
        while members := await redis.zrange(key, start, start + FIELDS_PER_WRITE - 1):
            start += len(members)
            yield [Member(key, member) for member in members]
