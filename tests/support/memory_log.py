"""EventLog in memory, for tests: the same rules, none of the durability."""

from collections.abc import Callable, Mapping, Sequence

from ingest.durability import Durability
from ingest.errors import DurabilityUnavailable
from ingest.log.event_log import Appended, Entry, LogHistory, Stored
from ingest.log.position import START, Position


class MemoryLog:
    """Keeps every entry in lists; the dedup window forgets by age (milliseconds of `clock_ms`) and by count."""

    def __init__(
        self, partitions: int, clock_ms: Callable[[], int], window_ms: int = 3_600_000, window_ids: int = 250_000
    ) -> None:
        self._entries: list[list[Stored]] = [[] for _ in range(partitions)]
        self._seen: list[dict[str, Position]] = [{} for _ in range(partitions)]
        self._clock_ms = clock_ms
        self._window_ms, self._window_ids = window_ms, window_ids
        self.history = LogHistory(partitions)

    @property
    def partitions(self) -> int:
        return len(self._entries)

    def server_of(self, partition: int) -> str:
        return ""

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        return {partition: [self._append(partition, entry) for entry in batch] for partition, batch in batches.items()}

    async def append_past_limit(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        return await self.append(batches)

    async def standing_durability(self) -> Durability:
        return "memory"

    async def why_never(self, requested: Durability) -> str:
        return "" if requested == "memory" else "it is kept in memory"

    async def confirm(self, newest: Mapping[int, Position], requested: Durability) -> Durability:
        if requested != "memory":
            raise DurabilityUnavailable(requested, "it is kept in memory")
        return requested

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        return [stored for stored in self._entries[partition] if stored.position > after][:limit]

    async def read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        newest_first = reversed(self._entries[partition])
        return [stored for stored in newest_first if before is None or stored.position < before][:limit]

    def erase(self, partition: int, erased: Mapping[Position, bytes]) -> None:
        """Put stubs in the place of entries."""
        self._entries[partition] = [
            Stored(stored.position, erased.get(stored.position, stored.payload)) for stored in self._entries[partition]
        ]

    async def head(self, partition: int) -> Position:
        entries = self._entries[partition]
        return entries[-1].position if entries else START

    def _append(self, partition: int, entry: Entry) -> Appended:
        observation, entries = self._seen[partition], self._entries[partition]
        now = self._clock_ms()
        first = observation.get(entry.dedup_id)
        if first is not None and now - first.ms <= self._window_ms:
            return Appended(first, duplicate=True)
        last = entries[-1].position if entries else START
        position = Position(now, 0) if now > last.ms else Position(last.ms, last.seq + 1)
        entries.append(Stored(position, entry.payload))
        observation.pop(entry.dedup_id, None)
        observation[entry.dedup_id] = position
        while len(observation) > self._window_ids:
            del observation[next(iter(observation))]
        return Appended(position, duplicate=False)
