"""Where rows come from: what every source offers, and the ones that read all of a document first."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from api.importing.mapping import Mapped, Row

Cursor: TypeAlias = list[str | int]
"""A position in a source, in its own terms; empty for the beginning. Rows before it are done."""
Map: TypeAlias = Callable[[Row], Mapped]


class Unusable(Exception):
    """A source cannot be read; the message says why, and what to do. `busy`: trying again later may help."""

    def __init__(self, message: str, *, busy: bool = False) -> None:
        super().__init__(message)
        self.busy = busy


class Placed(NamedTuple):
    """A row, and the cursor after it."""

    row: Row
    cursor: Cursor


class Source(Protocol):
    """Rows of another system, in an order that stays the same."""

    fingerprint: str
    """Another one means that cursors of before are worth nothing; empty where rows are only ever added."""
    notes: list[str]
    """What the person should know of the source."""
    system: str
    """The system of the row that came last: part of its events' ids."""

    def total(self) -> int | None:
        """How many rows there are; None when that is not known before they are read."""
        ...

    def rows(self, after: Cursor) -> Iterator[Placed]:
        """The rows after a cursor; raises Unusable."""
        ...

    def mapped(self, row: Row) -> Mapped:
        """What a row says; raises CommandRejected when it cannot be taken."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class WholeSource:
    """Rows of a document that was read whole; a cursor is how many of them are dealt with."""

    def __init__(
        self, system: str, rows: Callable[[], Iterator[Row]], total: int, mapped: Map, fingerprint: str
    ) -> None:
        self.system, self.fingerprint, self.notes = system, fingerprint, list[str]()
        self._rows, self._total, self._map = rows, total, mapped

    def total(self) -> int:
        """How many rows there are."""
        return self._total

    def rows(self, after: Cursor) -> Iterator[Placed]:
        """The rows after a cursor."""
        done = int(after[0]) if after else 0
        for number, row in enumerate(islice(self._rows(), done, None), done + 1):
            yield Placed(row, [number])

    def mapped(self, row: Row) -> Mapped:
        """What a row says; raises CommandRejected when it cannot be taken."""
        return self._map(row)

    def close(self) -> None:
        """It holds nothing."""


def fingerprint_of(value: Any) -> str:
    """What tells a document from another one."""
    return blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()
