"""What a ranking asks of an index: the candidates of one question, and the order that they come in."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from projections.search.document_columns import DocumentColumns
from projections.search.vectors import VectorIndex
from projections.vectors.static import StaticTable

STATIC_CANDIDATES = 100
"""By static vectors, at least: the model would have them in another order."""


class Meaning(NamedTuple):
    """A query's vectors: of the model, and static; None where there is none."""

    vector: NDArray[np.float32] | None
    static: NDArray[np.float32] | None


class Near(NamedTuple):
    """Documents near a query, best first; `cosine` (n,) float64 is the model's, else the static one."""

    documents: NDArray[np.int64]
    cosine: NDArray[np.float64]


class Candidates(Protocol):
    """The documents that one question may find, by their ordinals in `rows`, as far as the question has met them."""

    @property
    def rows(self) -> DocumentColumns:
        """What is known of them."""
        ...

    def leave_out_prompts(self, asked: Sequence[str]) -> None:
        """Find no prompt any more that says nothing but what is asked (`says_only`), in distinct terms."""
        ...

    @property
    def table(self) -> StaticTable | None:
        """The table of their static vectors; None where they have none."""
        ...

    def by_words(self, terms: Sequence[str], count: int, *, every: bool = False) -> list[int]:
        """The best `count` of those that say any of the terms (with `every`: all), by BM25, best first."""
        ...

    def by_meaning(self, asked: Meaning, count: int) -> Near:
        """The nearest `count`: by the model's vectors where a document has them, else by its static one."""
        ...

    def within(self, from_ms: int, to_ms: int) -> "Candidates":
        """Those of them that occurred from one moment up to and without another, by the same ordinals."""
        ...

    def newest(self, count: int, importance: float = 0.0) -> list[int]:
        """The `count` that occurred last, of those that are at least so important."""
        ...

    def beside(self, documents: NDArray[np.int64], key_scope: int) -> NDArray[np.int64]:
        """Those up to `reach` places before and after these in their episodes, each once, in no order."""
        ...

    def without_vectors(self, asked: Meaning, terms: Sequence[str], count: int) -> NDArray[np.int64]:
        """Those that have none of the vectors that were asked with; of very many the newest, and `count` that say a
        term."""
        ...

    def like(self, term: str, edits: int) -> list[set[str]]:
        """The terms of some documents that say a term so many letters away, each document's."""
        ...

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        """How many of the documents that may be found say each term; and how many there are."""
        ...


def best_first(
    rows: DocumentColumns, documents: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int
) -> list[int]:
    """The places in `documents` of the best `count`, best first; of equal scores the smallest id first."""
    places = _kept(rows, documents, scores, count) if len(documents) > count else np.arange(len(documents))
    places = places[np.argsort(-scores[places], kind="stable")]
    if not np.any(scores[places][1:] == scores[places][:-1]):  # as mostly: no id needs to be looked at
        return places[: max(0, count)].tolist()
    order: list[tuple[float, str, int]] = [
        (-value, rows.ids[ordinal], place)
        for value, ordinal, place in zip(
            scores[places].tolist(), documents[places].tolist(), places.tolist(), strict=True
        )
    ]
    return [place for _, _, place in sorted(order)][: max(0, count)]


def _kept(
    rows: DocumentColumns, documents: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int
) -> NDArray[np.intp]:
    """The places of a few more than the best `count`: of those equal at the cut, the first by the packed id."""
    if count <= 0:
        return np.empty(0, np.intp)
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
    wanted = count - len(above)
    if len(equal) > wanted:
        keys = rows.id_key.values[documents[equal]]
        equal = equal[keys <= np.partition(keys, wanted - 1)[wanted - 1]]
    return np.concatenate([above, equal])


def nearest_first(rows: DocumentColumns, asked: Meaning, documents: NDArray[np.int64], count: int) -> Near:
    """The nearest `count` of these documents; not those that have none of the vectors asked with."""
    cosine = cosines(rows, asked, documents)
    known = ~np.isnan(cosine)
    documents, cosine = documents[known], cosine[known]
    best = best_first(rows, documents, cosine, count)
    return Near(documents[best], cosine[best])


def cosines(rows: DocumentColumns, asked: Meaning, documents: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,), by the model's vectors where a document has them, else by its static one, else nan."""
    of_model, static = (
        cosines_of(rows.vectors, asked.vector, documents),
        cosines_of(rows.static, asked.static, documents),
    )
    return np.where(np.isnan(of_model), static, of_model).astype(np.float64)


def cosines_of(
    vectors: VectorIndex, asked: NDArray[np.float32] | None, documents: NDArray[np.int64]
) -> NDArray[np.float32]:
    """(n,), nan where a document has no vector, or the query."""
    return np.full(len(documents), np.nan, np.float32) if asked is None else vectors.cosine(asked, documents)
