"""agent-memory: sessions, observations and rules, as its tables and its REST answers have them. Pure.

A row of the REST API has the session's number where a table's row, joined, has its name; who reads the rows puts the
name into `session`.
"""

from typing import cast, get_args

from api.dialects.agent_memory import records as dialect
from api.importing import sessions
from api.importing.mapping import (
    NAME_CHARS,
    ImportRow,
    Mapped,
    Record,
    Step,
    needed,
    text,
    texts,
    when,
    when_given,
    whole,
)
from ingest.commands.decide import RecordLesson, ReinforceLesson, ReviseLesson, TriggerLesson
from ingest.errors import CommandRejected
from ingest.events.lesson import EVERY_PROJECT, Severity, fingerprint
from ingest.ids import LESSON, content_id
from ingest.log.position import project_route

SYSTEM = "agent-memory"
SESSION, PROMPT, OBSERVATION, LESSON_ROW, END = "session", "prompt", "observation", "lesson", "session end"
MAX_TRIGGERED = 200
"""How often at most a rule is said to have been shown."""


def mapped(row: ImportRow, tenant: str) -> Mapped:
    """What a row says; raises CommandRejected when it cannot be taken."""
    match row.kind:
        case "session":
            return _session(row.value)
        case "prompt":
            return _prompt(row)
        case "observation":
            return observation(row, SYSTEM)
        case "lesson":
            return _lesson(row, tenant)
        case _:
            return _end(row.value)


def observation(row: ImportRow, system: str) -> Mapped:
    """An observation, as the agent-memory API keeps one. claude-mem has the same fields, and more types."""
    record, lost = row.value, list[str]()
    title, narrative, raw = text(record, "title"), text(record, "narrative"), text(record, "text", "raw_text")
    if not title and not narrative and not raw:
        raise CommandRejected("there is no title, narrative or text", "title")
    fields = dialect.ObservationFields(
        title=title or "Untitled",
        subtitle=text(record, "subtitle") or None,
        type=dialect.nearest_type(text(record, "type")),
        narrative=narrative or (raw if raw != title else "") or None,
        facts=texts(record, "facts", lost),
        concepts=texts(record, "concepts", lost),
        files_read=texts(record, "files_read", lost),
        files_modified=texts(record, "files_modified", lost),
        tool_name=text(record, "tool_name") or None,
        prompt_number=whole(record, "prompt_number") or None,
    )
    at = when(record, "created_at", "created_at_epoch")
    key = f"{OBSERVATION}\0{row.name}\0{at.isoformat(timespec='seconds')}"
    return Mapped([Step(dialect.observe(fields, project_of(record), session_of(record)), key, at)], lost)


def project_of(record: Record) -> str:
    """The project of a row."""
    return text(record, "project_name", "project") or "unknown"


def session_of(record: Record) -> str:
    """The session of a row."""
    return text(record, "session") or needed(record, "session_id")


def _session(record: Record) -> Mapped:
    project, session_id, at = project_of(record), session_of(record), when(record, "started_at")
    path, kind = text(record, "project_path"), text(record, "agent_type")
    return Mapped([sessions.started(project, session_id, at, cwd=path, agent_type=kind[:NAME_CHARS])])


def _prompt(row: ImportRow) -> Mapped:
    record = row.value
    at = when(record, "created_at", "created_at_epoch")
    key = f"{PROMPT}\0{row.name}\0{at.isoformat(timespec='seconds')}"
    return Mapped([sessions.prompted(project_of(record), session_of(record), needed(record, "prompt_text"), key, at)])


def _end(record: Record) -> Mapped:
    """What a session came to, and that it is over."""
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


def _lesson(row: ImportRow, tenant: str) -> Mapped:
    """A rule, confirmed once, so that it lasts as rules do there; with how often it was shown."""
    record, lost = row.value, list[str]()
    severity = text(record, "severity") or "warning"
    if severity not in get_args(Severity):
        raise CommandRejected(f"is none of {', '.join(one for one in get_args(Severity) if one)}", "severity")
    project, rule = text(record, "project_name", "project") or EVERY_PROJECT, needed(record, "rule")
    at = when(record, "created_at")
    command = RecordLesson(
        project=project,
        content=rule,
        title=text(record, "title"),
        severity=cast(Severity, severity),
        trigger_tool=text(record, "trigger_tool"),
        trigger_pattern=text(record, "trigger_pattern"),
    )
    key, name = f"{LESSON_ROW}\0{row.name}\0{at.isoformat(timespec='seconds')}", lesson_id(tenant, project, rule)
    steps = [Step(command, key, at), Step(ReinforceLesson(project=project, lesson=name), f"{key}\0lasting", at)]
    shown, last_shown = whole(record, "trigger_count"), when_given(record, "last_triggered_at") or at
    for count in range(min(shown, MAX_TRIGGERED)):
        steps.append(Step(TriggerLesson(project=project, lesson=name), f"{key}\0shown {count}", last_shown))
    if shown > MAX_TRIGGERED:
        lost.append(f"trigger_count: more than {MAX_TRIGGERED}")
    if record.get("active") is False:
        steps.append(Step(ReviseLesson(project=project, lesson=name, active=False), f"{key}\0inactive", at))
    if record.get("source_observation_id") is not None:
        lost.append("source_observation_id: which observation a rule was learned from")
    return Mapped(steps, lost)


def lesson_id(tenant: str, project: str, content: str) -> str:
    """Our id of a lesson, which is its text's."""
    return content_id(LESSON, project_route(tenant, project), fingerprint(content))
