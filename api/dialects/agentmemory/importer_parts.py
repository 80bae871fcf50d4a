"""Parts of the importer: the order of rows, sessions that no list has, lessons, slots, observations. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from api.importing import sessions as lessons
from api.importing.mapping import (
    ImportRow,
    Mapped,
    Record,
    Step,
    names,
    needed,
    number,
    text,
    texts,
    when,
    when_given,
    whole,
)
from api.importing.rest import MAX_ITEMS, RestServer
from api.importing.sessions import UNKNOWN_PROJECT
from api.importing.source import (
    Unusable,
    decoded,
)
from api.importing.sql import Database
from ingest.commands.requests import RecordLesson, ReinforceLesson, SetSlot
from ingest.errors import CommandRejected
from ingest.events.lesson import EVERY_PROJECT
from ingest.events.observation import ObservationCompressed
from projections.compression.compression import CONFIDENCE, compress

LESSON, SLOT, MODEL = "lesson", "slot", "agentmemory"
_SCOPES = {
    "sessions": "mem:sessions",
    "memories": "mem:memories",
    "summaries": "mem:summaries",
    "lessons": "mem:lessons",
    "slots": "mem:slots",
    "relations": "mem:relations",
    "actions": "mem:actions",
    "actionEdges": "mem:action-edges",
}
_OBSERVATIONS = "mem:obs:"
LOOKED_AT = 1_000
"""Rows by whose names an export of our own is recognised."""
OURS = re.compile(r"(obs|mem)_[0-9a-f]{20}")
AGENTMEMORY_SESSIONS = 100


def lesson(row: ImportRow, tenant: str) -> Mapped:
    """A lesson with its confidence as of when that was last changed."""
    record, lost = row.value, list[str]()
    if record.get("deleted"):
        raise CommandRejected("it is deleted there", "deleted")
    project, content = text(record, "project") or EVERY_PROJECT, needed(record, "content")
    created = when(record, "createdAt")
    reinforced = max(created, when_given(record, "lastReinforcedAt") or created)
    until = max(reinforced, when_given(record, "lastDecayedAt") or reinforced)
    confidence = min(1.0, max(0.0, number(record, "confidence", 0.5)))
    count = whole(record, "reinforcements")
    past = lessons.history(confidence, count, created, reinforced, until)
    if count > lessons.MAX_REINFORCEMENTS:
        lost.append(f"reinforcements: more than {lessons.MAX_REINFORCEMENTS}")
    began = created
    if not past.leads_to(confidence) and reinforced > created:
        late = lessons.history(confidence, count, reinforced, reinforced, until)
        if late.leads_to(confidence):
            past, began = late, reinforced
            lost.append("createdAt: no history from then on leads to the confidence")
    if not past.leads_to(confidence):
        lost.append("confidence: no history with as many confirmations leads to it")
    recorded = RecordLesson(
        project=project,
        content=content,
        context=text(record, "context"),
        confidence=past.began_with,
        tags=names(record, "tags", lost),
        origin=text(record, "source") or "manual",
        occurred_at=created,
    )
    key, name = f"{LESSON}\0{row.name}", lessons.lesson_id(tenant, project, content)
    steps = [Step(recorded, key, began)]
    for place, at in enumerate(past.confirmed):
        steps.append(Step(ReinforceLesson(project=project, lesson=name), f"{key}\0confirmed {place}", at))
    return Mapped(steps, lost)


def slot(record: Record) -> Mapped:
    """A slot as it was created and as it was last written."""
    created = when_given(record, "createdAt") or when_given(record, "updatedAt")
    if created is None:
        raise CommandRejected("nobody has written to it", "content")
    updated = when_given(record, "updatedAt") or created
    scope, limit = text(record, "scope"), whole(record, "sizeLimit")
    project = "" if scope == "global" else text(record, "project")
    content: Any = record.get("content")
    pinned: Any = record.get("pinned")
    command = SetSlot(
        project=project,
        label=needed(record, "label"),
        content=content if isinstance(content, str) else "",
        scope="global" if scope == "global" else "project",
        size_limit=limit or None,
        description=text(record, "description"),
        pinned=pinned if isinstance(pinned, bool) else None,
        read_only=True if record.get("readOnly") is True else None,
    )
    key = f"{SLOT}\0{command.scope}\0{project}\0{command.label}"
    steps = [Step(command, f"{key}\0{created.isoformat()}", created)]
    if updated > created:
        steps.append(Step(command, f"{key}\0{updated.isoformat()}", updated))
    return Mapped(steps)


def compressed(
    record: Record, kind: str, content: str, data: Mapping[str, Any], lost: list[str]
) -> ObservationCompressed | None:
    """How an observation was compressed there, when our rules make something else of it."""
    ours = compress(kind, content, dict(data))
    stated = ObservationCompressed(
        observation="",
        title=text(record, "title"),
        narrative=text(record, "narrative"),
        facts=texts(record, "facts", lost),
        concepts=texts(record, "concepts", lost),
        files=texts(record, "files", lost),
        importance=min(10, max(1, whole(record, "importance") or 5)),
        model=MODEL,
        prompt_version="",
    )
    by_rule = number(record, "confidence", CONFIDENCE) <= CONFIDENCE
    if not stated.title or (by_rule and (stated.title, stated.narrative) == (ours.title, ours.narrative)):
        return None
    if by_rule and data and not (stated.facts or stated.concepts):
        return None  # its own rules' work, from what ours work from
    return stated


def raw_of(record: Record) -> Record:
    """What was observed, as it came; empty when the export has only what was made of it."""
    raw: Any = record.get("raw")
    if isinstance(raw, dict) and raw:
        return dict(cast(Record, raw))
    fields = {"tool_name": "toolName", "tool_input": "toolInput", "tool_output": "toolOutput", "prompt": "userPrompt"}
    found = {ours: record[theirs] for ours, theirs in fields.items() if record.get(theirs) is not None}
    if isinstance(raw, str) and raw:
        found.setdefault("content", raw)
    return found


def versions(memories: Iterator[ImportRow]) -> Iterator[ImportRow]:
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
    return {"id": name, "project": UNKNOWN_PROJECT, **span}


def project_of(session: Record) -> str:
    """The project of a session."""
    return text(session, "project") or UNKNOWN_PROJECT


def row_of(kind: str, value: object, place: str, **more: str) -> ImportRow:
    """A row; what is no object is an empty one, and so is refused with a reason."""
    record: Record = dict(cast(Record, value)) if isinstance(value, dict) else {}
    return ImportRow(kind, text(record, "id", "label", "sessionId") or f"number {place}", {**record, **more})


def rows_of(kind: str, export: Mapping[str, Any], field: str) -> Iterator[ImportRow]:
    """The rows of a list."""
    return (row_of(kind, one, f"{place}") for place, one in enumerate(listed(export, field)))


def listed(export: Mapping[str, Any], field: str) -> list[Any]:
    """What a list has; nothing when there is none."""
    found: Any = export.get(field)
    return cast("list[Any]", found) if isinstance(found, list) else []


def records(export: Mapping[str, Any], field: str) -> list[Record]:
    """The objects in a list."""
    return [cast(Record, one) for one in listed(export, field) if isinstance(one, dict)]


def agentmemory_export(server: RestServer) -> Record:
    """The whole export of an agentmemory server, gathered from pages of sessions."""
    whole: Record = {}
    while True:
        page: Any = server.get(
            "/agentmemory/export",
            maxSessions=AGENTMEMORY_SESSIONS,
            offset=len(cast("list[Any]", whole.get("sessions", []))),
        )
        if not isinstance(page, dict) or not isinstance(cast(Record, page).get("sessions"), list):
            fault: Any = cast(Record, page).get("error") if isinstance(page, dict) else None
            raise Unusable(f"{server.url} answered no export of agentmemory{f': {fault}' if fault else ''}")
        part = cast(Record, page)
        if not whole:
            whole = part
        else:
            whole["sessions"] += part["sessions"]
            whole["observations"] = {**(whole.get("observations") or {}), **(part.get("observations") or {})}
        pagination = cast(Mapping[str, Any], part.get("pagination") or {})
        if not pagination.get("hasMore") or not part["sessions"]:
            return whole
        if len(whole["sessions"]) > MAX_ITEMS:
            raise Unusable(f"{server.url} has over {MAX_ITEMS:,} sessions")


def agentmemory_tables(database: Database) -> Record:
    """The export object of an agentmemory file, a table of JSON values by scope and key. Raises Unusable."""
    if not {"scope", "key", "value"} <= database.columns("kv_store"):
        raise Unusable("this is no file of agentmemory: it has no table `kv_store`")
    export: Record = {name: _values(database, scope) for name, scope in _SCOPES.items()}
    scopes = database.ask(
        "SELECT DISTINCT scope FROM kv_store WHERE scope >= ? AND scope < ? ORDER BY scope",
        [_OBSERVATIONS, f"{_OBSERVATIONS}\U0010ffff"],
    )
    export["observations"] = {
        one["scope"].removeprefix(_OBSERVATIONS): _values(database, one["scope"]) for one in scopes
    }
    return export


def _values(database: Database, scope: str) -> list[Any]:
    """The values of a scope, oldest first as far as ids tell; what is no JSON stays a text, and is refused later."""
    found = database.ask("SELECT value FROM kv_store WHERE scope = ? ORDER BY key", [scope])
    return [_value(one["value"]) for one in found]


def _value(stored: Any) -> Any:
    try:
        return decoded(stored if isinstance(stored, bytes) else str(stored).encode(), "a value")
    except Unusable:
        return stored
