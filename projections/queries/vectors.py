"""Searching with the vector of a query: one thread makes them, by the model of the index, and a cache keeps them."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.errors import MnemologError
from projections.embedding.embedder import Embedder, ModelUnavailable
from projections.search.matching import Filter
from projections.search.search import Hit, Question
from projections.search.service import OtherModel, ReplicaService

logger = logging.getLogger(__name__)

CACHED_QUERIES = 2_048
"""Query vectors kept: 3 MiB at 384 dimensions."""


class QueryVectors:
    """Embeds queries, each once while it is cached."""

    def __init__(self, replica: ReplicaService) -> None:
        self._replica = replica
        self._thread = ThreadPoolExecutor(1, "query-embedding")
        self._cached: OrderedDict[tuple[str, str], NDArray[np.float32]] = OrderedDict()
        self.watch: Callable[[float, Exception | None], None] | None = None
        """Told of every query that is embedded: the seconds it took, and what went wrong."""

    @property
    def embedder(self) -> Embedder:
        """What embeds the queries: what embedded the documents of the index."""
        return self._replica.embedder

    def close(self) -> None:
        """Give the embedding thread back."""
        self._thread.shutdown(wait=False)

    async def search(self, question: Question, allowed: Filter) -> tuple[list[Hit], list[str]]:
        """Search with the question's vector, unless it goes by words alone; and why there is no vector.

        Asks again when the index has changed over to another model meanwhile. Raises what ReplicaService.search does.
        """
        if question.mode == "lexical":
            return await self._replica.search(question, allowed), []
        while True:
            embedder = self.embedder
            vector, degraded = await self._of(embedder, question.text)
            try:
                asked = replace(question, vector=vector, model=embedder.model)
                return await self._replica.search(asked, allowed), degraded
            except OtherModel:
                continue

    async def of(self, query: str) -> tuple[NDArray[np.float32] | None, list[str]]:
        """The query's unit vector; None, and why, when there is none."""
        return await self._of(self.embedder, query)

    async def _of(self, embedder: Embedder, query: str) -> tuple[NDArray[np.float32] | None, list[str]]:
        if not embedder.dimensions:
            return None, ["no embedder is configured: words only"]
        cached = self._cached.get((embedder.model, query))
        if cached is None:
            started = time.perf_counter()
            try:
                loop = asyncio.get_running_loop()
                rows = await loop.run_in_executor(self._thread, embedder.embed, [query])
            except MnemologError as error:
                self._tell(started, error)
                logger.warning("the query was not embedded: %s", error)
                # where a service is, and what it said, is not for everybody who reads
                reason = str(error) if isinstance(error, ModelUnavailable) else error.code
                return None, [f"the query could not be embedded ({reason}): words only"]
            self._tell(started)
            cached = np.asarray(rows[0], np.float32)
            self._cached[embedder.model, query] = cached
            if len(self._cached) > CACHED_QUERIES:
                self._cached.popitem(last=False)
        else:
            self._cached.move_to_end((embedder.model, query))
        return cached, []

    def _tell(self, started: float, error: Exception | None = None) -> None:
        if self.watch is not None:
            self.watch(time.perf_counter() - started, error)
