"""SQLite files, read while their owners have them open."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from api.importing.source import Unusable

BUSY_S = 10.0
"""How long a reader waits for its owner's lock."""


class Sqlite:
    """A SQLite file that is only read; raises Unusable when it is none."""

    mark = "?"

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        self._connection.row_factory = sqlite3.Row
        self._connection.text_factory = _text

    def ask(self, query: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """The rows of a query, by column; raises Unusable."""
        try:
            return [dict(row) for row in self._connection.execute(query, tuple(parameters))]
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def columns(self, table: str) -> set[str]:
        """The columns of a table; empty when there is none."""
        return {row["name"] for row in self.ask("SELECT name FROM pragma_table_info(?)", [table])}

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _unusable(self, error: sqlite3.Error) -> Unusable:
        busy = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        return Unusable(f"{self._path} cannot be read as SQLite: {error}", busy=busy)


def _text(stored: bytes) -> str:
    """Text as it was meant, should somebody have stored other bytes."""
    return stored.decode("utf-8", "replace")
