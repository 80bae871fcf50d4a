"""The embedded index: which documents a filter allows, the candidates among them, and every answer of `Index`.

All of it runs in the thread that owns the `IndexReplica`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.ids import DocumentId
from projections.index.lexical import K1, B, MatchingWords
from projections.index.protocol import (
    MAX_OF_ONE_MOMENT,
    DocumentLocation,
    Linked,
    Links,
    Listed,
    RankedLesson,
    Window,
    time_and_id,
)
from projections.index.replica import MATCHING_CACHED, IndexReplica
from projections.kernel.module import native
from projections.search import search as ranking
from projections.search.candidates import STATIC_CANDIDATES, Meaning, best_first, by_id, packed
from projections.search.decay import lesson_weights, memory_weights
from projections.search.question import MAX_QUERY_TERMS, Filter, Hit, Question, facet
from projections.search.ranking import idf_of
from projections.text.terms import terms
from projections.vectors.bitmaps import BitMap, Matching, bitmap, ordinals
from projections.vectors.columns import ascending, hashed

LOOKED_AT = 2_000
"""The newest documents, in which every word is found."""
SAID = 200
"""The documents that say a word best, of all."""


def search(index: IndexReplica, question: Question, allowed: Filter) -> list[Hit]:
    """The best documents for a question, best first, at most `limit`; of equal scores the smallest id first."""
    return ranking.search(EmbeddedCandidates(index, allowed), question)


class EmbeddedIndex:
    """See `Index`."""

    def __init__(self, index: IndexReplica) -> None:
        self._index = index

    def _matching(self, allowed: Filter) -> NDArray[np.int64]:
        return matches(self._index, allowed).documents

    def __len__(self) -> int:
        return len(self._index)

    def search(self, question: Question, allowed: Filter) -> list[Hit]:
        return search(self._index, question, allowed)

    def count(self, allowed: Filter) -> int:
        return len(matches(self._index, allowed))

    def counts(self, allowed: Filter, name: Listed) -> dict[str, int]:
        matching = matches(self._index, allowed).bitmap
        counted = (
            (value, matching.intersection_cardinality(self._index.facets.of(facet(name, value))))
            for value in self._index.facets.values(name)
        )
        return {value: count for value, count in counted if count}

    def recorded_last(self, allowed: Filter, count: int) -> list[DocumentLocation]:
        return self._places(self._newest(self._matching(allowed), count))

    def most_recent(self, allowed: Filter, count: int, offset: int = 0) -> list[DocumentLocation]:
        documents = self._matching(allowed)
        occurred = self._index.occurred_ms.values[documents]
        most = offset + count
        if 0 < most < len(documents):
            newest = occurred >= np.partition(occurred, len(occurred) - most)[len(occurred) - most]
            documents, occurred = documents[newest], occurred[newest]
        return self._places(documents[np.lexsort((-documents, -occurred))][offset:most])

    def window(self, allowed: Filter, offset: int, limit: int) -> Window:
        # reads the time of every matching document: about 10 ms for a million
        index = self._index
        documents = self._matching(allowed)
        total, end = len(documents), min(offset + limit, len(documents))
        if offset >= end:
            return Window([], 0, frozenset(), total)
        occurred = index.occurred_ms.values[documents]
        places = [total - end, total - 1 - offset]
        last, first = np.partition(occurred, places)[places].tolist()
        newer = int(np.count_nonzero(occurred > first))
        near = (occurred >= last) & (occurred <= first)
        times: list[int] = occurred[near].tolist()
        located = sorted(zip(times, self._places(documents[near]), strict=True), key=time_and_id, reverse=True)
        many = Counter(at_ms for at_ms in times if at_ms in (first, last))
        crowded = frozenset(at_ms for at_ms, count in many.items() if count > MAX_OF_ONE_MOMENT)
        start = offset - newer if first in crowded else 0
        return Window(located[start : end - newer if last in crowded else None], offset - newer - start, crowded, total)

    def nearest(self, allowed: Filter, when_ms: int) -> list[DocumentLocation]:
        documents = self._matching(allowed)
        if not len(documents):
            return []
        away = np.abs(self._index.occurred_ms.values[documents] - when_ms)
        closest: list[int] = documents[away == away.min()].tolist()
        return self._places(sorted(closest, key=self._index.ids.__getitem__)[:1])

    def around(
        self, allowed: Filter, anchor: str, when_ms: int, before: int, after: int
    ) -> tuple[list[DocumentLocation], list[DocumentLocation]]:
        index = self._index
        documents = self._matching(allowed)
        occurred = index.occurred_ms.values[documents]
        away = occurred - when_ms
        earlier = _closest(documents[away < 0], -away[away < 0], before)
        later = _closest(documents[away > 0], away[away > 0], after)
        near: list[int] = np.concatenate([earlier, documents[away == 0], later]).tolist()
        key = (when_ms, anchor)
        ordered = sorted((int(index.occurred_ms.values[ordinal]), index.ids[ordinal], ordinal) for ordinal in near)
        past = [ordinal for at, name, ordinal in ordered if (at, name) < key]
        future = [ordinal for at, name, ordinal in ordered if (at, name) > key]
        return self._places(past[len(past) - min(before, len(past)) :]), self._places(future[:after])

    def saying(self, allowed: Filter, words: str, *, everywhere: bool) -> list[DocumentLocation]:
        # `everywhere` takes the best SAID of all instead of every one of the newest LOOKED_AT
        index = self._index
        matching, count = matches(index, allowed), SAID
        if not everywhere:
            matching, count = Matching(bitmap(self._newest(matching.documents, LOOKED_AT))), LOOKED_AT
        saying = set(matching.bitmap & index.facets.of(facet("concept", words)))
        if query := terms(words):
            saying |= set(MatchingWords(index, index.postings, matching).best(query, count, every=True))
        documents = np.array(sorted(saying), np.int64)
        occurred = index.occurred_ms.values[documents]
        return self._places(documents[np.argsort(-occurred, kind="stable")])

    def every(self, allowed: Filter, most: int | None = None) -> list[DocumentLocation]:
        return self._places(self._matching(allowed)[:most])

    def beginning(self, allowed: Filter, begins: str) -> list[DocumentLocation]:
        documents = self._matching(allowed)
        alike = documents[self._index.id_key.values[documents] == packed(begins)]
        return [location for location in self._places(alike) if location[1].startswith(begins)]

    def facets(self, places: Sequence[DocumentLocation]) -> list[Sequence[str]]:
        ordinals_of = (self._index.ordinal_of.get(name) for _, name in places)
        return [() if ordinal is None else self._index.facets_of[ordinal] for ordinal in ordinals_of]

    def with_vectors(self, names: Iterable[str]) -> set[str]:
        ordinals_of = ((name, self._index.ordinal_of.get(name)) for name in names)
        return {name for name, ordinal in ordinals_of if ordinal is not None and self._index.vectors.has(ordinal)}

    def linked_values(self, allowed: Filter, name: Linked, most: int) -> list[str]:
        return self._index.facets.linked(name, matches(self._index, allowed).bitmap, most)

    def links(self, allowed: Filter, name: Linked, values: Sequence[str]) -> dict[str, Links]:
        index, matching = self._index, matches(self._index, allowed).bitmap
        memories, observations = (matching & index.facets.of(facet("kind", kind)) for kind in ("memory", "observation"))
        links_of: dict[str, Links] = {}
        for value in values:
            members = index.facets.of(facet(name, value))
            # a session's observations are an episode
            episodes = set(index.episode.values[ordinals(members & observations)].tolist())
            links = Links(members.intersection_cardinality(memories), len(episodes))
            if links.memories or links.episodes:
                links_of[value] = links
        return links_of

    def lessons_by_confidence(self, allowed: Filter, project: str, now_ms: int, count: int) -> list[RankedLesson]:
        index = self._index
        lessons = self._matching(replace(allowed, kinds=["lesson"]))
        own = self._have(lessons, "project", project)
        weight = lesson_weights(index.confidence.values[lessons], index.renewed_ms.values[lessons], own, now_ms)
        best = best_first(index, lessons, weight, count)
        return [
            RankedLesson(name, partition, float(weight[place]))
            for (partition, name), place in zip(self._places(lessons[best]), best, strict=True)
        ]

    def notable_memories(self, allowed: Filter, project: str, now_ms: int, count: int) -> list[DocumentLocation]:
        index = self._index
        documents = self._matching(replace(allowed, kinds=["memory"]))
        own_project = self._have(documents, "project", project) & bool(project)
        own = self._have(documents, "agent", allowed.reader) & bool(allowed.reader)
        importance, recorded_ms = index.importance.values[documents], index.recorded_ms.values[documents]
        weight = memory_weights(importance, recorded_ms, own_project, own, now_ms)
        return self._places(documents[best_first(index, documents, weight, count)])

    def _places(self, documents: NDArray[np.int64] | Sequence[int]) -> list[DocumentLocation]:
        index = self._index
        return [(int(index.partition[ordinal]), DocumentId(index.ids[ordinal])) for ordinal in map(int, documents)]

    def _newest(self, documents: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """The `count` recorded last, newest first; of equals the smallest id."""
        recorded = self._index.recorded_ms.values[documents].astype(np.float64)
        return documents[best_first(self._index, documents, recorded, count)]

    def _have(self, documents: NDArray[np.int64], name: str, value: str) -> NDArray[np.bool_]:
        """(n,), which of the documents have a facet value."""
        return np.isin(documents, ordinals(self._index.facets.of(facet(name, value))), assume_unique=True)


def _closest(documents: NDArray[np.int64], away: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    if not 0 < count < len(documents):
        return documents if count > 0 else documents[:0]
    return documents[away <= np.partition(away, count - 1)[count - 1]]


def matches(index: IndexReplica, allowed: Filter) -> Matching:
    """The documents that a filter allows."""
    return _words_of(index, allowed).matching


def _words_of(index: IndexReplica, allowed: Filter) -> MatchingWords:
    """What the documents that a filter allows say."""

    def new() -> MatchingWords:
        return MatchingWords(index, index.postings, Matching(_matches(index, allowed)))

    if allowed.embedded is not None or index.facets.of(facet("expiring", "yes")):
        return new()
    # without documents that expire, the same until the index changes
    key = msgspec.msgpack.encode(replace(allowed, now_ms=0))
    if key not in index.matching:
        if len(index.matching) >= MATCHING_CACHED:
            index.matching.clear()
        index.matching[key] = new()
    return index.matching[key]


def _matches(index: IndexReplica, allowed: Filter) -> BitMap:
    matching = index.alive.copy()
    for name, values in allowed.required():
        matching &= index.facets.any_of(facet(name, value) for value in values)
    if allowed.any_of:
        matching &= index.facets.any_of(facet(name, value) for name, value in allowed.any_of)
    matching -= index.facets.any_of(facet(name, value) for name, value in allowed.without)
    if allowed.importance_to is not None:
        _drop(matching, matching, index.importance.values, above=allowed.importance_to)
    if allowed.from_ms is not None or allowed.to_ms is not None:
        _drop(matching, matching, index.occurred_ms.values, below=allowed.from_ms, above=allowed.to_ms)
    if allowed.retired:
        matching &= index.facets.of(facet("retired", "yes"))
    else:
        _keep_in_use(index, matching, allowed)
    if allowed.embedded is not None:
        documents = ordinals(matching)
        matching -= bitmap(documents[index.vectors.without(documents) == allowed.embedded])
    return matching


def _keep_in_use(index: IndexReplica, matching: BitMap, allowed: Filter) -> None:
    """Remove what the reader cannot see, and what was not in use at the time of the question."""
    restricted = BitMap() if allowed.operator else index.facets.of(facet("restricted", "yes"))
    matching -= restricted - index.facets.of(facet("reader", allowed.reader)) if allowed.reader else restricted
    as_of = allowed.as_of_ms
    if as_of is None:
        matching -= index.facets.of(facet("retired", "yes"))
    else:
        _drop(matching, matching, index.recorded_ms.values, above=as_of)
        retired = matching & index.facets.of(facet("retired", "yes"))
        _drop(matching, retired, index.retired_ms.values, below=as_of + 1)
    expiring, then_ms = matching & index.facets.of(facet("expiring", "yes")), allowed.now_ms if as_of is None else as_of
    _drop(matching, expiring, index.expires_ms.values, below=then_ms + 1)


def _drop(
    matching: BitMap,
    among: BitMap,
    column: NDArray[np.int64] | NDArray[np.float32],
    *,
    below: float | None = None,
    above: float | None = None,
) -> None:
    """Remove those of `among` from `matching` whose value is under `below` or over `above`."""
    if not among:
        return
    members = ordinals(among)
    values = column[members]
    out = np.zeros(len(members), bool)
    if below is not None:
        out |= values < below
    if above is not None:
        out |= values > above
    matching -= bitmap(members[out])


READ_WITHOUT_VECTOR = 500
"""Documents without a vector that are read, newest first, besides the best by words."""


NO_DOCUMENTS, NO_VECTOR = np.empty(0, np.int64), np.empty(0, np.float32)


class Leg(NamedTuple):
    """The words and vectors of the documents that a question may find, for `native.candidates`."""

    allowed: NDArray[np.bool_]
    """Of each document up to the last that is among them."""
    documents: NDArray[np.int64]
    """All of them, where they are few enough to be read; else none."""
    idf: NDArray[np.float64]
    """(terms,), of the question."""
    k1: float
    b: float
    average_length: float
    near_model: NDArray[np.int64]
    """Documents among which the nearest by the model's vectors are."""
    near_static: NDArray[np.int64]


class EmbeddedCandidates:
    """The candidates of an embedded index. Runs in its thread."""

    def __init__(self, index: IndexReplica, allowed: Filter) -> None:
        self.rows, self.table, self._index = index, index.table, index
        self._allowed, self._words = allowed, _words_of(index, allowed)

    @property
    def _matching(self) -> Matching:
        return self._words.matching

    def leave_out_prompts(self, asked: Sequence[str]) -> None:
        if len(repeating := self._words.repeating(asked)):
            self._narrow(self._matching.bitmap - bitmap(repeating))

    def _narrow(self, matching: BitMap) -> None:
        self._words = MatchingWords(self._index, self._index.postings, Matching(matching))

    def by_words(self, terms: Sequence[str], count: int, *, every: bool = False) -> list[int]:
        return self._words.best(terms, count, every=every)

    def by_meaning(self, meaning: Meaning, count: int) -> NDArray[np.int64]:
        return ascending(*self._near(meaning, count))

    def within(self, from_ms: int, to_ms: int) -> "EmbeddedCandidates":
        narrowed = copy(self)
        narrowed._allowed = replace(self._allowed, from_ms=from_ms, to_ms=to_ms - 1)
        # not from the index again: prompts may have been removed from these
        narrowed._narrow(self._matching.bitmap & matches(self._index, narrowed._allowed).bitmap)
        return narrowed

    def newest(self, count: int, importance: float = 0.0) -> list[int]:
        index, documents = self._index, self._matching.documents
        documents = documents[index.importance.values[documents] >= importance]
        occurred = index.occurred_ms.values[documents].astype(np.float64)
        return documents[best_first(index, documents, occurred, count)].tolist()

    def pool(
        self, terms: Sequence[str], meaning: Meaning, count: int, within: Sequence["EmbeddedCandidates"]
    ) -> NDArray[np.int64]:
        index, distinct = self._index, list(dict.fromkeys(terms))[:MAX_QUERY_TERMS]
        documents = native.candidates(
            index,
            index.postings,
            [some.leg(distinct, meaning, count) for some in (self, *within)],
            hashed(term.encode() for term in distinct),
            NO_VECTOR if meaning.vector is None else meaning.vector,
            NO_VECTOR if meaning.static is None else meaning.static,
            count,
            max(count, STATIC_CANDIDATES),
        )
        return by_id(index, documents)

    def leg(self, terms: Sequence[str], meaning: Meaning, count: int) -> Leg:
        """Return their words and vectors for `native.candidates`."""
        words, matching = self._words, self._matching
        near_model, near_static = self._near(meaning, count)
        return Leg(
            allowed=matching.mask,
            documents=matching.documents if words.is_small else NO_DOCUMENTS,
            idf=idf_of(words.frequencies(terms), len(words)),
            k1=K1,
            b=B,
            average_length=words.mean_length,
            near_model=near_model,
            near_static=near_static,
        )

    def _near(self, meaning: Meaning, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Documents among which are the nearest by the model's vectors; and, of those without, by their static ones."""
        index, matching = self._index, self._matching
        near_model = near_static = NO_DOCUMENTS
        if meaning.vector is not None:
            near_model = index.vectors.worth_scoring(meaning.vector, matching, count)
            matching = Matching(matching.bitmap - index.vectors.documents)
        if meaning.static is not None:
            near_static = index.static.worth_scoring(meaning.static, matching, max(count, STATIC_CANDIDATES))
        return near_model, near_static

    def without_vectors(self, meaning: Meaning, terms: Sequence[str], count: int) -> NDArray[np.int64]:
        index, documents = self._index, self._matching.documents
        if meaning.vector is not None:
            documents = documents[index.vectors.without(documents)]
        if meaning.static is not None:
            documents = documents[index.static.without(documents)]
        if len(documents) > READ_WITHOUT_VECTOR:
            recorded = index.recorded_ms.values[documents].astype(np.float64)
            newest = documents[best_first(index, documents, recorded, READ_WITHOUT_VECTOR)]
            saying = MatchingWords(index, index.postings, Matching(bitmap(documents))).best(terms, count)
            documents = np.union1d(newest, np.asarray(saying, np.int64))
        return documents

    def like(self, term: str, edits: int) -> dict[str, int]:
        return self._words.similar(term, edits)

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        return self._words.frequencies(terms), len(self._words)
