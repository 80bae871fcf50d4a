"""A pool of documents and its scores, around the compiled functions that compute them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projections.kernel.module import native
from projections.search.candidates import DocumentColumns, Meaning, cosines_of
from projections.search.ranking import CUES, MODES, Floats, Mode, shipped_weights
from projections.text.cues import NO_CUES, TRAITS, Cues, months
from projections.text.terms import terms
from projections.vectors.columns import TermRows, hashed


@dataclass(frozen=True, slots=True)
class Pool:
    """The documents to rank, one column per attribute; every column is as long as `terms`."""

    terms: TermRows
    """`index_terms` of each, as an index keeps them: text, traits, and the terms of its date."""
    cosine: Floats | NDArray[np.float32]
    """(n,), of the model's vectors to the query's; nan where the document has none yet."""
    episode: NDArray[np.int32]
    """(n,), -1 for a document outside any episode."""
    sequence: NDArray[np.int32]
    """(n,), number in the episode, one document each; neighbors differ by 1."""
    static: Floats | NDArray[np.float32] | None = None
    """(n,), of static vectors; nan where the document has none, None when the index has none."""
    author: NDArray[np.int32] | None = None
    """(n,), the author of each, a key of `names`; None when authors are unknown."""
    names: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """`terms(name)` of each author in the pool."""
    occurred_ms: NDArray[np.int64] | None = None
    """(n,), ms since the epoch; None: all at once."""
    importance: NDArray[np.floating[Any]] | None = None
    """(n,), 0 to 10; None: 5 each."""

    @classmethod
    def of(cls, rows: DocumentColumns, meaning: Meaning, documents: NDArray[np.int64]) -> "Pool":
        """Return the pool of these documents of an index."""
        author = rows.author.values[documents]
        return cls(
            terms=rows.terms.rows(documents),
            cosine=cosines_of(rows.vectors, meaning.vector, documents),
            static=cosines_of(rows.static, meaning.static, documents),
            episode=rows.episode.values[documents],
            sequence=rows.sequence.values[documents],
            occurred_ms=rows.occurred_ms.values[documents],
            importance=rows.importance.values[documents],
            author=author,
            names={number: terms(rows.authors[number]) for number in sorted({*author.tolist()})},
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """The features of each document of a pool, in the pool's order, and their weighted sum."""

    features: Floats
    """(n, len(FEATURES))."""
    kind: Floats
    """(len(KIND),)."""
    weights: Floats
    """(len(FEATURES),), as mixed for this question."""
    lexical: Floats
    """(n,), BM25 over the pool."""
    final: Floats
    """(n,), a log probability up to a constant."""
    said: Floats
    """(n, terms), how often each document says each distinct term of the query."""
    near: Floats
    """(n, terms), 1 where the document, or one within two turns of it, says the term."""
    traits: Floats
    """(n, len(TRAITS)), 1 where the document has the trait."""

    @property
    def relevance(self) -> Floats:
        """(n,), `final` on 0..1."""
        return stretched(self.final)

    def having(self, trait: str) -> Floats:
        """Return (n,), 1 for each document that has the trait."""
        return self.traits[:, TRAITS.index(trait)]


def score(
    query_terms: Sequence[str],
    pool: Pool,
    *,
    mode: Mode = "hybrid",
    cues: Cues = NO_CUES,
    inside: NDArray[np.bool_] | None = None,
) -> Scores:
    """Return what the compiled `score` returns; `inside` (n,): of the time that the question names.

    Raises ValueError for an empty pool.
    """
    weights, missing = shipped_weights(), np.empty(0)
    words, cues = ((), NO_CUES) if mode == "vector" else (query_terms, cues)
    times = Counter(words)
    named, other = authors(words, pool)
    features, kind, mixed, lexical, final, said, near, traits = native.score(
        pool.terms.hashes,
        pool.terms.lengths,
        np.asarray(pool.cosine, np.float64),
        missing if pool.static is None else np.asarray(pool.static, np.float64),
        pool.episode,
        pool.sequence,
        np.empty(0, np.int64) if pool.occurred_ms is None else pool.occurred_ms,
        missing if pool.importance is None else pool.importance.astype(np.float64),
        named,
        other,
        np.empty(0, np.bool_) if inside is None else inside,
        float(len(pool.names)),
        MODES.index(mode),
        hashed(term.encode() for term in times),
        np.array([*times.values()], np.float64),
        hashed(term.encode() for term in months(words)),
        float(len(query_terms)),
        np.array([getattr(cues, name) for name in CUES], np.float64),
        hashed(trait.encode() for trait in TRAITS),
        weights.features,
        weights.kind,
    )
    return Scores(features.T, kind, mixed, lexical, final, said, near, traits.T)


def stretched(column: Floats) -> Floats:
    """Return the column on 0..1; a constant becomes 1."""
    spread = np.ptp(column)
    return np.ones_like(column) if spread < 1e-12 else (column - column.min()) / spread


def authors(query_terms: Sequence[str], pool: Pool) -> tuple[Floats, Floats]:
    """Return (n,), the share of the author's name that the query says; and (n,), 1 if it says the whole name of another
    author, and of no second author."""
    n = len(pool.terms)
    shares = {
        author: sum(term in query_terms for term in name) / max(1, len(name)) for author, name in pool.names.items()
    }
    if pool.author is None:
        return np.zeros(n), np.zeros(n)
    named = np.array([shares[author] for author in pool.author.tolist()], np.float64)
    whole = [author for author, share in shares.items() if share == 1]
    return named, (pool.author != whole[0]).astype(np.float64) if len(whole) == 1 else np.zeros(n)


def evidence(
    said: Floats,
    near: Floats,
    idf: Floats,
    static: NDArray[np.floating],
    cosine: NDArray[np.floating],
    in_table: NDArray[np.bool_],
    trust: Floats | float = 1.0,
) -> Floats:
    """Return what the compiled `evidence` returns: (n, len(ANSWERABLE))."""
    trusted = np.broadcast_to(np.asarray(trust, np.float64), len(idf))
    columns = (np.ascontiguousarray(column, np.float64) for column in (trusted, static, cosine))
    return native.evidence(said, near, idf, in_table, *columns)
