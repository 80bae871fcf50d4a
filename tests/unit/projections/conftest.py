"""An empty index of four dimensions, and short ways to fill it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from projections.index.replica import IndexReplica
from projections.nouns.index_entry import IndexEntry
from projections.store.feed import Put, Vectors
from projections.text.terms import terms
from projections.vectors import vectors

MODEL, DIMENSIONS = "test-model", 4
T0 = 1_769_860_800_000


@pytest.fixture
def index(tmp_path: Path) -> IndexReplica:
    """An empty index."""
    return IndexReplica(DIMENSIONS, MODEL)


@pytest.fixture
def entry() -> Callable[..., IndexEntry]:
    """`entry(id, text, **fields)` is a document of tenant `default`, project `atlas`."""

    def entry(name: str, text: str, **fields: Any) -> IndexEntry:
        given: dict[str, Any] = {
            "id": name,
            "kind": {"obs": "observation", "lsn": "lesson"}.get(name.partition("_")[0], "memory"),
            "terms": " ".join(terms(text)),
            "episode": "",
            "tenant": "default",
            "project": "atlas",
            "session_id": "",
            "agent_id": "",
            "user_id": "",
            "tags": [],
            "occurred_ms": T0,
            "recorded_ms": T0,
            "retired_ms": 0,
            "expires_ms": 0,
            "importance": 5.0,
            "confidence": 1.0,
            "audience": [],
        }
        return IndexEntry(**(given | fields))

    return entry


@pytest.fixture
def put(index: IndexReplica, entry: Callable[..., IndexEntry]) -> Callable[..., str]:
    """`put(id, text, **fields)` adds or replaces a document in the index; returns its id."""

    def put(name: str, text: str, *, partition: int = 0, **fields: Any) -> str:
        index.apply(partition, [Put(entry(name, text, **fields))])
        return name

    return put


@pytest.fixture
def embed(index: IndexReplica) -> Callable[..., None]:
    """`embed(id, *rows)` gives a document its vectors; rows are scaled to unit length."""

    def embed(name: str, *rows: Sequence[float], model: str = MODEL) -> None:
        matrix = np.asarray(rows, np.float32)
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        index.apply(0, [Vectors(name, model, matrix.shape[1], matrix.astype("<f2").tobytes())])

    return embed


@pytest.fixture
def with_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors join a graph however few they are; a single vector has no principal components."""
    monkeypatch.setattr(vectors, "GRAPH_FROM", 2)
