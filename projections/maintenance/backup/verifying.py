"""Verifying a backup by replay: its records are folded from zero, and say what the documents of a restore must be.

Nothing is written anywhere. Memory: the documents of one partition at a time (some 3 to 5 times the bytes of its
entries), and some 250 bytes for every document of all partitions. Nothing of it is in the backup's own manifest: only a
replay can tell, and it costs as much as one.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ingest.log.event_log import Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from projections.maintenance.backup.manifest import RECORDS, DamagedBackup, Listed, Manifest, MissingFile, behind
from projections.maintenance.backup.points import Point
from projections.maintenance.backup.records import LogEntry, Member, Record, Unreadable, read_records
from projections.maintenance.backup.target import Target
from projections.maintenance.dead_letters import place_of
from projections.maintenance.manifests import DocumentManifest, PartitionManifest
from projections.maintenance.replaying import Replay

RECORDS_PER_BATCH = 500


class Verified(NamedTuple):
    """A backup whose every record was read: what it is, the manifest of its documents, what could not be applied."""

    manifest: Manifest
    documents: DocumentManifest
    parked: dict[int, list[Position]]


async def verify(target: Target, one: Listed, work: Path, at: Point | None = None) -> Verified:
    """Read and replay a backup, up to a point if one is given.

    Raises DamagedBackup, which names the first record that cannot be read, or the partition that ends too early.
    """
    manifest = one.manifest
    if manifest is None:
        raise DamagedBackup(one.name, one.trouble)
    try:
        records = await asyncio.to_thread(target.fetch, one.name, RECORDS, work)
    except MissingFile:
        raise DamagedBackup(one.name, f"{RECORDS} is missing") from None
    replaying = _Replaying(at)
    source = read_records(records)
    try:
        while batch := await asyncio.to_thread(_next, source):
            await replaying.apply(batch)
    except Unreadable as error:
        raise DamagedBackup(one.name, f"{RECORDS}: {error}") from error
    if short := behind(manifest.heads, replaying.reached):
        raise DamagedBackup(one.name, f"partition {short[0]} does not end where the manifest says")
    if await asyncio.to_thread(_sha256, records) != manifest.sha256:
        raise DamagedBackup(one.name, f"{RECORDS} is not the file that was written (its SHA-256 differs)")
    return Verified(manifest, replaying.documents(manifest.partitions), replaying.parked)


class _Replaying:
    """The fold of a backup's records, which hold one partition after the other."""

    def __init__(self, at: Point | None) -> None:
        self.reached: dict[int, Position] = {}
        self.parked: dict[int, list[Position]] = {}
        self._at = at
        self._discarded: dict[str, set[Position]] = {}
        self._done: dict[int, PartitionManifest] = {}
        self._under_way: tuple[int, Replay] | None = None

    async def apply(self, records: list[Record]) -> None:
        run: list[LogEntry] = []
        for record in records:
            if isinstance(record, Member):
                self._discarded.setdefault(record.key, set()).add(place_of(record.value))
            elif isinstance(record, LogEntry):
                if run and run[-1].partition != record.partition:
                    await self._apply(run)
                    run = []
                run.append(record)
        if run:
            await self._apply(run)

    def documents(self, partitions: int) -> DocumentManifest:
        self._finish()
        empty = Replay().manifest
        return DocumentManifest({one: self._done.get(one, empty) for one in range(partitions)})

    async def _apply(self, entries: list[LogEntry]) -> None:
        """Entries of one partition."""
        partition = entries[0].partition
        if self._under_way is None or self._under_way[0] != partition:
            self._finish()
            self._under_way = partition, Replay(self._discarded.get(PartitionKeys(partition).discarded, ()))
        self.reached[partition] = max(self.reached.get(partition, START), Position.parse(entries[-1].position))
        wanted = [entry for entry in entries if self._at is None or self._at.takes(entry)]
        stored = [Stored(Position.parse(entry.position), entry.payload) for entry in wanted]
        await self._under_way[1].apply(stored)

    def _finish(self) -> None:
        """A partition is all there: only its manifest is kept."""
        if self._under_way is not None:
            partition, replay = self._under_way
            self._done[partition] = replay.manifest
            if replay.parked:
                self.parked[partition] = replay.parked
            self._under_way = None


def _next(source: Iterator[Record]) -> list[Record]:
    return list(islice(source, RECORDS_PER_BATCH))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
