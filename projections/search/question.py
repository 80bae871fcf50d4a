"""A question to an index: its filter, its text and weights, and its hits.

A filter is answered by a roaring bitmap of document ordinals for each value of each facet.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ingest.kinds import SearchedKind
from ingest.names import nfc
from projections.nouns.index_entry import HIDDEN_MS, IndexEntry
from projections.search.ranking import Mode
from projections.text.dates import NamedTime
from projections.vectors.bitmaps import BitMap, bitmap, ordinals

Ranking = Literal["fused", "similarity", "rrf"]
MAX_QUERY_TERMS, MOST_COUNTED = 64, 4_096
"""Distinct terms of a query that are searched: of more, the rarest of the first MOST_COUNTED. Their counts in
a thousand documents take 32 MiB."""


class Filter(Struct, frozen=True, kw_only=True):
    """Which documents may be results; empty sequences and None do not restrict. Times are ms since the epoch.

    `now_ms` is when the question is asked: what has expired by then is no result.
    All `tags` are needed, and one each of `any_tags`, `kinds`, `types`, `files`, `concepts`. Memories for some readers
    are results only if the `reader` is one of them. `within` are the projects of the reader's key. `visibility` selects
    the memories that have it. `any_of` and `without` are facets and values: one of the former is needed, none of the
    latter allowed. `embedded`: if documents have the model's vectors; only `Index.count` and `Index.every` read it.
    `importance_to` is the highest importance. `retired` selects what is not in use, whatever its readers and age.
    """

    tenant: str
    now_ms: int
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
    any_of: Sequence[tuple[str, str]] = ()
    without: Sequence[tuple[str, str]] = ()
    retired: bool = False
    embedded: bool | None = None
    importance_to: float | None = None

    def required(self) -> list[tuple[str, Sequence[str]]]:
        """Facets and values, of each of which a document must have one."""
        required: list[tuple[str, Sequence[str]]] = [
            ("tenant", [self.tenant]),
            ("project", [] if self.project is None else [self.project]),
            ("project", self.projects),
            ("project", self.within),
            ("agent", [self.agent_id] if self.agent_id else []),
            ("agent", [self.only_agent] if self.only_agent else []),
            ("session", [self.session_id] if self.session_id else []),
            ("user", [self.user_id] if self.user_id else []),
            ("kind", self.kinds),
            ("tag", self.any_tags),
            *(("tag", [tag]) for tag in self.tags),
            ("type", self.types),
            ("file", self.files),
            ("concept", self.concepts),
            ("visibility", [self.visibility] if self.visibility else []),
        ]
        return [(name, [*map(nfc, values)]) for name, values in required if values]

    def allows(self) -> Callable[[IndexEntry, int], bool]:
        """A function that decides whether a document of a partition may be a result; it ignores `embedded`."""
        needed = [_having([(name, value) for value in values]) for name, values in self.required()]
        if self.any_of:
            needed.append(_having(self.any_of))
        excluded = _having(self.without)
        when_ms = self.now_ms if self.as_of_ms is None else self.as_of_ms

        def in_use(entry: IndexEntry) -> bool:
            readable = self.operator or not entry.audience or bool(self.reader and self.reader in entry.audience)
            recorded = self.as_of_ms is None or entry.recorded_ms <= self.as_of_ms
            retired = bool(entry.retired_ms) and (self.as_of_ms is None or entry.retired_ms <= self.as_of_ms)
            return readable and recorded and not retired and not 0 < entry.expires_ms <= when_ms

        def allowed(entry: IndexEntry, partition: int) -> bool:
            return (
                (bool(entry.retired_ms) if self.retired else in_use(entry))
                and all(having(entry, partition) for having in needed)
                and not excluded(entry, partition)
                and (self.importance_to is None or entry.importance <= self.importance_to)
                and (self.from_ms is None or entry.occurred_ms >= self.from_ms)
                and (self.to_ms is None or entry.occurred_ms <= self.to_ms)
            )

        return allowed


_ONE_VALUE = {
    "tenant": "tenant", "project": "project", "kind": "kind", "session": "session_id", "agent": "agent_id",
    "user": "user_id",
}  # fmt: skip
"""The fields of the facets of most filters: making all the facets of a document takes five times as long."""


def _having(required: Sequence[tuple[str, str]]) -> Callable[[IndexEntry, int], bool]:
    (name, *others) = {name for name, _ in required} or {""}
    if name in _ONE_VALUE and not others:
        field = attrgetter(_ONE_VALUE[name])
        values = {value for _, value in required if value or name == "project"}
        return lambda entry, _: field(entry) in values
    keys = {facet(name, value) for name, value in required}
    return lambda entry, partition: bool(keys) and not keys.isdisjoint(entry_facets(partition, entry))


class Question(Struct, frozen=True, kw_only=True):
    """A query, and how results are weighed.

    `limit` bounds the hits. `shown` is how many of them the caller shows (None: all), where that decides the number of
    candidates. `ranking` is the order: `fused` is mnemolog's own; `similarity` is memex's, which `alpha` and
    `half_life_days` tune; `rrf` is agent-memory's, with `recency_boost`. `model` made the vector; an index of another
    refuses the question. With `fold`, near-duplicates are collapsed into one `fused` hit. `named` is the time that the
    text names: `fused` ranks what occurred then, or says so, first. With `explain` hits say what each feature adds.
    `words` are the terms that are searched: set by `search`.
    """

    text: str
    vector: NDArray[np.float32] | None
    model: str = ""
    mode: Mode = "hybrid"
    limit: int = 10
    now_ms: int = 0
    half_life_days: float | None = None
    alpha: float | None = None
    ranking: Ranking = "fused"
    shown: int | None = None
    recency_boost: bool = True
    fold: bool = False
    named: NamedTime | None = None
    explain: bool = False
    words: Sequence[str] = ()

    @property
    def depth(self) -> int:
        """How many results are shown."""
        return self.limit if self.shown is None else self.shown

    @property
    def query_vector(self) -> NDArray[np.float32] | None:
        """The vector, if there is one and the mode uses it."""
        return self.vector if self.mode != "lexical" and self.vector is not None and self.vector.size else None


Certainty = Literal["recorded", "uncertain", "probably not recorded"]
RECORDED_FROM, UNCERTAIN_FROM = 0.4, 0.15
"""Of the questions whose subject is called recorded, at least 90 % of every set have an answer; fewer than four of a
hundred that have one are called probably not recorded (docs/concepts/recall.md)."""


def certainty(confidence: float | None) -> Certainty | None:
    """The word for an answer's confidence (0..1); None if it is unknown."""
    if confidence is None:
        return None
    if confidence >= RECORDED_FROM:
        return "recorded"
    return "uncertain" if confidence >= UNCERTAIN_FROM else "probably not recorded"


class Hit(Struct, frozen=True):
    """One result: where the document is, its score, and the parts of the score."""

    id: str
    partition: int
    kind: SearchedKind
    score: float
    explain: dict[str, float]
    confidence: float | None = None
    """0..1, how likely it answers; None if unknown (see `confidence`)."""
    repeats: Sequence["Hit"] = ()
    """Results that probably say the same, best first."""
    terms: Sequence[str] = ()
    """Of the question, as they were searched."""
    answerable: float | None = None
    """0..1, how likely the question has an answer, as far as this result tells; None if unknown."""


@lru_cache(maxsize=8_192)
def facet(name: str, value: str) -> str:
    """The key of one facet value. In NFC: old documents may have other forms.

    Interned: many documents have the same ones, and of each seven strings would be a seventh of its memory.
    """
    return sys.intern(f"{name}\x1f{nfc(value)}")


def entry_facets(partition: int, entry: IndexEntry) -> tuple[str, ...]:
    """The facet values of a document. A memory for some readers only has `restricted` and a value for each of them."""
    named: list[tuple[str, str]] = [
        ("partition", str(partition)),
        ("tenant", entry.tenant),
        ("project", entry.project),
        ("kind", entry.kind),
        ("session", entry.session_id),
        ("agent", entry.agent_id),
        ("user", entry.user_id),
        ("retired", "yes" if entry.retired_ms else ""),
        ("expiring", "yes" if entry.expires_ms else ""),
        ("restricted", "yes" if entry.audience else ""),
        ("visibility", entry.visibility),
        ("trust", entry.trust),
        ("hidden", "yes" if entry.retired_ms == HIDDEN_MS else ""),
    ]
    several: list[tuple[str, Sequence[str]]] = [
        ("tag", entry.tags),
        ("reader", entry.audience),
        ("type", entry.types),
        ("file", entry.files),
        ("concept", entry.concepts),
    ]
    keys = [facet(name, value) for name, value in named if value or name == "project"]
    # an empty tag is a tag, which a filter may name; an empty reader does not exist
    keys += [facet(name, value) for name, values in several for value in values if value or name == "tag"]
    return tuple(dict.fromkeys(keys))


LISTED = frozenset({"project", "agent", "type"})
"""The facets whose values are listed. Searching all keys for them takes longer with every file and session."""


class Facets:
    """Which documents have which facet values."""

    def __init__(self, bitmaps: Mapping[str, BitMap] | None = None) -> None:
        self._members: dict[str, BitMap | int] = {}
        """A value that one document has, as most have, is that document's ordinal: a bitmap takes 200 bytes."""
        for key, members in (bitmaps or {}).items():
            self._members[key] = members if len(members) > 1 else members[0]
        self._listed: dict[str, set[str]] = {name: set() for name in LISTED}
        for key in self._members:
            self._list(key, set[str].add)

    def add(self, ordinal: int, keys: Iterable[str]) -> None:
        """The document has these facet values."""
        for key in keys:
            members = self._members.get(key)
            if members is None:
                self._members[key] = ordinal
                self._list(key, set[str].add)
            elif isinstance(members, BitMap):
                members.add(ordinal)
            elif members != ordinal:
                self._members[key] = BitMap((members, ordinal))

    def remove(self, ordinal: int, keys: Iterable[str]) -> None:
        """The document no longer has these facet values."""
        for key in keys:
            members = self._members.get(key)
            if isinstance(members, BitMap):
                members.discard(ordinal)
            if members == ordinal or (isinstance(members, BitMap) and not members):
                del self._members[key]
                self._list(key, set[str].discard)

    def _list(self, key: str, change: Callable[[set[str], str], None]) -> None:
        name, _, value = key.partition("\x1f")
        if name in LISTED:
            change(self._listed[name], value)

    def of(self, key: str) -> BitMap:
        """The documents with a facet value; do not change it."""
        members = self._members.get(key, _NONE)
        return members if isinstance(members, BitMap) else BitMap((members,))

    def any_of(self, keys: Iterable[str]) -> BitMap:
        """The documents with at least one of the facet values."""
        return BitMap.union(_NONE, *(self.of(key) for key in keys))

    def linked(self, name: str, matching: BitMap, most: int) -> list[str]:
        """Up to `most` of the values of any facet that these documents have, in a fixed order. Looks at all keys."""
        lead = f"{name}\x1f"
        keys = (key for key in self._members if key.startswith(lead))
        having = (key for key in keys if self.of(key).intersect(matching))
        return [key.removeprefix(lead) for key in islice(having, most)]

    def values(self, name: str) -> list[str]:
        """The values that documents have of a facet of LISTED, in no order."""
        return list(self._listed[name])

    def dump(self) -> dict[str, bytes]:
        """Serialized bitmaps, for a snapshot."""
        return {key: self.of(key).serialize() for key in self._members}

    def renumbered(self, documents: NDArray[np.int64]) -> "Facets":
        """The facets of these documents (ascending) alone, with their places in `documents` as their ordinals."""
        bitmaps: dict[str, BitMap] = {}
        for key in self._members:
            members = np.intersect1d(ordinals(self.of(key)), documents, assume_unique=True)
            if len(members):
                bitmaps[key] = bitmap(np.searchsorted(documents, members))
        return Facets(bitmaps)

    @classmethod
    def load(cls, dumped: Mapping[str, bytes]) -> "Facets":
        """The facets of a snapshot."""
        return cls({key: BitMap.deserialize(raw) for key, raw in dumped.items()})


_NONE = BitMap()
