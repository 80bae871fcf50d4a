"""claude-mem: sessions, prompts, observations and summaries of its SQLite file. Pure."""

from pathlib import Path

from api.dialects.agent_memory import importer as agent_memory
from api.dialects.agent_memory.importer import project_of, session_of
from api.importing import sessions
from api.importing.mapping import ImportRow, Mapped, Record, text, texts, when, when_given, whole
from api.importing.source import ImportRequest, Source, Unusable, is_sqlite
from api.importing.sql import Database, Section, Sqlite, named_or_null, tables_source
from ingest.errors import CommandRejected

SYSTEM = "claude-mem"
SESSION, PROMPT, OBSERVATION, SUMMARY, END = "session", "prompt", "observation", "summary", "session end"
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
    match row.kind:
        case "session":
            return _session(row.value)
        case "prompt":
            return agent_memory.prompt(row, "created_at_epoch", "created_at")
        case "observation":
            return agent_memory.observation(row, SYSTEM)
        case "summary":
            return _summary(row)
        case _:
            return _end(row.value)


def _session(record: Record) -> Mapped:
    title = " ".join(text(record, "custom_title", "user_prompt").split())
    at = when(record, "started_at_epoch", "first_epoch", "first_at")
    source = text(record, "platform_source")
    return Mapped([sessions.started(project_of(record), session_of(record), at, title=title, agent_type=source)])


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


def _end(record: Record) -> Mapped:
    """That a session is over, when it says so or when nothing says that it is not."""
    status = text(record, "status") or "completed"
    if status == "active":
        raise CommandRejected("the session goes on there")
    at = when_given(record, "completed_at_epoch", "last_epoch") or when(record, "last_at")
    outcome = "failed" if status == "failed" else "completed"
    return Mapped([sessions.ended(project_of(record), session_of(record), at, outcome=outcome)])


def claude_mem_sections(database: Database) -> list[Section]:
    """The sections of a claude-mem file; only `observations` must be there. Raises Unusable when it is not."""
    tables = [table for table in _SEEN if {"memory_session_id", "project"} <= database.columns(table)]
    if "observations" not in tables:
        raise Unusable("this is no file of claude-mem: it has no table `observations` with sessions and projects")
    epoch = "created_at_epoch" in database.columns("observations")
    has_sessions = {"memory_session_id", "content_session_id"} <= database.columns("sdk_sessions")
    prompts = has_sessions and "prompt_text" in database.columns("user_prompts")
    counted = " UNION ALL ".join(
        f"SELECT memory_session_id, project, created_at, {'created_at_epoch' if epoch else 'NULL'} AS epoch,"
        f" {int(table == 'observations')} AS observed FROM {table}"
        for table in tables
    )
    if prompts:
        counted += (
            f" UNION ALL SELECT {_ASKED_IN}, s.project, p.created_at, p.created_at_epoch, 1"
            " FROM user_prompts p JOIN sdk_sessions s USING (content_session_id)"
        )
    sessions = (
        "SELECT memory_session_id AS session_id, project, min(created_at) AS first_at, max(created_at) AS last_at,"
        " min(epoch) AS first_epoch, max(epoch) AS last_epoch, sum(observed) AS observation_count"
        f" FROM ({counted}) GROUP BY memory_session_id, project"
    )
    # the project of the observations, not the session's own, is where they are
    whole = (
        f"SELECT s.*, {named_or_null(database, 'sdk_sessions', 'k', _OF_SESSIONS)} FROM ({sessions}) s"
        " LEFT JOIN sdk_sessions k ON k.memory_session_id = s.session_id"
        if has_sessions
        else sessions
    )
    key = ("session_id", "project")
    sections = [Section(SESSION, whole, key, "session_id")]
    if prompts:
        sections.append(
            Section(
                PROMPT,
                f"SELECT p.id, p.prompt_text, p.created_at, p.created_at_epoch, {_ASKED_IN} AS session_id,"
                " s.project FROM user_prompts p JOIN sdk_sessions s USING (content_session_id)",
                ("id",),
                "id",
            )
        )
    sections.append(Section(OBSERVATION, "SELECT *, memory_session_id AS session_id FROM observations", ("id",), "id"))
    if "session_summaries" in tables:
        query = (
            "SELECT t.*, t.memory_session_id AS session_id, s.observation_count FROM session_summaries t"
            f" JOIN ({sessions}) s ON s.session_id = t.memory_session_id AND s.project = t.project"
        )
        sections.append(Section(SUMMARY, query, ("id",), "id"))
    return [*sections, Section(END, whole, key, "session_id")]


def open_source(request: ImportRequest) -> Source:
    path = Path(request.location) if request.location else Path.home() / CLAUDE_MEM_FILE
    if not is_sqlite(path):
        raise Unusable(f"{path} is no SQLite file")
    return tables_source(SYSTEM, Sqlite(path), claude_mem_sections, mapped)
