"""memex: memories of an agent about a user. Pure.

Its UUIDs are random, and ours are made of our ids: the old one stays in the metadata.
"""

from msgspec.structs import replace

from api.dialects.memex import records as memex
from api.importing.mapping import ImportRow, Mapped, Step, needed, number, when
from ingest.errors import CommandRejected

SYSTEM = "memex"
MEMORY = "memory"
ID = "memex_id"
"""Metadata that keeps the UUID a memory had."""


def mapped(row: ImportRow) -> Mapped:
    """The memory of a row; raises CommandRejected when it cannot be taken."""
    name = needed(row.value, "memory_type") if row.value.get("memory_type") is not None else "episodic"
    kind = memex.type_of(name)
    if kind is None:
        raise CommandRejected(f"is none of {', '.join(memex.TYPES)}", "memory_type")
    command = memex.remember(
        needed(row.value, "agent_id"),
        needed(row.value, "user_id"),
        needed(row.value, "content"),
        kind,
        number(row.value, "importance", 1.0),
    )
    command = replace(command, metadata={**command.metadata, ID: row.name})
    return Mapped([Step(command, f"{MEMORY}\0{row.name}", when(row.value, "created_at"))])
