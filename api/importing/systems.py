"""Which systems there are, and how what a person names becomes a source."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, TypeAlias, cast

from api.dialects.agent_memory import importer as agent_memory
from api.dialects.agentd import importer as agentd
from api.dialects.agentmemory import importer as agentmemory
from api.dialects.memex import importer as memex
from api.dialects.registry import DIALECTS
from api.importing import claude_mem, rest, transcripts
from api.importing.mapping import ImportRow, Record, text, whole
from api.importing.source import Map, Source, Unusable, WholeSource, document, fingerprint_of, is_sqlite, listed
from api.importing.sql import Database, Postgres, Section, Sqlite, SqlSource, is_postgres
from api.importing.tables import agent_memory_sections, agentmemory_tables, claude_mem_sections, memex_sections
from api.importing.transcripts import USUAL, Format, LinesSource
from ingest.errors import CommandRejected
from ingest.platform.settings import DROP_INS

LOOKED_AT = 1_000
"""Rows by whose names an export of our own is recognised."""
_OURS = re.compile(r"(obs|mem)_[0-9a-f]{20}")
CLAUDE_MEM_FILE = Path(".claude-mem/claude-mem.db")


class ImportRequest(NamedTuple):
    """What to import: the location as it was given, and what else was."""

    location: str
    tenant: str
    secret: str = ""
    project: str | None = None
    form: Format = Format.AUTO


Opener: TypeAlias = Callable[[ImportRequest], Source]


def opened(system: str, wanted: ImportRequest) -> Source:
    """The source of a system; raises Unusable."""
    try:
        opener: Opener = _OTHERS[system] if system in _OTHERS else resolve_name(DIALECTS[system].importer)
        return opener(wanted)
    except CommandRejected as fault:
        raise Unusable(str(fault)) from None


def shown(location: str) -> str:
    """A location without the password in it."""
    scheme, mark, rest_of_it = location.partition("://")
    return f"{scheme}{mark}{rest_of_it.rpartition('@')[2]}" if mark else location


def agentmemory_source(wanted: ImportRequest) -> Source:
    """The source of an export, of its SQLite file, or of a running server. Raises Unusable."""
    place = _place(wanted, "an export file, its SQLite file, or the URL of its server")
    export: Any
    if rest.is_url(place):
        with rest.RestServer(place, wanted.secret) as server:
            export = rest.agentmemory_export(server)
    elif is_sqlite(Path(place)):
        with closing(Sqlite(Path(place))) as database:
            export = agentmemory_tables(database)
    else:
        export = document(Path(place))
    if not isinstance(export, dict):
        raise Unusable(f"{place} is no export of agentmemory: it is no JSON object")
    fields = {name: value for name, value in cast(Record, export).items() if name != "exportedAt"}
    found = agentmemory.Export(fields, wanted.tenant)
    source = WholeSource(agentmemory.SYSTEM, found.rows, found.total, found.mapped, fingerprint_of(fields))
    if any(_OURS.fullmatch(row.name) for row in islice(found.rows(), LOOKED_AT)):
        source.notes.append("mnemolog made this export: on the server that made it, everything would be there twice")
    pagination = fields.get("pagination")
    if not rest.is_url(place) and isinstance(pagination, dict) and cast(Record, pagination).get("hasMore"):
        source.notes.append("the file is one page of an export: import the others, too, or from the running server")
    return source


def agentd_source(wanted: ImportRequest) -> Source:
    """The source of a running server, or of what `GET /memories` answered. Raises Unusable."""
    place = _place(wanted, "the URL of its server, or a file with what GET /memories answers")
    project = agentd.PROJECT if wanted.project is None else wanted.project
    if rest.is_url(place):
        with rest.RestServer(place, wanted.secret) as server:
            found = rest.agentd_memories(server)
    else:
        found = _list_in(Path(place), "items", "memories")
    rows = _rows(found, agentd.KIND, "created_at")
    return WholeSource(
        agentd.SYSTEM,
        lambda: iter(rows),
        len(rows),
        lambda row: agentd.mapped(row, wanted.tenant, project),
        fingerprint_of([wanted.project, found]),
    )


def agent_memory_source(wanted: ImportRequest) -> Source:
    """The source of a running server, or of its PostgreSQL database. Raises Unusable."""
    place = _place(wanted, "the URL of its server or of its PostgreSQL database")
    if is_postgres(place):
        tables = agent_memory_sections
        return _tables(
            agent_memory.SYSTEM, Postgres(place), tables, lambda row: agent_memory.mapped(row, wanted.tenant)
        )
    if not rest.is_url(place):
        raise Unusable(f"{place!r} is neither an http:// nor a postgresql:// URL")
    with rest.RestServer(place, wanted.secret) as server:
        found = rest.AgentMemory(server)
    rows = list(_server_rows(found))
    source = WholeSource(
        agent_memory.SYSTEM,
        lambda: iter(rows),
        len(rows),
        lambda row: agent_memory.mapped(row, wanted.tenant),
        fingerprint_of([row.value for row in rows]),
    )
    source.notes += [*found.cut, *(["its database has what its server does not list"] if found.cut else [])]
    return source


def _server_rows(found: rest.AgentMemory) -> Iterator[ImportRow]:
    """The rows of an agent-memory server: its observations name their sessions by number."""
    called = {one.get("id"): text(one, "session_id") for one in found.sessions}
    observed: dict[str, list[Record]] = {}
    for one in sorted(found.observations, key=lambda one: whole(one, "id")):
        name = called.get(one.get("session_id")) or f"session-{one.get('session_id')}"
        observed.setdefault(name, []).append({**one, "session": name})
    known = [*sorted(found.sessions, key=lambda one: text(one, "started_at"))]
    for name in observed.keys() - set(called.values()):
        first = observed[name][0]
        known.append({"session_id": name, "project": first.get("project_name"), "started_at": first.get("created_at")})
    for one in known:
        one["observation_count"] = len(observed.get(text(one, "session_id"), []))
    yield from (ImportRow(agent_memory.SESSION, text(one, "session_id"), one) for one in known)
    for rows in observed.values():
        yield from (ImportRow(agent_memory.OBSERVATION, text(one, "id"), one) for one in rows)
    yield from _rows(found.lessons, agent_memory.LESSON_ROW, "created_at")
    yield from (ImportRow(agent_memory.END, text(one, "session_id"), one) for one in known)


def memex_source(wanted: ImportRequest) -> Source:
    """The source of its PostgreSQL database, or of a JSON file of memories. Raises Unusable."""
    place = _place(wanted, "the URL of its PostgreSQL database, or a JSON file of its memories")
    if is_postgres(place):
        return _tables(memex.SYSTEM, Postgres(place), memex_sections, memex.mapped)
    if rest.is_url(place):
        raise Unusable("memex's server lists no memories: name its PostgreSQL database, or a JSON file of them")
    found = _list_in(Path(place), "results", "memories", "items")
    rows = _rows(found, memex.MEMORY, "created_at")
    return WholeSource(memex.SYSTEM, lambda: iter(rows), len(rows), memex.mapped, fingerprint_of(found))


def _claude_mem(wanted: ImportRequest) -> Source:
    path = Path(wanted.location) if wanted.location else Path.home() / CLAUDE_MEM_FILE
    if not is_sqlite(path):
        raise Unusable(f"{path} is no SQLite file")
    return _tables(claude_mem.SYSTEM, Sqlite(path), claude_mem_sections, claude_mem.mapped)


def _jsonl(wanted: ImportRequest) -> Source:
    if wanted.location:
        return LinesSource(Path(wanted.location).expanduser(), wanted.form)
    if wanted.form in USUAL:
        return LinesSource(USUAL[wanted.form](), wanted.form)
    raise Unusable("jsonl needs a location: a file, or a folder with .jsonl files")


_OTHERS: dict[str, Opener] = {claude_mem.SYSTEM: _claude_mem, transcripts.SYSTEM: _jsonl}
SYSTEMS = (*(name for name in ("agentmemory", *DROP_INS) if DIALECTS[name].importer), *_OTHERS)
"""What can be named: the imitated systems that have an importer, and others."""


def _tables(system: str, database: Database, sections: Callable[[Database], list[Section]], mapped: Map) -> SqlSource:
    """The tables of a database, which is given back when they are not there."""
    try:
        return SqlSource(system, database, sections(database), mapped)
    except Unusable:
        database.close()
        raise


def _place(wanted: ImportRequest, what: str) -> str:
    if not wanted.location:
        raise Unusable(f"a location is needed: {what}")
    return wanted.location


def _list_in(path: Path, *fields: str) -> list[Record]:
    """The objects of the list in a file; what is none of them becomes an empty one, and is refused with a reason."""
    found = listed(document(path), *fields)
    if found is None:
        raise Unusable(f"{path} has no list, nor an object with one as {' or '.join(map(repr, fields))}")
    return [cast(Record, one) if isinstance(one, dict) else {} for one in found]


def _rows(found: list[Record], kind: str, time: str) -> list[ImportRow]:
    """Rows by time, the oldest first."""
    ordered = sorted(enumerate(found), key=lambda one: (text(one[1], time), text(one[1], "id"), one[0]))
    return [ImportRow(kind, text(one, "id") or f"number {place}", one) for place, one in ordered]
