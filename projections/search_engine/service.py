"""The index on a search engine, for a process that answers reads: it sends questions, and watches how far workers are.

Workers keep the index (see `keeping`); this process holds only its state, which it reads every LOOK_EVERY_S, and every
LOOK_AGAIN_S while a read waits for a position.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import NamedTuple

from msgspec.structs import replace
from redis.exceptions import RedisError, ResponseError

from ingest.errors import ProjectionBehind
from ingest.log.event_log import LogHistory
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, stored_position
from ingest.platform.connections import Client, ask
from ingest.platform.partial import partial_reads
from ingest.platform.tasks import end, nothing
from projections.index import waiting
from projections.index.protocol import READ_WAIT_S, EmbedderMismatch, Index, IndexService, Result
from projections.index.replica import FeedPosition
from projections.search.question import Filter, Hit, Question
from projections.search_engine.candidates import Counted, EngineIndexed
from projections.search_engine.engine import DOES_NOT_ANSWER, Engine, EngineAway
from projections.search_engine.index import EngineIndex
from projections.search_engine.layout import READY, PartitionIndex, State, identity_of, state_of
from projections.search_engine.schema import Named, names, read_catalogue
from projections.vectors.embedder import Embedder, Embedders
from projections.vectors.static import table_of

logger = logging.getLogger(__name__)

THREADS = 8
"""Questions at once; further ones wait."""
LOOK_EVERY_S, LOOK_AGAIN_S = 0.25, 0.01
"""The second while a read waits: reading the states of the partitions takes the engine some 0.1 ms."""
LOST_AFTER_S = 2.0
"""For so long without an answer, the last state of the engine's index still counts."""
MEASURE_EVERY_S = 0.5
BEHIND_AFTER_S = 15.0
"""What is projected is in the index within a second; after a worker died, once its lease has expired."""
QUESTION_WITHIN_S = 6.0
"""From question to answer, waiting for a thread included."""
FREQUENCIES_KEPT_S, FREQUENCIES = 300.0, 20_000
MATCHING_KEPT_S, MATCHING = 60.0, 2_000
NO_SNAPSHOT = "~"
"""Sorts after the name of every snapshot: a purge need not wait for a process that has no index of its own."""


class Delay(NamedTuple):
    """A position that is projected and not in the index, and since when by the monotonic clock."""

    position: Position
    since: float


def delays(
    earlier: Mapping[int, Delay], applied: Mapping[int, Position], projected: Mapping[int, Position], now: float
) -> dict[int, Delay]:
    """The delays of partitions, from the `earlier` ones.

    Under steady writes a partition is always a little behind: so each is measured by one position until that arrives.
    """
    waiting = {number: delay for number, delay in earlier.items() if applied[number] < delay.position}
    begun = {number: Delay(position, now) for number, position in projected.items() if applied[number] < position}
    return begun | waiting


class EngineService(IndexService):
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
        look_at_log: Callable[[], Awaitable[None]] = nothing,
    ) -> None:
        """`engine` is a client of the server at `url`."""
        super().__init__(redis, partitions, embedders, name, read_wait_s, history, look_at_log)
        self._states_of, self._engine = engine, Engine(url, connections=THREADS)
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
        self._delayed: Mapping[int, Delay] = {}
        self._error = "the search engine has not been queried yet"
        self._heard_at = time.monotonic()

    @property
    def ready(self) -> bool:
        return not self._error and self._reached and not self._incomplete and not self._behind

    @property
    def partly(self) -> bool:
        return self._was_ready and not self._error and not self.ready and len(self._incomplete) < self._partitions

    @property
    def trouble(self) -> str | None:
        if self._error:
            return self._error
        if self._incomplete:
            numbers = ", ".join(map(str, self._incomplete))
            return f"the index of partitions {numbers} is being built from their documents: some may be missing"
        if self._behind:
            numbers = ", ".join(map(str, sorted(self._behind)))
            return f"workers are not indexing partitions {numbers} in the search engine: see their log"
        return None

    @property
    def embedder(self) -> Embedder:
        return self._embedder or self.embedders.current

    @property
    def documents(self) -> int:
        return sum(state.documents for state in self._states.values())

    @property
    def made_of(self) -> tuple[str, int]:
        return "" if self._live is None else self._live.name, sum(state.removed for state in self._states.values())

    @property
    def applied(self) -> dict[int, Position]:
        complete = {number: state.position for number, state in self._states.items() if state.complete}
        return dict.fromkeys(range(self._partitions), START) | complete

    @property
    def at(self) -> dict[int, FeedPosition]:
        at = {number: state.at for number, state in self._states.items()}
        return dict.fromkeys(range(self._partitions), FeedPosition()) | at

    @property
    def comparing(self) -> list[int]:
        return sorted(number for number, state in self._states.items() if state.phase != READY)

    @property
    def _behind(self) -> list[int]:
        now = time.monotonic()
        return [number for number, delay in self._delayed.items() if now - delay.since > BEHIND_AFTER_S]

    @property
    def _incomplete(self) -> list[int]:
        complete = {number for number, state in self._states.items() if state.complete}
        return [number for number in range(self._partitions) if number not in complete]

    def generation_of(self, partition: int) -> int:
        state = self._states.get(partition)
        return 1 if state is None else state.generation

    def partition_of(self, name: str) -> int | None:
        # asking the engine takes longer than looking for the document in every partition
        return None

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._keep_looking(), name="search-engine-states"),
            asyncio.create_task(self._keep_measuring(MEASURE_EVERY_S), name="lag"),
            asyncio.create_task(self._keep_embedder(), name="search-engine-embedder"),
        ]

    async def aclose(self) -> None:
        await end(*self._tasks)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        self._engine.close()
        await self._sign_off()

    async def ask(self, question: Callable[[Index], Result]) -> Result:
        """The answer of the engine's index as it stands.

        Raises ProjectionBehind while it is not complete at first, and EngineAway without an index, or when the engine
        does not answer in time.
        """
        live, states = self._live, self._states.values()
        if live is None or self._error:
            raise EngineAway(self._error)
        if not self._was_ready and self._incomplete:
            raise ProjectionBehind(0.0, dict(self.lag))
        table = table_of(self._embedder) if self._embedder is not None and live.identity.table else None
        documents, embedded = sum(state.documents for state in states), sum(state.embedded for state in states)
        indexed = EngineIndexed(
            self._engine, live.name, live.identity, table, documents, embedded, self._frequencies, self._matching
        )
        index, context, loop = EngineIndex(indexed, self._partitions), copy_context(), asyncio.get_running_loop()
        try:
            async with asyncio.timeout(QUESTION_WITHIN_S):
                return await loop.run_in_executor(self._threads, lambda: context.run(question, index))
        except TimeoutError:
            raise EngineAway(DOES_NOT_ANSWER) from None

    async def ask_current(self, question: Callable[[Index], Result]) -> Result:
        # workers keep the engine's index, so it never lags behind a snapshot
        return await self.ask(question)

    async def search(self, question: Question, allowed: Filter) -> list[Hit]:
        # with words alone where this process does not have the embedder of the index's vectors
        live = self._live
        if live is not None and question.vector is not None and question.model not in ("", live.identity.model):
            if self.embedder.model == live.identity.model:
                raise EmbedderMismatch
            question = replace(question, vector=None)
        return await self.ask(lambda index: index.search(question, allowed))

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self._look()
                self._heard_at = time.monotonic()
            except (RedisError, OSError) as error:
                logger.debug("the search engine: %s", error)
                if time.monotonic() - self._heard_at > LOST_AFTER_S:
                    await self._lose(DOES_NOT_ANSWER)
            except Exception:  # another program has written there
                logger.exception("index: the search engine's index list cannot be parsed")
                await self._lose("the search engine's index list cannot be parsed")
            until = time.monotonic() + LOOK_EVERY_S
            while (rest_s := until - time.monotonic()) > 0:
                await asyncio.sleep(min(rest_s, LOOK_AGAIN_S))
                if self.waiting:
                    break

    async def _look(self) -> None:
        live = (await read_catalogue(self._states_of)).catalogue.live
        if live is None:
            self._live, self._states = None, {}  # the next index has other keys
            try:
                await names(self._states_of)
            except ResponseError:
                await self._lose("the server in MNEMOLOG_INDEX is not a search engine: it has no FT commands")
                return
            await self._lose("the search engine has no index yet: workers are building one from the documents")
            return
        async with self._states_of.pipeline(transaction=False) as pipe:
            for partition in range(self._partitions):
                pipe.hgetall(PartitionIndex(live.name, partition).state)
            stored: list[Mapping[bytes, bytes]] = await pipe.execute()
        states = {number: state for number, raw in enumerate(stored) if (state := state_of(raw)) is not None}
        if identity_of(self.embedders.current) == live.identity:
            self._embedder = self.embedders.current
        elif self._embedder is not None and identity_of(self._embedder) != live.identity:
            self._embedder = None
        moved = states != self._states or live != self._live
        if self._error:
            logger.info("index: the search engine is responding")
            await self._check_eviction()
        self._live, self._states, self._error = live, states, ""
        reached = self._reached
        if not reached:
            goal = self._goal = await self._projected() if self._goal is None else self._goal
            self._reached = all(self.applied[partition] >= position for partition, position in goal.items())
        self._was_ready = self._was_ready or self.ready
        if moved or self._reached != reached:
            await self._notify()

    async def _check_eviction(self) -> None:
        # an engine that evicts keys loses documents, and nothing tells which
        try:
            policy = (await self._states_of.config_get("maxmemory-policy")).get("maxmemory-policy", "noeviction")
        except ResponseError:  # a managed service may forbid to ask
            return
        if policy != "noeviction":
            logger.warning("index: the search engine may evict documents: its maxmemory-policy is %s", policy)

    async def _keep_embedder(self) -> None:
        """Look for another embedder; to make one takes seconds, in which the states are looked at all the same."""
        while True:
            try:
                await self.embedders.refresh()
            except (RedisError, OSError) as error:
                logger.debug("the embedder could not be read: %s", error)
            except Exception:  # looked for again: without this task the index would keep its embedder for ever
                logger.exception("index: the embedder could not be checked")
            await asyncio.sleep(MEASURE_EVERY_S)

    async def _lose(self, error: str) -> None:
        if error != self._error:
            logger.warning("index: %s", error)
            self._error = error
            await self._notify()

    async def _projected(self) -> dict[int, Position]:
        """How far each partition is projected, of those whose node answers."""
        everywhere = [PartitionKeys(partition) for partition in range(self._partitions)]
        with partial_reads():
            generations = await ask(self._redis, [("GET", keys.generation) for keys in everywhere])
            live = {
                keys.partition: keys.of_generation(int(generation or 1)).checkpoint
                for keys, generation in zip(everywhere, generations, strict=True)
                if not isinstance(generation, Exception)
            }
            stored = await ask(self._redis, [("GET", checkpoint) for checkpoint in live.values()])
        return {
            partition: stored_position(checkpoint)
            for partition, checkpoint in zip(live, stored, strict=True)
            if not isinstance(checkpoint, Exception)
        }

    async def beat(self) -> None:
        await waiting.announce(self._redis, self.name, NO_SNAPSHOT)

    async def _measure(self) -> None:
        await super()._measure()
        applied = self.applied
        self._delayed = delays(self._delayed, applied, await self._projected(), time.monotonic())
