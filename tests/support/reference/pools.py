"""A pool of documents and its scores, around the compiled functions that compute them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projections.kernel.module import native
from projections.search.ranking import CUES, MODES, Floats, Mode, shipped_weights
from projections.text.cues import NO_CUES, TRAITS, Cues, months
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
    names: Mapping[int, Sequence[Any]] = field(default_factory=dict[int, Sequence[Any]])
    """`terms(name)` of each author in the pool."""
    occurred_ms: NDArray[np.int64] | None = None
    """(n,), ms since the epoch; None: all at once."""
    importance: NDArray[np.floating[Any]] | None = None
    """(n,), 0 to 10; None: 5 each."""


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
    weights = shipped_weights()
    words, cues = ((), NO_CUES) if mode == "vector" else (query_terms, cues)
    times = Counter(words)
    question = (
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
    return scored(words, pool, np.empty(0, np.bool_) if inside is None else inside, question)


def scored(words: Sequence[Any], pool: Pool, inside: NDArray[np.bool_], question: Sequence[Any]) -> Scores:
    """Return the scores of a pool for a question: the first nine fields of `Criteria`. `words` are its terms, in the
    form of `pool.names`."""
    missing = np.empty(0)
    features, kind, mixed, lexical, final, said, near, traits = native.score(
        pool.terms.hashes,
        pool.terms.lengths,
        np.asarray(pool.cosine, np.float64),
        missing if pool.static is None else np.asarray(pool.static, np.float64),
        pool.episode,
        pool.sequence,
        np.empty(0, np.int64) if pool.occurred_ms is None else pool.occurred_ms,
        missing if pool.importance is None else pool.importance.astype(np.float64),
        *authors(words, pool),
        inside,
        float(len(pool.names)),
        *question,
    )
    return Scores(features.T, kind, mixed, lexical, final, said, near, traits.T)


def stretched(column: Floats) -> Floats:
    """Return the column on 0..1; a constant becomes 1."""
    spread = np.ptp(column)
    return np.ones_like(column) if spread < 1e-12 else (column - column.min()) / spread


def authors(words: Sequence[Any], pool: Pool) -> tuple[Floats, Floats]:
    """Return (n,), the share of the author's name that is among the words; and (n,), 1 if the words have the whole name
    of another author, and of no second author."""
    if pool.author is None:
        return np.zeros(len(pool.terms)), np.zeros(len(pool.terms))
    shares = {number: sum(term in words for term in name) / max(1, len(name)) for number, name in pool.names.items()}
    whole = [number for number, share in shares.items() if share == 1]
    author: list[int] = pool.author.tolist()
    other = [float(len(whole) == 1 and number != whole[0]) for number in author]
    return np.array([shares[number] for number in author]), np.array(other)


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
