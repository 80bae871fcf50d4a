"""Sessions of other systems: opened, summarised, ended, and what was asked in them. Pure.

A summary counts only in a session that the same import opened: of a session that was there already, the summary is
its own.
"""

from collections.abc import Sequence
from datetime import datetime

from api.dialects.agentmemory import records as agentmemory
from api.importing.mapping import TITLE_CHARS, Step, event_id
from ingest.commands.decide import Observe, SummariseSession, TrackSession
from ingest.events.session import Outcome
from ingest.secrets.scrub import beginning

PROMPT = "prompt_submit"


def started(
    project: str,
    session_id: str,
    at: datetime,
    *,
    cwd: str = "",
    title: str = "",
    agent: str = "",
    agent_type: str = "",
) -> Step:
    """The session is opened."""
    command = TrackSession(
        project=project,
        session_id=session_id,
        status="started",
        agent_id=agent,
        cwd=cwd,
        title=beginning(title, TITLE_CHARS),
        agent_type=agent_type,
    )
    return Step(command, _key("started", project, session_id), at)


def ended(project: str, session_id: str, at: datetime, *, outcome: Outcome = "completed") -> Step:
    """The session is over. Comes after all that was observed in it, which would open it again."""
    command = TrackSession(project=project, session_id=session_id, status="ended", outcome=outcome)
    return Step(command, _key("ended", project, session_id), at)


def summarised(
    system: str,
    project: str,
    session_id: str,
    at: datetime,
    *,
    name: str = "",
    title: str,
    narrative: str,
    observations: int,
    decisions: Sequence[str] = (),
    files: Sequence[str] = (),
    concepts: Sequence[str] = (),
) -> Step:
    """The session is summarised; of several summaries (told apart by `name`) the last one stays.

    It covers at least one observation, or it would be none; upkeep makes another when it covers fewer than there are.
    """
    command = SummariseSession(
        project=project,
        session_id=session_id,
        title=beginning(title, TITLE_CHARS),
        narrative=narrative,
        decisions=list(decisions),
        files=list(files),
        concepts=list(concepts),
        model=system,
        observation_count=max(1, observations),
        forgotten_at=event_id(system, _key("started", project, session_id)),
    )
    return Step(command, f"{_key('summarised', project, session_id)}\0{name}", at)


def prompted(project: str, session_id: str, prompt: str, key: str, at: datetime) -> Step:
    """A person asked something."""
    return Step(agentmemory.observe(session_id, project, PROMPT, {"prompt": prompt}), key, at)


def acted(
    project: str, session_id: str, tool: str, tool_input: object, tool_output: object, *, failed: bool, agent: str = ""
) -> Observe:
    """A tool was used, as agentmemory's hooks say it."""
    data: dict[str, object] = {"tool_name": tool, "tool_input": tool_input}
    if tool_output is not None:
        data["error" if failed else "tool_output"] = tool_output
    hook = "post_tool_failure" if failed else "post_tool_use"
    return agentmemory.observe(session_id, project, hook, data, agent_id=agent)


def _key(what: str, project: str, session_id: str) -> str:
    return f"session {what}\0{project}\0{session_id}"
