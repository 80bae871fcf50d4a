"""An export of agentmemory as lists of records, and the order in which they are taken. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from api.dialects.agentmemory import records as dialect
from api.importing.mapping import Record, Row, number, text


def versions(memories: Iterator[Row]) -> Iterator[Row]:
    """Memories, the oldest first, and each after the one it follows."""
    rows = sorted(memories, key=lambda row: (text(row.value, "createdAt"), number(row.value, "version", 1), row.name))
    places = {row.name: place for place, row in enumerate(rows)}
    entered, done = set[int](), set[int]()
    for place in range(len(rows)):
        waiting = [place]
        while waiting:
            one = waiting[-1]
            entered.add(one)
            before = [places[name] for name in follows(rows[one].value) if name in places]
            if one not in done and (first := [other for other in before if other not in entered]):
                waiting.extend(first)
                continue
            if waiting.pop() not in done:
                done.add(one)
                yield rows[one]


def parent_of(memory: Mapping[str, Any]) -> str:
    """The memory that one is the next version of; empty for none."""
    if parent := text(dict(memory), "parentId"):
        return parent
    found = listed(memory, "supersedes")
    return found[0] if len(found) == 1 and isinstance(found[0], str) else ""


def follows(memory: Mapping[str, Any]) -> list[str]:
    """The memories in whose place one is."""
    parent = parent_of(memory)
    return [parent] if parent else [one for one in listed(memory, "supersedes") if isinstance(one, str)]


def unlisted(name: str, rows: list[Any]) -> Record:
    """A session that an export only has observations of: it began with the first and ended with the last."""
    times = sorted(filter(None, (text(cast(Record, one), "timestamp") for one in rows if isinstance(one, dict))))
    span = {"startedAt": times[0], "endedAt": times[-1]} if times else {}
    return {"id": name, "project": dialect.UNKNOWN_PROJECT, **span}


def project_of(session: Record) -> str:
    """The project of a session."""
    return text(session, "project") or dialect.UNKNOWN_PROJECT


def row_of(kind: str, value: object, place: str, **more: str) -> Row:
    """A row; what is no object is an empty one, and so is refused with a reason."""
    record: Record = dict(cast(Record, value)) if isinstance(value, dict) else {}
    return Row(kind, text(record, "id", "label", "sessionId") or f"number {place}", {**record, **more})


def rows_of(kind: str, export: Mapping[str, Any], field: str) -> Iterator[Row]:
    """The rows of a list."""
    return (row_of(kind, one, f"{place}") for place, one in enumerate(listed(export, field)))


def listed(export: Mapping[str, Any], field: str) -> list[Any]:
    """What a list has; nothing when there is none."""
    found: Any = export.get(field)
    return cast("list[Any]", found) if isinstance(found, list) else []


def records(export: Mapping[str, Any], field: str) -> list[Record]:
    """The objects in a list."""
    return [cast(Record, one) for one in listed(export, field) if isinstance(one, dict)]
