"""Packed columns, one row a document: numbers, and documents as the hashes of their terms.

Exact scoring reads those hashes, four bytes a term. CRC-32: two different terms are equal in one of four billion pairs,
and no score of a pool of some hundred documents depends on that. The lexical index has the terms themselves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from projections.kernel.module import native

Scalar = TypeVar("Scalar", bound=np.generic)

_FIRST_CAPACITY = 1024


def with_room(length: int) -> int:
    """Rows to have room for: a quarter more, because a column that doubled was half empty for long."""
    return max(_FIRST_CAPACITY, length + length // 4)


class Column(Generic[Scalar]):
    """An append-only array of `dtype`, `(n,)` or `(n, width)`; rows may be overwritten in place."""

    def __init__(self, dtype: type[Scalar], width: int | None = None) -> None:
        self._shape = () if width is None else (width,)
        self._array: NDArray[Scalar] = np.zeros((_FIRST_CAPACITY, *self._shape), dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> NDArray[Scalar]:
        """A view of what is stored; valid until the next append."""
        return self._array[: self._length]

    def append(self, value: Any) -> None:
        """Add one row."""
        if self._length == len(self._array):
            self._grow(with_room(self._length + 1))
        self._array[self._length] = value
        self._length += 1

    def extend(self, values: NDArray[Scalar]) -> None:
        """Add rows."""
        needed = self._length + len(values)
        if needed > len(self._array):
            self._grow(with_room(needed))
        self._array[self._length : needed] = values
        self._length = needed

    def extend_to(self, length: int) -> None:
        """Add zeros until there are `length` rows."""
        if length > self._length:
            self.extend(np.zeros((length - self._length, *self._shape), self._array.dtype))

    def __getitem__(self, place: int) -> Any:
        return self.values[place]

    def __setitem__(self, place: int, value: Any) -> None:
        self.values[place] = value

    def _grow(self, capacity: int) -> None:
        grown = np.zeros((capacity, *self._shape), self._array.dtype)
        grown[: self._length] = self._array[: self._length]
        self._array = grown

    @classmethod
    def of(cls, array: NDArray[Scalar]) -> "Column[Scalar]":
        """A column that begins with a copy of an array, with room to grow: growing is copying, while searches wait."""
        column = cls.__new__(cls)
        column._shape = array.shape[1:]
        column._array = np.zeros((with_room(len(array)), *array.shape[1:]), array.dtype)
        column._array[: len(array)] = array
        column._length = len(array)
        return column


Hashes = NDArray[np.uint32]


def ascending(*numbers: NDArray[np.integer]) -> NDArray[np.int64]:
    """Each of some numbers, from 0 up, once, ascending. A third of the time of `np.unique`, for some hundred."""
    ordered = np.sort(np.concatenate(numbers)).astype(np.int64)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def hashed(terms: Iterable[bytes]) -> Hashes:
    """(n,) uint32, the hash of each term."""
    return np.fromiter(map(crc32, terms), np.uint32)


def hashed_text(terms: str) -> Hashes:
    """(n,) uint32, of terms joined by spaces."""
    return native.hashed([terms])[0]


def places_of(hashes: Hashes, values: Hashes) -> NDArray[np.int64]:
    """(n,), the place of each hash among values (ascending, not empty); -1 for one that is not among them."""
    nearest = np.minimum(np.searchsorted(values, hashes), len(values) - 1)
    return np.where(values[nearest] == hashes, nearest, -1)


@dataclass(frozen=True, slots=True)
class TermRows:
    """The terms of some documents, one document after the other."""

    hashes: Hashes
    """(terms of all,)"""
    lengths: NDArray[np.int64]
    """(n,), how many are each document's."""

    @classmethod
    def of(cls, documents: Iterable[str]) -> "TermRows":
        """Of documents as their terms joined by spaces."""
        return cls(*native.hashed(list(documents)))

    def __len__(self) -> int:
        return len(self.lengths)

    def beginnings(self, places: Sequence[int], without_last: int, most: int) -> list[Hashes]:
        """The first terms of some documents: up to `most`, without their last so many."""
        ends, chosen = np.cumsum(self.lengths), np.asarray(places, np.int64)
        lengths = np.clip(self.lengths[chosen] - without_last, 0, most)
        firsts = ends[chosen] - self.lengths[chosen]
        return [self.hashes[first : first + length] for first, length in zip(firsts, lengths, strict=True)]

    def endings(self, most: int) -> Hashes:
        """(n, most), the last terms of each document, the last one first; 0 where it has fewer."""
        ends = np.cumsum(self.lengths)
        places = ends[:, None] - np.arange(1, most + 1)
        inside = places >= (ends - self.lengths)[:, None]
        if not len(self.hashes):
            return np.zeros(places.shape, np.uint32)
        return np.where(inside, self.hashes[np.maximum(places, 0)], np.uint32(0))

    def counts(self, terms: Sequence[str]) -> NDArray[np.float64]:
        """(n, terms), how often each document says each term."""
        values = hashed(term.encode() for term in terms)
        return native.count_terms(self.hashes, self.lengths, values)

    def in_order(self, terms: Sequence[str], without_last: int = 0) -> NDArray[np.bool_]:
        """(n,), whether each document says these terms one right after the other, before its last so many."""
        values = hashed(term.encode() for term in terms)
        return native.in_order(self.hashes, self.lengths, values, without_last)


class TermColumn:
    """The terms of every document, by ordinal, packed."""

    def __init__(self) -> None:
        self._hashes: Column[np.uint32] = Column(np.uint32)
        self._first: Column[np.int64] = Column(np.int64)
        self._lengths: Column[np.int64] = Column(np.int64)

    def __len__(self) -> int:
        return len(self._first)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,), how many terms are each document's."""
        return self._lengths.values

    @property
    def first(self) -> NDArray[np.int64]:
        """(n,), where in `hashes` each document's terms begin."""
        return self._first.values

    @property
    def hashes(self) -> Hashes:
        """(terms of all,)"""
        return self._hashes.values

    def append(self, row: Hashes) -> None:
        """The next document's."""
        self._first.append(len(self._hashes))
        self._lengths.append(len(row))
        self._hashes.extend(row)

    def extend(self, rows: TermRows) -> None:
        """The next documents'."""
        self._first.extend(len(self._hashes) + np.cumsum(rows.lengths) - rows.lengths)
        self._lengths.extend(rows.lengths)
        self._hashes.extend(rows.hashes)

    def __getitem__(self, ordinal: int) -> Hashes:
        """A view of a document's, valid until the next append."""
        first = int(self._first[ordinal])
        return self._hashes.values[first : first + int(self._lengths[ordinal])]

    def clear(self, ordinal: int) -> None:
        """Erase a document's terms: nothing of them stays in memory."""
        self[ordinal][:] = 0
        self._lengths[ordinal] = 0

    def rows(self, ordinals: NDArray[np.int64]) -> TermRows:
        """Those of these documents, copied, in this order."""
        return TermRows(*native.rows_of(self.hashes, self.first, self.lengths, ordinals))

    @classmethod
    def made_of(cls, rows: TermRows) -> "TermColumn":
        """A column of these documents, their places the ordinals."""
        return cls._of(rows.hashes, np.cumsum(rows.lengths) - rows.lengths, rows.lengths)

    @classmethod
    def _of(cls, hashes: Hashes, first: NDArray[np.int64], lengths: NDArray[np.int64]) -> "TermColumn":
        column = cls()
        column._hashes, column._first, column._lengths = Column.of(hashes), Column.of(first), Column.of(lengths)
        return column

    def save(self, folder: Path) -> None:
        """Write the column into files of an existing folder."""
        np.save(folder / "terms.npy", self._hashes.values)
        np.save(folder / "terms-first.npy", self._first.values)
        np.save(folder / "terms-lengths.npy", self._lengths.values)

    @classmethod
    def load(cls, folder: Path) -> "TermColumn":
        """Read what `save` wrote. Raises OSError for a missing file."""
        return cls._of(*(np.load(folder / f"{name}.npy") for name in ("terms", "terms-first", "terms-lengths")))
