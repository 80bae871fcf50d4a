"""What an index on a search engine has, as ids: what reconciling compares with the documents."""

from ingest.platform.connections import Client
from projections.maintenance.reconciling import IndexedNames, SnapshotNames
from projections.search.replica import FeedGap, FeedPosition
from projections.search_engine import schema
from projections.search_engine.layout import PartitionIndex
from projections.search_engine.writing import read_state


class EngineNames:
    """The ids in the index that readers use."""

    def __init__(self, engine: Client) -> None:
        self._engine = engine

    async def names(self, partition: int) -> SnapshotNames:
        """Those of a partition, and where it stood in its feed before they were read: what came later is told again.

        Raises Unfollowable while there is no index, or the partition is being filled.
        """
        live = (await schema.read_catalogue(self._engine)).catalogue.live
        keys = None if live is None else PartitionIndex(live.name, partition)
        state = None if keys is None else await read_state(self._engine, keys)
        if keys is None or state is None or not state.complete:
            raise FeedGap(f"partition {partition} is being filled into the search index")
        documents, vectors, _ = keys.prefixes
        found = IndexedNames(await self._below(documents), await self._below(vectors))
        at = FeedPosition(generation=state.generation, feed=state.feed, covers=state.covers)
        return SnapshotNames({partition: at}, {partition: found})

    def forget(self) -> None:
        """Nothing is kept."""

    async def _below(self, prefix: str) -> set[str]:
        keys = [key async for key in self._engine.scan_iter(match=f"{prefix}*", count=1000)]
        return {key.decode().removeprefix(prefix) for key in keys}
