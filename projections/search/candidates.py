"""The index interface that ranking uses: the candidates of one question, their columns, and the order of equal scores.

Also the correction of misspelled words. It reads only documents that the question may find, so a correction reveals
nothing of others.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from projections.nouns.index_entry import IndexEntry
from projections.text.terms import terms
from projections.vectors.columns import Column, TermColumn, TermRows, hashed
from projections.vectors.static import StaticTable
from projections.vectors.vectors import VectorIndex

OF_ENTRY: dict[str, type[np.generic]] = {
    "occurred_ms": np.int64, "recorded_ms": np.int64, "renewed_ms": np.int64,
    "importance": np.float32, "confidence": np.float64,
}  # fmt: skip
"""The columns that are fields of the index entry."""


class DocumentColumns:
    """The documents of an index, or those that a question has met."""

    occurred_ms: Column[np.int64]
    recorded_ms: Column[np.int64]
    renewed_ms: Column[np.int64]
    importance: Column[np.float32]
    confidence: Column[np.float64]

    def __init__(self, vectors: VectorIndex, static: VectorIndex) -> None:
        """`vectors` are for those of the model, `static` for the static ones."""
        self.vectors, self.static = vectors, static
        self.ids: list[str] = []
        self.terms = TermColumn()
        self.authors: list[str] = []
        self.author_of: dict[str, int] = {}
        self.names = TermColumn()
        """The terms of each author's (agent's) name."""
        self.id_key: Column[np.uint64] = Column(np.uint64)
        """Of each id, `packed`: sorts like the ids, up to that length."""
        self.partition: Column[np.int16] = Column(np.int16)
        self.author: Column[np.int32] = Column(np.int32)
        self.episode: Column[np.int32] = Column(np.int32)
        """-1 for a document outside any."""
        self.sequence: Column[np.int32] = Column(np.int32)
        """The place in the episode; neighbors differ by 1."""
        for name, dtype in OF_ENTRY.items():
            setattr(self, name, Column(dtype))

    def extend(self, partitions: Sequence[int], entries: Sequence[IndexEntry], rows: TermRows) -> NDArray[np.int64]:
        """The ordinals of the next documents; `rows` are their terms. Their places in episodes are not set."""
        first = len(self.ids)
        self.ids += [entry.id for entry in entries]
        self.terms.extend(rows)
        self.id_key.extend(np.array([packed(entry.id) for entry in entries], np.uint64))
        self.partition.extend(np.array(partitions, np.int16))
        self.author.extend(np.array([self.author_number(entry.agent_id) for entry in entries], np.int32))
        for name, dtype in OF_ENTRY.items():
            column: Column[Any] = getattr(self, name)
            column.extend(np.array([*map(attrgetter(name), entries)], dtype))
        return np.arange(first, len(self.ids))

    def author_number(self, name: str) -> int:
        """The number of an author in `author`; a new one gets the next."""
        if name not in self.author_of:
            self.author_of[name] = len(self.authors)
            self.authors.append(name)
            self.names.append(hashed(term.encode() for term in terms(name)))
        return self.author_of[name]

    def is_of(self, prefix: str, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,), which of the documents have ids with this prefix, of four characters."""
        return self.id_key.values[ordinals] >> np.uint64(56) == ord(prefix[0])


def packed(name: str) -> int:
    """The number of an id, big endian: the first letter of its prefix, which no other kind has, and the next seven
    characters after the prefix."""
    return int.from_bytes((name[:1] + name[4:11]).encode()[:8].ljust(8, b"\0"))


def keys_of(names: Sequence[str]) -> "Column[np.uint64]":
    """The `id_key` of documents with these ids."""
    keys: Column[np.uint64] = Column(np.uint64)
    keys.extend(np.fromiter(map(packed, names), np.uint64, len(names)))
    return keys


REACH = 1
"""Neighbors on either side that join the pool; two are no better (72.7 against 72.7 recall@5, measured on LoCoMo)."""
STATIC_CANDIDATES = 100
"""By static vectors, at least: the model would have them in another order."""


class Meaning(NamedTuple):
    """A query's vectors: of the model, and static; None for a missing vector."""

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
        """Their columns."""
        ...

    def leave_out_prompts(self, asked: Sequence[str]) -> None:
        """Ignore prompts that say nothing but these distinct terms (`says_only`)."""
        ...

    @property
    def table(self) -> StaticTable | None:
        """The table of their static vectors; None where they have none."""
        ...

    def by_words(self, terms: Sequence[str], count: int, *, every: bool = False) -> list[int]:
        """The best `count` of those that say any of the terms (with `every`: all), by BM25, best first."""
        ...

    def by_meaning(self, meaning: Meaning, count: int) -> NDArray[np.int64]:
        """(n,), the nearest `count` by the model's vectors, and as many by static ones of those without, ascending."""
        ...

    def within(self, from_ms: int, to_ms: int) -> "Candidates":
        """Those of them that occurred from one moment up to and without another, by the same ordinals."""
        ...

    def newest(self, count: int, importance: float = 0.0) -> list[int]:
        """The `count` that occurred last, of those that are at least so important."""
        ...

    def pool(
        self, terms: Sequence[str], meaning: Meaning, count: int, within: Sequence["Candidates"]
    ) -> NDArray[np.int64]:
        """(n,), the best `count` of them by words and by meaning, the same of those `within` a time, and the neighbors
        of all these, in the order of their ids."""
        ...

    def without_vectors(self, meaning: Meaning, terms: Sequence[str], count: int) -> NDArray[np.int64]:
        """Those that have none of the vectors of the query; of very many the newest, and `count` that say a term."""
        ...

    def like(self, term: str, edits: int) -> Mapping[str, int]:
        """Words at most so many letters away that some of them say, and how many say each."""
        ...

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        """How many of the documents that may be found say each term; and how many there are."""
        ...


def best_first(
    rows: DocumentColumns, documents: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int
) -> list[int]:
    """The places in `documents` of the best `count`, best first; of equal scores the smallest id first."""
    if count <= 0:
        return []
    places = np.arange(len(documents))
    if len(documents) > count:
        # a few more than the best `count`: of those equal at the cut, the first by the packed id
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
        missing = count - len(above)
        if len(equal) > missing:
            keys = rows.id_key.values[documents[equal]]
            equal = equal[keys <= np.partition(keys, missing - 1)[missing - 1]]
        places = np.concatenate([above, equal])
    places = places[np.argsort(-scores[places], kind="stable")]
    ordered = scores[places]
    equal = ordered[1:] == ordered[:-1]
    if equal.any():
        keys = rows.id_key.values[documents[places]]
        by_key = np.lexsort((keys, -ordered))
        places, keys = places[by_key], keys[by_key]
        equal &= keys[1:] == keys[:-1]
        places[:] = places[_by_whole_id(rows, documents[places], equal)]
    return places[:count].tolist()


def by_id(rows: DocumentColumns, documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Documents in the order of their ids."""
    keys = rows.id_key.values[documents]
    order = np.argsort(keys, kind="stable")
    documents, keys = documents[order], keys[order]
    return documents[_by_whole_id(rows, documents, keys[1:] == keys[:-1])]


def _by_whole_id(rows: DocumentColumns, documents: NDArray[np.int64], equal: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The order of documents that are sorted by `id_key`: those that are `equal` to the next one are sorted by id."""
    order, places = np.arange(len(documents)), np.flatnonzero(equal)
    if len(places):
        for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            some = slice(int(run[0]), int(run[-1]) + 2)
            order[some] = sorted(order[some].tolist(), key=lambda place: rows.ids[documents[place]])
    return order


def nearest_first(rows: DocumentColumns, meaning: Meaning, documents: NDArray[np.int64], count: int) -> Near:
    """The nearest `count` of these documents; not those that have none of the vectors asked with."""
    cosine = cosines(rows, meaning, documents)
    has_vector = ~np.isnan(cosine)
    documents, cosine = documents[has_vector], cosine[has_vector]
    best = best_first(rows, documents, cosine, count)
    return Near(documents[best], cosine[best])


def cosines(rows: DocumentColumns, meaning: Meaning, documents: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,), by the model's vectors where a document has them, else by its static one, else nan."""
    of_model = cosines_of(rows.vectors, meaning.vector, documents)
    static = cosines_of(rows.static, meaning.static, documents)
    return np.where(np.isnan(of_model), static, of_model).astype(np.float64)


def cosines_of(
    vectors: VectorIndex, asked: NDArray[np.float32] | None, documents: NDArray[np.int64]
) -> NDArray[np.float32]:
    """(n,), nan where a document has no vector, or the query."""
    return np.full(len(documents), np.nan, np.float32) if asked is None else vectors.cosine(asked, documents)


SHORTEST = 4
"""Letters of a stem; a shorter one has too many words near it."""
SWAPPED_UP_TO = 5
"""Letters up to which only two swapped ones count as a slip: "react" is not "reach"."""
TWO_FROM = 8
"""Letters from which two may be wrong."""
NEAR_NAMES = 3
NAMES_COMPARED, LONGEST_NAME = 2_000, 64
"""Names that a name is compared with, and letters of each: a tenth of a second at most."""
MOST_CORRECTED = 4
"""Words of one query: each costs a scan of the dictionary of the index."""


def corrected(candidates: Candidates, query_terms: Sequence[str], unsaid: Iterable[str]) -> list[str]:
    """The terms of a query; for one that no matching document says, the nearest that one says.

    `unsaid` are those that probably no matching document says. One letter away comes before two; of equally near terms
    it is the one that most documents say.
    """
    corrections: dict[str, str] = {}
    for term in [term for term in unsaid if len(term) >= SHORTEST and term.isalpha()][:MOST_CORRECTED]:
        if candidates.by_words([term], 1):
            continue
        for letters in range(1, _most_wrong(term) + 1):
            like = candidates.like(term, letters)
            if slips := [other for other in like if is_slip(term, other)]:
                corrections[term] = min(slips, key=partial(_distance, term, like))
                break
    return [corrections.get(term, term) for term in query_terms]


def _distance(term: str, like: Mapping[str, int], other: str) -> tuple[int, int, str]:
    return edits(term, other), -like[other], other


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
    distances: list[tuple[int, str]] = []
    for candidate in islice(names, NAMES_COMPARED):
        other = _comparable(candidate)
        if min(len(given), len(other)) >= SHORTEST - 1 and (given in other or other in given):
            distances.append((most, candidate))
        elif abs(len(given) - len(other)) <= most and (away := edits(given, other)) <= most:
            distances.append((away, candidate))
    return [candidate for _, candidate in sorted(distances)[:NEAR_NAMES]]


def _comparable(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()[:LONGEST_NAME]


def edits(word: str, other: str) -> int:
    """How many letters to add, drop, replace or swap with the next turn one word into the other.

    Optimal string alignment: Damerau's four kinds of error (CACM 7, 1964), no part of a word changed twice.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        earlier, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == against:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
