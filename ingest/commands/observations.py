"""Observations: what may be asked, and what becomes of it."""

from typing import Annotated, Any

from msgspec import Meta

from ingest.commands.command import Command
from ingest.commands.decision import Decision, Origin, creating, decides, storable
from ingest.errors import CommandRejected
from ingest.events.observation import ObservationRecorded
from ingest.ids import OBSERVATION


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
    data = ObservationRecorded(
        kind=command.kind,
        content=command.content if command.content else "",
        data=storable(command.data, "data") if command.data else {},
    )
    return creating(OBSERVATION, command, origin, data)
