"""agent-memory: sessions, observations and rules, as its tables and its REST answers have them. Pure.

A row of the REST API has the session's number where a table's row, joined, has its name; the reader of the rows puts
the name into `session`.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast, get_args

from api.dialects.agent_memory.records import ObservationFields, nearest_type, observe
from api.importing import sessions
from api.importing.mapping import (
    NAME_CHARS,
    ImportRow,
    Mapped,
    Record,
    Step,
    as_object,
    needed,
    text,
    texts,
    when,
    when_given,
    whole,
)
from api.importing.sessions import lesson_id
from api.importing.source import (
    ImportRequest,
    RestServer,
    Source,
    Unusable,
    is_url,
    of_rows,
    rows_by_time,
)
from api.importing.sql import Database, Postgres, Section, is_postgres, tables_source
from ingest.commands.decide import RecordLesson, ReinforceLesson, ReviseLesson, TriggerLesson
from ingest.errors import CommandRejected
from ingest.nouns.command import EVERY_PROJECT
from ingest.nouns.lesson import Severity

SYSTEM = "agent-memory"
SESSION, PROMPT, OBSERVATION, LESSON_ROW, END = "session", "prompt", "observation", "lesson", "session end"
MAX_TRIGGERED = 200
"""How often at most a rule is said to have been shown."""
AGENT_MEMORY_PAGE = 100
"""The most that its server answers at once."""
STATUSES, SEVERITIES = ("active", "completed", "failed"), ("critical", "warning", "info")


def mapped(row: ImportRow, tenant: str) -> Mapped:
    """What a row says; raises CommandRejected when it cannot be taken."""
    if row.kind == LESSON_ROW:
        return _lesson(row, tenant)
    return observation(row, SYSTEM) if row.kind == OBSERVATION else _MAPPINGS[row.kind](row)


def observation(row: ImportRow, system: str) -> Mapped:
    """An observation, as the agent-memory API keeps one."""
    record, lost = row.value, list[str]()
    fields = fields_in(record, lost)
    return Mapped([Step(observe(fields, project_of(record), session_of(record)), *key_and_time(row))], lost)


def fields_in(record: Record, lost: list[str]) -> ObservationFields:
    """The fields of an observation; claude-mem has the same, and more types. Raises CommandRejected if it is empty."""
    title, narrative, raw = text(record, "title"), text(record, "narrative"), text(record, "text", "raw_text")
    if not title and not narrative and not raw:
        raise CommandRejected("there is no title, narrative or text", "title")
    return ObservationFields(
        title=title or "Untitled",
        subtitle=text(record, "subtitle") or None,
        type=nearest_type(text(record, "type")),
        narrative=narrative or (raw if raw != title else "") or None,
        facts=texts(record, "facts", lost),
        concepts=texts(record, "concepts", lost),
        files_read=texts(record, "files_read", lost),
        files_modified=texts(record, "files_modified", lost),
        tool_name=text(record, "tool_name") or None,
        prompt_number=whole(record, "prompt_number") or None,
    )


def key_and_time(row: ImportRow, *times: str) -> tuple[str, datetime]:
    """What the event of a numbered row is made of, and when it happened: in the first of `times` that has one."""
    at = when(row.value, *(times or ("created_at", "created_at_epoch")))
    return f"{row.key}\0{at.isoformat(timespec='seconds')}", at


def project_of(record: Record) -> str:
    """The project of a row."""
    return text(record, "project_name", "project") or "unknown"


def session_of(record: Record) -> str:
    """The session of a row."""
    return text(record, "session") or needed(record, "session_id")


def _session(row: ImportRow) -> Mapped:
    record = row.value
    project, session_id, at = project_of(record), session_of(record), when(record, "started_at")
    path, kind = text(record, "project_path"), text(record, "agent_type")
    return Mapped([sessions.started(project, session_id, at, cwd=path, agent_type=kind[:NAME_CHARS])])


def prompt(row: ImportRow, *times: str) -> Mapped:
    """A prompt; its time is in the first of the fields `times` that has one."""
    record = row.value
    key, at = key_and_time(row, *times)
    return Mapped([sessions.prompted(project_of(record), session_of(record), needed(record, "prompt_text"), key, at)])


def _end(row: ImportRow) -> Mapped:
    """What a session came to, and that it is over."""
    record = row.value
    project, session_id, status = project_of(record), session_of(record), text(record, "status")
    at = when_given(record, "completed_at") or when(record, "started_at")
    steps: list[Step] = []
    if summary := text(record, "summary"):
        title = " ".join(summary.split())[:80]
        count = whole(record, "observation_count")
        steps.append(
            sessions.summarised(SYSTEM, project, session_id, at, title=title, narrative=summary, observations=count)
        )
    if status in ("completed", "failed"):
        steps.append(sessions.ended(project, session_id, at, outcome="failed" if status == "failed" else "completed"))
    if not steps:
        raise CommandRejected("the session goes on there")
    return Mapped(steps)


_MAPPINGS = {SESSION: _session, PROMPT: prompt, END: _end}


def _lesson(row: ImportRow, tenant: str) -> Mapped:
    """A rule, confirmed once, so that it lasts as rules do there; with how often it was shown."""
    record, lost = row.value, list[str]()
    severity = text(record, "severity") or "warning"
    if severity not in get_args(Severity):
        raise CommandRejected(f"is not one of {', '.join(arg for arg in get_args(Severity) if arg)}", "severity")
    project, rule = text(record, "project_name", "project") or EVERY_PROJECT, needed(record, "rule")
    key, at = key_and_time(row, "created_at")
    command = RecordLesson(
        project=project,
        content=rule,
        title=text(record, "title"),
        severity=cast(Severity, severity),
        trigger_tool=text(record, "trigger_tool"),
        trigger_pattern=text(record, "trigger_pattern"),
    )
    name = lesson_id(tenant, project, rule)
    steps = [Step(command, key, at), Step(ReinforceLesson(project=project, lesson=name), f"{key}\0lasting", at)]
    triggered, last_shown = whole(record, "trigger_count"), when_given(record, "last_triggered_at") or at
    for count in range(min(triggered, MAX_TRIGGERED)):
        steps.append(Step(TriggerLesson(project=project, lesson=name), f"{key}\0shown {count}", last_shown))
    if triggered > MAX_TRIGGERED:
        lost.append(f"trigger_count: more than {MAX_TRIGGERED}")
    if record.get("active") is False:
        steps.append(Step(ReviseLesson(project=project, lesson=name, active=False), f"{key}\0inactive", at))
    if record.get("source_observation_id") is not None:
        lost.append("source_observation_id: which observation a rule was learned from")
    return Mapped(steps, lost)


class AgentMemory:
    """What the REST API of an agent-memory server tells: all observations, and as many of the others as it lists.

    It lists at most AGENT_MEMORY_PAGE sessions or rules for one question, so it is asked one for each project,
    status and severity; `cut` says where even that was not enough.
    """

    def __init__(self, server: RestServer) -> None:
        self.cut: list[str] = []
        self.observations = server.pages("/api/observations", "", AGENT_MEMORY_PAGE)
        stats = as_object(server.get("/api/admin/stats"))
        projects = sorted(
            {str(observation.get("project_name") or "") for observation in self.observations}
            | set(as_object(stats.get("by_project")))
        )
        self.sessions = self._listed(
            server,
            "/api/sessions",
            [{"project": project, "status": status} for project in projects for status in STATUSES],
        )
        self.lessons = self._listed(
            server,
            "/api/lessons",
            [
                {"severity": severity, "active": active, **project}
                for severity in SEVERITIES
                for active in ("true", "false")
                for project in ({}, *({"project": project} for project in projects))
            ],
        )

    def _listed(self, server: RestServer, path: str, questions: list[dict[str, str]]) -> list[Record]:
        records: dict[Any, Record] = {}
        for question in questions:
            items = server.items(path, "", limit=AGENT_MEMORY_PAGE, **question)
            if len(items) >= AGENT_MEMORY_PAGE:
                about = ", ".join(f"{name} {value!r}" for name, value in question.items())
                self.cut.append(f"{path} lists at most {AGENT_MEMORY_PAGE} ({about}): there may be more")
            records.update((record.get("id"), record) for record in items)
        return list(records.values())


def open_source(request: ImportRequest) -> Source:
    """The source of a running server, or of its PostgreSQL database. Raises Unusable."""
    location = request.required_location("the URL of its server or of its PostgreSQL database")
    if is_postgres(location):
        tables = agent_memory_sections
        return tables_source(SYSTEM, Postgres(location), tables, lambda row: mapped(row, request.tenant))
    if not is_url(location):
        raise Unusable(f"{location!r} is neither an http:// nor a postgresql:// URL")
    with RestServer(location, request.secret) as server:
        contents = AgentMemory(server)
    rows = list(_server_rows(contents))
    source = of_rows(SYSTEM, rows, lambda row: mapped(row, request.tenant))
    source.notes += [*contents.cut, *(["its database has what its server does not list"] if contents.cut else [])]
    return source


def _server_rows(contents: AgentMemory) -> Iterator[ImportRow]:
    """The rows of an agent-memory server: its observations name their sessions by number."""
    called = {session.get("id"): text(session, "session_id") for session in contents.sessions}
    observed: dict[str, list[Record]] = {}
    for record in sorted(contents.observations, key=lambda observation: whole(observation, "id")):
        name = called.get(record.get("session_id")) or f"session-{record.get('session_id')}"
        observed.setdefault(name, []).append({**record, "session": name})
    all_sessions = [*sorted(contents.sessions, key=lambda session: text(session, "started_at"))]
    for name in observed.keys() - set(called.values()):
        first = observed[name][0]
        times = {"started_at": first.get("created_at")}
        all_sessions.append({"session_id": name, "project": first.get("project_name"), **times})
    for record in all_sessions:
        record["observation_count"] = len(observed.get(text(record, "session_id"), []))
    yield from (ImportRow(SESSION, text(record, "session_id"), record) for record in all_sessions)
    for rows in observed.values():
        yield from (ImportRow(OBSERVATION, text(row, "id"), row) for row in rows)
    yield from rows_by_time(contents.lessons, LESSON_ROW, "created_at")
    yield from (ImportRow(END, text(record, "session_id"), record) for record in all_sessions)


def agent_memory_sections(database: Database) -> list[Section]:
    """The sections of an agent-memory database. Raises Unusable for any other."""
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
    sections = [Section(SESSION, sessions, name="session_id")]
    if prompts:
        query = (
            "SELECT u.id, u.prompt_text, u.created_at, s.session_id AS session, p.name AS project_name"
            " FROM mem_user_prompts u JOIN mem_sessions s ON s.id = u.session_id"
            " JOIN mem_projects p ON p.id = s.project_id"
        )
        sections.append(Section(PROMPT, query))
    sections.append(
        Section(
            OBSERVATION,
            "SELECT o.id, s.session_id AS session, p.name AS project_name, o.title, o.subtitle, o.type, o.narrative,"
            " o.facts, o.concepts, o.files_read, o.files_modified, o.raw_text, o.tool_name, o.prompt_number,"
            " o.created_at FROM mem_observations o JOIN mem_sessions s ON s.id = o.session_id"
            " JOIN mem_projects p ON p.id = o.project_id",
        )
    )
    if "rule" in database.columns("mem_lessons"):
        query = (
            "SELECT l.id, p.name AS project_name, l.title, l.rule, l.severity, l.trigger_tool, l.trigger_pattern,"
            " l.source_observation_id, l.trigger_count, l.last_triggered_at, l.active, l.created_at"
            " FROM mem_lessons l LEFT JOIN mem_projects p ON p.id = l.project_id"
        )
        sections.append(Section(LESSON_ROW, query))
    return [*sections, Section(END, sessions, name="session_id")]
