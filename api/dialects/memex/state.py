"""What the memex listener keeps in the process: its metrics, and how often each agent asked in this minute.

The metrics go by memex's names, in a registry of their own; the HTTP figures are those of
prometheus-fastapi-instrumentator, which memex uses. What happens in workers is not known here and stays 0: embeddings
of what is stored (`embed_batch`), and the summariser. Every API process counts for itself: a counter that they share
would put a write to disk before every search.
"""

import time
from datetime import datetime
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.errors import Overloaded
from ingest.platform.clock import to_ms
from ingest.platform.connections import PoolSize
from ingest.platform.settings import Settings

Operation = Literal["create", "search", "delete"]
_EMBEDDING_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BUCKETS = (0.1, 0.5, 1.0)
_FINE_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0,
)  # fmt: skip
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNMATCHED = "none"


class MemexMetrics:
    """The figures of one API process."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "http_requests", "Requests answered.", ["method", "status", "handler"], registry=registry
        )
        self._asked = Summary("http_request_size_bytes", "Size of requests.", ["handler"], registry=registry)
        self._answered = Summary("http_response_size_bytes", "Size of answers.", ["handler"], registry=registry)
        self._fine_seconds = Histogram(
            "http_request_duration_highr_seconds", "Time to answer.", buckets=_FINE_BUCKETS, registry=registry
        )
        self._seconds = Histogram(
            "http_request_duration_seconds", "Time to answer.", ["method", "handler"], buckets=_BUCKETS,
            registry=registry,
        )  # fmt: skip
        self._operations = Counter(
            "memex_memory_operations", "What was done with memories.", ["operation"], registry=registry
        )
        self._embedding = Histogram(
            "memex_embedding_duration_seconds", "Time to embed a query; what is stored, workers embed.", ["operation"],
            buckets=_EMBEDDING_BUCKETS, registry=registry,
        )  # fmt: skip
        self._embedding_errors = Counter(
            "memex_embedding_errors", "Queries that were not embedded.", ["operation", "error_type"], registry=registry
        )
        self._pool_size = Gauge("memex_db_pool_size", "Connections to the log's server.", registry=registry)
        self._pool_idle = Gauge("memex_db_pool_idle", "Those of them that nobody uses.", registry=registry)
        runs = Counter(
            "memex_summarizer_runs", "Always 0 here: workers condense memories.", ["status"], registry=registry
        )
        Counter("memex_summarizer_memories_condensed", "Always 0 here: workers condense memories.", registry=registry)
        for operation in ("create", "search", "delete"):
            self._operations.labels(operation)
        for operation in ("embed", "embed_batch"):
            self._embedding.labels(operation)
        for status in ("ok", "error"):
            runs.labels(status)

    def done(self, operation: Operation) -> None:
        """Count what was done with a memory."""
        self._operations.labels(operation).inc()

    def embedded(self, seconds: float, error: Exception | None) -> None:
        """Count a query that was embedded, or was not."""
        self._embedding.labels("embed").observe(seconds)
        if error is not None:
            self._embedding_errors.labels("embed", type(error).__name__).inc()

    def answered(self, method: str, handler: str, status: int, seconds: float, asked: int, answered: int) -> None:
        """Count one request; `asked` and `answered` are bytes."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, f"{status // 100}xx", handler).inc()
        self._asked.labels(handler).observe(asked)
        self._answered.labels(handler).observe(answered)
        self._fine_seconds.observe(seconds)
        self._seconds.labels(method, handler).observe(seconds)

    def text(self, pool: PoolSize) -> bytes:
        """All of them, in Prometheus' text format."""
        self._pool_size.set(pool.size)
        self._pool_idle.set(pool.idle)
        return generate_latest(self._registry)


class Instrument:
    """ASGI middleware: measures requests by the route's pattern."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, size = time.perf_counter(), 500, 0

        async def note(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            handler = getattr(scope.get("route"), "path", UNMATCHED)
            seconds = time.perf_counter() - started
            metrics: MemexMetrics = scope["app"].state.memex.metrics
            metrics.answered(scope["method"], handler, status, seconds, _declared(scope), size)


def _declared(scope: Scope) -> int:
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(declared) if declared.isdigit() else 0


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
