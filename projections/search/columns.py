"""Packed, growing columns: one number or one row of numbers a document, in a NumPy array that doubles when full."""

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)

_FIRST_CAPACITY = 1024


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

    def append(self, value: Any) -> int:
        """Add one row; returns its place."""
        if self._length == len(self._array):
            self._grow(2 * len(self._array))
        self._array[self._length] = value
        self._length += 1
        return self._length - 1

    def extend(self, values: NDArray[Scalar]) -> None:
        """Add rows."""
        needed = self._length + len(values)
        if needed > len(self._array):
            self._grow(max(needed, 2 * len(self._array)))
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
        """A column that goes on from a copy of a stored array, with room: growing is copying, while searches wait."""
        column = cls.__new__(cls)
        column._shape = array.shape[1:]
        column._array = np.zeros((max(_FIRST_CAPACITY, 2 * len(array)), *array.shape[1:]), array.dtype)
        column._array[: len(array)] = array
        column._length = len(array)
        return column
