"""Documents as the hashes of their terms, in order: what exact scoring reads, four bytes a term.

CRC-32, so two different terms are one in four billion pairs: no score of a pool of some hundred documents depends on
that. The terms themselves are in the lexical index's files.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from projections.search.columns import Column

Hashes = NDArray[np.uint32]


def hashed(terms: Iterable[bytes]) -> Hashes:
    """(n,) uint32, the hash of each term."""
    return np.fromiter(map(crc32, terms), np.uint32)


def hashed_text(terms: str) -> Hashes:
    """(n,) uint32, of terms joined by spaces."""
    return hashed(terms.encode().split())


@dataclass(frozen=True, slots=True)
class TermRows:
    """The terms of some documents, one document behind the other."""

    hashes: Hashes
    """(terms of all,)"""
    lengths: NDArray[np.int64]
    """(n,), how many are each document's."""

    @classmethod
    def of(cls, documents: Iterable[str]) -> "TermRows":
        """Of documents as their terms joined by spaces."""
        rows = [hashed_text(document) for document in documents]
        return cls(np.concatenate([np.empty(0, np.uint32), *rows]), np.array([len(row) for row in rows], np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    def beginning(self, place: int, without_last: int, most: int) -> Hashes:
        """A document's first terms: up to `most`, without its last so many."""
        end = int(self.lengths[: place + 1].sum())
        first = end - int(self.lengths[place])
        return self.hashes[first : max(first, min(end - without_last, first + most))]

    def counts(self, terms: Sequence[str]) -> NDArray[np.float64]:
        """(n, terms), how often each document says each term."""
        ends = np.cumsum(self.lengths)
        found = np.zeros((len(self), len(terms)))
        for column, sought in enumerate(hashed(term.encode() for term in terms)):
            documents = np.searchsorted(ends, np.flatnonzero(self.hashes == sought), side="right")
            found[:, column] = np.bincount(documents, minlength=len(self))
        return found

    def in_order(self, terms: Sequence[str], without_last: int = 0) -> NDArray[np.bool_]:
        """(n,), whether each document says these terms one right after the other, before its last so many."""
        starts = np.arange(max(0, len(self.hashes) - len(terms) + 1)) if terms else np.empty(0, np.int64)
        for place, sought in enumerate(hashed(term.encode() for term in terms)):
            starts = starts[self.hashes[starts + place] == sought]
        ends = np.cumsum(self.lengths)
        documents = np.searchsorted(ends, starts, side="right")
        within = starts + len(terms) <= ends[documents] - without_last
        return np.bincount(documents[within], minlength=len(self)) > 0


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

    def saying(self, term: str, first: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The documents from `first` on that say a term, ascending, and how often each does."""
        (sought,) = hashed([term.encode()])
        start = int(self._first[first])
        places = start + np.flatnonzero(self._hashes.values[start:] == sought)
        return np.unique(np.searchsorted(self._first.values, places, side="right") - 1, return_counts=True)

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
        """Forget a document's terms: nothing of them stays in memory."""
        self[ordinal][:] = 0
        self._lengths[ordinal] = 0

    def rows(self, ordinals: NDArray[np.int64]) -> TermRows:
        """Those of these documents, copied, in this order."""
        lengths = self._lengths.values[ordinals]
        ends = np.cumsum(lengths)
        places = np.arange(int(ends[-1]) if len(ends) else 0)
        places += np.repeat(self._first.values[ordinals] - (ends - lengths), lengths)
        return TermRows(self._hashes.values[places], lengths)

    @classmethod
    def made_of(cls, rows: TermRows) -> "TermColumn":
        """A column of these documents, their places the ordinals."""
        column = cls()
        column._hashes = Column.of(rows.hashes)
        column._lengths = Column.of(rows.lengths)
        column._first = Column.of(np.cumsum(rows.lengths) - rows.lengths)
        return column

    def save(self, folder: Path) -> None:
        """Write the column into files of an existing folder."""
        np.save(folder / "terms.npy", self._hashes.values)
        np.save(folder / "terms-first.npy", self._first.values)
        np.save(folder / "terms-lengths.npy", self._lengths.values)

    @classmethod
    def load(cls, folder: Path) -> "TermColumn":
        """Read what `save` wrote. Raises OSError for a missing file."""
        column = cls()
        column._hashes = Column.of(np.load(folder / "terms.npy"))
        column._first = Column.of(np.load(folder / "terms-first.npy"))
        column._lengths = Column.of(np.load(folder / "terms-lengths.npy"))
        return column
