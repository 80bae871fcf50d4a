"""The tables of claude-mem and agentmemory (SQLite), agent-memory and memex (PostgreSQL), as what is imported."""

from typing import Any

from api.dialects.agent_memory import importer as agent_memory
from api.dialects.memex import importer as memex
from api.importing import claude_mem
from api.importing.mapping import Record
from api.importing.source import Unusable, decoded
from api.importing.sql import Database, Section

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
_SEEN = ("observations", "session_summaries")
_ASKED_IN = "coalesce(s.memory_session_id, s.content_session_id)"
"""The session of a prompt: what was asked before claude-mem knew its own session has only Claude Code's."""


def claude_mem_sections(database: Database) -> list[Section]:
    """The sections of a claude-mem file; only `observations` must be there. Raises Unusable when it is not."""
    seen = [table for table in _SEEN if {"memory_session_id", "project"} <= database.columns(table)]
    if "observations" not in seen:
        raise Unusable("this is no file of claude-mem: it has no table `observations` with sessions and projects")
    epoch = "created_at_epoch" in database.columns("observations")
    known = {"memory_session_id", "content_session_id"} <= database.columns("sdk_sessions")
    prompts = known and "prompt_text" in database.columns("user_prompts")
    counted = " UNION ALL ".join(
        f"SELECT memory_session_id, project, created_at, {'created_at_epoch' if epoch else 'NULL'} AS epoch,"
        f" {int(table == 'observations')} AS observed FROM {table}"
        for table in seen
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
        f"SELECT s.*, {_named(database, 'sdk_sessions', 'k', _OF_SESSIONS)} FROM ({sessions}) s"
        " LEFT JOIN sdk_sessions k ON k.memory_session_id = s.session_id"
        if known
        else sessions
    )
    key = ("session_id", "project")
    found = [Section(claude_mem.SESSION, whole, key, "session_id")]
    if prompts:
        found.append(
            Section(
                claude_mem.PROMPT,
                f"SELECT p.id, p.prompt_text, p.created_at, p.created_at_epoch, {_ASKED_IN} AS session_id,"
                " s.project FROM user_prompts p JOIN sdk_sessions s USING (content_session_id)",
                ("id",),
                "id",
            )
        )
    found.append(
        Section(claude_mem.OBSERVATION, "SELECT *, memory_session_id AS session_id FROM observations", ("id",), "id")
    )
    if "session_summaries" in seen:
        query = (
            "SELECT t.*, t.memory_session_id AS session_id, s.observation_count FROM session_summaries t"
            f" JOIN ({sessions}) s ON s.session_id = t.memory_session_id AND s.project = t.project"
        )
        found.append(Section(claude_mem.SUMMARY, query, ("id",), "id"))
    return [*found, Section(claude_mem.END, whole, key, "session_id")]


_OF_SESSIONS = ("custom_title", "user_prompt", "platform_source", "started_at_epoch", "status", "completed_at_epoch")


def agent_memory_sections(database: Database) -> list[Section]:
    """The sections of an agent-memory database. Raises Unusable when it is none."""
    if not {"session_id", "project_id"} <= database.columns("mem_sessions"):
        raise Unusable("this is no database of agent-memory: it has no table `mem_sessions`")
    sessions = (
        "SELECT s.id, s.session_id, p.name AS project_name, p.full_path AS project_path, s.agent_type, s.status,"
        " s.started_at, s.completed_at, s.summary,"
        " (SELECT count(*) FROM mem_observations o WHERE o.session_id = s.id{}) AS observation_count"
        " FROM mem_sessions s JOIN mem_projects p ON p.id = s.project_id"
    )
    prompts = "prompt_text" in database.columns("mem_user_prompts")
    also = " AND o.project_id = s.project_id"
    if prompts:
        also += ") + (SELECT count(*) FROM mem_user_prompts u WHERE u.session_id = s.id"
    sessions = sessions.format(also)
    found = [Section(agent_memory.SESSION, sessions, ("id",), "session_id")]
    if prompts:
        query = (
            "SELECT u.id, u.prompt_text, u.created_at, s.session_id AS session, p.name AS project_name"
            " FROM mem_user_prompts u JOIN mem_sessions s ON s.id = u.session_id"
            " JOIN mem_projects p ON p.id = s.project_id"
        )
        found.append(Section(agent_memory.PROMPT, query, ("id",), "id"))
    found.append(
        Section(
            agent_memory.OBSERVATION,
            "SELECT o.id, s.session_id AS session, p.name AS project_name, o.title, o.subtitle, o.type, o.narrative,"
            " o.facts, o.concepts, o.files_read, o.files_modified, o.raw_text, o.tool_name, o.prompt_number,"
            " o.created_at FROM mem_observations o JOIN mem_sessions s ON s.id = o.session_id"
            " JOIN mem_projects p ON p.id = o.project_id",
            ("id",),
            "id",
        )
    )
    if "rule" in database.columns("mem_lessons"):
        query = (
            "SELECT l.id, p.name AS project_name, l.title, l.rule, l.severity, l.trigger_tool, l.trigger_pattern,"
            " l.source_observation_id, l.trigger_count, l.last_triggered_at, l.active, l.created_at"
            " FROM mem_lessons l LEFT JOIN mem_projects p ON p.id = l.project_id"
        )
        found.append(Section(agent_memory.LESSON_ROW, query, ("id",), "id"))
    return [*found, Section(agent_memory.END, sessions, ("id",), "session_id")]


def memex_sections(database: Database) -> list[Section]:
    """The one section of a memex database. Raises Unusable when it is none."""
    columns = ("id", "agent_id", "user_id", "content", "importance", "memory_type", "created_at")
    if not set(columns) <= database.columns("memories"):
        raise Unusable("this is no database of memex: it has no table `memories` with agents and users")
    query = f"SELECT {', '.join(columns)} FROM memories"
    return [Section(memex.MEMORY, query, ("created_at", "id"), "id")]


def _named(database: Database, table: str, alias: str, wanted: tuple[str, ...]) -> str:
    """Those of the columns that a table has, the others as NULL."""
    known = database.columns(table)
    return ", ".join(f"{alias}.{name}" if name in known else f"NULL AS {name}" for name in wanted)


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
