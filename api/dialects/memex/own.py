"""What the memex door has to itself, beside the services that all doors share."""

from typing import NamedTuple

from starlette.requests import Request

from api.dialects.memex.limits import Limit
from api.dialects.memex.metrics import MemexMetrics
from ingest.platform.settings import Settings


class Own(NamedTuple):
    """The door's figures, and how often an agent may create and search."""

    metrics: MemexMetrics
    creates: Limit
    searches: Limit

    @classmethod
    def of(cls, settings: Settings) -> "Own":
        """As the settings say, with every counter at 0."""
        creates = Limit("creates", settings.memex_writes_per_minute)
        return cls(MemexMetrics(), creates, Limit("searches", settings.memex_searches_per_minute))


def own(request: Request) -> Own:
    """What the door has to itself."""
    return request.app.state.memex
