"""Sets of documents by ordinal, as roaring bitmaps. The one file that imports pyroaring."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

__all__ = ["BitMap", "Matching", "among", "bitmap", "ordinals"]


def ordinals(bitmap: BitMap) -> NDArray[np.int64]:
    """The members, ascending: `(n,) int64`."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint32).astype(np.int64)


def bitmap(members: NDArray[np.integer]) -> BitMap:
    """The set of these ordinals."""
    return BitMap(members.astype(np.uint32))


class Matching:
    """Documents that a question may find, by ordinal. Do not change them."""

    def __init__(self, bitmap: BitMap) -> None:
        self.bitmap = bitmap

    def __len__(self) -> int:
        return len(self.bitmap)

    @cached_property
    def documents(self) -> NDArray[np.int64]:
        """(n,) int64, ascending."""
        return ordinals(self.bitmap)

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Which ordinals are among them, up to the last that is."""
        mask = np.zeros(int(self.documents[-1]) + 1 if len(self) else 0, np.bool_)
        mask[self.documents] = True
        return mask


def among(documents: NDArray[np.integer], matching: BitMap) -> NDArray[np.int64]:
    """Those of the documents that match, each once, ascending; a negative number matches nothing."""
    return ordinals(bitmap(documents[documents >= 0]) & matching)
