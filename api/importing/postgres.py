"""PostgreSQL databases. The one file that imports psycopg, which comes with the extra `postgres`."""

from collections.abc import Sequence
from typing import Any, LiteralString, cast
from urllib.parse import urlsplit

from api.importing.source import Unusable

CONNECT_S = 10


def is_postgres(location: str) -> bool:
    """Whether a location is a PostgreSQL URL."""
    return urlsplit(location).scheme in ("postgres", "postgresql")


class Postgres:
    """A PostgreSQL database that is only read; raises Unusable when it cannot be reached."""

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
        """The columns of a table; empty when there is none."""
        query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
        return {row["attname"] for row in self.ask(query, [table])}

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _unusable(self, error: Exception) -> Unusable:
        return Unusable(f"PostgreSQL cannot be read: {' '.join(str(error).split())}", busy=True)
