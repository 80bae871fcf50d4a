"""mem0: memories from a `get_all` response or from mem0's stores. None of its packages is needed.

Qdrant's store on disk is pickled. It is only decoded into inert objects, so such a file runs no code.
"""

import pickle
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, timedelta, timezone, tzinfo
from io import BytesIO
from pathlib import Path
from typing import Any, cast

from api.importing.mapping import (
    ImportRow,
    Mapped,
    Record,
    Step,
    as_object,
    few,
    metadata_of,
    names,
    needed,
    related,
    text,
    when,
    when_given,
)
from api.importing.source import (
    ImportRequest,
    Source,
    Unusable,
    document,
    fingerprint_of,
    is_sqlite,
    list_in,
    listed,
    modified,
    newer,
    of_rows,
    rows_by_time,
)
from api.importing.sql import Database, Postgres, Sqlite, is_postgres, paged
from ingest.commands.decide import Remember, ReviseMemory
from ingest.errors import CommandRejected
from ingest.ids import EventId, document_id
from ingest.kinds import MEMORY
from ingest.log.position import project_route
from ingest.secrets.scrub import repair_text

SYSTEM = PROJECT = "mem0"
"""Also the project of its memories, which have none."""
MEMORY_ROW, ENTITY, RELATION = "memory", "entity", "relation"
ID = "mem0_id"
"""Metadata with the memory's original id."""
_FIELDS = ("memory", "user_id", "agent_id", "run_id", "created_at", "updated_at", "categories", "expiration_date")
_PROMOTED = (*_FIELDS[1:], "role", "actor_id", "attributed_to")
"""What `get_all` answers beside the metadata, and a store has among it."""
_OWN = frozenset(("data", "hash", "text_lemmatized"))
"""What mem0 adds to the metadata in a store, beside what `get_all` answers."""
_LOST, _CHANGED = "\0lost", "\0changed"
"""Fields of a record for what its point has that JSON has not, and for when its file was changed."""
_DERIVED = frozenset((*_OWN, "id", "metadata", "score", _LOST, _CHANGED))
_TIMES = (datetime, date, timedelta, timezone)
MAX_PAYLOAD_CHARS, MAX_DEPTH = 4 << 20, 50
"""Of a point, with each reference to a value counted as a copy of it."""
_CHROMA = ("string_value", "int_value", "float_value")
CHROMA_VERSION = "6"
"""The newest version of the tables with chroma's metadata that is known."""


def mapped(row: ImportRow, tenant: str, project: str) -> Mapped:
    """The memory of a row, with the version that an update made; raises CommandRejected if the row cannot be
    imported."""
    record, lost = row.value, list[str](dict.fromkeys(row.value.get(_LOST, ())))
    if row.kind == ENTITY:
        raise CommandRejected("belongs to mem0's entity index; mnemolog builds its own")
    if reason := text(record, "unreadable"):
        raise CommandRejected(reason)
    created = when(record, "created_at", "updated_at", _CHANGED)
    if row.kind == RELATION:
        ends = needed(record, "source"), needed(record, "relationship"), text(record, "target", "destination")
        return Mapped(related(project, *ends, created, lost), lost)
    expires = when_given(record, "expiration_date")
    own = as_object(record.get("metadata"))
    others = {name: value for name, value in record.items() if name not in _FIELDS and name not in _DERIVED}
    if taken := [name for name in own if name == ID or name in others]:
        lost.append(f"metadata: {few(taken)}, because mem0 has fields of that name")
    metadata = metadata_of({ID: "", **own, **others} | {ID: row.name}, lost)
    fields: dict[str, Any] = {
        "project": project,
        "content": needed(record, "memory"),
        "user_id": text(record, "user_id"),
        "agent_id": text(record, "agent_id"),
        "session_id": text(record, "run_id"),
        "tags": names({**own, **record}, "categories", lost),
        "metadata": metadata,
        "memory_type": "procedural" if metadata.get("memory_type") == "procedural_memory" else "semantic",
        "valid_until": None if expires is None else expires + timedelta(days=1),
        "keep_duplicates": True,
    }
    updated = when_given(record, "updated_at") or created
    named = EventId(f"{SYSTEM}-{row.name}")  # what the example of earlier releases called it
    steps = [Step(Remember(**fields, event_id=named), row.key, created)]
    if updated > created:
        name = document_id(MEMORY, project_route(tenant, project), named)
        revised = ReviseMemory(**fields, memory=name, purpose="information")
        steps.append(Step(revised, f"{row.key}\0{updated.isoformat()}", updated))
        lost.append("the text before its last update, which is only in mem0's history")
    return Mapped(steps, lost)


def open_source(request: ImportRequest) -> Source:
    """The source of a `get_all` file, a store on disk (qdrant, chroma) or a pgvector database. Raises Unusable."""
    location = request.required_location("a file of get_all, the folder of its qdrant or chroma, or its PostgreSQL URL")
    notes, memories, relations = list[str](), list[Record](), list[Record]()
    if is_postgres(location):
        with closing(Postgres(location)) as database:
            memories = list(pgvector_records(database))
    elif files := _sqlite_files(Path(location)):
        for file in files:
            with closing(Sqlite(file)) as database:
                memories += [{**record, _CHANGED: modified(file)} for record in _of_file(database, file, notes)]
    else:
        memories, relations = _answer(Path(location))
    rows = rows_by_time([record for record in memories if "linked_memory_ids" not in record], MEMORY_ROW, "created_at")
    rows += rows_by_time([record for record in memories if "linked_memory_ids" in record], ENTITY, "id")
    rows += rows_by_time(relations, RELATION, "source")
    project = request.project_or(PROJECT)
    source = of_rows(SYSTEM, rows, lambda row: mapped(row, request.tenant, project), project)
    source.notes += notes
    return source


def _answer(file: Path) -> tuple[list[Record], list[Record]]:
    """The memories and relations of a `get_all` answer; what has no time is of when the file was changed."""
    answer, changed, memories = document(file), modified(file), list_in(file, "results", "memories")
    relations = list_in(file, "relations") if listed(as_object(answer).get("relations")) else []
    for record in (*memories, *relations):
        record[_CHANGED] = changed
        if not text(record, "id") and (memory := text(record, "memory")):  # numbers are the same in another file
            record["id"] = f"text-{fingerprint_of([text(record, 'user_id'), memory])}"
    return memories, relations


def _sqlite_files(path: Path) -> list[Path]:
    """The databases of a store: of each collection of qdrant's, or the one of chroma."""
    if not path.is_dir():
        return [path] if is_sqlite(path) else []
    patterns = ("collection/*/storage.sqlite", "storage.sqlite", "chroma.sqlite3")
    files = [file for pattern in patterns for file in sorted(path.glob(pattern))]
    if not files:
        raise Unusable(f"{path} is not a mem0 store: it has none of the files {', '.join(patterns)}")
    return files


def _of_file(database: Database, file: Path, notes: list[str]) -> list[Record]:
    if {"id", "point"} <= database.columns("points"):
        return list(qdrant_records(database))
    if {"embedding_id", "segment_id"} <= database.columns("embeddings") and database.columns("embedding_metadata"):
        if "dir" in database.columns("migrations"):
            (newest,) = database.ask("SELECT max(version) AS version FROM migrations WHERE dir = 'metadb'")
            notes += newer(f"{file}", str(newest["version"]), CHROMA_VERSION)
        return list(chroma_records(database))
    raise Unusable(f"{file} is not a qdrant or chroma store: it has no table `points` or `embeddings`")


def qdrant_records(database: Database) -> Iterator[Record]:
    """The points of a collection, of one that is stored twice the later."""
    points = dict[str, Record]()
    for row, _ in paged(database, "SELECT rowid AS place, id, point FROM points", ("place",)):
        try:
            point = _Pickled(BytesIO(cast(bytes, row["point"]))).load()
            fields: Record = point.state["__dict__"]
            payload = _Payload()
            identity = str(payload.json(fields["id"]) or row["id"])
            points[identity] = _record(identity, payload.json(fields["payload"] or {})) | {_LOST: payload.lost}
        except Exception as error:  # whatever a broken pickle makes of itself
            points[row["id"]] = {"id": row["id"], "unreadable": f"the point cannot be decoded: {type(error).__name__}"}
    yield from points.values()


class _Inert(tzinfo):
    """Replaces every class in a pickle: only its state, without code."""

    state: Any = None

    def __init__(self, *parts: object) -> None: ...

    def __call__(self, *parts: object) -> "_Inert":
        return self

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Pickled(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        return {each.__name__: each for each in _TIMES}.get(name, _Inert) if module == "datetime" else _Inert


class _Payload:
    """One payload as JSON. References within it can make a small pickle endless, so its size and depth are limited."""

    def __init__(self) -> None:
        self.lost, self._left = list[str](), MAX_PAYLOAD_CHARS

    def json(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """A value as JSON; `lost` names what is of another type. Raises ValueError for one that is too large."""
        self._left -= 1 + (len(value) if isinstance(value, str) else 0)
        if self._left < 0 or depth > MAX_DEPTH:
            raise ValueError("too large")
        match value:
            case str():
                return repair_text(value)
            case None | bool() | float() | int() if not isinstance(value, int) or -(1 << 63) <= value < 1 << 64:
                return value
            case date() if not isinstance(getattr(value, "tzinfo", None), _Inert):
                return value.isoformat()
            case list() | tuple():
                return [self.json(item, name, depth + 1) for item in cast("list[Any]", value)]
            case dict():
                items = [(str(self.json(key)), item) for key, item in cast(Record, value).items()]
                return {key: self.json(item, name or key, depth + 1) for key, item in items}
            case _:
                self.lost.append(f"metadata that is not JSON: {name[:64]}")
                return None


def chroma_records(database: Database) -> Iterator[Record]:
    """The metadata of the embeddings; a list has its items in rows of a table of their own."""
    tables = [name for name in ("embedding_metadata", "embedding_metadata_array") if database.columns(name)]
    for row, _ in paged(database, "SELECT id AS place, embedding_id FROM embeddings", ("place",)):
        payload = Record()
        for table in tables:
            for entry in database.ask(f"SELECT * FROM {table} WHERE id = ?", [row["place"]]):
                value = next((entry[column] for column in _CHROMA if entry[column] is not None), None)
                value = value if entry.get("bool_value") is None else bool(entry["bool_value"])
                payload[entry["key"]] = value if table == tables[0] else [*payload.get(entry["key"], ()), value]
        yield _record(row["embedding_id"], payload)


def pgvector_records(database: Database) -> Iterator[Record]:
    """The payloads of every collection, which is a table with a vector."""
    tables = database.ask(
        "SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) AS name FROM information_schema.columns"
        " WHERE column_name IN ('id', 'vector', 'payload') GROUP BY 1 HAVING count(*) = 3 ORDER BY 1"
    )
    if not tables:
        raise Unusable("this is not a mem0 database: no table has the columns `id`, `vector` and `payload`")
    for table in tables:
        for row, _ in paged(database, f"SELECT CAST(id AS text) AS id, payload FROM {table['name']}", ("id",)):
            yield _record(row["id"], row["payload"] or {})


def _record(identity: str, payload: Record) -> Record:
    """A payload as `get_all` answers it."""
    record: Record = {"id": identity, "memory": payload.get("data")}
    record |= {name: payload[name] for name in (*_PROMOTED, "linked_memory_ids") if name in payload}
    own = (*_PROMOTED, *_OWN, "linked_memory_ids")
    others = {name: value for name, value in payload.items() if name not in own}
    return record | ({"metadata": others} if others else {})
