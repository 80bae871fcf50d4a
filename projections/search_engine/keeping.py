"""Keeping the indexes of an engine: creating, filling, switching and dropping them, and the ids in the live one.

Every worker fills the partitions that it has leased. The one with the first partition also decides: it creates an index
with another identity beside the live one, switches readers to it once it has caught up, and drops the old one.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redis.exceptions import RedisError

from ingest.errors import reason_of
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.index.replica import FeedGap, FeedPosition, end_of_feed, live_generation, trim_feed
from projections.maintenance.reconciling import IndexedNames, SnapshotNames
from projections.search_engine import schema
from projections.search_engine.filling import PartitionFiller, Servers
from projections.search_engine.layout import Identity, PartitionIndex, State, identity_of
from projections.search_engine.schema import Catalogue, Named, begun, dropped, switched, without
from projections.search_engine.writing import Changes, read_state
from projections.vectors.embedder import Embedder, Embedders, EmbeddingError, Unavailable
from projections.vectors.static import StaticTable, table_of

logger = logging.getLogger(__name__)

TICK_S = 1.0
TRIM_EVERY_S = 30.0
DROP_AGAIN_S = 10.0
"""Between two passes over an index that is dropped: another worker may still have filled it during the first."""
EMBEDDED_ENOUGH = 0.99
"""Share of the documents with vectors of the old model that have them of the new one when it becomes live."""
MOST_ENTRIES = 50
"""A feed that is so many times its limit is trimmed even before the engine has it: then the index is filled from the
documents again."""


class Key(NamedTuple):
    """One partition of one index."""

    name: str
    partition: int


class Filling(NamedTuple):
    """A filler at work."""

    filler: PartitionFiller
    task: "asyncio.Task[None]"


@dataclass
class SearchEngineIndexes:
    """The part of a worker that keeps the indexes of an engine.

    `leased` are the partitions that this worker fills; a feed is trimmed when all have `every` entries.
    """

    _servers: Servers
    _partitions: int
    _embedders: Embedders
    _leased: Callable[[], Sequence[int]]
    _every: int

    def __post_init__(self) -> None:
        self._redis, _, self._engine = self._servers
        self._fillers: dict[Key, Filling] = {}
        self._tables: dict[str, StaticTable] = {}
        # comparisons of whole partitions run one by one: side by side they would slow the following of all feeds
        self._one_at_a_time = asyncio.Lock()
        self._reached: dict[int, Position] = {}
        """The position of each feed that every index had reached at the last check."""
        self._trim_at = self._drop_at = 0.0
        self._dropping: asyncio.Task[None] | None = None
        self._reported = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to keep them. An engine that is away is waited for: nothing is lost in that time."""
        self._task = asyncio.create_task(self._run(), name="search-indexes")

    async def aclose(self) -> None:
        """Leave them as they are: another worker continues."""
        await end(self._task, self._dropping)
        await self._stop(list(self._fillers))

    async def _run(self) -> None:
        while True:
            try:
                await self.tick()
                errors = [filling.filler.error for filling in self._fillers.values() if filling.filler.error]
                self._report(errors[0] if errors else "")
            except (RedisError, OSError, EmbeddingError) as error:
                self._report(reason_of(error))
            except Exception:
                logger.exception("search index: it is not kept")
            await asyncio.sleep(TICK_S)

    async def tick(self) -> None:
        """Check once what there is to do, and do it, or start it."""
        try:
            await self._look()
        finally:  # an engine that is away must not let the feeds grow for ever
            if (now := asyncio.get_running_loop().time()) >= self._trim_at:
                self._trim_at = now + TRIM_EVERY_S
                await self._trim()

    async def _look(self) -> None:
        embedder = await self._embedders.refresh()
        read = await schema.read_catalogue(self._engine)
        decides = 0 in self._leased()
        if decides:
            read = await self._decide(read, embedder)
        await self._have_filled(read.catalogue.filled)
        if decides and (self._dropping is None or self._dropping.done()):
            self._dropping = asyncio.create_task(self._drop(), name="search-index-drop")

    async def _decide(self, read: schema.Read, embedder: Embedder) -> schema.Read:
        """Bring the catalogue in line with what exists and what is required. Another worker may do the same."""
        existing = await schema.names(self._engine)
        catalogue = read.catalogue
        for index in catalogue.filled:
            if index.name not in existing:  # the engine was emptied, or lost it
                logger.warning("search index: %s is missing from the engine; filling it again", index.name)
                catalogue = without(catalogue, index.name)
        if not isinstance(embedder, Unavailable) and self._is_outdated(catalogue, identity := identity_of(embedder)):
            catalogue = begun(catalogue, identity, f"-{secrets.token_hex(4)}")
            assert catalogue.filling is not None
            # it is in no catalogue yet; one with its name is left over from a worker that ended right here
            if catalogue.filling.name in existing:
                await schema.drop(self._engine, catalogue.filling.name)
            await schema.create(self._engine, catalogue.filling)
            logger.info("search index: creating an index with vectors of %s", identity.model or "no model")
        elif catalogue.filling and await self._is_level(catalogue):
            logger.info("search index: %s is complete and in use", catalogue.filling.name)
            catalogue = switched(catalogue)
            self._drop_at = asyncio.get_running_loop().time() + DROP_AGAIN_S  # readers may not have heard of it yet
        if catalogue != read.catalogue:
            changed = await schema.exchange(self._engine, read, catalogue)
            if changed is None:
                return await schema.read_catalogue(self._engine)
            read = changed
        if catalogue.live:
            await schema.point_alias(self._engine, catalogue.live.name)
        return read

    @staticmethod
    def _is_outdated(catalogue: Catalogue, identity: Identity) -> bool:
        """Whether to begin an index: the newest is of another identity.

        One that is being filled with another table of the same vectors is left to the workers that have that table.
        """
        if catalogue.filling is not None:
            return _vectors_of(catalogue.filling.identity) != _vectors_of(identity)
        return catalogue.live is None or catalogue.live.identity != identity

    async def _is_level(self, catalogue: Catalogue) -> bool:
        """Whether the index that is filled can replace the live one."""
        assert catalogue.filling is not None
        mine = await self._states(catalogue.filling)
        if not all(state is not None and state.complete for state in mine):
            return False
        other = await self._states(catalogue.live) if catalogue.live else []
        for state, before in zip(mine, other, strict=False):
            if state and before and before.complete and state.position < before.position:
                return False
        enough = EMBEDDED_ENOUGH * sum(state.embedded for state in other if state)
        embedded = sum(state.embedded for state in mine if state)
        return not catalogue.filling.identity.dimensions or embedded >= enough

    async def _states(self, index: Named) -> list[State | None]:
        of = [PartitionIndex(index.name, partition) for partition in range(self._partitions)]
        return [await read_state(self._engine, keys) for keys in of]

    async def _drop(self) -> None:
        """Drop unused indexes; one leaves the catalogue when a pass has found nothing of it."""
        now = asyncio.get_running_loop().time()
        if now < self._drop_at:
            return
        try:
            for name in (await schema.read_catalogue(self._engine)).catalogue.leaving:
                self._drop_at = now + DROP_AGAIN_S
                if not await schema.drop(self._engine, name):
                    read = await schema.read_catalogue(self._engine)
                    await schema.exchange(self._engine, read, dropped(read.catalogue, name))
        except (RedisError, OSError) as error:  # retried at the next tick
            logger.debug("search index: unused indexes cannot be dropped for now: %s", error)
        except Exception:
            logger.exception("search index: unused indexes could not be dropped")

    async def _have_filled(self, indexes: Sequence[Named]) -> None:
        """Have this worker's partitions of these indexes filled, and no others."""
        for key in [key for key, filling in self._fillers.items() if filling.task.done()]:
            del self._fillers[key]
        required = {Key(index.name, partition): index for index in indexes for partition in self._leased()}
        await self._stop([key for key in self._fillers if key not in required])
        for key, index in required.items():
            if key in self._fillers:
                continue
            table = await self._table(index.identity)
            if index.identity.table and table is None:
                raise EmbeddingError(
                    f"{index.name} has static vectors of {index.identity.table}, which are missing here"
                )
            changes = Changes(index.identity, table)
            filler = PartitionFiller(self._servers, index, key.partition, changes, self._one_at_a_time)
            self._fillers[key] = Filling(filler, asyncio.create_task(filler.run(), name=f"filler-{key.partition}"))

    async def _stop(self, keys: Sequence[Key]) -> None:
        stopped = [self._fillers.pop(key) for key in keys]
        for filler, _ in stopped:
            filler.stop()
        await end(*(task for _, task in stopped))

    async def _table(self, identity: Identity) -> StaticTable | None:
        for is_live in (True, False):  # it is the default embedder's if another one is live now
            if identity.table and identity.table not in self._tables:
                embedder = self._embedders.current if is_live else await self._embedders.built("default")
                if (table := table_of(embedder)) is not None:
                    self._tables[table.name] = table
        return self._tables.get(identity.table)

    async def _trim(self) -> None:
        """Trim the feeds up to where all indexes had read them at the previous check: an engine that loses its newest
        writes reads them again.

        Without the engine, only a feed that has grown far too long.
        """
        states_of: dict[int, list[State]] = {}
        for key, filling in self._fillers.items():
            if filling.filler.state is not None and filling.filler.error is None:
                states_of.setdefault(key.partition, []).append(filling.filler.state)
        for partition in self._leased():
            generation = await live_generation(self._redis, partition)
            feed = PartitionKeys(partition).of_generation(generation)
            entries = int(await self._redis.xlen(feed.changes))
            before = self._reached.pop(partition, None)
            if before is not None and entries * self._partitions >= self._every:
                await trim_feed(self._redis, partition, FeedPosition(generation=generation, feed=str(before)))
            elif entries * self._partitions >= MOST_ENTRIES * self._every:
                last = await end_of_feed(self._redis, feed)
                logger.warning("search index: trimming partition %d's feed before the engine has read it", partition)
                await trim_feed(self._redis, partition, FeedPosition(generation=generation, feed=last))
            states = states_of.get(partition, [])
            if states and all(state.generation == generation for state in states):
                self._reached[partition] = min(Position.parse(state.feed) for state in states)

    def _report(self, trouble: str) -> None:
        if bool(trouble) != bool(self._reported):
            if trouble:
                logger.warning("search index: filling is delayed: %s", trouble)
            else:
                logger.info("search index: filling continues")
        self._reported = trouble


def _vectors_of(identity: Identity) -> tuple[int, str, int]:
    return identity.schema, identity.model, identity.dimensions


@dataclass
class EngineNames:
    """The ids in the index that readers use."""

    _engine: Client

    async def names(self, partition: int) -> SnapshotNames:
        """Those of a partition, and its feed position before they were read: later changes are read again.

        Raises FeedGap while there is no index, or the partition is being filled.
        """
        live = (await schema.read_catalogue(self._engine)).catalogue.live
        keys = None if live is None else PartitionIndex(live.name, partition)
        state = None if keys is None else await read_state(self._engine, keys)
        if keys is None or state is None or not state.complete:
            raise FeedGap(f"partition {partition} is being filled into the search index")
        documents, vectors, _ = keys.prefixes
        names = IndexedNames(await self._below(documents), await self._below(vectors))
        return SnapshotNames({partition: state.at}, {partition: names})

    def forget(self) -> None:
        """Nothing is kept."""

    async def _below(self, prefix: str) -> set[str]:
        keys = [key async for key in self._engine.scan_iter(match=f"{prefix}*", count=1000)]
        return {key.decode().removeprefix(prefix) for key in keys}
