"""How far the projections are behind the log."""

from typing import Any

from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.search.service import ReplicaService


class Progress:
    """Answers how far every partition is."""

    def __init__(self, redis: Client, log: EventLog, replica: ReplicaService) -> None:
        self._redis, self._log, self._replica = redis, log, replica

    async def __call__(self) -> list[dict[str, Any]]:
        """For every partition: head of the log, checkpoint, what is searchable, how many entries wait, dead letters."""
        applied, behind = self._replica.applied, await self._replica.measure_lag()
        rows: list[dict[str, Any]] = []
        for partition in range(self._log.partitions):
            keys = PartitionKeys(partition)
            head = await self._log.head(partition)
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.get(keys.generation)
                pipe.get(keys.lease)
                generation, lease = await pipe.execute()
            live = keys.of_generation(int(generation or 1))
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.get(live.checkpoint)
                pipe.zcard(live.embed_queue)
                pipe.xlen(live.changes)
                pipe.zcard(live.dead)
                stored, waiting, feed, dead = await pipe.execute()
            checkpoint = Position.parse(stored) if stored else START
            rows.append(
                {
                    "partition": partition,
                    "generation": live.generation,
                    "head": str(head),
                    "checkpoint": str(checkpoint),
                    "searchable": str(applied.get(partition, START)),
                    "lag": behind.get(partition, 0),
                    "to_embed": waiting,
                    "feed": feed,
                    "dead_letters": dead,
                    "worker": lease.decode() if lease else None,
                }
            )
        return rows
