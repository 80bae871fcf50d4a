"""The index on a search engine, as a process that answers reads knows it: it asks, and watches how far workers are.

Workers keep the index (see `keeping`); this process holds nothing of it but how it stands, which it reads again every
LOOK_EVERY_S, and as soon as LOOK_AGAIN_S while a read waits for a position.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from msgspec.structs import replace
from redis.exceptions import RedisError

from ingest.errors import ProjectionBehind
from ingest.log.history import LogHistory
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from ingest.platform.partial import partial_reads
from ingest.platform.tasks import end
from projections.embedding.embedder import Embedder
from projections.embedding.live import Embedders
from projections.embedding.static import table_of
from projections.search import presence
from projections.search.index import Index, OtherModel
from projections.search.question import Filter, Hit, Question
from projections.search.reading import live_generation
from projections.search.snapshots import FeedPosition
from projections.search.waiting import READ_WAIT_S, Waiting
from projections.search_engine.candidates import Counted, EngineIndexed
from projections.search_engine.engine import Engine, EngineAway
from projections.search_engine.index import EngineIndex
from projections.search_engine.layout import READY, PartitionIndex, State, identity_of, state_of
from projections.search_engine.schema import Named, read_catalogue

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

THREADS = 8
"""Questions that are asked at once; further ones wait."""
LOOK_EVERY_S = 0.25
LOOK_AGAIN_S = 0.01
"""While a read waits: reading how the partitions stand takes the engine some 0.1 ms."""
LOST_AFTER_S = 2.0
"""For so long without an answer, what was known of the engine's index still counts."""
MEASURE_EVERY_S = 0.5
SIGN_OFF_S = 1.0
FREQUENCIES_KEPT_S, FREQUENCIES = 300.0, 20_000
MATCHING_KEPT_S, MATCHING = 60.0, 2_000
NO_SNAPSHOT = "~"
"""Behind the name of every snapshot: a purge need not wait for a process that has no index of its own."""


class EngineService(Waiting):
    """See `IndexService`."""

    def __init__(
        self,
        redis: Client,
        engine: Client,
        url: str,
        partitions: int,
        embedders: Embedders,
        name: str,
        read_wait_s: float = READ_WAIT_S,
        history: LogHistory | None = None,
    ) -> None:
        """`engine` is a client of the server at `url`; `name` tells this process from others."""
        super().__init__(redis, partitions, read_wait_s, history)
        self._states_of, self._engine = engine, Engine(url, connections=THREADS)
        self.embedders, self.name = embedders, name
        self._threads = ThreadPoolExecutor(THREADS, "search-engine")
        self._frequencies = Counted(FREQUENCIES_KEPT_S, FREQUENCIES)
        self._matching = Counted(MATCHING_KEPT_S, MATCHING)
        self._live: Named | None = None
        self._embedder: Embedder | None = None
        """What made the vectors of the live index, as far as this process has it."""
        self._states: dict[int, State] = {}
        self._goal: dict[int, Position] | None = None
        """How far each partition was projected at the start."""
        self._reached = self._was_ready = False
        self._fault = "the search engine was not asked yet"
        self._heard_at = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ready(self) -> bool:
        """Whether readers use an index that is complete in every partition, as far as was projected at the start."""
        return not self._fault and self._reached and not self._incomplete

    @property
    def partly(self) -> bool:
        """Whether it was ready, and is not now for some of its partitions alone: the others are served."""
        return self._was_ready and not self._fault and not self.ready and len(self._incomplete) < self._partitions

    @property
    def trouble(self) -> str | None:
        """What keeps the index from being ready, beside its start."""
        if self._fault:
            return self._fault
        if self._incomplete:
            names = ", ".join(map(str, self._incomplete))
            return f"the index of partitions {names} is being filled from their documents: some may be missing"
        return None

    @property
    def embedder(self) -> Embedder:
        """What made the vectors of the index; where this process has not got that, the live one."""
        return self._embedder or self.embedders.current

    @property
    def documents(self) -> int:
        """How many documents are indexed, as of a moment ago."""
        return sum(state.documents for state in self._states.values())

    @property
    def made_of(self) -> tuple[str, int]:
        """The index, and how many documents were removed from it."""
        return "" if self._live is None else self._live.name, sum(state.removed for state in self._states.values())

    @property
    def applied(self) -> dict[int, Position]:
        """The log position covered, by partition; the beginning for one that may lack what it covers."""
        everywhere = dict.fromkeys(range(self._partitions), START)
        return everywhere | {one: state.position for one, state in self._states.items() if state.complete}

    @property
    def at(self) -> dict[int, FeedPosition]:
        """Where the index stands in every feed; at the beginning where nothing is known of it."""
        known = {
            one: FeedPosition(generation=state.generation, feed=state.feed, covers=state.covers)
            for one, state in self._states.items()
        }
        return {one: known.get(one, FeedPosition()) for one in range(self._partitions)}

    @property
    def comparing(self) -> list[int]:
        """The partitions that are being filled from, or compared with, their documents."""
        return sorted(one for one, state in self._states.items() if state.phase != READY)

    @property
    def _incomplete(self) -> list[int]:
        complete = {one for one, state in self._states.items() if state.complete}
        return [one for one in range(self._partitions) if one not in complete]

    def generation_of(self, partition: int) -> int:
        """The generation whose feed is followed."""
        state = self._states.get(partition)
        return 1 if state is None else state.generation

    def partition_of(self, name: str) -> int | None:
        """None: to ask the engine takes longer than to ask for the document everywhere."""
        return None

    def start(self) -> None:
        """Begin to watch."""
        self._tasks = [
            asyncio.create_task(self._keep_looking(), name="search-engine-states"),
            asyncio.create_task(self._keep_measuring(), name="lag"),
        ]

    async def aclose(self) -> None:
        """Stop watching, once the questions at hand are answered."""
        await end(*self._tasks)
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.close()
        try:
            async with asyncio.timeout(SIGN_OFF_S):
                await presence.sign_off(self._redis, self.name)
        except (RedisError, OSError) as error:
            logger.debug("could not sign off: %s", error)

    async def ask(self, question: Callable[[Index], Result]) -> Result:
        """The answer of the engine's index as it stands.

        Raises ProjectionBehind while there is none, and EngineAway where the engine does not answer.
        """
        index = self._index()
        context = copy_context()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, lambda: context.run(question, index))
        except EngineAway as error:
            self._fault = str(error)
            raise

    async def search(self, question: Question, allowed: Filter) -> list[Hit]:
        """Search the index; with words alone where this process has not got the embedder of its vectors."""
        live = self._live
        if live is not None and question.vector is not None and question.model not in ("", live.identity.model):
            if self.embedder.model == live.identity.model:
                raise OtherModel
            question = replace(question, vector=None)
        return await self.ask(lambda index: index.search(question, allowed))

    def _index(self) -> EngineIndex:
        live, states = self._live, self._states.values()
        if live is None or (not self._was_ready and self._incomplete):
            raise ProjectionBehind(0.0, dict(self.lag))
        table = None if self._embedder is None else table_of(self._embedder)
        indexed = EngineIndexed(
            self._engine, live.name, live.identity, table,
            sum(one.documents for one in states), sum(one.embedded for one in states),
            self._frequencies, self._matching,
        )  # fmt: skip
        return EngineIndex(indexed, self._partitions)

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self._look()
                self._heard_at = time.monotonic()
            except (RedisError, OSError) as error:
                if time.monotonic() - self._heard_at > LOST_AFTER_S:
                    await self._lose(f"the search engine does not answer: {error or type(error).__name__}")
            await self._pause()

    async def _pause(self) -> None:
        """Until it is time to look again: soon, once a read waits."""
        until = time.monotonic() + LOOK_EVERY_S
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, LOOK_AGAIN_S))
            if self.waiting:
                return

    async def _look(self) -> None:
        live = (await read_catalogue(self._states_of)).catalogue.live
        if live is None:
            await self._lose("the search engine has no index yet: workers make one from the documents")
            return
        async with self._states_of.pipeline(transaction=False) as pipe:
            for partition in range(self._partitions):
                pipe.hgetall(PartitionIndex(live.name, partition).state)
            stored: list[Mapping[bytes, bytes]] = await pipe.execute()
        states = {one: state for one, raw in enumerate(stored) if (state := state_of(raw)) is not None}
        await self._know_embedder(live)
        moved = states != self._states or live != self._live
        if self._fault:
            logger.info("index: the search engine answers")
        self._live, self._states, self._fault = live, states, ""
        reached = self._reached
        self._reached = reached or await self._has_reached_goal()
        self._was_ready = self._was_ready or self.ready
        if moved or self._reached != reached:
            await self._notify()

    async def _know_embedder(self, live: Named) -> None:
        """The embedder changes with the index: until then, the one that made its vectors is kept."""
        current = await self.embedders.refresh()
        if identity_of(current) == live.identity:
            self._embedder = current
        elif self._embedder is not None and identity_of(self._embedder) != live.identity:
            self._embedder = None

    async def _lose(self, fault: str) -> None:
        if fault != self._fault:
            logger.warning("index: %s", fault)
            self._fault = fault
            await self._notify()

    async def _has_reached_goal(self) -> bool:
        if self._goal is None:
            self._goal = await self._projected()
        return all(self.applied[partition] >= position for partition, position in self._goal.items())

    async def _projected(self) -> dict[int, Position]:
        """How far each partition is projected, of those whose node answers."""
        found: dict[int, Position] = {}
        for partition in range(self._partitions):
            with partial_reads():
                try:
                    keys = PartitionKeys(partition).of_generation(await live_generation(self._redis, partition))
                    stored = await self._redis.get(keys.checkpoint)
                except (RedisError, OSError) as error:
                    logger.debug("partition %d is not known: %s", partition, error)
                    continue
            found[partition] = Position.parse(stored) if stored else START
        return found

    async def _keep_measuring(self) -> None:
        while True:
            try:
                await self.measure_lag()
                await presence.announce(self._redis, self.name, NO_SNAPSHOT)
            except (RedisError, OSError) as error:
                logger.debug("lag is not known: %s", error)
            await asyncio.sleep(MEASURE_EVERY_S)
