"""Verifying a backup by replay: its segments are folded from zero, and say what the documents of a restore must be.

Nothing is written anywhere. Memory: the documents of one partition at a time (some 3 to 5 times the bytes of its
entries), and some 250 bytes for every document of all partitions. Nothing of it is in the backup's own manifest: only a
replay can tell, and it costs as much as one.
"""

import asyncio
from pathlib import Path
from typing import NamedTuple

from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from projections.maintenance.backup.contents import Member, opened
from projections.maintenance.backup.manifest import Listed, Manifest
from projections.maintenance.backup.points import Point
from projections.maintenance.backup.target import Target
from projections.maintenance.dead_letters import place_of
from projections.maintenance.manifests import DocumentManifest, PartitionManifest
from projections.maintenance.replaying import ENTRIES_PER_READ, Replay


class Verified(NamedTuple):
    """A backup whose every segment was read: what it is, the manifest of its documents, what could not be applied."""

    manifest: Manifest
    documents: DocumentManifest
    parked: dict[int, list[Position]]


async def verify(target: Target, one: Listed, work: Path, at: Point | None = None) -> Verified:
    """Read and replay a backup, up to a point if one is given.

    Raises DamagedBackup, which names the first file that is not what was written.
    """
    backup = await asyncio.to_thread(opened, target, one, work)
    discarded: dict[str, set[Position]] = {}
    source = backup.kept()
    while kept := await asyncio.to_thread(next, source, None):
        for record in kept:
            if isinstance(record, Member):
                discarded.setdefault(record.key, set()).add(place_of(record.value))
    documents: dict[int, PartitionManifest] = {}
    parked: dict[int, list[Position]] = {}
    for chain in backup.index.partitions:
        partition = chain.partition
        replay = Replay(discarded.get(PartitionKeys(partition).discarded, ()))
        segments = backup.entries(chain)
        while entries := await asyncio.to_thread(next, segments, None):
            wanted = [entry for entry in entries if at is None or at.takes(partition, entry)]
            for start in range(0, len(wanted), ENTRIES_PER_READ):
                await replay.apply(wanted[start : start + ENTRIES_PER_READ])
        documents[partition] = replay.manifest
        if replay.parked:
            parked[partition] = replay.parked
    return Verified(backup.manifest, DocumentManifest(documents), parked)
