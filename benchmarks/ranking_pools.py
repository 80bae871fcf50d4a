"""Pools of candidates for the questions of relevance data, made in one process by the code that a server runs.

Turns become observations, their index entries and the default model's vectors go into an `IndexReplica` for each
conversation or project, and `search.pool_of` picks the candidates. No server, no Redis; recall agrees with HTTP within
half a point (ids, which order equals, are others).
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.relevance import APART, events_of, questions
from ingest.ids import DocumentId
from projections.documents.observations import Observation
from projections.search.cues import Cues, cues_of
from projections.search.embedded import EmbeddedCandidates
from projections.search.question import Filter, Question
from projections.search.ranking import Pool
from projections.search.replica import IndexReplica
from projections.search.search import pool_of
from projections.search.terms import terms
from projections.store.feed import Put
from projections.vectors.embedder import Embedder, chunk
from projections.vectors.static import table_of

TENANT, RUN = "benchmark", "offline"


@dataclass(frozen=True)
class AskedPool:
    """One question: its candidates, which of them are evidence, and how many turns of evidence there are in all."""

    group: str
    query_terms: list[str]
    cues: Cues
    pool: Pool
    evidence: NDArray[np.bool_]
    wanted: int

    def recall(self, scores: NDArray[np.float64], cut: int) -> float:
        """The share of the evidence among the first `cut`."""
        best = np.argsort(-np.round(scores, 6), kind="stable")[:cut]
        return float(self.evidence[best].sum()) / self.wanted


def asked_pools(path: Path, embedder: Embedder, cache: Path) -> list[AskedPool]:
    """The pools of every question of a file; vectors are kept in `cache`, a folder."""
    data: list[dict[str, Any]] = json.loads(path.read_bytes())
    return [one for group in data for one in _group_pools(group, embedder, cache)]


def _group_pools(group: dict[str, Any], embedder: Embedder, cache: Path) -> Iterator[AskedPool]:
    turns = dict(_observations(group))
    asked = [one for one in questions(group) if one.category not in APART]
    texts = [chunk(turn.searchable_text()) for turn in turns.values()]
    vectors = _vectors([*(part for parts in texts for part in parts), *(one.text for one in asked)], embedder, cache)
    with tempfile.TemporaryDirectory() as folder:
        index = IndexReplica(Path(folder), embedder.dimensions, embedder.model, table_of(embedder))
        index.apply(0, [Put(turn.index_entry()) for turn in turns.values()])
        index.commit()
        first = 0
        for turn, parts in zip(turns.values(), texts, strict=True):
            if parts:
                index.vectors.put(index.ordinal_of[turn.id], vectors[first : first + len(parts)].astype(np.float16))
            first += len(parts)
        allowed = Filter(tenant=TENANT)
        found = {turn.id: place for place, turn in turns.items()}
        for one, vector in zip(asked, vectors[first:], strict=True):
            question = Question(text=one.text, vector=vector, model=embedder.model)
            query_terms = terms(one.text)
            documents, pool = pool_of(EmbeddedCandidates(index, allowed, 0), question, query_terms)
            ordinals: list[int] = documents.tolist()
            held = np.array([found[DocumentId(index.ids[at])] in one.evidence for at in ordinals], np.bool_)
            yield AskedPool(group["sample_id"], query_terms, cues_of(one.text), pool, held, len(one.evidence))


def _observations(group: dict[str, Any]) -> Iterator[tuple[str, Observation]]:
    """Turn ids and observations, of the events that a benchmark over HTTP writes."""
    for place, event in enumerate(events_of(group, RUN), start=1):
        digest = hashlib.sha256(event["event_id"].encode()).hexdigest()
        yield (
            event["metadata"]["turn"],
            Observation(
                id=DocumentId(f"obs_{digest[:26]}"),
                event_id=event["event_id"],
                tenant=TENANT,
                project=event["project"],
                session_id=event["session_id"],
                session=DocumentId(f"ses_{event['session_id']}"),
                agent_id=event["agent_id"],
                content=event["content"],
                occurred_at=datetime.fromisoformat(event["occurred_at"]),
                recorded_at=datetime(2026, 1, 1, tzinfo=UTC),
                position=f"0:{place}-0",
            ),
        )


def _vectors(texts: list[str], embedder: Embedder, cache: Path) -> NDArray[np.float32]:
    """(n, dimensions), kept by model and texts."""
    digest = hashlib.sha256(json.dumps([embedder.model, *texts]).encode()).hexdigest()
    path = cache / f"{digest[:32]}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        parts = [embedder.embed(texts[start : start + 64]) for start in range(0, len(texts), 64)]
        np.save(path, np.concatenate(parts).astype(np.float16))
    return np.load(path).astype(np.float32)
