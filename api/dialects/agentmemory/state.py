"""What the agentmemory listener keeps in the process beside the services: all of it bounded, none of it the truth."""

from api.dialects.agentmemory.health import Meter
from api.dialects.agentmemory.searching import Followups
from ingest.platform.settings import Settings


class AgentmemoryState:
    """The settings, what is counted and measured."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.followups = Followups()
        self.meter = Meter()
