"""agentd: memories with readers. Pure.

agentd knows no projects; a memory goes to PROJECT, or to the project of the import. Nothing is superseded there, so
nothing is here.
"""

from pathlib import Path
from typing import cast, get_args

from api.dialects.agentd.records import ID, KIND, PROJECT, SYSTEM, key, memory_id
from api.importing.mapping import ImportRow, Mapped, Record, Step, names, needed, text, when, when_given
from api.importing.source import (
    ImportRequest,
    RestServer,
    Source,
    is_url,
    list_in,
    of_rows,
    rows_by_time,
)
from ingest.commands.decide import ChangeVisibility, Remember
from ingest.errors import CommandRejected
from ingest.nouns.memory import Purpose, Visibility

PAGE = 200


def mapped(row: ImportRow, tenant: str, project: str) -> Mapped:
    """The memory of a row, and who may read it now; raises CommandRejected when it cannot be taken."""
    record, lost = row.value, list[str]()
    author, visibility = needed(record, "created_by"), _one_of(record, "visibility", Visibility, "public")
    shared_with = names(record, "shared_with", lost)
    command = Remember(
        project=project,
        agent_id=author,
        content=needed(record, "content"),
        purpose=cast(Purpose, _one_of(record, "type", Purpose, "information")),
        tags=names(record, "tags", lost),
        references=[memory_id(tenant, project, name) for name in names(record, "references", lost)],
        visibility=cast(Visibility, visibility),
        shared_with=shared_with,
        owner=text(record, "owner"),
        keep_duplicates=True,
        metadata={ID: row.name},
    )
    created = when(record, "created_at")
    steps = [Step(command, key(row.name), created)]
    changed = when_given(record, "updated_at") or created
    if changed > created:
        change = ChangeVisibility(
            project=project,
            agent_id=author,
            memory=memory_id(tenant, project, row.name),
            visibility=cast(Visibility, visibility),
            shared_with=shared_with,
        )
        steps.append(Step(change, f"{key(row.name)}\0visibility", changed))
    return Mapped(steps, lost)


def _one_of(record: Record, field: str, choices: object, otherwise: str) -> str:
    value = text(record, field).lower() or otherwise
    if value not in get_args(choices):
        raise CommandRejected(f"is not one of {', '.join(get_args(choices))}", field)
    return value


def open_source(request: ImportRequest) -> Source:
    """The source of a running server, or of what `GET /memories` answered. Raises Unusable."""
    location = request.required_location("the URL of its server, or a file with what GET /memories answers")
    project = request.project_or(PROJECT)
    if is_url(location):
        with RestServer(location, request.secret) as server:
            records = server.pages("/memories", "items", PAGE)
    else:
        records = list_in(Path(location), "items", "memories")
    rows = rows_by_time(records, KIND, "created_at")
    return of_rows(SYSTEM, rows, lambda row: mapped(row, request.tenant, project), project)
