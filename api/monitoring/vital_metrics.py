"""Dead letters and the vital signs as metrics.

Counts of dead letters are the log's, not this process's: they are read from Redis when the metrics are asked for, and
are the same from every process and across restarts."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from projections.health.pressure import CAUSES, memory_ceiling
from projections.health.watch import Watch
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


REFUSALS = (*CAUSES, "queue", "server")
"""Every reason for which a write is refused for want of room; each is there from the start, at 0."""


class VitalMetrics(Collector):
    """Reads the newest sample when it is scraped. A figure that nobody knows is left out."""

    def __init__(self, watch: Watch, refused: Mapping[str, int]) -> None:
        self._watch, self._refused = watch, refused

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """What the registry asks for."""
        for name, (about, value) in self._figures().items():
            family = GaugeMetricFamily(name, about)
            if value is not None:
                family.add_metric([], value)
            yield family
        engaged = self._watch.pressure.causes if self._watch.pressure is not None else []
        held = GaugeMetricFamily(
            "mnemolog_write_pressure", "1 while writes are refused for this reason.", labels=["reason"]
        )
        for cause in CAUSES:
            held.add_metric([cause], float(cause in engaged))
        yield held
        refused = CounterMetricFamily("mnemolog_writes_refused", "Writes refused for want of room.", labels=["reason"])
        for cause in REFUSALS:
            refused.add_metric([cause], self._refused.get(cause, 0))
        yield refused

    def _figures(self) -> dict[str, tuple[str, float | None]]:
        """What each gauge is called, says, and stands at."""
        at = self._watch.sample
        memory_limit = ceiling = None
        if at is not None:
            memory_limit, ceiling = at.memory_limit or None, memory_ceiling(at, self._watch.ceilings) or None
        return {
            "mnemolog_ready": (
                "1 when reads and writes work, as /readyz says.",
                float(self._watch.readiness.stopped is None),
            ),
            "mnemolog_workers": ("Workers that are alive.", at and at.workers),
            "mnemolog_projection_oldest_pending_seconds": (
                "Age of the first event that is not projected yet.",
                at and at.oldest_pending_s,
            ),
            "mnemolog_embedding_backlog": ("Texts that wait for a vector.", at and at.to_embed),
            "mnemolog_feed_entries": ("Entries of the change feeds.", at and at.feed_entries),
            "mnemolog_snapshot_age_seconds": ("Age of the newest index snapshot.", at and at.snapshot_age_s),
            "mnemolog_index_outdated_seconds": (
                "For how long the index has followed a generation that is not the live one.",
                at and at.outdated_s,
            ),
            "mnemolog_store_memory_used_bytes": (
                "Memory of the log's server; of a cluster, of the fullest node.",
                at and at.memory_used,
            ),
            "mnemolog_store_memory_limit_bytes": ("Its maxmemory.", memory_limit),
            "mnemolog_store_memory_ceiling_bytes": ("What it may use before writes are refused.", ceiling),
            "mnemolog_store_log_file_ok": (
                "0 when its append-only file could not be written.",
                None if at is None or at.log_file_ok is None else float(at.log_file_ok),
            ),
            "mnemolog_disk_free_bytes": ("Free space on the log's disk.", at and at.disk_free),
        }
