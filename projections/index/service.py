"""The index replica of a process: starts from the newest snapshot, follows every partition's feed, answers searches.

One thread owns the index; the event loop only hands it work. A search that waited for a position sees every document up
to it.

When a purge requests it (PURGED), or another embedder is live, the replica loads a suitable snapshot while the old
index answers, catches up with it, and only then switches over and frees the old one. Until then both are in memory.
The embedder changes with the index, in one step.

Nothing else takes the index away from its readers: where a feed cannot be followed, or another generation became live,
the partition is compared with its documents in the existing index (see `following`).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from redis.exceptions import RedisError

from ingest.errors import ProjectionBehind
from ingest.log.event_log import LogHistory
from ingest.log.keys import PURGED
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from ingest.platform.tasks import end, nothing
from projections.index import waiting
from projections.index.embedded import EmbeddedIndex, search
from projections.index.following import Followers
from projections.index.loading import Loaded, Loader
from projections.index.protocol import READ_WAIT_S, EmbedderMismatch, Index, IndexService, Result
from projections.index.replica import FeedPosition, IndexReplica
from projections.index.snapshots import LoadedSnapshot
from projections.index.waiting import Searches
from projections.search.question import Filter, Hit, Question
from projections.vectors.embedder import Embedder, Embedders

logger = logging.getLogger(__name__)

RETRY_S = 1.0
SHORT_QUESTION, SMALL_INDEX = 1_000, 200_000
"""Characters and documents up to which a search may run on the event loop: some 3 ms."""
LAG_EVERY_S = LOOK_EVERY_S = 0.5
"""How often the lag is measured, and a purge or another embedder is looked for."""
LOAD_AGAIN_S = 2.0
"""After finding no such snapshot: to detect that one is damaged takes reading all of it."""


class ReplicaService(IndexService):
    """Keeps one IndexReplica up to date. `redis` needs one connection a partition for blocking reads."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        snapshot_folder: Path,
        embedders: Embedders,
        name: str,
        read_wait_s: float = READ_WAIT_S,
        history: LogHistory | None = None,
        look_at_log: Callable[[], Awaitable[None]] = nothing,
        preloaded: LoadedSnapshot | None = None,
    ) -> None:
        """`name` is this replica's, among all. `preloaded` is an index that was loaded before the fork."""
        super().__init__(redis, partitions, embedders, name, read_wait_s, history, look_at_log)
        self._loader = Loader(redis, partitions, snapshot_folder, preloaded)
        self._thread = ThreadPoolExecutor(1, "index")
        self._in_use = Lock()
        """Held by the user of the index: its thread, or the event loop for a search while that thread has no work."""
        self._searches = Searches(self._thread, self._search_now, self._in_use)
        self._one_change = asyncio.Lock()
        """Only one change at a time is queued for the index thread, so a search waits for one change at most."""
        self._changes = 0
        self._one_in_background = asyncio.Lock()
        """Only one comparison or batch of vectors competes for that lock, so new writes go first."""
        self._live: Loaded | None = None
        self._caught_up: set[int] = set()
        self._following: list[asyncio.Task[Any]] = []
        self._away: Mapping[int, str] = {}
        """Partitions whose server does not answer, and how it fails."""
        self._closing = self._was_ready = False
        self._error: str | None = None
        self._purged = ""
        self._announced = ""
        """The snapshot before which nothing is left in this replica's memory or files."""

    @property
    def version(self) -> int | None:
        return self._changes if self.ready else None

    @property
    def ready(self) -> bool:
        return self._error is None and len(self._caught_up) == self._partitions

    @property
    def partly(self) -> bool:
        usable = self._was_ready or self._from_snapshot
        return usable and self._error is None and not self.ready and len(self._away) < self._partitions

    @property
    def _from_snapshot(self) -> bool:
        return self._live is not None and self._live.snapshot != "" and not self._lacks_a_partition(self._live)

    @property
    def trouble(self) -> str | None:
        if self._error is not None or self._live is None:
            return self._error
        if len(self._away) == self._partitions:
            return f"Redis is unreachable: {self._away[min(self._away)]}"
        if self._away:
            names = ", ".join(map(str, sorted(self._away)))
            return f"the node of partitions {names} is unreachable, so newer writes to them are not searchable"
        if incomplete := {number: of for number, of in sorted(self._live.comparisons.items()) if not of.complete}:
            done = sum(comparison.done for comparison in incomplete.values())
            return (
                f"the index of partitions {', '.join(map(str, incomplete))} is being rebuilt from "
                "their documents "
                f"({done:,} so far); until then some may be missing or out of date: {incomplete[min(incomplete)].why}"
            )
        if not self._was_ready and self._from_snapshot:
            left = self._partitions - len(self._caught_up)
            return f"the index was loaded from a snapshot and is still catching up in {left} partitions"
        return None

    @property
    def embedder(self) -> Embedder:
        return self.embedders.current if self._live is None else self._live.embedder

    @property
    def documents(self) -> int:
        return 0 if self._live is None else len(self._live.index)

    @property
    def removed(self) -> int:
        """Documents removed from the index since it was loaded; their words are in its memory until it is purged."""
        return 0 if self._live is None else self._live.index.removed

    @property
    def made_of(self) -> tuple[str, int]:
        return self.snapshot, self.removed

    @property
    def snapshot(self) -> str:
        """The snapshot that the index started from; "" for none."""
        return "" if self._live is None else self._live.snapshot

    @property
    def applied(self) -> dict[int, Position]:
        comparisons = {} if self._live is None else self._live.comparisons
        unsure = {partition for partition, comparison in comparisons.items() if not comparison.complete}
        return {partition: START if partition in unsure else at.position for partition, at in self.at.items()}

    @property
    def comparing(self) -> list[int]:
        return [] if self._live is None else sorted(self._live.comparisons)

    @property
    def at(self) -> dict[int, FeedPosition]:
        if self._live is None:
            return {partition: FeedPosition() for partition in range(self._partitions)}
        return dict(self._live.at)

    def generation_of(self, partition: int) -> int:
        return 1 if self._live is None else self._live.at[partition].generation

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._run(), name="index-replica"),
            asyncio.create_task(self._keep_measuring(LAG_EVERY_S), name="lag"),
        ]

    async def aclose(self) -> None:
        """Stop following."""
        self._closing = True
        await end(*self._tasks)
        await end(*self._following)
        self._thread.shutdown(wait=True)
        self._live = None
        await asyncio.to_thread(self._loader.close)
        await self._sign_off()

    async def search(self, question: Question, allowed: Filter) -> list[Hit]:
        if self._live is None or (not self._was_ready and self._lacks_a_partition(self._live)):
            raise ProjectionBehind(0.0, await self.measure_lag())
        is_short = len(question.text) <= SHORT_QUESTION and len(self._live.index) <= SMALL_INDEX
        return await self._searches.ask(question, allowed, is_short=is_short)

    def _search_now(self, question: Question, allowed: Filter) -> list[Hit]:
        # in the index thread: the index may have been replaced since the question was asked
        index = self.index
        if question.vector is not None and question.model not in ("", index.model):
            raise EmbedderMismatch
        return search(index, question, allowed)

    async def ask(self, question: Callable[[Index], Result]) -> Result:
        return await self.in_index_thread(lambda: question(EmbeddedIndex(self.index)))

    async def ask_current(self, question: Callable[[Index], Result]) -> Result:
        # a snapshot has the names of what was deleted after it, so the index must have been ready since it was loaded
        if not self._was_ready:
            await self._wait_until(lambda: self._was_ready, self._read_wait_s)
        return await self.ask(question)

    @staticmethod
    def _lacks_a_partition(live: Loaded) -> bool:
        return any(not comparison.complete and not comparison.base for comparison in live.comparisons.values())

    def partition_of(self, name: str) -> int | None:
        return None if self._live is None else self._live.index.partition_of(name)

    async def in_index_thread(self, work: Callable[..., Result], *args: Any) -> Result:
        """Run something in the thread that changes the index."""

        def alone() -> Result:
            with self._in_use:
                return work(*args)

        return await asyncio.get_running_loop().run_in_executor(self._thread, alone)

    async def _change_index(self, work: Callable[..., Result], *args: Any) -> Result:
        async with self._one_change:
            try:
                return await self.in_index_thread(work, *args)
            finally:
                self._changes += 1

    async def _change_in_background(self, work: Callable[..., Result], *args: Any) -> Result:
        async with self._one_in_background:
            return await self._change_index(work, *args)

    @property
    def index(self) -> IndexReplica:
        """The index; touch it in the index thread only."""
        if self._live is None:
            raise ProjectionBehind(0.0, {})
        return self._live.index

    async def beat(self) -> None:
        """Announce that this replica is up and what it holds; read whether that is too old."""
        self._purged = (await self._redis.get(PURGED) or b"").decode()
        await waiting.announce(self._redis, self.name, self._announced)

    async def _run(self) -> None:
        while not self._closing:
            try:
                if self._live is None:
                    self._caught_up.clear()
                    # before a snapshot is chosen: a purge must wait for every process that may have chosen an older one
                    await self.beat()
                    self._live = await self._loader.newest(await self.embedders.refresh())
                    self._announced = self.snapshot
                self._error = None
                if (fresh := await self._follow_all()) is not None:
                    await self._replace(fresh)
                continue
            except (RedisError, OSError) as error:  # nothing is lost: the followers resume where they stopped
                self._error = f"Redis is unreachable: {error}"
                logger.warning("index: %s", self._error)
            except Exception as error:
                self._live, self._error = None, f"the index failed: {error!r}"
                self._was_ready = False
                logger.exception("index: reloading after an error")
            await asyncio.sleep(RETRY_S)

    async def _follow_all(self) -> Loaded | None:
        """Follow every feed until something fails, or until a replacement is loaded, which is returned."""
        live = self._live
        assert live is not None
        feeds = Followers(
            self._redis, live, self._caught_up, self._change_index, self._change_in_background, self._notify
        )
        self._away = feeds.away
        followers = [
            asyncio.create_task(feeds.follow(partition), name=f"feed-{partition}")
            for partition in range(self._partitions)
        ]
        comparing = asyncio.create_task(feeds.compare(), name="index-replica-comparing")
        linking = asyncio.create_task(feeds.link(), name="index-replica-linking")
        newer = asyncio.create_task(self._newer(live), name="index-replica-newer")
        self._following = [*followers, comparing, linking, newer]
        try:
            done, _ = await asyncio.wait(self._following, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            return newer.result() if newer in done else None
        finally:
            feeds.stopped = True
            await end(*self._following)
            self._following, self._away = [], {}

    async def _newer(self, live: Loaded) -> Loaded:
        """The replacement that a purge, or a change of the embedder, requires for `live`, nearly caught up."""
        reported, again_at = "", 0.0
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                embedder = await self.embedders.refresh()
            except (RedisError, OSError) as error:
                logger.debug("the embedder could not be read: %s", error)
                continue
            same = (embedder.model, embedder.dimensions) == (live.index.model, live.index.vectors.dimensions)
            if same:  # perhaps another object
                live.embedder = embedder
            if (same and self._purged <= live.snapshot) or time.monotonic() < again_at:
                continue
            fresh = await self._loader.at_least(self._purged, embedder)
            again_at = time.monotonic() + LOAD_AGAIN_S
            if fresh is not None:
                try:
                    await self._loader.catch_up(fresh, live)
                except (RedisError, OSError) as error:
                    logger.debug("an index could not catch up: %s", error)
                    continue
                return fresh
            trouble = f"no usable snapshot {self._purged} or later has vectors of {embedder.model}"
            if trouble != reported:
                left = (
                    "words of erased documents are still in memory" if same else f"it searches with {live.index.model}"
                )
                logger.warning("index: %s: %s", left, trouble)
                reported = trouble

    async def _replace(self, fresh: Loaded) -> None:
        """Switch to `fresh`, once that has all that the old index has; then delete the old one.

        The followers have stopped, so no position ever steps back: a read that waited for one finds it in either index.
        """
        live = self._live
        assert live is not None
        await self._loader.catch_up(fresh, live)
        old = [live]
        del live
        self._live = fresh
        self._changes += 1
        self._caught_up.update(range(self._partitions))
        await self._notify()
        # in the thread, after its last search: `old` has the last reference, and freeing an index takes a while
        await self.in_index_thread(old.clear)
        self._announced = fresh.snapshot
        logger.info("index: restarted from snapshot %s, of %s", fresh.snapshot, fresh.index.model)

    async def _notify(self) -> None:
        reached = len(self._caught_up | self._away.keys()) == self._partitions
        self._was_ready = self._was_ready or (self._error is None and reached and len(self._away) < self._partitions)
        await super()._notify()
