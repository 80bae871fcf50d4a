"""What the memex listener keeps in the process: its metrics, and how often each agent asked in this minute.

Every API process counts for itself: a counter that they share would put a write to disk before every search.
"""

from datetime import datetime

from starlette.requests import Request

from api.dialects.memex.metrics import MemexMetrics
from ingest.errors import Overloaded
from ingest.platform.clock import to_ms
from ingest.platform.settings import Settings

RETRY_AFTER_S = 60
MAX_AGENTS = 100_000
"""Agents counted in a minute; the first of them is forgotten for one more."""


class TooOften(Overloaded):
    """An agent asked more often than it may in this minute."""

    def __init__(self, agent: str, action: str, count: int, limit: int) -> None:
        super().__init__(
            f"{agent!r} asked for {count} {action} this minute and may for {limit}; go on in the next minute",
            RETRY_AFTER_S,
            "limit",
        )


class Limit:
    """How often each agent may do one thing in a minute; counted before it is done, refused calls, too."""

    def __init__(self, action: str, per_minute: int, agents: int = MAX_AGENTS) -> None:
        self._action, self._per_minute, self._agents = action, per_minute, agents
        self._minute = 0
        self._counts: dict[str, int] = {}

    def count(self, agent: str, now: datetime) -> None:
        """Count one more; raises TooOften where that is over the limit."""
        minute = to_ms(now) // 60_000
        if minute != self._minute:
            self._minute, self._counts = minute, {}
        count = self._counts[agent] = self._counts.get(agent, 0) + 1
        if len(self._counts) > self._agents:
            del self._counts[next(iter(self._counts))]
        if count > self._per_minute:
            raise TooOften(agent, self._action, count, self._per_minute)


class MemexState:
    """The metrics, and how often an agent may create and search."""

    def __init__(self, settings: Settings) -> None:
        self.metrics = MemexMetrics()
        self.creates = Limit("creates", settings.memex_writes_per_minute)
        self.searches = Limit("searches", settings.memex_searches_per_minute)


def state(request: Request) -> MemexState:
    """The state of the process that answers."""
    return request.app.state.memex
