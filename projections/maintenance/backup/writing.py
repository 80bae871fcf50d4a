"""A log into the files of a backup: every entry at its position, and what else is for ever."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from ingest.log.archive.manifest import ArchiveManifest as Chain
from ingest.log.archive.manifest import appended
from ingest.log.archive.segments import content_of, filled, pack
from ingest.log.event_log import EventLog, Stored, pages
from ingest.log.keys import NUMBERS, RECEIPTS, PartitionKeys
from ingest.log.position import Position
from ingest.platform.clock import Clock
from ingest.platform.connections import Client
from ingest.platform.processes import release
from projections.maintenance.backup.contents import KEPT, HashField, Index, Kept, Member, Text, encode_kept
from projections.maintenance.backup.manifest import INDEX, MANIFEST, BackupFailed, Manifest, name_of, stamp_of
from projections.maintenance.backup.state import measure

FIELDS_PER_PAGE = 500


async def write_backup(redis: Client, log: EventLog, folder: Path, clock: Clock) -> Manifest:
    """Write the log, up to where it is now, into the new folder `folder`; returns the manifest that is there.

    Raises BackupFailed when the log cannot be read up to its head.
    """
    state = await measure(redis, log)
    created_at = clock()
    await asyncio.to_thread(folder.mkdir, parents=True, mode=0o700)

    def chain(partition: int) -> Chain:
        return Chain(log=state.log, archive=stamp_of(created_at), partition=partition)

    # receipts before the log: one that says `done` must not stand beside what it says is gone
    kept = await _sealed(folder, chain(KEPT), _numbered(_kept(redis, log.partitions)))
    partitions: list[Chain] = []
    for partition, head in state.heads.items():
        made = await _sealed(folder, chain(partition), pages(log, partition, Position.parse(head)))
        if str(made.sealed) != head:
            raise BackupFailed(f"partition {partition} was read up to {made.sealed}, which is not its end")
        partitions.append(made)
    index = msgspec.json.encode(Index(kept, partitions))
    await asyncio.to_thread((folder / INDEX).write_bytes, index)
    events = sum(one.content.entries for chain in partitions for one in chain.segments)
    sha256 = hashlib.sha256(index).hexdigest()
    manifest = Manifest(
        log=state.log,
        heads=state.heads,
        forgotten=state.forgotten,
        name=name_of(created_at, sha256),
        created_at=created_at,
        release=release(),
        partitions=log.partitions,
        events=events,
        records=events + sum(one.content.entries for one in kept.segments),
        bytes=sum(one.content.bytes for chain in (kept, *partitions) for one in chain.segments),
        sha256=sha256,
    )
    await asyncio.to_thread((folder / MANIFEST).write_bytes, msgspec.json.encode(manifest))
    return manifest


async def _sealed(folder: Path, chain: Chain, entries: AsyncIterator[Sequence[Stored]]) -> Chain:
    """Write entries as segments; returns the chain of them."""
    writer = "kept" if chain.partition == KEPT else f"p{chain.partition:02d}"
    async for segment in filled(entries):
        try:
            data = await asyncio.to_thread(pack, chain.partition, segment)
        except ValueError as error:  # a kept value of many megabytes: better no backup than one that cannot be read
            raise BackupFailed(f"{writer}: {error}") from None
        chain = appended(chain, content_of(data, segment), writer)
        await asyncio.to_thread((folder / chain.segments[-1].name).write_bytes, data)
    return chain


async def _numbered(found: AsyncIterator[list[Kept]]) -> AsyncIterator[list[Stored]]:
    number = 0
    async for some in found:
        yield [Stored(Position(number + place, 0), encode_kept(one)) for place, one in enumerate(some, 1)]
        number += len(some)


async def _kept(redis: Client, partitions: int) -> AsyncIterator[list[Kept]]:
    """What is for ever and does not come out of the log: receipts, numbers of documents, what was asked of a
    model, and which dead letters are discarded.
    """
    hashes = [RECEIPTS, *sorted([key.decode() async for key in redis.scan_iter(match=NUMBERS, count=1000)])]
    for key in hashes:
        found: list[Kept] = []
        async for field, value in redis.hscan_iter(key, count=FIELDS_PER_PAGE):
            found.append(HashField(key, field.decode(), value))
            if len(found) >= FIELDS_PER_PAGE:
                yield found
                found = []
        yield found
    places = [PartitionKeys(partition).enriched for partition in range(partitions)]
    yield [Text(key, value) for key, value in zip(places, await redis.mget(*places), strict=True) if value is not None]
    for partition in range(partitions):
        key, start = PartitionKeys(partition).discarded, 0
        while members := await redis.zrange(key, start, start + FIELDS_PER_PAGE - 1):
            start += len(members)
            yield [Member(key, member) for member in members]
