"""server-memory, the MCP reference server: the entities and relations of its `memory.jsonl`. Pure except for reading
it.

The file has no times, so everything in it gets the file's modification time.
"""

from datetime import datetime
from pathlib import Path

from api.importing.mapping import NAME_CHARS, ImportRow, Mapped, Record, Step, needed, related, text, texts
from api.importing.source import ImportRequest, Source, Unusable, lines, modified, of_rows
from ingest.commands.decide import Remember
from ingest.errors import CommandRejected

SYSTEM = PROJECT = "server-memory"
"""Also the project of what it remembers, which has none."""
ENTITY, RELATION, LINE = "entity", "relation", "line"


def mapped(row: ImportRow, project: str, at: datetime) -> Mapped:
    """A memory for each observation of an entity, or a relation; raises CommandRejected for any other line."""
    record, lost = row.value, list[str]()
    if row.kind == RELATION:
        ends = needed(record, "from"), needed(record, "relationType"), needed(record, "to")
        return Mapped(related(project, *ends, at, lost), lost)
    if row.kind != ENTITY:
        raise CommandRejected(
            f"must be entity or relation, not {text(record, 'type')[:40] or 'something else'!r}", "type"
        )
    name, kind = needed(record, "name"), text(record, "entityType")
    observed = texts(record, "observations", lost) or [f"{name} is of type {kind}" if kind else name]
    steps: list[Step] = []
    for observation in dict.fromkeys(observed):
        command = Remember(
            project=project,
            content=observation if name.lower() in observation.lower() else f"{name}: {observation}",
            title=name[:NAME_CHARS],
            tags=[kind[:NAME_CHARS]] if kind else [],
            concepts=[name[:NAME_CHARS]],
            keep_duplicates=True,
        )
        steps.append(Step(command, f"{ENTITY}\0{project}\0{name}\0{observation}", at))
    return Mapped(steps, lost)


def open_source(request: ImportRequest) -> Source:
    """The source of its file. Raises Unusable."""
    path = Path(request.required_location("its file, memory.jsonl"))
    project, at = request.project_or(PROJECT), modified(path)
    rows = list[ImportRow]()
    for number, entry in lines(path):
        record: Record = entry or {}
        called = text(record, "name") or " ".join(text(record, end) for end in ("from", "relationType", "to")).strip()
        kind = record.get("type")
        rows.append(ImportRow(kind if kind in (ENTITY, RELATION) else LINE, called or f"line {number}", record))
    if not any(row.kind in (ENTITY, RELATION) for row in rows):
        raise Unusable(f"{path} is not a server-memory file: no line is an entity or a relation")
    rows.sort(key=lambda row: (ENTITY, RELATION, LINE).index(row.kind))
    return of_rows(SYSTEM, rows, lambda row: mapped(row, project, at), project)
