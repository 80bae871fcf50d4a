"""Routes for operators and orchestrators (livez, readyz, metrics), and the metrics.

Dead-letter counts belong to the log, not to this process: they are read from Redis on every scrape, so every process
reports the same values, across restarts.
"""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Literal, Self

import msgspec
from msgspec import UNSET, Struct, UnsetType
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from api.access.principal import principal_of
from api.api_processes import ApiProcess
from api.http.endpoint import Endpoint
from api.http.http import Json, ProblemAnswer
from api.http.openapi import TEXT
from api.services import services
from ingest.errors import LogUnavailable
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from ingest.platform.files import toml_beside
from ingest.platform.partial import UNREACHABLE, readable
from ingest.platform.tasks import end
from ingest.roles import ANY, METRICS
from projections.health.samples import HealthSample
from projections.health.watch import CAUSES, Watch, memory_ceiling
from projections.index.protocol import IndexService
from projections.maintenance.reconciling import load_report
from projections.store.dead_letters import OUTCOMES, Outcome, letter_counts, live_keys

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The metrics of one API process, in a separate registry."""

    def __init__(self, log: GroupCommit, index: IndexService) -> None:
        self.registry = CollectorRegistry()
        gauge = partial(Gauge, registry=self.registry)
        self.requests = RequestMetrics()
        self.registry.register(self.requests)
        gauge("mnemolog_append_waiting_events", "Events not acknowledged yet.").set_function(lambda: log.waiting_events)
        gauge("mnemolog_index_documents", "Documents in the index.").set_function(lambda: index.documents)
        gauge("mnemolog_index_ready", "1 if the index is caught up.").set_function(lambda: float(index.ready))
        self.lag = gauge("mnemolog_projection_lag_events", "Pending log entries.", ["partition"])
        followups = "Recalls in the half hour after a context of the same project."
        self.followups = Counter("mnemolog_context_followups", followups, registry=self.registry)
        cached = "Recalls answered as an equal request was, because the index has not changed since."
        self.cached_answers = Counter("mnemolog_recall_cached_answers", cached, registry=self.registry)
        self.reconciled = gauge("mnemolog_reconcile_findings", "Results of the newest reconciliation.", ["fault"])
        self.webhooks = gauge("mnemolog_webhook_attempts", "Attempts to deliver an event to a webhook.", ["outcome"])
        self.processes: ProcessFigures | None = None
        """Set if several processes share the port."""
        self.letters = LetterMetrics()
        self.registry.register(self.letters)

    def text(self) -> bytes:
        """All metrics, in Metrics in Prometheus text format."""
        return generate_latest(self.registry)


class RequestMetrics(Collector):
    """Request counts and durations. prometheus_client's counters are ten times slower."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str, int], list[float]] = {}
        """By API, method, route and status: the count, and its start time."""
        self._times: dict[tuple[str, str], list[float]] = {}
        """By API and route: the count of each bucket, the sum of seconds, and the start time."""

    def count(self, call: str, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        counted = self._counts.get((call, method, route, status))
        if counted is None:
            counted = self._counts[call, method, route, status] = [0, time.time()]
            self._times.setdefault((call, route), [*[0] * (len(_BUCKETS) + 1), 0.0, time.time()])
        counted[0] += 1
        times = self._times[call, route]
        times[bisect_left(_BUCKETS, seconds)] += 1
        times[-2] += seconds

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """The metrics for the registry."""
        labels, name = ["door", "method", "route", "status"], "mnemolog_http_request_duration_seconds"
        requests = CounterMetricFamily("mnemolog_http_requests", "Requests answered.", labels=labels)
        for key, (count, since) in self._counts.items():
            requests.add_metric([*map(str, key)], count, since)
        yield requests
        seconds = HistogramMetricFamily(name, "Time to answer.", labels=["door", "route"])
        for (call, route), (*buckets, total, since) in self._times.items():
            counts = zip((*map(str, _BUCKETS), "+Inf"), accumulate(buckets), strict=True)
            seconds.add_metric([call, route], list(counts), total)
            seconds.add_sample(f"{name}_created", {"door": call, "route": route}, since)
        yield seconds


class Shortcoming(Struct, frozen=True):
    """A degraded condition; `code` is stable."""

    code: str
    message: str


class Usable(Struct, frozen=True, kw_only=True):
    """Reads and writes work; `degraded` lists the limitations. `lag` counts pending entries by partition.

    Server-wide figures are included for operator and metrics keys.
    """

    status: Literal["ready", "degraded"]
    degraded: list[Shortcoming]
    documents: int | UnsetType = UNSET
    lag: dict[int, int] | UnsetType = UNSET
    vitals: HealthSample | UnsetType = UNSET


async def livez(request: Request) -> Response:
    """200 while the process responds."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """200 if reads and writes work, with limitations in `degraded`; otherwise 503 with the reason.

    Checked on each request: the result is never cached.
    """
    call = services(request)
    sample = None
    with suppress(LogUnavailable):
        sample = await call.watch.look()
    readiness = call.watch.readiness
    may_see_figures = principal_of(request.scope).may(METRICS)
    lag = sample.lag if sample and may_see_figures else UNSET
    vitals = msgspec.convert(sample, HealthSample, from_attributes=True) if sample and may_see_figures else UNSET
    if (stopped := readiness.stopped) is not None:
        code = "starting" if stopped.code == "index" else "unavailable"
        return ProblemAnswer(503, code, stopped.message, reason=stopped.code, lag=lag, vitals=vitals)
    shortcomings = [Shortcoming(condition.code, condition.message) for condition in readiness.conditions]
    documents = call.search_index.documents if may_see_figures else UNSET
    status = "degraded" if shortcomings else "ready"
    return Json(Usable(status=status, degraded=shortcomings, documents=documents, lag=lag, vitals=vitals))


async def metrics(request: Request) -> Response:
    """Metrics in Prometheus text format."""
    measured: Metrics = request.app.state.metrics
    call = services(request)
    sample = await call.watch.look()
    measured.lag.clear()
    for partition in call.search_index.applied.keys() - set(sample.away):
        measured.lag.labels(str(partition)).set(sample.lag.get(partition, 0))
    await measured.letters.measure(call.redis, call.operations.letters.partitions)
    with suppress(*UNREACHABLE):  # in a cluster, the node that has it
        if (report := await load_report(call.redis)) is not None:
            for error, count in report.found.items():
                measured.reconciled.labels(error).set(count)
        for outcome, count in (await call.operations.webhooks.counts()).items():
            measured.webhooks.labels(outcome).set(count)
    text = measured.text() if measured.processes is None else measured.processes.of_all()
    return Response(text, media_type=CONTENT_TYPE_LATEST)


ENDPOINTS = [
    Endpoint("GET", "/livez", ANY, livez, "Whether the process responds.", answer=TEXT, media="text/plain", open=True),
    Endpoint(
        "GET", "/readyz", ANY, readyz, "Whether reads and writes work, and known limitations.",
        answer=Usable, faults={503: "Not ready; the body says why."},
    ),
    Endpoint("GET", "/metrics", METRICS, metrics, "Metrics for Prometheus.", answer=TEXT, media="text/plain"),
]  # fmt: skip


class LetterMetrics(Collector):
    """A collector for a registry; `measure` brings it up to date."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._ever: dict[int, Mapping[Outcome, int]] = {}

    async def measure(self, redis: Client, partitions: int) -> None:
        """Read the counts of every partition; a partition that cannot be read keeps its previous counts."""

        async def counts(keys: PartitionKeys) -> tuple[int, Mapping[Outcome, int]]:
            return int(await redis.zcard((await live_keys(redis, keys)).dead)), await letter_counts(redis, keys)

        read = await readable({partition: counts(PartitionKeys(partition)) for partition in range(partitions)})
        for partition, (parked, ever) in read.items():
            self._now[partition], self._ever[partition] = parked, ever

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The last measured values."""
        now = GaugeMetricFamily("mnemolog_dead_letters", "Parked events.", labels=["partition"])
        for partition, count in self._now.items():
            now.add_metric([str(partition)], count)
        yield now
        ever = CounterMetricFamily("mnemolog_dead_letter_changes", "Outcomes of parked events.", labels=["outcome"])
        for outcome in OUTCOMES:
            ever.add_metric([outcome], sum(counts.get(outcome, 0) for counts in self._ever.values()))
        yield ever


REFUSALS = (*CAUSES, "queue", "server")
"""Every reason for which writes are refused for lack of space; each starts at 0."""


FIGURES: Mapping[str, tuple[str, str]] = toml_beside(__file__, "figures.toml")
"""By gauge name without `mnemolog_`: the field of a sample, and the description."""


@dataclass(eq=False)  # collectors are keys
class VitalMetrics(Collector):
    """Reads the newest sample on each scrape. Unknown values are omitted."""

    _watch: Watch
    _refused: Mapping[str, int]

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """The metrics for the registry."""
        ready = float(self._watch.readiness.stopped is None)
        yield GaugeMetricFamily("mnemolog_ready", "1 if reads and writes work, as in /readyz.", ready)
        sample, computed = self._watch.sample, dict[str, float | None]()
        if sample is not None:
            ceiling = memory_ceiling(sample, self._watch.ceilings)
            computed = {"memory_limit": sample.memory_limit or None, "memory_ceiling": ceiling or None}
            computed["away"] = len(sample.away)
        for name, (field, about) in FIGURES.items():
            family = GaugeMetricFamily(f"mnemolog_{name}", about)
            value = computed[field] if field in computed else getattr(sample, field, None)
            if value is not None:
                family.add_metric([], value)
            yield family
        pressure = self._watch.pressure and self._watch.pressure.of(None)
        engaged = pressure.causes if pressure else []
        held = GaugeMetricFamily(
            "mnemolog_write_pressure", "1 while all writes are refused for this reason.", labels=["reason"]
        )
        for cause in CAUSES:
            held.add_metric([cause], float(cause in engaged))
        yield held
        refused = CounterMetricFamily("mnemolog_writes_refused", "Writes refused for lack of space.", labels=["reason"])
        for cause in REFUSALS:
            refused.add_metric([cause], self._refused.get(cause, 0))
        yield refused


LEAVE_EVERY_S = 2.0
COUNTS_FOR_S = 10.0
"""Older metrics belong to a process that has ended."""
OWN = (
    "mnemolog_http_", "mnemolog_append_waiting", "mnemolog_index_", "mnemolog_ready", "mnemolog_writes_refused",
)  # fmt: skip
"""Prefixes of the names of per-process metrics."""


class ProcessFigures:
    """Publishes the metrics of one process, and reads those of the others. An async context manager."""

    def __init__(self, api_process: ApiProcess, text: Callable[[], bytes]) -> None:
        self._sibling, self._text = api_process, text
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="metrics for the other processes")
        return self

    async def __aexit__(self, *exception: object) -> None:
        await end(self._task)
        self._file(self._sibling.number).unlink(missing_ok=True)

    def of_all(self) -> bytes:
        """The current metrics, merged with those of the other processes."""
        own, texts = self._sibling.number, dict[int, str]()
        for number in range(self._sibling.processes):
            file = self._file(number)
            with suppress(OSError):
                if number == own:
                    texts[number] = self._text().decode()
                elif time.time() - file.stat().st_mtime < COUNTS_FOR_S:
                    texts[number] = file.read_text("utf-8")
        return merged(texts, own).encode()

    async def _run(self) -> None:
        own = self._file(self._sibling.number)
        while True:
            beside = own.with_suffix(".new")
            beside.write_bytes(self._text())
            beside.replace(own)  # atomic: another process never reads half a file
            await asyncio.sleep(LEAVE_EVERY_S)

    def _file(self, number: int) -> Path:
        return self._sibling.folder / f"figures-{number}"


def merged(texts: Mapping[int, str], own: int) -> str:
    """One exposition from several processes' texts: OWN metrics from each, with a label, and the rest from this
    process."""
    parts: list[str] = []
    families = {number: dict(_families(text)) for number, text in texts.items()}
    for name, (about, samples) in families[own].items():
        parts += about
        if not name.startswith(OWN):
            parts += samples
            continue
        for number, of_process in families.items():
            for sample in of_process.get(name, ((), ()))[1]:
                family, brace, labels = sample.partition("{")
                if brace:
                    parts.append(f'{family}{{process="{number}",{labels}')
                else:
                    family, _, value = sample.partition(" ")
                    parts.append(f'{family}{{process="{number}"}} {value}')
    return "\n".join(parts) + "\n"


def _families(text: str) -> Iterator[tuple[str, tuple[list[str], list[str]]]]:
    for block in text.removeprefix("# HELP ").split("\n# HELP "):
        lines = f"# HELP {block}".rstrip("\n").split("\n")
        about = [line for line in lines if line.startswith("#")]
        yield block.split(" ", 1)[0], (about, lines[len(about) :])
