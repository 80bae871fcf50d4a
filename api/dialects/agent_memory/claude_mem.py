"""claude-mem: sessions, prompts, tool calls, observations and summaries of its SQLite file. Pure.

What was observed in a worktree that was merged is in the project that it was merged into, as claude-mem shows it there.
"""

from pathlib import Path
from typing import Any

import msgspec

from api.dialects.agent_memory.importer import fields_in, key_and_time, project_of, prompt, session_of
from api.dialects.agent_memory.records import observe_compressed
from api.importing import sessions
from api.importing.claude_code import cut
from api.importing.mapping import (
    NAME_CHARS,
    ImportRow,
    Mapped,
    Step,
    needed,
    text,
    texts,
    when,
    when_given,
    whole,
)
from api.importing.source import ImportRequest, Source, Unusable, is_sqlite, newer
from api.importing.sql import Database, Section, Sqlite, named_or_null, tables_source
from ingest.errors import CommandRejected
from ingest.nouns.observation import ObservationCompressed
from projections.text.compression import VALID_TYPES, compress

SYSTEM = "claude-mem"
SESSION, PROMPT, TOOL_USE, OBSERVATION = "session", "prompt", "tool use", "observation"
SUMMARY, END = "summary", "session end"
LAST_SCHEMA = "52"
"""The newest version of its tables that is known: claude-mem 13.25's."""
_PARTS = {
    "investigated": "Investigated", "learned": "Learned", "completed": "Completed", "next_steps": "Next steps",
    "notes": "Notes",
}  # fmt: skip
CLAUDE_MEM_FILE = Path(".claude-mem/claude-mem.db")
_SEEN = ("observations", "session_summaries")
_ASKED_IN = "coalesce(s.memory_session_id, s.content_session_id)"
_OF_SESSIONS = ("custom_title", "user_prompt", "platform_source", "started_at_epoch", "status", "completed_at_epoch")


def mapped(row: ImportRow) -> Mapped:
    """What a row says; raises CommandRejected when it cannot be taken."""
    return _MAPPINGS[row.kind](row)


def _session(row: ImportRow) -> Mapped:
    record = row.value
    title = " ".join(text(record, "custom_title", "user_prompt").split())
    at = when(record, "started_at_epoch", "first_epoch", "first_at")
    source = text(record, "platform_source")
    return Mapped([sessions.started(project_of(record), session_of(record), at, title=title, agent_type=source)])


def _prompt(row: ImportRow) -> Mapped:
    return prompt(row, "created_at_epoch", "created_at")


def _tool_use(row: ImportRow) -> Mapped:
    record, lost = row.value, list[str]()
    project, session_id, tool = project_of(record), session_of(record), needed(record, "tool_name")[:NAME_CHARS]
    values = (cut(_decoded(record.get(field)), lost) for field in ("tool_input", "tool_response"))
    command = sessions.acted(
        project, session_id, tool, *values, failed=False, agent=text(record, "agent_id")[:NAME_CHARS]
    )
    return Mapped([Step(command, *key_and_time(row, "created_at_epoch", "created_at"))], lost)


def _decoded(value: Any) -> Any:
    """What a text of JSON says; any other text as it is."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, UnicodeError):
        return value


def _observation(row: ImportRow) -> Mapped:
    """An observation, and how claude-mem compressed it."""
    record, lost = row.value, list[str]()
    fields, kind = fields_in(record, lost), text(record, "type")
    kind = kind if kind in VALID_TYPES else fields.type
    metadata = {name: text(record, name)[:NAME_CHARS] for name in ("agent_type", "metadata")}
    metadata["worktree"] = text(record, "project") if text(record, "project") != project_of(record) else ""
    command = observe_compressed(
        fields,
        kind,
        project_of(record),
        session_of(record),
        agent_id=text(record, "agent_id")[:NAME_CHARS],
        metadata={name: value for name, value in metadata.items() if value},
    )
    compressed = ObservationCompressed(
        observation="",
        title=fields.title,
        narrative=fields.narrative or "",
        facts=fields.facts,
        concepts=fields.concepts,
        files=[*fields.files_read, *fields.files_modified],
        importance=compress(kind, command.content).importance,
        model=text(record, "generated_by_model") or SYSTEM,
        prompt_version="",
    )
    return Mapped([Step(command, *key_and_time(row), compressed)], lost)


def _summary(row: ImportRow) -> Mapped:
    """A summary: the request is its title, the rest its narrative."""
    record, lost = row.value, list[str]()
    request = " ".join(text(record, "request").split())
    parts = [f"{title}: {part}" for field, title in _PARTS.items() if (part := text(record, field).strip())]
    if not request and not parts:
        raise CommandRejected("the summary says nothing", "request")
    step = sessions.summarised(
        SYSTEM,
        project_of(record),
        session_of(record),
        when(record, "created_at_epoch", "created_at"),
        name=row.name,
        title=request or "Session summary",
        narrative="\n".join(parts) or request,
        observations=whole(record, "observation_count"),
        files=list(dict.fromkeys([*texts(record, "files_edited", lost), *texts(record, "files_read", lost)])),
    )
    return Mapped([step], lost)


def _end(row: ImportRow) -> Mapped:
    """That a session is over, when it says so or when nothing says that it is not."""
    record = row.value
    status = text(record, "status") or "completed"
    if status == "active":
        raise CommandRejected("the session goes on there")
    at = when_given(record, "completed_at_epoch", "last_epoch") or when(record, "last_at")
    outcome = "failed" if status == "failed" else "completed"
    return Mapped([sessions.ended(project_of(record), session_of(record), at, outcome=outcome)])


_MAPPINGS = {
    SESSION: _session, PROMPT: _prompt, TOOL_USE: _tool_use, OBSERVATION: _observation, SUMMARY: _summary, END: _end,
}  # fmt: skip


def claude_mem_sections(database: Database) -> list[Section]:
    """The sections of a claude-mem file; only `observations` must be there. Raises Unusable when it is not."""
    tables = [table for table in _SEEN if {"memory_session_id", "project"} <= database.columns(table)]
    if "observations" not in tables:
        raise Unusable("this is no file of claude-mem: it has no table `observations` with sessions and projects")
    columns = {table: database.columns(table) for table in (*_SEEN, "sdk_sessions", "user_prompts", "tool_uses")}
    has_sessions = {"memory_session_id", "content_session_id"} <= columns["sdk_sessions"]
    prompts = has_sessions and "prompt_text" in columns["user_prompts"]
    tool_uses = has_sessions and {"content_session_id", "tool_name", "created_at_epoch"} <= columns["tool_uses"]
    at_home = {table: _at_home(table, columns[table]) for table in tables}
    merged = "nullif(max(merged_into_project), '')" if "merged_into_project" in columns["observations"] else "NULL"
    of_session = (
        f"LEFT JOIN (SELECT memory_session_id AS seen_in, project AS worktree, {merged} AS merged FROM observations"
        " GROUP BY memory_session_id, project) m ON m.seen_in = s.memory_session_id AND m.worktree = s.project"
    )
    prompted = (
        f"SELECT p.*, {_ASKED_IN} AS session_id, coalesce(m.merged, s.project) AS project_name FROM user_prompts p"
        f" JOIN sdk_sessions s USING (content_session_id) {of_session}"
    )
    used = (
        "SELECT t.*, coalesce(t.memory_session_id, s.memory_session_id, t.content_session_id) AS session_id,"
        " coalesce(m.merged, t.project) AS project_name FROM tool_uses t"
        f" LEFT JOIN sdk_sessions s ON s.content_session_id = t.content_session_id {of_session}"
    )
    counted = [
        f"SELECT memory_session_id, project_name, created_at,"
        f" {'created_at_epoch' if 'created_at_epoch' in columns['observations'] else 'NULL'} AS epoch,"
        f" {int(table == 'observations')} AS observed FROM {at_home[table]}"
        for table in tables
    ]
    more = [query for query, there in ((prompted, prompts), (used, tool_uses)) if there]
    counted += [f"SELECT session_id, project_name, created_at, created_at_epoch, 1 FROM ({query})" for query in more]
    sessions = (
        "SELECT memory_session_id AS session_id, project_name, min(created_at) AS first_at, max(created_at) AS last_at,"
        " min(epoch) AS first_epoch, max(epoch) AS last_epoch, sum(observed) AS observation_count"
        f" FROM ({' UNION ALL '.join(counted)}) GROUP BY memory_session_id, project_name"
    )
    # the project of the observations, not the session's own, is where they are
    whole = (
        f"SELECT s.*, {named_or_null(database, 'sdk_sessions', 'k', _OF_SESSIONS)} FROM ({sessions}) s"
        " LEFT JOIN sdk_sessions k ON k.memory_session_id = s.session_id"
        if has_sessions
        else sessions
    )
    key = ("session_id", "project_name")
    sections = [Section(SESSION, whole, key, "session_id")]
    sections += [Section(PROMPT, prompted)] * prompts + [Section(TOOL_USE, used)] * tool_uses
    observed = f"SELECT *, memory_session_id AS session_id FROM {at_home['observations']}"
    sections.append(Section(OBSERVATION, observed))
    if "session_summaries" in tables:
        query = (
            f"SELECT t.*, t.memory_session_id AS session_id, s.observation_count FROM {at_home['session_summaries']} t"
            f" JOIN ({sessions}) s ON s.session_id = t.memory_session_id AND s.project_name = t.project_name"
        )
        sections.append(Section(SUMMARY, query))
    return [*sections, Section(END, whole, key, "session_id")]


def _at_home(table: str, columns: set[str]) -> str:
    """The rows of a table with the project that each is in now: of a merged worktree, the one it was merged into."""
    merged = "nullif(merged_into_project, '')" if "merged_into_project" in columns else "NULL"
    return f"(SELECT *, coalesce({merged}, project) AS project_name FROM {table})"


def open_source(request: ImportRequest) -> Source:
    """The source of its SQLite file. Raises Unusable."""
    path = Path(request.location) if request.location else Path.home() / CLAUDE_MEM_FILE
    if not is_sqlite(path):
        raise Unusable(f"{path} is no SQLite file")
    database = Sqlite(path)
    source = tables_source(SYSTEM, database, claude_mem_sections, mapped)
    if "version" in database.columns("schema_versions"):
        version = database.ask("SELECT max(version) AS newest FROM schema_versions")[0]["newest"]
        source.notes += newer(f"the schema of {path}", str(version), LAST_SCHEMA)
    waiting = database.ask("SELECT count(*) AS n FROM pending_messages") if database.columns("pending_messages") else []
    if waiting and waiting[0]["n"]:
        source.notes.append(
            f"{waiting[0]['n']:,} tool calls in the queue of claude-mem (pending_messages) are left out"
        )
    return source
