"""Moves recently recalled documents up in the embedding queue: they are likely to be recalled again.

A bounded set of names, which moves up a little later, many at once; no request waits for it.
"""

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from redis.exceptions import RedisError

from ingest.log.keys import PartitionKeys
from ingest.platform.clock import system_clock, to_ms
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.search.question import Hit
from projections.vectors.embedder import Urgency, place

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
                scores: dict[int, dict[str, float]] = {}
                for (partition, name), at in waiting.items():
                    scores.setdefault(partition, {})[name] = place(Urgency.RECALLED, to_ms(at))
                async with self._redis.pipeline(transaction=False) as pipe:
                    for partition, of_partition in scores.items():
                        keys = PartitionKeys(partition).of_generation(self._generations.generation_of(partition))
                        # only what is queued, and only up: what is being embedded, or has a vector by now, stays out
                        pipe.zadd(keys.embed_queue, of_partition, xx=True, lt=True)
                    await pipe.execute()
        except (RedisError, OSError) as error:
            logger.debug("nothing moved up in the embedding queue: %s", error)
        finally:
            self._task = None
