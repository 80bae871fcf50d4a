"""Routes for operators and orchestrators: livez, readyz, metrics; and the middleware that measures requests."""

import time

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http import Json
from api.services import services
from ingest.log.group_commit import GroupCommit
from projections.index.service import ReplicaService

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The metrics of one API process, in a registry of their own."""

    def __init__(self, log: GroupCommit, replica: ReplicaService) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "mnemolog_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "mnemolog_http_request_duration_seconds", "Time to answer.", ["route"], buckets=_BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        waiting = Gauge("mnemolog_append_waiting_events", "Events not acknowledged yet.", registry=self.registry)
        waiting.set_function(lambda: log.waiting_events)
        documents = Gauge("mnemolog_index_documents", "Documents in the index replica.", registry=self.registry)
        documents.set_function(lambda: replica.documents)
        ready = Gauge("mnemolog_index_ready", "1 when the index replica is caught up.", registry=self.registry)
        ready.set_function(lambda: float(replica.ready))
        self.lag = Gauge(
            "mnemolog_projection_lag_events", "Log entries that are not projected yet.", ["partition"],
            registry=self.registry,
        )  # fmt: skip

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. (Finding a labelled metric costs more than counting, so those found are kept.)"""
        found = self._children.get((method, route, status))
        if found is None:
            found = self.requests.labels(method, route, str(status)), self.seconds.labels(route)
            self._children[method, route, status] = found
        found[0].inc()
        found[1].observe(seconds)


class Measure:
    """ASGI middleware: counts requests and their time, by the route's pattern (never by the raw path)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            route = getattr(scope.get("route"), "path", "unmatched")
            metrics: Metrics = scope["app"].state.metrics
            metrics.count(scope["method"], route, status, time.perf_counter() - started)


async def livez(request: Request) -> Response:
    """200 as long as the process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """200 when the log answers and the index is caught up; else 503 that says what is missing."""
    replica = services(request).replica
    try:
        lag = await replica.measure_lag()
    except (RedisError, OSError) as error:
        return Json({"status": "unavailable", "reason": f"the log does not answer: {error}"}, 503)
    if not replica.ready:
        return Json({"status": "starting", "reason": replica.trouble or "the index is loading", "lag": lag}, 503)
    return Json({"status": "ready", "documents": replica.documents, "lag": lag})


async def metrics(request: Request) -> Response:
    """Prometheus text format."""
    measured: Metrics = request.app.state.metrics
    lag = await services(request).replica.measure_lag()
    measured.lag.clear()
    for partition in services(request).replica.applied:
        measured.lag.labels(str(partition)).set(lag.get(partition, 0))
    return Response(generate_latest(measured.registry), media_type=CONTENT_TYPE_LATEST)


ROUTES = [
    Route("/livez", livez, methods=["GET"]),
    Route("/readyz", readyz, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
