"""Antigravity's conversations: a turn is an observation, the same whether it is synced or imported."""

from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.transcripts import MAX_BYTES, TRANSCRIPT, conversation
from api.importing import sessions
from api.importing.mapping import ImportRow, Mapped, Step, needed, text
from ingest.commands.decide import Observe
from ingest.errors import CommandRejected

SYSTEM = AGENT = "antigravity"
TURN = "turn"


def observed(session_id: str, project: str, prompt: str, response: str) -> Observe:
    """The command that records a turn; its event is named after session and prompt."""
    name = blake2b(f"{session_id}\0{prompt}".encode(), digest_size=16).hexdigest()
    data = {"tool_name": "conversation", "tool_input": prompt, "tool_output": response}
    return dialect.observe(session_id, project, "post_tool_use", data, agent_id=AGENT, event_id=name)


def mapped(row: ImportRow, at: datetime) -> Mapped:
    """The turn of a row; nothing says when it was, so it was `at`."""
    record = row.value
    if reason := text(record, "reason"):
        raise CommandRejected(reason)
    session_id, project = needed(record, "session_id"), text(record, "project") or dialect.UNKNOWN_PROJECT
    steps: list[Step] = []
    if record.get("first"):
        cwd = text(record, "project")
        steps.append(sessions.started(project, session_id, at, cwd=cwd, agent=AGENT, agent_type=SYSTEM))
    command = observed(session_id, project, needed(record, "prompt"), needed(record, "response"))
    steps.append(Step(command, f"{TURN}\0{row.name}", at))
    return Mapped(steps)


def turns(file: Path) -> Iterator[ImportRow]:
    """The turns of one conversation; of one that is too long a row that says so."""
    if file.stat().st_size > MAX_BYTES:
        reason = f"the file has over {MAX_BYTES >> 20} MiB, and a conversation is read whole"
        yield ImportRow(TURN, str(file), {"reason": reason})
        return
    place = file.parents[len(TRANSCRIPT.parts) - 1] if file.as_posix().endswith(TRANSCRIPT.as_posix()) else None
    found = conversation(file, file.stem if place is None else place.name)
    for number, turn in enumerate(found.turns):
        fields = {"session_id": found.session_id, "project": found.folder, "prompt": turn.prompt}
        more = {"response": turn.response, "first": number == 0}
        yield ImportRow(TURN, f"{found.session_id} turn {number + 1}", {**fields, **more})
