"""Rows of a database, table by table in the order of a key, a page at a time: nothing is held open in between."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from api.importing.mapping import Mapped, Row
from api.importing.source import Cursor, Map, Placed

PAGE = 1_000


class Section(NamedTuple):
    """One kind of row: a query without order, the columns that order its rows, and the one they are called by."""

    kind: str
    query: str
    keys: Sequence[str]
    name: str


class Database(Protocol):
    """A database that is only read."""

    mark: str
    """What stands for a parameter."""

    def ask(self, query: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """The rows of a query, by column; raises Unusable."""
        ...

    def columns(self, table: str) -> set[str]:
        """The columns of a table; empty when there is none."""
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...


class SqlSource:
    """Rows of several sections, one after the other; a cursor is a section's place and the last keys in it."""

    def __init__(self, system: str, database: Database, sections: Sequence[Section], mapped: Map) -> None:
        self._system, self.fingerprint, self.notes = system, "", list[str]()
        self._database, self._sections, self._map = database, sections, mapped

    @property
    def system(self) -> str:
        """Whose rows they are."""
        return self._system

    def total(self) -> int:
        """How many rows there are now."""
        return sum(
            int(self._database.ask(f"SELECT count(*) AS n FROM ({section.query}) AS q")[0]["n"])
            for section in self._sections
        )

    def rows(self, after: Cursor) -> Iterator[Placed]:
        """The rows behind a cursor; raises Unusable."""
        first, keys = (int(after[0]), after[1:]) if after else (0, [])
        for place, section in enumerate(self._sections[first:], first):
            yield from self._section(place, section, keys if place == first else [])

    def mapped(self, row: Row) -> Mapped:
        """What a row says; raises CommandRejected when it cannot be taken."""
        return self._map(row)

    def close(self) -> None:
        """Give the connection back."""
        self._database.close()

    def _section(self, place: int, section: Section, after: Cursor) -> Iterator[Placed]:
        order = ", ".join(section.keys)
        while True:
            marks = ", ".join([self._database.mark] * len(after))
            behind = f" WHERE ({order}) > ({marks})" if after else ""
            query = f"SELECT * FROM ({section.query}) AS q{behind} ORDER BY {order} LIMIT {PAGE}"
            found = self._database.ask(query, after)
            for one in found:
                after = [one[key] if isinstance(one[key], int) else str(one[key]) for key in section.keys]
                yield Placed(Row(section.kind, str(one[section.name]), one), [place, *after])
            if len(found) < PAGE:
                return
