"""What a ranking asks of an index: the candidates of one question, what is known of each, and the order they come in.

Also the correction of misspelled words. It looks only at documents that the question may find, so a correction tells
nothing of others.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from projections.documents.index_entry import IndexEntry
from projections.search.columns import Column, Hashes, TermColumn, TermRows
from projections.search.terms import terms
from projections.search.vectors import VectorIndex
from projections.vectors.static import StaticTable


class DocumentColumns:
    """The documents of an index, or those that a question has met."""

    def __init__(self, vectors: VectorIndex, static: VectorIndex) -> None:
        """`vectors` are to hold those of the model, `static` the static ones."""
        self.vectors, self.static = vectors, static
        self.ids: list[str] = []
        self.terms = TermColumn()
        self.authors: list[str] = []
        self.author_of: dict[str, int] = {}
        self.id_key: Column[np.uint64] = Column(np.uint64)
        """The first eight bytes of the id, big endian: sorts as the ids do, as far as it goes."""
        self.partition: Column[np.int16] = Column(np.int16)
        self.author: Column[np.int32] = Column(np.int32)
        self.episode: Column[np.int32] = Column(np.int32)
        """-1 for a document outside any."""
        self.sequence: Column[np.int32] = Column(np.int32)
        """The place in the episode; neighbours differ by 1."""
        self.occurred_ms: Column[np.int64] = Column(np.int64)
        self.recorded_ms: Column[np.int64] = Column(np.int64)
        self.renewed_ms: Column[np.int64] = Column(np.int64)
        self.importance: Column[np.float32] = Column(np.float32)
        self.confidence: Column[np.float64] = Column(np.float64)

    def append(self, partition: int, entry: IndexEntry, row: Hashes) -> int:
        """The next document's ordinal; `row` are its terms. Its place in an episode is not set."""
        self.ids.append(entry.id)
        self.id_key.append(packed(entry.id))
        self.terms.append(row)
        self.partition.append(partition)
        self.author.append(self.author_number(entry.agent_id))
        self.occurred_ms.append(entry.occurred_ms)
        self.recorded_ms.append(entry.recorded_ms)
        self.renewed_ms.append(entry.renewed_ms)
        self.importance.append(entry.importance)
        self.confidence.append(entry.confidence)
        return len(self.ids) - 1

    def extend(self, partitions: Sequence[int], entries: Sequence[IndexEntry], rows: TermRows) -> NDArray[np.int64]:
        """The ordinals of the next documents; `rows` are their terms. Their places in episodes are not set."""
        first = len(self.ids)
        self.ids += [entry.id for entry in entries]
        self.terms.extend(rows)
        self.id_key.extend(np.array([packed(entry.id) for entry in entries], np.uint64))
        self.partition.extend(np.array(partitions, np.int16))
        self.author.extend(np.array([self.author_number(entry.agent_id) for entry in entries], np.int32))
        self.occurred_ms.extend(np.array([entry.occurred_ms for entry in entries], np.int64))
        self.recorded_ms.extend(np.array([entry.recorded_ms for entry in entries], np.int64))
        self.renewed_ms.extend(np.array([entry.renewed_ms for entry in entries], np.int64))
        self.importance.extend(np.array([entry.importance for entry in entries], np.float32))
        self.confidence.extend(np.array([entry.confidence for entry in entries], np.float64))
        return np.arange(first, len(self.ids))

    def author_number(self, name: str) -> int:
        """The number of an author in `author`; a new one gets the next."""
        if name not in self.author_of:
            self.author_of[name] = len(self.authors)
            self.authors.append(name)
        return self.author_of[name]

    def author_terms(self, ordinals: NDArray[np.int64]) -> dict[int, Sequence[str]]:
        """The terms of the name of each author (agent) of these documents, by its number."""
        authors: list[int] = np.unique(self.author.values[ordinals]).tolist()
        return {author: _name_terms(self.authors[author]) for author in authors}

    def said(self, ordinals: NDArray[np.int64], terms: Sequence[str]) -> NDArray[np.bool_]:
        """(n, terms), which of the terms each document says."""
        return self.terms.rows(ordinals).counts(terms) > 0

    def is_of(self, prefix: str, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,), which of the documents have ids with this prefix, of four characters."""
        return self.id_key.values[ordinals] >> np.uint64(32) == packed(prefix) >> 32


def packed(name: str) -> int:
    """The first eight bytes of a name as a number."""
    return int.from_bytes(name.encode()[:8].ljust(8, b"\0"))


@lru_cache(maxsize=4_096)
def _name_terms(name: str) -> Sequence[str]:
    return tuple(terms(name)) if name else ()


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

    def beside(self, documents: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
        """Those up to `distance` places before and after these in their episodes, each once, in no order."""
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
    places = _places_of_best(rows, documents, scores, count) if len(documents) > count else np.arange(len(documents))
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


def _places_of_best(
    rows: DocumentColumns, documents: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int
) -> NDArray[np.intp]:
    """The places of a few more than the best `count`: of those equal at the cut, the first by the packed id."""
    if count <= 0:
        return np.empty(0, np.intp)
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
    missing = count - len(above)
    if len(equal) > missing:
        keys = rows.id_key.values[documents[equal]]
        equal = equal[keys <= np.partition(keys, missing - 1)[missing - 1]]
    return np.concatenate([above, equal])


def nearest_first(rows: DocumentColumns, asked: Meaning, documents: NDArray[np.int64], count: int) -> Near:
    """The nearest `count` of these documents; not those that have none of the vectors asked with."""
    cosine = cosines(rows, asked, documents)
    has_vector = ~np.isnan(cosine)
    documents, cosine = documents[has_vector], cosine[has_vector]
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


SHORTEST = 4
"""Letters of a stem; a shorter one has too many words near it."""
SWAPPED_UP_TO = 5
"""Letters up to which only two swapped ones are taken for a slip: "react" is not "reach"."""
TWO_FROM = 8
"""Letters from which two may be wrong."""
NEAR_NAMES = 3
NAMES_COMPARED, LONGEST_NAME = 2_000, 64
"""Names that one is compared with, and letters of each: a tenth of a second at most."""
MOST_CORRECTED = 4
"""Words of one query: each costs a look through the dictionary of the index."""


def corrected(candidates: Candidates, query_terms: Sequence[str], unsaid: Iterable[str]) -> list[str]:
    """The terms of a query; for one that no matching document says, the nearest that one says.

    `unsaid` are those that none of the query's candidates say. Of equally near ones that stands which most of the
    documents looked at say.
    """
    slips = [term for term in unsaid if len(term) >= SHORTEST and term.isalpha()][:MOST_CORRECTED]
    instead = {term: _meant(candidates, term) for term in slips if not candidates.by_words([term], 1)}
    return [instead.get(term, term) for term in query_terms]


def _meant(candidates: Candidates, term: str) -> str:
    """The term it was probably meant for, one letter away rather than two; itself where there is none like it."""
    for letters in range(1, _most_wrong(term) + 1):
        like = Counter(one for said in candidates.like(term, letters) for one in said if is_slip(term, one))
        if like:
            return min(like, key=lambda one: (edits(term, one), -like[one], one))
    return term


def _most_wrong(term: str) -> int:
    return 2 if len(term) >= TWO_FROM else 1


def is_slip(term: str, other: str) -> bool:
    """Whether a term may be another one with a letter or two mistaken; the first is right."""
    if term[0] != other[:1] or not other.isalpha() or abs(len(term) - len(other)) > 2:
        return False
    if len(term) <= SWAPPED_UP_TO:
        return sorted(term) == sorted(other) and edits(term, other) == 1
    return edits(term, other) <= _most_wrong(term)


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Up to NEAR_NAMES of the first NAMES_COMPARED that differ from a name by case, Unicode form or some letters, or
    contain it; the nearest first."""
    given = _comparable(name)
    most = 1 + len(given) // 4
    positions: list[tuple[int, str]] = []
    for one in islice(names, NAMES_COMPARED):
        other = _comparable(one)
        if min(len(given), len(other)) >= SHORTEST - 1 and (given in other or other in given):
            positions.append((most, one))
        elif abs(len(given) - len(other)) <= most and (away := edits(given, other)) <= most:
            positions.append((away, one))
    return [one for _, one in sorted(positions)[:NEAR_NAMES]]


def _comparable(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()[:LONGEST_NAME]


def edits(one: str, other: str) -> int:
    """How many letters to add, drop, replace or swap with the next make one word the other.

    Optimal string alignment: Damerau's four kinds of error (CACM 7, 1964), no part of a word changed twice.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
