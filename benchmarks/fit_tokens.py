"""Makes `projections/vectors/tokens.npy`, and measures what late interaction brings."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figures, benchmark
from benchmarks.fit_ranking import (
    CUTS,
    OWN,
    RUN,
    TENANT,
    _observation,  # pyright: ignore[reportPrivateUsage]
)
from benchmarks.relevance import APART, History, Question, answerable, histories
from ingest.platform.clock import to_ms
from projections.documents.observations import Observation
from projections.embedding.embed_job import cached_form
from projections.embedding.factory import build_embedder
from projections.embedding.onnx import LateEmbedder
from projections.search import search
from projections.search.embedded import EmbeddedCandidates
from projections.search.question import Filter
from projections.search.question import Question as Asked
from projections.search.replica import IndexReplica
from projections.store.feed import Put, Vectors
from projections.vectors.embedder import chunk, unit_rows
from projections.vectors.static import table_of
from projections.vectors.tokens import TOKEN_DIMENSIONS, Tokens

EMBEDDED_AT_ONCE = 64
WEIGHTS = (0.15, 0.3, 0.5, 1.0)


@benchmark(long=True)
def fit_tokens(data: Mapping[str, Path], write: str = "") -> Figures:
    """What does the similarity of tokens bring, by its weight: recall@1 / @5 / @10?

    `--write FILE` writes the projection of token vectors, of the texts in `benchmarks/data/`, first. The chats and the
    coding life there are always among the data. Needs no server; nothing is random.
    """
    embedder = build_embedder("default:late")
    assert isinstance(embedder, LateEmbedder)
    paths = {"chats": OWN / "chats", "life": OWN / "life", **data}
    if write:
        texts = [text for name in ("chats", "life") for of in histories(paths[name], RUN) for text in _texts(of)]
        np.save(write, principal_directions(embedder, texts))
    figures: Figures = {}
    for name, path in paths.items():
        asked = [it for history in histories(path, RUN) for it in _asked(history, embedder)]
        figures |= {f"{name}, {weight}": _recall(asked, weight) for weight in (0.0, *WEIGHTS)}
    return figures


def principal_directions(embedder: LateEmbedder, texts: Sequence[str]) -> NDArray[np.float16]:
    """(dimensions, TOKEN_DIMENSIONS), of the unit vectors of the tokens of some texts, not centered."""
    products = np.zeros((embedder.dimensions, embedder.dimensions))
    for _, of_texts, _ in embedder._runs(texts):  # pyright: ignore[reportPrivateUsage]
        unit = unit_rows(np.concatenate([of_text[1:-1] for of_text in of_texts]))
        products += unit.T.astype(np.float64) @ unit
    return np.linalg.eigh(products)[1][:, ::-1][:, :TOKEN_DIMENSIONS].astype(np.float16)


class _Asked(NamedTuple):
    """A question, and how to search for it in the index of its history."""

    question: Question
    replica: IndexReplica
    asked: Asked
    turn_of: Mapping[str, str]


def _texts(history: History) -> Iterator[str]:
    for document in _documents(history).values():
        yield from chunk(document.searchable_text())


def _documents(history: History) -> dict[str, Observation]:
    return {event["metadata"]["turn"]: _observation(event, at) for at, event in enumerate(history.events, 1)}


def _asked(history: History, embedder: LateEmbedder) -> Iterator[_Asked]:
    documents = _documents(history)
    chunks = {turn: chunk(document.searchable_text()) for turn, document in documents.items()}
    cached = iter(_cached(embedder, [text for parts in chunks.values() for text in parts]))
    index = IndexReplica(embedder.dimensions, embedder.model, table_of(embedder))
    index.apply(0, [Put(document.index_entry()) for document in documents.values()])
    for turn, parts in chunks.items():
        of_chunks = [next(cached) for _ in parts]
        if of_chunks:
            index.apply(0, [Vectors.of(documents[turn].id, embedder.model, embedder.dimensions, of_chunks)])
    turn_of = {str(document.id): turn for turn, document in documents.items()}
    for it in answerable(history.questions):
        if it.category not in APART:
            vectors, (tokens,) = embedder.embed_with_tokens([it.text])
            yield _Asked(it, index, _question(it, vectors[0], tokens, embedder.model), turn_of)


def _question(it: Question, vector: NDArray[np.float32], tokens: Tokens, model: str) -> Asked:
    return Asked(text=it.text, vector=vector, tokens=tokens, model=model, limit=max(CUTS))


def _cached(embedder: LateEmbedder, texts: Sequence[str]) -> list[bytes]:
    rows = [b""] * len(texts)
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    for start in range(0, len(order), EMBEDDED_AT_ONCE):
        part = order[start : start + EMBEDDED_AT_ONCE]
        for number, row in zip(part, cached_form(embedder, [texts[number] for number in part]), strict=True):
            rows[number] = row
    return rows


def _recall(asked: Sequence[_Asked], weight: float) -> str:
    search.LATE_WEIGHT = weight
    shares = list[list[float]]()
    for it in asked:
        to_time = to_ms(datetime.fromisoformat(it.question.to)) if it.question.to else None
        hits = search.search(EmbeddedCandidates(it.replica, Filter(tenant=TENANT, to_ms=to_time), 0), it.asked)
        turns = [it.turn_of[hit.id] for hit in hits]
        shares.append([it.question.share(turns[:cut]) for cut in CUTS])
    return " / ".join(f"{100 * share:.1f}" for share in np.mean(shares, axis=0))
