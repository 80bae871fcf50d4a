"""What agents saw and did in a session.

First its events, then its command and the decision on it. Pure.
"""

from typing import Annotated, Any

from msgspec import Meta

from ingest.errors import CommandRejected
from ingest.events.envelope import EventData
from ingest.kinds import OBSERVATION
from ingest.nouns.command import Command, Decision, Origin, creating, data_of, decides, storable


class ObservationRecorded(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """An agent reported something: text in `content`, structure (a tool call, a hook payload) in `data`, or both."""

    TYPE = "observation.recorded"

    kind: str = ""
    content: str = ""
    data: dict[str, Any] = {}


class ObservationCompressed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A model compressed an observation. (The synthetic compression is derived and never an event.)"""

    TYPE = "observation.compressed"

    observation: str
    title: str
    narrative: str
    facts: list[str] = []
    concepts: list[str] = []
    files: list[str] = []
    importance: int = 5
    model: str
    prompt_version: str


class Observe(Command, frozen=True, kw_only=True, tag="observe"):
    """Record what an agent saw or did in a session."""

    kind: Annotated[str, Meta(max_length=64)] = ""
    content: str = ""
    data: dict[str, Any] = {}


@decides(Observe)
def _observe(command: Observe, origin: Origin) -> Decision:
    if not command.session_id:
        raise CommandRejected("an observation belongs to a session", "session_id")
    if not command.content.strip() and not command.data:
        raise CommandRejected("an observation needs content or data", "content")
    data = data_of(ObservationRecorded, command, data=storable(command.data, "data"))
    return creating(OBSERVATION, command, origin, data)
