"""Filters: a roaring bitmap of document ordinals for each value of each facet. The one file that imports pyroaring."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from ingest.names import nfc
from projections.documents.index_entry import IndexEntry

__all__ = ["BitMap", "Facets", "among", "bitmap", "entry_facets", "facet", "lexical_facets", "ordinals"]

LEXICAL = frozenset({"tenant", "project", "kind", "session", "agent", "user", "tag"})
"""The facets that the lexical index knows too: what most searches narrow by and documents hardly ever change. The
others are only bitmaps, or superseding a memory and sharing it would each write the document to tantivy again."""


def facet(name: str, value: str) -> str:
    """The key of one facet value, also its term in the lexical index. In NFC: documents of before may have others."""
    return f"{name}\x1f{nfc(value)}"


def entry_facets(partition: int, entry: IndexEntry) -> tuple[str, ...]:
    """The facet values of a document. A memory for some readers only has `restricted` and a value for each of them.

    Interned: many documents have the same ones, and of each seven strings would be a seventh of its memory.
    """
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
    ]
    several: list[tuple[str, Sequence[str]]] = [
        ("tag", entry.tags),
        ("reader", entry.audience),
        ("type", entry.types),
        ("file", entry.files),
        ("concept", entry.concepts),
    ]
    keys = [facet(name, value) for name, value in named if value or name == "project"]
    # an empty tag is a tag, somebody may ask for it; an empty reader is nobody
    keys += [facet(name, value) for name, values in several for value in values if value or name == "tag"]
    return tuple(map(sys.intern, dict.fromkeys(keys)))


def lexical_facets(keys: Iterable[str]) -> list[str]:
    """Those of a document's facet values that the lexical index knows."""
    return [key for key in keys if key.partition("\x1f")[0] in LEXICAL]


LISTED = frozenset({"project", "agent", "type"})
"""The facets whose values are asked for. To look for them among all keys takes longer with every file and session."""


class Facets:
    """Which documents have which facet values."""

    def __init__(self, bitmaps: Mapping[str, BitMap] | None = None) -> None:
        self._bitmaps = dict(bitmaps or {})
        self._listed: dict[str, set[str]] = {name: set() for name in LISTED}
        for key in self._bitmaps:
            self._list(key)

    def add(self, ordinal: int, keys: Iterable[str]) -> None:
        """The document has these facet values."""
        for key in keys:
            found = self._bitmaps.get(key)
            if found is None:
                found = self._bitmaps[key] = BitMap()
                self._list(key)
            found.add(ordinal)

    def remove(self, ordinal: int, keys: Iterable[str]) -> None:
        """The document no longer has these facet values."""
        for key in keys:
            if (found := self._bitmaps.get(key)) is not None:
                found.discard(ordinal)
                if not found:
                    del self._bitmaps[key]
                    self._unlist(key)

    def of(self, key: str) -> BitMap:
        """The documents with a facet value; do not change it."""
        return self._bitmaps.get(key) or _NONE

    def any_of(self, keys: Iterable[str]) -> BitMap:
        """The documents with at least one of the facet values."""
        return BitMap.union(_NONE, *(self.of(key) for key in keys))

    def linked(self, name: str, matching: BitMap, most: int) -> list[str]:
        """Up to `most` of the values of any facet that these documents have, in a fixed order. Looks at all keys."""
        lead = f"{name}\x1f"
        having = (key for key, found in self._bitmaps.items() if key.startswith(lead) and found.intersect(matching))
        return [key.removeprefix(lead) for key in islice(having, most)]

    def values(self, name: str) -> list[str]:
        """The values that documents have of a facet of LISTED, in no order."""
        return list(self._listed[name])

    def _list(self, key: str) -> None:
        name, _, value = key.partition("\x1f")
        if name in LISTED:
            self._listed[name].add(value)

    def _unlist(self, key: str) -> None:
        name, _, value = key.partition("\x1f")
        if name in LISTED:
            self._listed[name].discard(value)

    def dump(self) -> dict[str, bytes]:
        """Serialised bitmaps, for a snapshot."""
        return {key: found.serialize() for key, found in self._bitmaps.items()}

    def renumbered(self, kept: NDArray[np.int64]) -> "Facets":
        """The facets of the ordinals in `kept` (ascending) alone; each gets its place in `kept` as its new ordinal."""
        bitmaps: dict[str, BitMap] = {}
        for key, found in self._bitmaps.items():
            members = np.intersect1d(ordinals(found), kept, assume_unique=True)
            if len(members):
                bitmaps[key] = bitmap(np.searchsorted(kept, members))
        return Facets(bitmaps)

    @classmethod
    def load(cls, dumped: Mapping[str, bytes]) -> "Facets":
        """The facets of a snapshot."""
        return cls({key: BitMap.deserialize(raw) for key, raw in dumped.items()})


def ordinals(bitmap: BitMap) -> NDArray[np.int64]:
    """The members, ascending: `(n,) int64`."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint32).astype(np.int64)


def bitmap(members: NDArray[np.integer]) -> BitMap:
    """The set of these ordinals."""
    return BitMap(members.astype(np.uint32))


def among(documents: NDArray[np.integer], matching: BitMap) -> NDArray[np.int64]:
    """Those of the documents that match, each once, ascending; a negative number is none."""
    return ordinals(bitmap(documents[documents >= 0]) & matching)


_NONE = BitMap()
