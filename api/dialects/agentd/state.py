"""What the agentd-memory listener keeps in the process: its counters, and whether readers must name themselves."""

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ingest.events.memory import Purpose, Visibility
from ingest.platform.settings import Settings

VERSION = "0.2.0"
"""Of the agentd whose API this is: what its clients show."""


class ServiceMetrics(Collector):
    """What this process did for agentd's clients. Every counter is there from the start, at 0."""

    def __init__(self) -> None:
        self._created: Counter[tuple[str, str]] = Counter()
        self.deleted = self.searched = 0
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def created(self, purpose: Purpose, visibility: Visibility) -> None:
        """Count a memory."""
        self._created[purpose, visibility] += 1

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """The metrics as they stand; what the registry asks for."""
        created = CounterMetricFamily("memories_created", "Memories created.", labels=["type", "visibility"])
        for labels in product(get_args(Purpose), get_args(Visibility)):
            created.add_metric(labels, self._created[labels])
        yield created
        yield CounterMetricFamily("memories_deleted", "Memories deleted.", self.deleted)
        yield CounterMetricFamily("memories_searched", "Searches answered.", self.searched)
        info = GaugeMetricFamily("service_info", "Which service this is.", labels=["version", "service"])
        info.add_metric([VERSION, "memory"], 1)
        yield info


class AgentdState:
    """`strict`: whoever does not say who asks sees only what is public."""

    def __init__(self, settings: Settings) -> None:
        self.metrics = ServiceMetrics()
        self.strict = settings.agentd_strict
