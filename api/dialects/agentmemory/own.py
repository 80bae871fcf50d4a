"""What the door keeps in the process beside the services: all of it bounded, none of it the truth."""

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
        """What a door begins with."""
        return cls(settings, Followups(), Meter())
