"""claude-mem: sessions, prompts, observations and summaries of its SQLite file. Pure."""

from api.dialects.agent_memory import importer as agent_memory
from api.dialects.agent_memory.importer import project_of, session_of
from api.importing import sessions
from api.importing.mapping import ImportRow, Mapped, Record, text, texts, when, when_given, whole
from ingest.errors import CommandRejected

SYSTEM = "claude-mem"
SESSION, PROMPT, OBSERVATION, SUMMARY, END = "session", "prompt", "observation", "summary", "session end"
_PARTS = {
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "next_steps": "Next steps",
    "notes": "Notes",
}


def mapped(row: ImportRow) -> Mapped:
    """What a row says; raises CommandRejected when it cannot be taken."""
    match row.kind:
        case "session":
            return _session(row.value)
        case "prompt":
            return _prompt(row)
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


def _prompt(row: ImportRow) -> Mapped:
    prompt, at = text(row.value, "prompt_text"), when(row.value, "created_at_epoch", "created_at")
    if not prompt:
        raise CommandRejected("is missing or empty", "prompt_text")
    key = f"{PROMPT}\0{row.name}\0{at.isoformat(timespec='seconds')}"
    return Mapped([sessions.prompted(project_of(row.value), session_of(row.value), prompt, key, at)])


def _summary(row: ImportRow) -> Mapped:
    """A summary: what was asked is its title, the rest its narrative."""
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
