"""Sessions of other systems: opened, summarized, ended, and the prompts in them. Pure, but for the project of a folder.

A summary is imported only into a session that the same import opened; an existing session keeps its own summary.
"""

import os
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from api.agents.checkouts import CHOSEN, project_of
from api.hook_observations import hook_observation
from api.importing.mapping import TITLE_CHARS, Step
from ingest.commands.decide import Observe, SummariseSession, TrackSession
from ingest.ids import content_id, imported_event_id
from ingest.kinds import LESSON
from ingest.log.position import project_route
from ingest.nouns.lesson import fingerprint
from ingest.nouns.session import Outcome
from ingest.secrets.scrub import beginning
from projections.nouns.lesson import DECAY_RATE, decayed, strengthened, weeks_since

PROMPT = "prompt_submit"


def started(project: str, session_id: str, at: datetime, *, title: str = "", **fields: Any) -> Step:
    """Opens the session; `fields` are further fields of the command."""
    title = beginning(title, TITLE_CHARS)
    command = TrackSession(project=project, session_id=session_id, status="started", title=title, **fields)
    return Step(command, _key("started", project, session_id), at)


def ended(project: str, session_id: str, at: datetime, *, outcome: Outcome = "completed") -> Step:
    """Ends the session. Must come after all its observations, which would open it again."""
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
    observations: int,
    **fields: Any,
) -> Step:
    """Summarizes the session; of several summaries (distinguished by `name`) the last one stays.

    It covers at least one observation, or it would be ignored; upkeep replaces it if it does not cover all
    observations. `fields` are further fields of the command.
    """
    command = SummariseSession(
        project=project,
        session_id=session_id,
        title=beginning(title, TITLE_CHARS),
        model=system,
        observation_count=max(1, observations),
        forgotten_at=imported_event_id(system, _key("started", project, session_id)),
        **fields,
    )
    return Step(command, f"{_key('summarised', project, session_id)}\0{name}", at)


@lru_cache(maxsize=1_000)
def folder_project(folder: str) -> str:
    """The project of a folder on this machine, as the hooks name it; empty if the folder is gone or not in git."""
    if not Path(folder).is_absolute() or not Path(folder).is_dir():
        return ""
    return project_of(folder, {name: value for name, value in os.environ.items() if name != CHOSEN})


def prompted(project: str, session_id: str, prompt: str, key: str, at: datetime) -> Step:
    """Records a user's prompt."""
    return Step(hook_observation(session_id, project, PROMPT, {"prompt": prompt}), key, at)


def acted(
    project: str, session_id: str, tool: str, tool_input: object, tool_output: object, *, failed: bool, agent: str = ""
) -> Observe:
    """Records a tool call in the form of agentmemory's hooks."""
    data: dict[str, object] = {"tool_name": tool, "tool_input": tool_input}
    if tool_output is not None:
        data["error" if failed else "tool_output"] = tool_output
    hook = "post_tool_failure" if failed else "post_tool_use"
    return hook_observation(session_id, project, hook, data, agent_id=agent)


def _key(what: str, project: str, session_id: str) -> str:
    return f"session {what}\0{project}\0{session_id}"


MAX_REINFORCEMENTS = 200
"""The most confirmations of a lesson that are recorded."""
_STEPS = 40
_CLOSE = 0.005


class History(NamedTuple):
    """A lesson's initial confidence, the times of its confirmations, and its final confidence."""

    began_with: float
    confirmed: Sequence[datetime]
    left: float

    def leads_to(self, confidence: float) -> bool:
        """Whether the final confidence equals `confidence`, except for rounding."""
        return abs(self.left - confidence) <= _CLOSE


def history(
    confidence: float, reinforcements: int, created: datetime, reinforced: datetime, until: datetime
) -> History:
    """The likeliest history of a lesson of that confidence at `until`, last confirmed at `reinforced`.

    Confirmations are evenly spaced from `created` on. If no initial confidence leads to the value, the nearest is used.
    """
    count = min(reinforcements, MAX_REINFORCEMENTS)
    confirmed = [created + (reinforced - created) * (number + 1) / count for number in range(count)]
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _left(middle, created, confirmed, until) < confidence:
            low = middle
        else:
            high = middle
    began_with = round(high, 6)
    return History(began_with, confirmed, _left(began_with, created, confirmed, until))


def _left(began_with: float, created: datetime, confirmed: Sequence[datetime], until: datetime) -> float:
    """The confidence that the fold computes from a history; it grows with the initial one."""
    confidence, last = began_with, created
    for at in confirmed:
        confidence, last = strengthened(decayed(confidence, DECAY_RATE, weeks_since(last, at))), at
    return decayed(confidence, DECAY_RATE, weeks_since(last, until))


def lesson_id(tenant: str, project: str, content: str) -> str:
    """Our id of a lesson, derived from its text."""
    return content_id(LESSON, project_route(tenant, project), fingerprint(content))
