"""Loading an index: from the newest snapshot into a folder of its own, then up to the end of the feeds.

In a thread of its own, so that searches go on against the index that there is. Two indexes take twice the memory.
"""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from ingest.platform.connections import Client
from projections.embedding.embedder import Embedder
from projections.search import snapshots
from projections.search.comparing import Comparison, catch_up
from projections.search.replica import IndexReplica
from projections.search.snapshots import FeedPosition


@dataclass
class Loaded:
    """An index, what made its vectors, the folder it works in, its snapshot ("" for none), its places in the feeds.

    `comparisons` are those that are to be made, by partition.
    """

    index: IndexReplica
    embedder: Embedder
    folder: Path
    snapshot: str
    at: dict[int, FeedPosition]
    comparisons: dict[int, Comparison] = field(default_factory=dict[int, Comparison])


class Loader:
    """Loads indexes into folders below `work`, one at a time."""

    def __init__(self, redis: Client, partitions: int, work: Path, snapshot_folder: Path) -> None:
        self._redis, self._partitions = redis, partitions
        self._work, self._snapshots = work, snapshot_folder
        self._thread = ThreadPoolExecutor(1, "index-loader")
        self._numbers = count(1)

    async def newest(self, embedder: Embedder) -> Loaded:
        """The index of the newest usable snapshot of an embedder's vectors, else an empty one.

        Removes the folders of all others.
        """
        return await self._in_thread(self._read, "", embedder, None) or await self._in_thread(self._empty, embedder)

    async def at_least(self, snapshot: str, embedder: Embedder, keep: Path) -> Loaded | None:
        """The newest snapshot's index if that is `snapshot` or a later one, of an embedder's vectors; else None.

        Folders but it and `keep` are removed.
        """
        return await self._in_thread(self._read, snapshot, embedder, keep)

    async def catch_up(self, loaded: Loaded, goal: Loaded) -> None:
        """Apply what the feeds hold, or else the documents, at least as far as `goal` stands."""
        for partition, at in loaded.at.items():
            loaded.at[partition] = await catch_up(
                self._redis, loaded.index, partition, at, self._in_thread, goal.at[partition]
            )

    def close(self) -> None:
        """Wait for what is being loaded; removes all folders."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        shutil.rmtree(self._work, ignore_errors=True)

    async def _in_thread(self, work: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _read(self, least: str, embedder: Embedder, keep: Path | None) -> Loaded | None:
        self._sweep(keep)
        kind = embedder.model, embedder.dimensions
        known = snapshots.newest(self._snapshots, *kind)
        if known is None or known[1].name < least:
            return None
        folder = self._folder()
        found = snapshots.load_newest(self._snapshots, kind[0], folder, kind[1], least)
        if found is None:
            return None
        index, manifest = found
        return Loaded(index, embedder, folder, manifest.name, self._start | manifest.partitions)

    def _empty(self, embedder: Embedder) -> Loaded:
        self._sweep(None)
        folder = self._folder()
        index = IndexReplica(folder, embedder.dimensions, embedder.model)
        return Loaded(index, embedder, folder, "", self._start)

    @property
    def _start(self) -> dict[int, FeedPosition]:
        return {partition: FeedPosition() for partition in range(self._partitions)}

    def _folder(self) -> Path:
        return self._work / str(next(self._numbers))

    def _sweep(self, keep: Path | None) -> None:
        for path in self._work.glob("*"):
            if path != keep:
                shutil.rmtree(path, ignore_errors=True)
