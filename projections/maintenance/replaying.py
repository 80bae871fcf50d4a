"""A log folded from zero in memory: what the documents must be, to compare with what they are.

One partition at a time: it needs memory for all of a partition's documents, as Python objects (some 3 to 5 times the
bytes of its entries), and nothing that grows with the log beyond them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ingest.events.envelope import decode
from ingest.log.event_log import EventLog, Stored, pages
from ingest.log.position import START, Position
from projections.maintenance.manifests import DocumentManifest, PartitionManifest, manifest_of_store
from projections.store.memory_store import MemoryStore
from projections.store.protocol import project

ENTRIES_PER_READ = 500


class Replay:
    """One partition's documents, made from its entries in their order.

    An entry that cannot be read or applied is passed over, as a worker passes over it when it is parked; `parked` has
    the positions. Those of `without` (discarded dead letters) are passed over unread.
    """

    def __init__(self, without: Collection[Position] = ()) -> None:
        self.store = MemoryStore()
        self.position = START
        self.parked: list[Position] = []
        self._without = without

    async def apply(self, entries: Sequence[Stored]) -> None:
        """Go on with these entries; if any of them fails, each alone."""
        wanted = [entry for entry in entries if entry.payload and entry.position not in self._without]
        try:
            await self._save(wanted)
        except Exception:  # whatever a fold raises parks the event, in a worker too
            for entry in wanted:
                try:
                    await self._save([entry])
                except Exception:
                    self.parked.append(entry.position)
        if entries:
            self.position = max(self.position, entries[-1].position)

    @property
    def manifest(self) -> PartitionManifest:
        """The manifest of what is there so far."""
        return manifest_of_store(self.store, self.position)

    async def _save(self, entries: Sequence[Stored]) -> None:
        if entries:
            changes = await project(self.store, [decode(entry.payload, entry.position) for entry in entries])
            await self.store.save(changes, entries[-1].position)


async def replay(
    log: EventLog, partition: int, up_to: Position | None = None, without: Collection[Position] = ()
) -> Replay:
    """A partition's log, up to a position (to its end, when none is given), folded from zero."""
    made = Replay(without)
    async for entries in pages(log, partition, up_to, limit=ENTRIES_PER_READ):
        await made.apply(entries)
    return made


async def replay_manifest(
    log: EventLog, partitions: Iterable[int], without: Mapping[int, Collection[Position]] | None = None
) -> DocumentManifest:
    """The manifest that the live documents of partitions must have, one partition in memory at a time.

    `without` has the positions that are discarded, by partition.
    """
    discarded = without or {}
    return DocumentManifest(
        {one: (await replay(log, one, without=discarded.get(one, ()))).manifest for one in partitions}
    )
