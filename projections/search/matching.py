"""Which documents match a filter, the candidates of a search among them, and the order they come in.

Functions of an index run in its thread."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from projections.search.filters import BitMap, bitmap, facet, ordinals
from projections.search.replica import IndexReplica
from projections.search.vectors import EXACT_OF_MOST_BELOW, VectorIndex


class Filter(Struct, frozen=True, kw_only=True):
    """Which documents may be found; empty sequences and None do not restrict. Times are ms since the epoch.

    All `tags` are needed, and one each of `any_tags`, `kinds`, `types`, `files` and `concepts`. `reader` is who asks:
    memories for some readers only are found by those alone. `within` are the projects that the reader's key is for.
    `visibility` lets through the memories that have it.
    """

    tenant: str
    project: str | None = None
    projects: Sequence[str] = ()
    agent_id: str = ""
    session_id: str = ""
    user_id: str = ""
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    as_of_ms: int | None = None
    reader: str = ""
    only_agent: str = ""
    within: Sequence[str] = ()
    operator: bool = False
    types: Sequence[str] = ()
    files: Sequence[str] = ()
    concepts: Sequence[str] = ()
    any_tags: Sequence[str] = ()
    visibility: str = ""


def matches(index: IndexReplica, allowed: Filter, now_ms: int) -> BitMap:
    """The documents that a filter allows."""
    matching = index.alive.copy()
    for keys in [*lexical_groups(allowed), *_other_groups(allowed)]:
        matching &= index.facets.any_of(keys)
    restricted = BitMap() if allowed.operator else index.facets.of(facet("restricted", "yes"))
    matching -= restricted - index.facets.of(facet("reader", allowed.reader)) if allowed.reader else restricted
    as_of = allowed.as_of_ms
    if as_of is None:
        matching -= index.facets.of(facet("retired", "yes"))
    else:
        _drop(matching, matching, index.recorded_ms.values, above=as_of)
        retired = matching & index.facets.of(facet("retired", "yes"))
        _drop(matching, retired, index.retired_ms.values, below=as_of + 1)
    expiring = matching & index.facets.of(facet("expiring", "yes"))
    _drop(matching, expiring, index.expires_ms.values, below=(now_ms if as_of is None else as_of) + 1)
    if allowed.from_ms is not None or allowed.to_ms is not None:
        _drop(matching, matching, index.occurred_ms.values, below=allowed.from_ms, above=allowed.to_ms)
    return matching


def lexical_groups(allowed: Filter) -> list[list[str]]:
    """Facet groups of which a document must have one value each, as far as the lexical index knows them."""
    wanted: list[tuple[str, Sequence[str]]] = [
        ("tenant", [allowed.tenant]),
        ("project", [] if allowed.project is None else [allowed.project]),
        ("project", allowed.projects),
        ("project", allowed.within),
        ("agent", [allowed.agent_id] if allowed.agent_id else []),
        ("agent", [allowed.only_agent] if allowed.only_agent else []),
        ("session", [allowed.session_id] if allowed.session_id else []),
        ("user", [allowed.user_id] if allowed.user_id else []),
        ("kind", allowed.kinds),
        ("tag", allowed.any_tags),
    ]
    return [_group(name, values) for name, values in wanted if values] + [_group("tag", [tag]) for tag in allowed.tags]


def _other_groups(allowed: Filter) -> list[list[str]]:
    visibility = [allowed.visibility] if allowed.visibility else []
    wanted = (
        ("type", allowed.types),
        ("file", allowed.files),
        ("concept", allowed.concepts),
        ("visibility", visibility),
    )
    return [_group(name, values) for name, values in wanted if values]


def _group(name: str, values: Sequence[str]) -> list[str]:
    return [facet(name, value) for value in values]


def _drop(
    matching: BitMap, among: BitMap, column: NDArray[np.int64], *, below: int | None = None, above: int | None = None
) -> None:
    """Take those of `among` out of `matching` whose value is under `below` or over `above`."""
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


def best_first(
    index: IndexReplica, documents: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int
) -> list[int]:
    """The places in `documents` of the best `count`, best first; of equal scores the smallest id first."""
    places = _kept(index, documents, scores, count) if len(documents) > count else np.arange(len(documents))
    places = places[np.argsort(-scores[places], kind="stable")]
    if not np.any(scores[places][1:] == scores[places][:-1]):  # as mostly: no id needs to be looked at
        return places[: max(0, count)].tolist()
    order: list[tuple[float, str, int]] = [
        (-value, index.ids[ordinal], place)
        for value, ordinal, place in zip(
            scores[places].tolist(), documents[places].tolist(), places.tolist(), strict=True
        )
    ]
    return [place for _, _, place in sorted(order)][: max(0, count)]


def _kept(
    index: IndexReplica, documents: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int
) -> NDArray[np.intp]:
    """The places of a few more than the best `count`: of those equal at the cut, the first by the packed id."""
    if count <= 0:
        return np.empty(0, np.intp)
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
    wanted = count - len(above)
    if len(equal) > wanted:
        keys = index.id_key.values[documents[equal]]
        equal = equal[keys <= np.partition(keys, wanted - 1)[wanted - 1]]
    return np.concatenate([above, equal])


STATIC_CANDIDATES = 100
"""At least, for the model would have them in another order."""
SPARE = 50
"""Asked of tantivy beyond the count, so that equals at the cut are mostly all seen and can be taken by id."""
DEEPEST = 64
"""How many times the count tantivy is asked for, at most, while equals or what does not match fill the answer."""
MOST = 0.5
"""Share of all documents from which tantivy is not told the filter: without one it skips what cannot be among the best
(100,000 documents that all match: 0.8 instead of 2.6 ms), and what does not match is left out behind it.
"""
NAMED_ONE_BY_ONE = 2_000
"""Up to so many matching documents are named to tantivy (4 ms), when filters it does not know leave too few."""


def by_words(
    index: IndexReplica, terms: Sequence[str], allowed: Filter, matching: BitMap, count: int, *, every: bool = False
) -> list[int]:
    """The best `count` by BM25, best first, then whatever of the uncommitted tail says a word (with `every`: all)."""
    found = dict.fromkeys(_committed(index, terms, allowed, matching, count, every=every))
    tail = np.array([ordinal for ordinal in sorted(index.tail) if ordinal in matching], np.int64)
    if len(tail) and terms:
        said = index.said(tail, list(dict.fromkeys(terms)))
        found.update(dict.fromkeys(tail[said.all(axis=1) if every else said.any(axis=1)].tolist()))
    return list(found)


class Meaning(NamedTuple):
    """A query's vectors: of the model, and static; None where there is none."""

    vector: NDArray[np.float32] | None
    static: NDArray[np.float32] | None


class Near(NamedTuple):
    """Documents near a query, best first; `cosine` (n,) float64 is the model's, else the static one."""

    documents: NDArray[np.int64]
    cosine: NDArray[np.float64]


def by_meaning(index: IndexReplica, asked: Meaning, matching: BitMap, count: int) -> Near:
    """The nearest `count`. Candidates are the nearest by static vectors, where the index has them.

    By the model's too where those have a graph, or where so few match that all are scored anyway.
    """
    if count <= 0:
        return Near(np.empty(0, np.int64), np.empty(0, np.float64))
    found = [np.empty(0, np.int64)]
    if asked.static is not None:
        found.append(index.static.nearest_with_ties(asked.static, matching, max(count, STATIC_CANDIDATES))[0])
    if asked.vector is not None and (index.vectors.has_graph or len(matching) <= EXACT_OF_MOST_BELOW):
        found.append(index.vectors.nearest_with_ties(asked.vector, matching, count)[0])
    documents = np.unique(np.concatenate(found))
    cosine = cosines(index, asked, documents)
    best = best_first(index, documents, cosine, count)
    return Near(documents[best], cosine[best])


def cosines(index: IndexReplica, asked: Meaning, documents: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,), by the model's vectors where a document has them, else by its static one, else nan."""
    of_model, static = (
        cosines_of(index.vectors, asked.vector, documents),
        cosines_of(index.static, asked.static, documents),
    )
    return np.where(np.isnan(of_model), static, of_model).astype(np.float64)


def cosines_of(
    vectors: VectorIndex, asked: NDArray[np.float32] | None, documents: NDArray[np.int64]
) -> NDArray[np.float32]:
    """(n,), nan where a document has no vector, or the query."""
    return np.full(len(documents), np.nan, np.float32) if asked is None else vectors.cosine(asked, documents)


def _committed(
    index: IndexReplica, terms: Sequence[str], allowed: Filter, matching: BitMap, count: int, *, every: bool
) -> list[int]:
    """Looks deeper while filters that tantivy does not know leave too few, or equals at the cut may go on."""
    if count <= 0 or not matching:
        return []
    groups, asked = lexical_groups(allowed), count + SPARE
    if len(matching) > MOST * len(index):
        groups, asked = [], asked * len(index) // len(matching)
    while True:
        scored = index.lexical.scored(terms, groups, asked, every=every)
        kept = [(ordinal, score) for ordinal, score in scored if ordinal in matching]
        exhausted = len(scored) < asked
        if exhausted or asked >= DEEPEST * count or (len(kept) > count and kept[-1][1] < kept[count - 1][1]):
            break
        if len(kept) < count and len(matching) <= NAMED_ONE_BY_ONE:
            kept = index.lexical.scored(terms, [], len(matching), every=every, among=list(matching))
            kept = [(ordinal, score) for ordinal, score in kept if ordinal in matching]
            break
        asked *= 4
    documents = np.fromiter((ordinal for ordinal, _ in kept), np.int64, len(kept))
    scores = np.fromiter((score for _, score in kept), np.float64, len(kept))
    return documents[best_first(index, documents, scores, count)].tolist()


MAX_OF_ONE_MOMENT = 1_000
"""Documents of one millisecond up to which a page is given all of them, so that the asker may order them."""


class Window(NamedTuple):
    """The documents of a page, each as its time in ms and its ordinal; newest first, of one moment the greatest id.

    Before and behind the page itself are the others of the same moments as its ends, `skipped` of them before it. A
    moment of too many is in `crowded`, and not completed. `total` counts what matches.
    """

    found: list[tuple[int, int]]
    skipped: int
    crowded: frozenset[int]
    total: int


def window(index: IndexReplica, allowed: Filter, now_ms: int, offset: int, limit: int) -> Window:
    """The page of `limit` documents from `offset` on; empty behind the end."""
    documents = ordinals(matches(index, allowed, now_ms))
    total, end = len(documents), min(offset + limit, len(documents))
    if offset >= end:
        return Window([], 0, frozenset(), total)
    occurred = index.occurred_ms.values[documents]
    places = [total - end, total - 1 - offset]
    last, first = np.partition(occurred, places)[places].tolist()
    newer = int(np.count_nonzero(occurred > first))
    near = (occurred >= last) & (occurred <= first)
    times: list[int] = occurred[near].tolist()
    kept: list[int] = documents[near].tolist()
    newest_first = sorted(zip(times, [index.ids[one] for one in kept], kept, strict=True), reverse=True)
    many = Counter(at_ms for at_ms in times if at_ms in (first, last))
    crowded = frozenset(at_ms for at_ms, count in many.items() if count > MAX_OF_ONE_MOMENT)
    start = offset - newer if first in crowded else 0
    found = newest_first[start : end - newer if last in crowded else None]
    return Window([(at_ms, one) for at_ms, _, one in found], offset - newer - start, crowded, total)
