"""What an index that starts now would know of a partition: the newest snapshot, then the change feed."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import zstandard

from ingest.platform.connections import Client
from projections.search.reading import live_generation, read_feed
from projections.search.snapshots import FeedPosition, names_of, newest
from projections.store.feed import Put, Remove, Vectors, read_entry


class Known(NamedTuple):
    """Ids of documents that an index has, and of those that have vectors in it."""

    names: set[str]
    embedded: set[str]


class SnapshotNames(NamedTuple):
    """A snapshot's ids by partition, and where it stands in the feeds. About 100 bytes of memory a document."""

    at: dict[int, FeedPosition]
    by_partition: dict[int, Known]


def snapshot_names(folder: Path, model: str) -> SnapshotNames:
    """The ids in the newest snapshot of a model; nothing where there is none, or it is being replaced. Blocks."""
    found = newest(folder, model)
    if found is None:
        return SnapshotNames({}, {})
    path, manifest = found
    by_partition: dict[int, Known] = {}
    try:
        ids = names_of(path)
        partitions, counts = np.load(path / "partition.npy"), np.load(path / "vector-count.npy")
    except (OSError, ValueError, msgspec.MsgspecError, zstandard.ZstdError):
        return SnapshotNames({}, {})
    for ordinal, name in enumerate(ids):
        if name:
            known = by_partition.setdefault(int(partitions[ordinal]), Known(set(), set()))
            known.names.add(name)
            if ordinal < len(counts) and counts[ordinal]:
                known.embedded.add(name)
    return SnapshotNames(dict(manifest.partitions), by_partition)


class Newest:
    """The ids of the newest snapshot, read when they are first asked for."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model
        self._names: SnapshotNames | None = None

    async def names(self) -> SnapshotNames:
        """Those of the snapshot that was the newest when they were read."""
        if self._names is None:
            self._names = await asyncio.to_thread(snapshot_names, self._folder, self._model)
        return self._names

    def forget(self) -> None:
        """Read them again when they are next asked for: a newer snapshot may be there."""
        self._names = None


async def known_to_index(redis: Client, partition: int, snapshot: SnapshotNames, model: str) -> Known:
    """What the newest snapshot and the live generation's feed amount to. Raises Unfollowable where that has a gap."""
    live = await live_generation(redis, partition)
    at = snapshot.at.get(partition, FeedPosition())
    known = snapshot.by_partition.get(partition, Known(set(), set()))
    if at.generation != live:
        at, known = FeedPosition(generation=live), Known(set(), set())
    names, embedded = set(known.names), set(known.embedded)
    while (read := await read_feed(redis, partition, at, None)).entries:
        at = read.then
        for fields in read.entries:
            for item in read_entry(fields)[0]:
                match item:
                    case Put(entry=entry):
                        names.add(entry.id)
                    case Remove(id=name):
                        names.discard(name)
                        embedded.discard(name)
                    case Vectors(id=name, model=used) if used == model:
                        embedded.add(name)
                    case _:
                        pass
    return Known(names, embedded)
