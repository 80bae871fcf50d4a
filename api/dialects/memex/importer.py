"""memex: memories of an agent about a user. Pure.

Its UUIDs are random, and ours are made of our ids: the old one stays in the metadata.
"""

from pathlib import Path

from msgspec.structs import replace

from api.dialects.memex.records import TYPES, remember
from api.importing.mapping import ImportRow, Mapped, Step, needed, number, when
from api.importing.source import (
    ImportRequest,
    Source,
    Unusable,
    is_url,
    list_in,
    of_rows,
    rows_by_time,
)
from api.importing.sql import Database, Postgres, Section, is_postgres, tables_source
from ingest.errors import CommandRejected

SYSTEM = "memex"
MEMORY = "memory"
ID = "memex_id"
"""Metadata that keeps the UUID a memory had."""


def mapped(row: ImportRow) -> Mapped:
    """The memory of a row; raises CommandRejected when it cannot be taken."""
    name = needed(row.value, "memory_type") if row.value.get("memory_type") is not None else "episodic"
    kind = TYPES.get(name)
    if kind is None:
        raise CommandRejected(f"is not one of {', '.join(TYPES)}", "memory_type")
    command = remember(
        needed(row.value, "agent_id"),
        needed(row.value, "user_id"),
        needed(row.value, "content"),
        kind,
        number(row.value, "importance", 1.0),
    )
    command = replace(command, metadata={**command.metadata, ID: row.name})
    return Mapped([Step(command, row.key, when(row.value, "created_at"))])


def open_source(request: ImportRequest) -> Source:
    """The source of its PostgreSQL database, or of a JSON file of memories. Raises Unusable."""
    location = request.required_location("the URL of its PostgreSQL database, or a JSON file of its memories")
    if is_postgres(location):
        return tables_source(SYSTEM, Postgres(location), memex_sections, mapped)
    if is_url(location):
        raise Unusable("memex's server lists no memories: name its PostgreSQL database, or a JSON file of them")
    rows = rows_by_time(list_in(Path(location), "results", "memories", "items"), MEMORY, "created_at")
    return of_rows(SYSTEM, rows, mapped)


def memex_sections(database: Database) -> list[Section]:
    """The one section of a memex database. Raises Unusable for any other."""
    columns = ("id", "agent_id", "user_id", "content", "importance", "memory_type", "created_at")
    if not set(columns) <= database.columns("memories"):
        raise Unusable("this is no database of memex: it has no table `memories` with agents and users")
    query = f"SELECT {', '.join(columns)} FROM memories"
    return [Section(MEMORY, query, ("created_at", "id"))]
