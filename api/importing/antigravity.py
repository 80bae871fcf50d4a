"""Antigravity's conversations: a turn is an observation, the same whether it is synced or imported. Pure."""

from datetime import datetime
from hashlib import blake2b

from api.dialects.agentmemory import records as dialect
from api.importing import sessions
from api.importing.mapping import Mapped, Row, Step, needed, text
from ingest.commands.requests import Observe

SYSTEM = AGENT = "antigravity"
TURN = "turn"


def observed(session_id: str, project: str, prompt: str, response: str) -> Observe:
    """The command that records a turn; its event is named after session and prompt."""
    name = blake2b(f"{session_id}\0{prompt}".encode(), digest_size=16).hexdigest()
    data = {"tool_name": "conversation", "tool_input": prompt, "tool_output": response}
    return dialect.observe(session_id, project, "post_tool_use", data, agent_id=AGENT, event_id=name)


def mapped(row: Row, at: datetime) -> Mapped:
    """The turn of a row; nothing says when it was, so it was `at`."""
    record = row.value
    session_id, project = needed(record, "session_id"), text(record, "project") or dialect.UNKNOWN_PROJECT
    steps: list[Step] = []
    if record.get("first"):
        cwd = text(record, "project")
        steps.append(sessions.started(project, session_id, at, cwd=cwd, agent=AGENT, agent_type=SYSTEM))
    said = observed(session_id, project, needed(record, "prompt"), needed(record, "response"))
    steps.append(Step(said, f"{TURN}\0{row.name}", at))
    return Mapped(steps)
