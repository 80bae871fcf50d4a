"""What the agent-memory listener keeps in the process beside the services."""

from starlette.requests import Request

from ingest.platform.settings import Settings
from projections.operations.reembedding import ReEmbedding


class AgentMemoryState:
    """The settings, how many observations there were when last counted, and the last run of re-embedding."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.observations = -1
        self.reembedding: ReEmbedding | None = None


def state(request: Request) -> AgentMemoryState:
    """The state of the process that answers."""
    return request.app.state.agent_memory
