"""Recomputes the vectors of observations: puts them into the embedding queues, a batch at a time.

Texts that were embedded by the same model get their vectors from the cache. Only this process knows of the run, which
ends with it; whatever is queued by then is still embedded.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import RedisError

from ingest.errors import MnemologError
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from projections.index.replica import live_generation
from projections.nouns.access import Reader
from projections.queries.listed import Listed
from projections.queries.lookup import DocumentLocation

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.1
SEEN_WITHIN_S = 2.0
"""A new vector is in this process's index by then; one that is not counts as an error."""
LAST_SCORE = 9e13
"""Queue scores after everything that is new, with room for the run's own order."""


class EmbedJobs(Protocol):
    """Orders to the workers."""

    async def enqueue(self, name: str, *args: Any, job_id: str) -> bool:
        """Queue a job; false when one with this id is waiting or running."""
        ...


class ReEmbeddingProgress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a run is. `errors` counts the processed ones without a vector; `rate` is per second.

    A run that failed is `cancelled`, and `error` says why.
    """

    status: Literal["running", "done", "cancelled"]
    total: int
    processed: int
    errors: int
    model: str
    only_missing: bool
    rate: float
    elapsed_seconds: float
    error: str | None = None


class ReEmbedding:
    """One run. Without a worker it waits for one."""

    def __init__(
        self,
        redis: Client,
        listed: Listed,
        jobs: EmbedJobs,
        *,
        model: str,
        partitions: int,
        only_missing: bool,
        batch: int,
    ) -> None:
        self._redis, self._listed, self._jobs = redis, listed, jobs
        self._partitions, self._batch = partitions, batch
        self._started, self._cancelled = time.monotonic(), False
        self._task: asyncio.Task[None] | None = None
        self._progress = ReEmbeddingProgress(
            status="running",
            total=0,
            processed=0,
            errors=0,
            model=model,
            only_missing=only_missing,
            rate=0.0,
            elapsed_seconds=0.0,
        )

    @property
    def progress(self) -> ReEmbeddingProgress:
        """How far it is."""
        return self._timed() if self._progress.status == "running" else self._progress

    async def start(self, reader: Reader) -> None:
        """Begin with the observations that a reader can see. Raises ProjectionBehind while the index is loading."""
        try:
            locations = await self._listed.to_embed(reader, only_missing=self._progress.only_missing)
        except BaseException:
            self._progress = replace(self._timed(), status="cancelled")
            raise
        self._progress = replace(self._progress, total=len(locations))
        self._task = asyncio.create_task(self._run(locations), name="re-embedding")

    def cancel(self) -> bool:
        """Stop after the current batch; false when the run has ended already."""
        self._cancelled = self._progress.status == "running"
        return self._cancelled

    async def _run(self, locations: Sequence[DocumentLocation]) -> None:
        try:
            for start in range(0, len(locations), self._batch):
                if self._cancelled:
                    break
                await self._embed(locations[start : start + self._batch], LAST_SCORE + start)
            self._progress = replace(self._timed(), status="cancelled" if self._cancelled else "done")
        except (RedisError, OSError, MnemologError) as error:
            logger.warning("re-embedding failed: %s", error)
            self._progress = replace(self._timed(), status="cancelled", error=str(error))

    async def _embed(self, locations: Sequence[DocumentLocation], score: float) -> None:
        """Queue some observations and wait until they have left the queue, or the run is cancelled."""
        by_partition: dict[int, dict[str, float]] = {}
        for partition, name in locations:
            by_partition.setdefault(partition, {})[name] = score
        queues: dict[int, str] = {}
        for partition in by_partition:
            keys, generation = PartitionKeys(partition), await live_generation(self._redis, partition)
            queues[partition] = keys.of_generation(generation).embed_queue
        for partition, scores in by_partition.items():
            await self._redis.zadd(queues[partition], scores)
        while not self._cancelled:
            await self._jobs.enqueue("embed", list(range(self._partitions)), job_id="embed:again")
            if not sum([int(await self._redis.zcount(queue, score, score)) for queue in queues.values()]):
                break
            await asyncio.sleep(LOOK_EVERY_S)
        missing = 0 if self._cancelled else await self._without([name for _, name in locations])
        self._progress = replace(
            self._progress, processed=self._progress.processed + len(locations), errors=self._progress.errors + missing
        )

    async def _without(self, names: Sequence[str]) -> int:
        """How many have no vector once new ones must have arrived."""
        until = time.monotonic() + SEEN_WITHIN_S
        while True:
            missing = len(names) - len(await self._listed.embedded(names))
            if not missing or time.monotonic() > until:
                return missing
            await asyncio.sleep(LOOK_EVERY_S)

    def _timed(self) -> ReEmbeddingProgress:
        elapsed = time.monotonic() - self._started
        return replace(
            self._progress,
            elapsed_seconds=round(elapsed, 1),
            rate=round(self._progress.processed / elapsed, 1) if elapsed else 0.0,
        )
