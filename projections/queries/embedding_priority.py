"""Moves recently recalled documents up in the embedding queue, ahead of others of their urgency: they are likely to be
recalled again.

A bounded set of names, which moves up a little later, many at once; no request waits for it.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol

from redis.exceptions import RedisError

from ingest.log.keys import PartitionKeys
from ingest.platform.clock import system_clock, to_ms
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.search.question import Hit
from projections.vectors.embedder import shown_place

logger = logging.getLogger(__name__)

EVERY_S = 0.5  # gathers the results of many recalls into one round trip
MOST = 1_000
"""Names that wait to move up; further ones keep their places."""


class Generations(Protocol):
    """Where the live generation of a partition is known."""

    def generation_of(self, partition: int) -> int: ...


class EmbeddingPriority:
    """Moves documents up in the embedding queue."""

    def __init__(self, redis: Client, generations: Generations) -> None:
        self._redis, self._generations = redis, generations
        self._waiting: dict[tuple[int, str], datetime] = {}
        self._task: asyncio.Task[None] | None = None

    def raise_priority(self, hits: Iterable[Hit]) -> None:
        """Recall returned these hits. Only those ranked by static vectors, because they have no others, move up."""
        for hit in hits:
            if "static" in hit.explain and "cosine" not in hit.explain and len(self._waiting) < MOST:
                self._waiting[hit.partition, hit.id] = system_clock()
        if self._waiting and self._task is None:
            self._task = asyncio.create_task(self._move_up(), name="embed-sooner")

    async def aclose(self) -> None:
        """Give up what has not moved yet: it keeps its place."""
        if self._task is not None:
            await end(self._task)

    async def _move_up(self) -> None:
        try:
            while self._waiting:  # also what was shown while the others moved
                await asyncio.sleep(EVERY_S)
                waiting, self._waiting = self._waiting, {}  # swapped: recalls add to the new one while this is written
                by_partition: dict[int, dict[str, datetime]] = {}
                for (partition, name), at in waiting.items():
                    by_partition.setdefault(partition, {})[name] = at
                for partition, times in by_partition.items():
                    await self._raise(partition, times)
        except (RedisError, OSError) as error:
            logger.debug("the embedding queue could not be reordered: %s", error)
        finally:
            self._task = None

    async def _raise(self, partition: int, times: Mapping[str, datetime]) -> None:
        queue = PartitionKeys(partition).of_generation(self._generations.generation_of(partition)).embed_queue
        scores: list[float | None] = await self._redis.zmscore(queue, [*times])
        raised = {
            name: shown_place(score, to_ms(at))
            for (name, at), score in zip(times.items(), scores, strict=True)
            if score is not None
        }
        if raised:
            # only what is queued, and only up: what has a vector by now stays out
            await self._redis.zadd(queue, raised, xx=True, lt=True)
