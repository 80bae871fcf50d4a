"""Read-only access to databases: rows are read table by table in key order, a page at a time.

No query stays open between pages. The one file that imports psycopg, which comes with the extra `postgres`.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from api.importing.mapping import ImportRow, Record
from api.importing.source import Cursor, Map, Placed, Source, Unusable

PAGE = 1_000
# How long to wait for the lock of a SQLite file's owner.
BUSY_S = 10.0
CONNECT_S = 10
# A longer query is aborted, because a view may never end. A page takes milliseconds by an index; a
# count or a sort of some million rows without one takes a minute.
QUERY_S = 300.0
# Of SQLite's virtual machine, between two looks at the clock: about a millisecond.
STEPS = 100_000


class Section(NamedTuple):
    """One kind of row: a query without order, the columns that order its rows, and the id column."""

    kind: str
    query: str
    keys: Sequence[str] = ("id",)
    name: str = "id"


class Sqlite:
    """A read-only SQLite file; raises Unusable for any other file."""

    mark = "?"

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        self._ends_s = 0.0
        self._connection.set_progress_handler(lambda: time.monotonic() > self._ends_s, STEPS)
        self._connection.row_factory = sqlite3.Row
        # text as it was meant, should somebody have stored other bytes
        self._connection.text_factory = partial(str, encoding="utf-8", errors="replace")

    def ask(self, query: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """The rows of a query, by column; raises Unusable."""
        self._ends_s = time.monotonic() + QUERY_S
        try:
            return [dict(row) for row in self._connection.execute(query, tuple(parameters))]
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def columns(self, table: str) -> set[str]:
        """The columns of a table; empty without such a table. Views are excluded: an endless one would fill the
        disk."""
        query = "SELECT c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name = ?"
        return {row["name"] for row in self.ask(query, [table])}

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _unusable(self, error: sqlite3.Error) -> Unusable:
        busy = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        return Unusable(f"{self._path} cannot be read as SQLite: {error}", busy=busy)


def is_postgres(location: str) -> bool:
    """Whether a location is a PostgreSQL URL."""
    return urlsplit(location).scheme in ("postgres", "postgresql")


class Postgres:
    """A read-only PostgreSQL database; raises Unusable if it is unreachable."""

    mark = "%s"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg.rows import dict_row
        except ImportError:
            raise Unusable(
                "reading PostgreSQL needs the package psycopg: pip install 'mnemolog[postgres]' (or 'psycopg[binary]')"
            ) from None
        self._error = psycopg.Error
        try:
            self._connection: psycopg.Connection[dict[str, Any]] = psycopg.Connection[dict[str, Any]].connect(
                url, autocommit=True, connect_timeout=CONNECT_S, row_factory=dict_row
            )
            self._connection.execute("SET default_transaction_read_only = on")
            self._connection.execute(cast(LiteralString, f"SET statement_timeout = {int(QUERY_S * 1000)}"))
        except psycopg.Error as error:
            raise self._unusable(error) from None

    def ask(self, query: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """The rows of a query, by column; raises Unusable."""
        try:
            cursor = self._connection.execute(cast(LiteralString, query), list(parameters) or None)
            return cursor.fetchall()
        except self._error as error:
            raise self._unusable(error) from None

    def columns(self, table: str) -> set[str]:
        """The columns of a table; empty if it does not exist."""
        query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
        return {row["attname"] for row in self.ask(query, [table])}

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _unusable(self, error: Exception) -> Unusable:
        return Unusable(f"PostgreSQL cannot be read: {' '.join(str(error).split())}", busy=True)


Database: TypeAlias = Sqlite | Postgres


def paged(
    database: Database, query: str, keys: Sequence[str], after: Sequence[str | int] = ()
) -> Iterator[tuple[Record, list[str | int]]]:
    """The rows of a query in the order of their keys, each with its keys; only those `after` the given keys."""
    order, last = ", ".join(keys), list(after)
    while True:
        marks = ", ".join([database.mark] * len(last))
        where = f" WHERE ({order}) > ({marks})" if last else ""
        page = database.ask(f"SELECT * FROM ({query}) AS q{where} ORDER BY {order} LIMIT {PAGE}", last)
        for row in page:
            last = [row[key] if isinstance(row[key], int) else str(row[key]) for key in keys]
            yield row, last
        if len(page) < PAGE:
            return


class SqlSource(Source):
    """Rows of several sections, one after the other; a cursor is a section's index and the last keys in it."""

    def __init__(self, system: str, database: Database, sections: Sequence[Section], mapped: Map) -> None:
        super().__init__(system, mapped)
        self._database, self._sections = database, sections

    def total(self) -> int:
        """How many rows there are now."""
        return sum(
            int(self._database.ask(f"SELECT count(*) AS n FROM ({section.query}) AS q")[0]["n"])
            for section in self._sections
        )

    def rows(self, after: Cursor) -> Iterator[Placed]:
        """The rows after a cursor; raises Unusable."""
        first, keys = (int(after[0]), after[1:]) if after else (0, [])
        for index, section in enumerate(self._sections[first:], first):
            for row, last in paged(self._database, section.query, section.keys, keys if index == first else []):
                yield Placed(ImportRow(section.kind, str(row[section.name]), row), [index, *last])

    def close(self) -> None:
        """Give the connection back."""
        self._database.close()


def tables_source(
    system: str, database: Database, sections: Callable[[Database], list[Section]], mapped: Map
) -> SqlSource:
    """The tables of a database, which is given back when they are not there."""
    try:
        return SqlSource(system, database, sections(database), mapped)
    except Unusable:
        database.close()
        raise


def named_or_null(database: Database, table: str, alias: str, columns: tuple[str, ...]) -> str:
    """Those of the columns that a table has, the others as NULL."""
    existing = database.columns(table)
    return ", ".join(f"{alias}.{name}" if name in existing else f"NULL AS {name}" for name in columns)
