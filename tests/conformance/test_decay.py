"""What fades and what grows, to a billionth, from the log through the real index to the answer; the clock is told.

The figures are computed here anew, from agentmemory's and memex's formulas, not by the code under test.

Left open: how the fused ranking weighs anything.
"""

import math
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from embedding import embedding_queue
from servers import Server
from workshop import PARTITIONS, TENANT, HashEmbedder, Workshop

from ingest.log.position import Token
from ingest.platform.clock import from_ms
from ingest.platform.connections import connect
from projections.documents.access import Reader
from projections.queries.lessons import Lessons
from projections.queries.recall import QueryVectors, Recall, RecallRequest
from projections.search.service import ReplicaService
from projections.vectors.embedder import Embedder, FixedEmbedder, NoEmbedder, pack

READER = Reader(TENANT, "ada")
EXACT = 1e-9


@asynccontextmanager
async def index(shop: Workshop, url: str, embedder: Embedder) -> AsyncGenerator[ReplicaService]:
    """An index that has everything that was written, with vectors."""
    await shop.project()
    with ThreadPoolExecutor(1) as executor:
        queue = embedding_queue(shop.redis, embedder, executor)
        while await queue.work(range(PARTITIONS)):
            pass
    feeds = connect(url, connections=PARTITIONS + 4)
    replica = ReplicaService(feeds, PARTITIONS, shop.folder / "replica", shop.snapshots, FixedEmbedder(embedder))
    replica.start()
    try:
        await replica.wait_ready(30)
        await replica.wait_for(Token({p: await shop.log.head(p) for p in range(PARTITIONS)}), 30)
        yield replica
    finally:
        await replica.aclose()
        await feeds.aclose()


# memex: similarity and recency

AGES = (0.0, 0.25, 1.0, 7.0, 30.0, 90.0, 3650.0)
QUERY = "where does kim keep the key"


MIXTURES = [(None, None), (0.0, 30.0), (1.0, 30.0), (0.7, 30.0), (0.35, 1.5), (0.5, 365.25)]
"""Alpha and half-life in days, as they are asked for."""


async def test_similarity_and_recency_are_mixed_as_memex_mixes_them(shop: Workshop, valkey: Server):
    """alpha * cosine + (1 - alpha) * exp(-ln 2 / half_life * days); 0.7 and 30 days unless said otherwise."""
    written = {
        (await shop.remember(f"note {n} of kim", occurred_at=shop.clock.now - timedelta(days=age))).id: (n, age)
        for n, age in enumerate(AGES)
    }
    async with recalling(shop, valkey) as recall:
        for alpha, half_life in MIXTURES:
            request = RecallRequest(
                query=QUERY, ranking="similarity", alpha=alpha, half_life_days=half_life, limit=50, explain=True
            )
            results = (await recall(request, READER)).results
            share, life = (0.7 if alpha is None else alpha), (30.0 if half_life is None else half_life)
            assert {result.id for result in results} == written.keys()
            for result in results:
                n, age = written[result.id]
                explained = result.explain or {}
                recency = math.exp(-math.log(2) / life * age)
                assert explained["recency"] == pytest.approx(recency, abs=EXACT)
                assert explained["similarity"] == pytest.approx(cosine(f"note {n} of kim"), abs=1e-6)
                assert result.score == pytest.approx(share * explained["similarity"] + (1 - share) * recency, abs=EXACT)
            scores = [result.score for result in results]
            assert scores == sorted(scores, reverse=True)


async def test_a_memory_ages_with_the_clock_and_not_with_being_read(shop: Workshop, valkey: Server):
    """Half as recent after one half-life, a quarter after two; a memory from the future is as recent as can be."""
    await shop.remember("note 1 of kim", occurred_at=shop.clock.now)
    request = RecallRequest(query=QUERY, ranking="similarity", alpha=0.0, half_life_days=10.0, explain=True)
    async with recalling(shop, valkey) as recall:
        for days, recency in ((-5, 1.0), (5, 1.0), (10, 0.5), (10, 0.25), (0, 0.25), (5, 0.25 / math.sqrt(2))):
            shop.clock.advance(timedelta(days=days))
            (result,) = (await recall(request, READER)).results
            assert result.score == pytest.approx(recency, abs=EXACT)


def cosine(text: str) -> float:
    """Of the query and a text whose vector is kept in two bytes a dimension, which costs some of its length."""
    stored = np.frombuffer(pack(HashEmbedder.vector(text)), "<f2").astype(np.float64)
    return float(np.dot(stored, HashEmbedder.vector(QUERY).astype(np.float64)))


@asynccontextmanager
async def recalling(shop: Workshop, valkey: Server) -> AsyncGenerator[Recall]:
    async with index(shop, valkey.url, HashEmbedder()) as replica:
        recall = Recall(replica, shop.documents, shop.clock)
        yield recall
        recall.close()


# agentmemory: lessons

WEEKS = (0.0, 0.5, 0.999, 1.0, 1.5, 3.25, 8.0, 40.0)


def left(confidence: float, weeks: float) -> float:
    """What is left of a confidence: 0.05 less a week from the first whole one on, at least 0.05; 3 decimals."""
    return confidence if weeks < 1 else round(max(0.05, confidence - 0.05 * weeks), 3)


@asynccontextmanager
async def lessons(shop: Workshop, valkey: Server) -> AsyncGenerator[Lessons]:
    async with index(shop, valkey.url, NoEmbedder()) as replica:
        vectors = QueryVectors(replica)
        yield Lessons(replica, shop.documents, vectors)
        vectors.close()


async def test_a_lesson_fades_by_the_week_and_grows_by_a_tenth_of_the_doubt(shop: Workshop, valkey: Server):
    """Said three times at confidence 0.6: 0.64, then 0.676; from there it fades, and the surest come first."""
    strong = await shop.learn("rebase before pushing", confidence=0.6)
    for _ in range(2):
        await shop.learn("rebase before pushing", confidence=0.6)
    weak = await shop.learn("squash before merging", confidence=0.45)
    async with lessons(shop, valkey) as query:
        told_at = from_ms((await shop.lesson(strong.id)).reinforced_ms)
        weak_at = from_ms((await shop.lesson(weak.id)).reinforced_ms)
        confidence = 0.6
        for _ in range(2):
            confidence += 0.1 * (1 - confidence)
        assert confidence == pytest.approx(0.676, abs=EXACT)
        for weeks in WEEKS:
            now = told_at + timedelta(weeks=weeks)
            results = await query.surest(READER, "atlas", now)
            sure = {result.id: result.confidence_at(now) for result in results}
            assert sure[strong.id] == pytest.approx(left(confidence, weeks), abs=EXACT)
            assert sure[weak.id] == pytest.approx(left(0.45, (now - weak_at) / timedelta(weeks=1)), abs=EXACT)
            assert list(sure) == sorted(sure, key=lambda name: (-sure[name], name))


async def test_a_lessons_recall_score_is_its_confidence_by_its_relevance_and_its_days(shop: Workshop, valkey: Server):
    """confidence * relevance / (1 + 0.01 * days), 3 decimals; without vectors relevance is the share of words said."""
    lesson = await shop.learn("rebase before pushing", confidence=0.9)
    async with lessons(shop, valkey) as request:
        told_at: datetime = from_ms((await shop.lesson(lesson.id)).reinforced_ms)
        for query, share in (("rebase push", 1.0), ("rebase kettle", 0.5), ("rebase a red kettle", 1 / 3)):
            for weeks in WEEKS:
                now = told_at + timedelta(weeks=weeks)
                ((results, score),) = await request.search(READER, query, "atlas", now, min_confidence=0.0)
                assert results.id == lesson.id
                expected: Any = round(left(0.9, weeks) * share / (1 + 0.01 * 7 * weeks), 3)
                assert score == pytest.approx(expected, abs=EXACT), (query, weeks)
