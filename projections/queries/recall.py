"""Recall: the question of the whole project. Find the right memory for a query."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from ingest.clock import Clock, system_clock, to_ms
from ingest.commands.requests import Name, Names
from ingest.errors import CommandRejected, MnemologError
from ingest.ids import DocumentId
from ingest.log.position import Token
from projections.documents.document import Document
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.embedding.embedder import Embedder
from projections.index.search import Filter, Hit, Question
from projections.index.service import ReplicaService
from projections.queries.documents import DocumentReader
from projections.queries.views import readable_by, view

logger = logging.getLogger(__name__)

WAIT_S = 1.0
"""How long a read waits for the position it asked for."""
CACHED_QUERIES = 2_048
"""Query vectors kept: 3 MiB at 384 dimensions."""
SPARE_HITS = 10
"""Asked of the index beyond the limit, in the place of documents forgotten between search and read."""

Kind = Literal["observation", "memory", "lesson", "summary"]


class RecallRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """What to recall. Everything but `query` narrows or weighs; nothing given searches all the tenant's documents."""

    query: Annotated[str, Meta(min_length=1, max_length=20_000)]
    project: Name | None = None
    agent_id: Name = ""
    session_id: Name = ""
    user_id: Name = ""
    kinds: Annotated[list[Kind], Meta(max_length=4)] = []
    tags: Names = []
    from_: datetime | None = None
    to: datetime | None = None
    as_of: datetime | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 10
    mode: Literal["hybrid", "lexical", "vector"] = "hybrid"
    alpha: Annotated[float, Meta(ge=0, le=1)] | None = None
    half_life_days: Annotated[float, Meta(gt=0)] | None = None
    explain: bool = False
    after: Annotated[str, Meta(max_length=100_000)] = ""
    consistency: Literal["session", "eventual"] = "session"


class RecallResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recalled document. `score` is comparable within one answer only."""

    id: str
    kind: Kind
    score: float
    title: str
    content: str
    session_id: str | None
    agent_id: str | None
    project: str
    occurred_at: datetime
    metadata: dict[str, str]
    explain: dict[str, float] | None = None


class RecallAnswer(Struct, frozen=True, kw_only=True):
    """What was recalled. `lag`: log entries not searchable yet, by partition; `degraded`: what was left out."""

    results: list[RecallResult]
    took_ms: float
    lag: dict[int, int]
    degraded: list[str]


class Recall:
    """Answers recall requests from the index replica and the documents."""

    def __init__(
        self, replica: ReplicaService, documents: DocumentReader, embedder: Embedder, clock: Clock = system_clock
    ) -> None:
        self._replica, self._documents, self._embedder, self._clock = replica, documents, embedder, clock
        self._embedding_thread = ThreadPoolExecutor(1, "query-embedding")
        self._vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def close(self) -> None:
        """Give the embedding thread back."""
        self._embedding_thread.shutdown(wait=False)

    async def warm_up(self) -> None:
        """Load the model, so that the first request does not wait for it."""
        await self._vector(RecallRequest(query="warm up"))

    async def __call__(self, request: RecallRequest, tenant: str, reader: str = "") -> RecallAnswer:
        """Recall for a reader of a tenant. `request.agent_id` narrows to what that agent said; it is not who reads.

        Raises CommandRejected for a blank query, ProjectionBehind when `after` is not searchable in time.
        """
        if not request.query.strip():
            raise CommandRejected("query is blank", "query")
        started = time.perf_counter()
        if request.after and request.consistency != "eventual":
            await self._replica.wait_for(Token.parse(request.after), WAIT_S)
        vector, degraded = await self._vector(request)
        question = Question(
            text=request.query,
            vector=vector,
            mode=request.mode,
            limit=request.limit + SPARE_HITS,
            now_ms=to_ms(self._clock()),
            half_life_days=request.half_life_days,
            alpha=request.alpha,
        )
        hits = await self._replica.search(question, _filter(request, tenant, reader))
        results = await self._results(hits, request, tenant, reader)
        if not self._replica.ready:
            degraded.append(self._replica.trouble or "the index is still loading: some documents may be missing")
        return RecallAnswer(
            results=results[: request.limit],
            took_ms=round((time.perf_counter() - started) * 1000, 2),
            lag=self._replica.lag,
            degraded=degraded,
        )

    async def _vector(self, request: RecallRequest) -> tuple[NDArray[np.float32] | None, list[str]]:
        """The query's unit vector; None, and why, when there is none."""
        if request.mode == "lexical":
            return None, []
        if not self._embedder.dimensions:
            return None, ["no embedder is configured: words only"]
        cached = self._vectors.get(request.query)
        if cached is None:
            try:
                loop = asyncio.get_running_loop()
                rows = await loop.run_in_executor(self._embedding_thread, self._embedder.embed, [request.query])
            except MnemologError as error:
                logger.warning("the query was not embedded: %s", error)
                return None, [f"the query could not be embedded ({error}): words only"]
            cached = np.asarray(rows[0], np.float32)
            self._vectors[request.query] = cached
            if len(self._vectors) > CACHED_QUERIES:
                self._vectors.popitem(last=False)
        else:
            self._vectors.move_to_end(request.query)
        return cached, []

    async def _results(
        self, hits: Sequence[Hit], request: RecallRequest, tenant: str, reader: str
    ) -> list[RecallResult]:
        documents = await self._documents.get([(hit.partition, DocumentId(hit.id)) for hit in hits])
        return [
            _result(hit, document, explain=request.explain)
            for hit, document in zip(hits, documents, strict=True)
            if document is not None and readable_by(document, tenant, reader)
        ]


def _filter(request: RecallRequest, tenant: str, reader: str) -> Filter:
    return Filter(
        tenant=tenant,
        project=request.project,
        agent_id=request.agent_id,
        session_id=request.session_id,
        user_id=request.user_id,
        kinds=request.kinds,
        tags=request.tags,
        from_ms=to_ms(request.from_) if request.from_ else None,
        to_ms=to_ms(request.to) if request.to else None,
        as_of_ms=to_ms(request.as_of) if request.as_of else None,
        reader=reader,
    )


def _result(hit: Hit, document: Document, *, explain: bool) -> RecallResult:
    seen: dict[str, Any] = view(document)
    return RecallResult(
        id=hit.id,
        kind=hit.kind,
        score=hit.score,
        title=_title(document),
        content=seen.get("content") or seen.get("narrative") or "",
        session_id=seen.get("session_id") or None,
        agent_id=seen.get("agent_id") or None,
        project=seen["project"],
        occurred_at=seen["occurred_at"],
        metadata=seen.get("metadata") or {},
        explain=hit.explain if explain else None,
    )


def _title(document: Document) -> str:
    match document:
        case Observation() | Memory():
            return document.title
        case Lesson():
            return document.content.split("\n", 1)[0][:80]
        case _:
            return ""
