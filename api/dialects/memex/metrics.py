"""memex's metrics under memex's names, in a registry of their own; and the middleware that counts requests.

The HTTP figures are those of prometheus-fastapi-instrumentator, which memex uses. What happens in workers is not known
here and stays 0: embeddings of what is stored (`embed_batch`), and the summariser.
"""

import time
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.platform.connections import PoolSize

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
