"""Filters: a roaring bitmap of document ordinals for each value of each facet. The one file that imports pyroaring."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

__all__ = ["BitMap", "Facets", "ordinals"]


def facet(name: str, value: str) -> str:
    """The key of one facet value, also its term in the lexical index."""
    return f"{name}\x1f{value}"


class Facets:
    """Which documents have which facet values."""

    def __init__(self) -> None:
        self._bitmaps: dict[str, BitMap] = {}

    def add(self, ordinal: int, keys: Iterable[str]) -> None:
        """The document has these facet values."""
        for key in keys:
            bitmap = self._bitmaps.get(key)
            if bitmap is None:
                bitmap = self._bitmaps[key] = BitMap()
            bitmap.add(ordinal)

    def remove(self, ordinal: int, keys: Iterable[str]) -> None:
        """The document no longer has these facet values."""
        for key in keys:
            if (bitmap := self._bitmaps.get(key)) is not None:
                bitmap.discard(ordinal)
                if not bitmap:
                    del self._bitmaps[key]

    def of(self, key: str) -> BitMap:
        """The documents with a facet value; do not change it."""
        return self._bitmaps.get(key) or _NONE

    def any_of(self, keys: Iterable[str]) -> BitMap:
        """The documents with at least one of the facet values."""
        return BitMap.union(_NONE, *(self.of(key) for key in keys))

    def dump(self) -> dict[str, bytes]:
        """Serialised bitmaps, for a snapshot."""
        return {key: bitmap.serialize() for key, bitmap in self._bitmaps.items()}

    @classmethod
    def load(cls, dumped: Mapping[str, bytes]) -> "Facets":
        """The facets of a snapshot."""
        facets = cls()
        facets._bitmaps = {key: BitMap.deserialize(raw) for key, raw in dumped.items()}
        return facets


def ordinals(bitmap: BitMap) -> NDArray[np.int64]:
    """The members, ascending: `(n,) int64`."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint32).astype(np.int64)


_NONE = BitMap()
