"""The documents of a generation that is not live yet, as the worker that rebuilds it writes them.

Unlike RedisStore it writes neither a change feed nor an embedding queue, because a follower compares the documents when
the generation becomes live (decision 36). And it caches what it wrote, within limits, so that most documents that the
next batch reads are in memory.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence

from ingest.ids import DocumentId
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client, Transaction
from projections.nouns.document import Document
from projections.nouns.fold import Changes
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.tombstone import SupersededEvent, Tombstone
from projections.store.redis_store import Also, RedisStore

KEPT = 10_000
"""Documents that are kept, some 3 kB each."""
KEPT_CHARS = 4_000
"""Longer memories are not kept."""


class RebuildStore(RedisStore):
    """One generation of one partition, not live; `rebuilder`, if one is named, has the partition's lease on rebuilding.

    Saving is atomic. A crash leaves the generation as of its checkpoint.
    """

    def __init__(self, redis: Client, keys: PartitionKeys, generation: int, rebuilder: str = "") -> None:
        super().__init__(redis, keys, generation, None, rebuilder)
        self.partition, self.generation, self.rebuilder = keys.partition, generation, rebuilder
        self._reached = START
        self._forget()

    async def checkpoint(self) -> Position:
        """The newest position that is applied. What is kept belongs to it: if another has written since, it goes."""
        reached = await super().checkpoint()
        if reached != self._reached:
            self._forget()
            self._reached = reached
        return reached

    async def load(self, ids: Collection[DocumentId]) -> dict[DocumentId, Document]:
        documents: dict[DocumentId, Document] = {}
        others: list[DocumentId] = []
        for name in ids:
            document = self._kept.get(name)
            if document is None:
                others.append(name)
            else:
                self._kept.move_to_end(name)
                documents[name] = document
        loaded = await super().load(others)
        for name, document in loaded.items():
            self._keep(name, document)
        return documents | loaded

    async def save_and(self, changes: Changes, position: Position, also: Also, contexts: Sequence[str] = ()) -> None:
        await super().save_and(changes, position, also, contexts)
        for name, change in changes.documents.items():
            self._keep(name, change.after)
        self._reached = position

    def _queue_outputs(self, pipe: Transaction, changes: Changes, position: Position, contexts: Sequence[str]) -> None:
        pass  # followers compare the documents when the generation becomes live (decision 36)

    def _forget(self) -> None:
        self._kept: OrderedDict[DocumentId, Document] = OrderedDict()

    def _keep(self, name: DocumentId, document: Document | None) -> None:
        """Keep what is likely to be looked at again; most observations and marks never are."""
        if (
            document is None
            or isinstance(document, Observation | SupersededEvent | Tombstone)
            or (isinstance(document, Memory) and len(document.content) > KEPT_CHARS)
        ):
            self._kept.pop(name, None)
            return
        self._kept[name] = document
        self._kept.move_to_end(name)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
