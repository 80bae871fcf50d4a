"""What the agent-memory door has to itself, beside the services that all doors share; gone with the process."""

from starlette.requests import Request

from ingest.platform.settings import Settings
from projections.operations.reembedding import ReEmbedding


class Own:
    """The server's settings, how many observations there were when last counted, and the last run of re-embedding."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.observations = -1
        self.reembedding: ReEmbedding | None = None


def own(request: Request) -> Own:
    """What the door has to itself."""
    return request.app.state.agent_memory
