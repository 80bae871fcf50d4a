"""Loading indexes from snapshots, and catching up with the feeds."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.platform.connections import Client
from projections.index import snapshots
from projections.index.comparing import Comparison, catch_up
from projections.index.replica import FeedPosition, IndexReplica
from projections.index.snapshots import LoadedSnapshot
from projections.vectors.embedder import Embedder
from projections.vectors.static import StaticTable, table_of


@dataclass
class Loaded:
    """An index, the embedder of its vectors, its snapshot ("" for none), its positions in the feeds.

    `comparisons` are the outstanding ones, by partition.
    """

    index: IndexReplica
    embedder: Embedder
    snapshot: str
    at: dict[int, FeedPosition]
    comparisons: dict[int, Comparison] = field(default_factory=dict[int, Comparison])


class Loader:
    """Loads indexes, one at a time."""

    def __init__(
        self, redis: Client, partitions: int, snapshot_folder: Path, preloaded: LoadedSnapshot | None = None
    ) -> None:
        """`preloaded` is used once, instead of loading the same snapshot."""
        self._redis, self._partitions, self._snapshots = redis, partitions, snapshot_folder
        self._preloaded = preloaded
        self._thread = ThreadPoolExecutor(1, "index-loader")

    async def newest(self, embedder: Embedder) -> Loaded:
        """The index of the newest usable snapshot of an embedder's vectors, else an empty one."""
        if (loaded := await self.at_least("", embedder)) is not None:
            return loaded
        index = IndexReplica(embedder.dimensions, embedder.model, table_of(embedder))
        return Loaded(index, embedder, "", self._start)

    async def at_least(self, snapshot: str, embedder: Embedder) -> Loaded | None:
        """The newest snapshot's index if that is `snapshot` or a later one, of an embedder's vectors; else None."""
        loaded = await self._in_thread(self._load, snapshot, embedder)
        if loaded is None:
            return None
        index, manifest = loaded
        return Loaded(index, embedder, manifest.name, self._start | manifest.partitions)

    def _load(self, least: str, embedder: Embedder) -> LoadedSnapshot | None:
        model, dimensions, table = embedder.model, embedder.dimensions, table_of(embedder)
        preloaded, self._preloaded = self._preloaded, None  # the index changes as it follows the feeds
        if preloaded is not None:
            index, manifest = preloaded
            newest = snapshots.newest(self._snapshots, model, dimensions, partitions=self._partitions)
            alike = _name(index.table) == _name(table) and manifest.name >= least
            if newest is not None and newest[1] == manifest and alike:
                return preloaded
        return snapshots.load_newest(self._snapshots, model, dimensions, least, table, self._partitions)

    async def catch_up(self, loaded: Loaded, goal: Loaded) -> None:
        """Apply what the feeds have, or else the documents, at least up to the positions of `goal`."""
        for partition, at in loaded.at.items():
            loaded.at[partition] = await catch_up(
                self._redis, loaded.index, partition, at, self._in_thread, goal.at[partition]
            )

    def close(self) -> None:
        """Wait for what is being loaded."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def _in_thread(self, work: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    @property
    def _start(self) -> dict[int, FeedPosition]:
        return {partition: FeedPosition() for partition in range(self._partitions)}


def _name(table: StaticTable | None) -> str:
    return "" if table is None else table.name
