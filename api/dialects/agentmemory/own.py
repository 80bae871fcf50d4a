"""State that the agentmemory API keeps in the process beside the services: bounded, and lost at a restart."""

from typing import NamedTuple

from api.dialects.agentmemory.health import Meter
from api.dialects.agentmemory.searching import Followups
from ingest.platform.settings import Settings


class Own(NamedTuple):
    """The server's settings, what is counted and measured."""

    settings: Settings
    followups: Followups
    meter: Meter

    @classmethod
    def of(cls, settings: Settings) -> "Own":
        """The state of a server that starts."""
        return cls(settings, Followups(), Meter())
