"""The candidates of one question on a search engine; their columns for a ranking are read with them."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projections.index.protocol import DocumentLocation
from projections.search.candidates import (
    REACH,
    STATIC_CANDIDATES,
    DocumentColumns,
    Meaning,
    by_id,
    is_slip,
    nearest_first,
)
from projections.search.question import MAX_QUERY_TERMS, Filter
from projections.search.ranking import idf_of
from projections.search_engine.engine import (
    EF_RUNTIME,
    Engine,
    Found,
    Word,
    any_word_query,
    between,
    filter_query,
    found,
    like_query,
    nearest_query,
    said_query,
    search,
    words_query,
)
from projections.search_engine.layout import TERMS, Identity, decoded_term, encoded_term, entries_of
from projections.text.cues import says_only
from projections.text.terms import terms as terms_of
from projections.vectors.columns import TermRows, ascending
from projections.vectors.static import StaticTable
from projections.vectors.vectors import VectorIndex

READ_WITHOUT_VECTOR = 500
"""The newest documents, which are searched for those without a vector, besides those that say a word."""
LIKE, MOST_LIKE = 50, 1_000
"""Documents that say a word like another one, and such words, that are counted at most."""
COUNTED = 512
"""Terms of a question, at most: to count the documents that contain a term takes the engine some 30 us."""
LASTING = 0
"""A moment by which nothing has expired: what has expired counts too, or each moment would have a count of its own."""
MOST_EDITS = 3
"""Wrong letters of a word that the engine allows."""
BRUTE_FORCE_BELOW = 0.03
"""Share of all documents up to which each match is scored: 0.5 us each, while the graph, of which few match, is
traversed again and again (0.04 % of 100,000: 190 ms against 0.2). Above, the graph: all of 100,000 take 0.7 ms
against 47. The engine's own choice is brute force in either case."""
COMMON, MANY = 0.5, 10_000
"""Share of the documents, of many, beyond which a word is not searched beside rarer ones. RediSearch 2.10 may treat a
word that nearly all say as the rarest: an idf of 40, until entries of replaced ones are collected."""
FEW, FREQUENT = 5_000, 20_000
"""All words are searched among up to FEW matching documents, and as long as up to FREQUENT documents say any; beyond,
the rarest first. It costs some 0.25 us each, and frequent words distinguish candidates the least."""


class Counted:
    """How many documents match something, cached for a while: counts change slowly, and counting takes long."""

    def __init__(self, keep_s: float, most: int) -> None:
        self._keep_s, self._most = keep_s, most
        self._cached: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._lock = Lock()  # questions run in several threads

    def of(self, keys: Sequence[str], count: Callable[[Sequence[str]], Sequence[int]]) -> list[int]:
        """The count of each key; `count` is called for those that are not cached, or too old."""
        now = time.monotonic()
        with self._lock:
            counts = {key: cached[0] for key in keys if (cached := self._cached.get(key)) and cached[1] > now}
        missing = [key for key in dict.fromkeys(keys) if key not in counts]
        if missing:
            counts |= zip(missing, count(missing), strict=True)
            with self._lock:
                self._cached |= {key: (counts[key], now + self._keep_s) for key in missing}
                while len(self._cached) > self._most:
                    self._cached.popitem(last=False)
        return [counts[key] for key in keys]


class EngineIndexed(NamedTuple):
    """An index on an engine, and what its questions share."""

    engine: Engine
    name: str
    identity: Identity
    table: StaticTable | None
    """Of the identity; None if it has none, or this process has another."""
    documents: int
    """As of a moment ago, as is `embedded`."""
    embedded: int
    frequencies: Counted
    """By index and query, of which each is for one term."""
    matching: Counted
    """By index and query."""


class EngineCandidates:
    """See `Candidates`."""

    def __init__(self, index: EngineIndexed, allowed: Filter, distance: int) -> None:
        """`distance` is how many neighbors on either side are needed at most: they are read with the others."""
        self._index, self._allowed, self._distance = index, allowed, distance
        self._lasting = replace(allowed, now_ms=LASTING)
        self.table, identity = index.table, index.identity
        static = VectorIndex(0 if index.table is None else identity.vector_dimensions, graph=False)
        self.rows = DocumentColumns(VectorIndex(identity.dimensions, graph=False), static)
        self._ordinals: dict[str, int] = {}
        self._requested: set[str] = set()
        """Ids that were read with their neighbors."""
        self._is_allowed = allowed.allows()
        self._allows: list[bool] = []
        self._episodes: dict[str, int] = {}
        self._question: Sequence[str] = ()

    def leave_out_prompts(self, asked: Sequence[str]) -> None:
        self._question = asked

    def by_words(self, terms: Sequence[str], count: int, *, every: bool = False) -> list[int]:
        """The best `count` by BM25 (k1 1.2); of a query of frequent words, by the rarest of them.

        Words weigh by how rare they are among the documents of the filter. The engine's average length is of all.
        """
        distinct = list(dict.fromkeys(terms))[:MAX_QUERY_TERMS]
        if not distinct or count <= 0:
            return []
        if every:
            query = words_query(self._allowed, distinct)
        else:
            rarest, index = self._rarest(distinct), self._index
            keys = [f"{index.name} {said_query([term])}" for term in rarest]
            everywhere = idf_of(index.frequencies.of(keys, self._count), index.documents)
            weights = idf_of(self._frequencies(rarest), self._matching) / everywhere
            weighted = dict(zip(rarest, weights.tolist(), strict=True))
            query = any_word_query(self._allowed, weighted)
        return self._read(self._found(search(self._index.name, query, count)).places).tolist()

    def by_meaning(self, meaning: Meaning, count: int) -> NDArray[np.int64]:
        """The graph is of static vectors where the index has them, else of the model's.

        Of a document with several vectors of the model it has their mean. If no more documents match than would be
        candidates, all of them are.
        """
        if count <= 0 or (meaning.vector is None and meaning.static is None):
            return np.empty(0, np.int64)
        rows, documents = self.rows, self._read(self._nearest(meaning, max(count, STATIC_CANDIDATES)))
        waiting = documents if meaning.vector is None else documents[rows.vectors.without(documents)]
        by_model = nearest_first(rows, meaning._replace(static=None), documents, count)
        by_static = nearest_first(rows, meaning._replace(vector=None), waiting, max(count, STATIC_CANDIDATES))
        return ascending(by_model.documents, by_static.documents)

    def _nearest(self, meaning: Meaning, count: int) -> list[DocumentLocation]:
        query, matching, index = filter_query(self._allowed), self._matching, self._index
        if matching <= count:
            everything = self._found(search(index.name, query, count))
            if everything.total <= count:
                return everything.places
        vector = meaning.static if index.identity.table else meaning.vector
        if vector is None or not index.identity.vector_dimensions:
            return []
        policy = "HYBRID_POLICY ADHOC_BF"
        if matching > BRUTE_FORCE_BELOW * index.documents:
            policy = f"HYBRID_POLICY BATCHES EF_RUNTIME {EF_RUNTIME}"
        parameters: list[Word] = ["count", count, "vector", vector.astype("<f2").tobytes()]
        return self._found(search(index.name, nearest_query(query, policy), count, parameters=parameters)).places

    def within(self, from_ms: int, to_ms: int) -> "EngineCandidates":
        narrowed = copy(self)
        narrowed._allowed = replace(self._allowed, from_ms=from_ms, to_ms=to_ms - 1)
        return narrowed

    def newest(self, count: int, importance: float = 0.0) -> list[int]:
        query = filter_query(self._allowed, between("importance", importance, None))
        return self._read(self._found(search(self._index.name, query, count, sort="occurred")).places).tolist()

    def pool(
        self, terms: Sequence[str], meaning: Meaning, count: int, within: Sequence["EngineCandidates"]
    ) -> NDArray[np.int64]:
        of_each = [np.empty(0, np.int64)]
        for some in (self, *within):
            of_each += [np.asarray(some.by_words(terms, count), np.int64), some.by_meaning(meaning, count)]
        best = ascending(*of_each)
        return by_id(self.rows, ascending(best, self._beside(best, REACH)))

    def _beside(self, documents: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
        assert distance <= self._distance, "they were read with the documents"
        episodes, places = self.rows.episode.values.astype(np.int64), self.rows.sequence.values
        keys = (episodes << 32) + places
        order = np.argsort(keys)
        offsets = [*range(-distance, 0), *range(1, distance + 1)]
        near = (keys[documents[episodes[documents] >= 0], None] + offsets).ravel()
        at = np.minimum(np.searchsorted(keys, near, sorter=order), len(keys) - 1)
        neighbors = np.unique(order[at[keys[order[at]] == near]])
        return neighbors[np.array(self._allows, np.bool_)[neighbors]]

    def without_vectors(self, meaning: Meaning, terms: Sequence[str], count: int) -> NDArray[np.int64]:
        # only of the newest and of those that say a term best: reading all would take the engine too long
        if meaning.vector is not None and self._index.embedded == self._index.documents:
            return np.empty(0, np.int64)
        query = filter_query(self._allowed)
        newest = self._read(self._found(search(self._index.name, query, READ_WITHOUT_VECTOR, sort="recorded")).places)
        documents = np.union1d(newest, np.asarray(self.by_words(terms, count), np.int64))
        if meaning.vector is not None:
            documents = documents[self.rows.vectors.without(documents)]
        if meaning.static is not None:
            documents = documents[self.rows.static.without(documents)]
        return documents

    def like(self, term: str, edits: int) -> dict[str, int]:
        """The words like it that the documents say, and up to LIKE documents that say each. For the engine,
        swapped letters are two wrong ones.

        By the engine's dictionary: a search for all such words took 70 ms among a million documents. It returns nothing
        for a word that it has, which only others may say: then by the documents, or its silence would reveal theirs.
        """
        engine, name, edits = self._index.engine, self._index.name, min(MOST_EDITS, edits + 1)
        (answer,) = engine.ask([["FT.SPELLCHECK", name, encoded_term(term), "DISTANCE", edits, "DIALECT", 2]])
        if answer:
            near = {decoded_term(word.decode()) for suggestions in answer for _, word in suggestions[2]}
        else:
            query = like_query(self._allowed, term, edits)
            (answer,) = engine.ask([search(name, query, LIKE, sort="recorded", fields=[TERMS])])
            said = (row[TERMS.encode()].decode().split() for _, row in found(answer, fields=True).rows)
            near = {decoded_term(word) for words in said for word in words}
        words = sorted(word for word in near if is_slip(term, word))[:MOST_LIKE]
        saying = [f"{name} {words_query(self._allowed, [word])}" for word in words]
        counts = self._count(saying) if saying else []
        return {word: min(count, LIKE) for word, count in zip(words, counts, strict=True) if count}

    def frequencies(self, terms: Sequence[str]) -> tuple[list[int], int]:
        # as of some minutes ago: counting takes long, and frequencies change slowly
        return self._frequencies(terms[:COUNTED]) + [0] * len(terms[COUNTED:]), self._matching

    def _frequencies(self, terms: Sequence[str]) -> list[int]:
        queries = [words_query(self._lasting, [term]) for term in terms]
        return self._index.frequencies.of([f"{self._index.name} {query}" for query in queries], self._count)

    def _rarest(self, terms: Sequence[str]) -> list[str]:
        """The terms that are worth a search; if all are frequent, the rarest."""
        if self._matching <= FEW:
            return list(terms)
        frequencies = dict(zip(terms, self._frequencies(terms), strict=True))
        common = COMMON * max(MANY, self._matching)
        rarest: list[str] = []
        documents = 0
        for term in sorted(terms, key=frequencies.__getitem__):
            documents += frequencies[term]
            if rarest and (documents > FREQUENT or frequencies[term] > common):
                break
            rarest.append(term)
        return rarest

    @property
    def _matching(self) -> int:
        lasting = filter_query(self._lasting)
        return self._index.matching.of([f"{self._index.name} {lasting}"], self._count)[0]

    def _count(self, keys: Sequence[str]) -> list[int]:
        queries = [key.partition(" ")[2] for key in keys]
        answers = self._index.engine.ask([search(self._index.name, query, 0) for query in queries])
        return [int(answer[0]) for answer in answers]

    def _found(self, command: Sequence[Word]) -> Found:
        (answer,) = self._index.engine.ask([command])
        return found(answer)

    def _read(self, places: Sequence[DocumentLocation]) -> NDArray[np.int64]:
        """The ordinals of documents, in the order given; without those that are gone, or hidden, by the time."""
        missing = [place for place in places if place[1] not in self._requested]
        self._requested.update(name for _, name in missing)
        if missing:
            read = self._index.engine.read(self._index.name, missing, self._distance)
            self._add([(partition, row) for partition, row in read if row[0].decode() not in self._ordinals])
        ordinals = [self._ordinals[name] for _, name in places if name in self._ordinals]
        return np.array([ordinal for ordinal in ordinals if self._allows[ordinal]], np.int64)

    def _add(self, read: Sequence[tuple[int, list[Any]]]) -> None:
        partitions = [partition for partition, _ in read]
        entries = entries_of([row[1] for _, row in read])
        hashes = [row[2] or b"" for _, row in read]
        lengths = np.array([len(row) // 4 for row in hashes], np.int64)
        terms = TermRows(np.frombuffer(b"".join(hashes), "<u4"), lengths)
        ordinals = self.rows.extend(partitions, entries, terms)
        numbers = self._episodes
        episodes = [numbers.setdefault(row.episode, len(numbers)) if row.episode else -1 for row in entries]
        self.rows.episode.extend(np.array(episodes, np.int32))
        self.rows.sequence.extend(np.array([max(0, row[5]) for _, row in read], np.int32))
        _put_vectors(self.rows.vectors, ordinals, [row[4] for _, row in read])
        _put_vectors(self.rows.static, ordinals, [row[3] for _, row in read])
        allowed = np.array([*map(self._is_allowed, entries, partitions)], np.bool_) & ~says_only(self._question, terms)
        self._allows += allowed.tolist()
        self._ordinals |= zip((entry.id for entry in entries), ordinals.tolist(), strict=True)


def _put_vectors(vectors: VectorIndex, ordinals: NDArray[np.int64], stored: Sequence[bytes | None]) -> None:
    width = 2 * vectors.dimensions
    having = [place for place, raw in enumerate(stored) if raw and width and not len(raw) % width]
    if having:
        raws = [stored[place] or b"" for place in having]
        rows = np.frombuffer(b"".join(raws), "<f2").reshape(-1, vectors.dimensions)
        vectors.put_each(ordinals[having], rows, np.array([len(raw) // width for raw in raws], np.int64))


def asked_terms(words: str) -> list[str]:
    """The distinct terms of words that must all be said."""
    return list(dict.fromkeys(terms_of(words)))[:MAX_QUERY_TERMS]
