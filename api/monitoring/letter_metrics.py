"""Dead letters in the metrics: how many there are, and what became of all that there ever were.

The numbers are the log's, not this process's: they are read from Redis when the metrics are asked for, and are the same
from every process and across restarts.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from projections.maintenance.dead_letters import OUTCOMES, letter_counts, live_keys


class LetterMetrics(Collector):
    """A collector for a registry; `measure` brings it up to date."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._ever = dict.fromkeys(OUTCOMES, 0)

    async def measure(self, redis: Client, partitions: int) -> None:
        """Read the numbers of every partition."""
        ever = dict.fromkeys(OUTCOMES, 0)
        for partition in range(partitions):
            keys = PartitionKeys(partition)
            self._now[partition] = int(await redis.zcard((await live_keys(redis, keys)).dead))
            for outcome, count in (await letter_counts(redis, keys)).items():
                ever[outcome] += count
        self._ever = ever

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """What was measured last."""
        now = GaugeMetricFamily("mnemolog_dead_letters", "Parked events.", labels=["partition"])
        for partition, count in self._now.items():
            now.add_metric([str(partition)], count)
        yield now
        ever = CounterMetricFamily("mnemolog_dead_letter_changes", "What became of parked events.", labels=["outcome"])
        for outcome, count in self._ever.items():
            ever.add_metric([outcome], count)
        yield ever
