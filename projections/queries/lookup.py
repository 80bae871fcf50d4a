"""Documents by id, and what the index finds for a reader."""

from collections.abc import Callable, Sequence
from typing import Any

from ingest.errors import NotFound
from ingest.ids import DocumentId
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.documents.access import Reader, may_read
from projections.documents.document import Document, Mark
from projections.documents.ledgers import Ledger
from projections.documents.sessions import Session
from projections.queries import near
from projections.queries.documents import DocumentReader, Located
from projections.queries.near import Place, reach
from projections.search.service import ReplicaService


class Lookup:
    """Answers what exists, of whatever kind."""

    def __init__(self, replica: ReplicaService, documents: DocumentReader, clock: Clock = system_clock) -> None:
        self._replica, self._documents, self._clock = replica, documents, clock

    async def document(self, name: str, reader: Reader) -> Located:
        """What a reader may see of an id; raises NotFound, also for what this reader may not see."""
        found = await self._documents.find(DocumentId(name))
        if found is None or not may_read(found.document, reader) or isinstance(found.document, Mark | Session | Ledger):
            raise NotFound(f"there is no document {name!r}")
        return found

    async def documents(self, names: Sequence[str], reader: Reader) -> list[Located]:
        """Those of the documents that the reader may see, in the order of the names."""
        found = await self._documents.find_all([DocumentId(name) for name in names])
        return [one for one in found if may_read(one.document, reader) and not isinstance(one.document, Mark | Ledger)]

    async def count(self, reader: Reader, project: str | None = None, **narrowing: Any) -> int:
        """How many documents recall may find for a reader, narrowed as a Filter can be."""
        allowed, now_ms = reach(reader, project, **narrowing), to_ms(self._clock())
        return await self._replica.in_index_thread(near.count, self._replica.index, allowed, now_ms)

    async def found(
        self, work: Callable[..., list[Place]], reader: Reader, project: str | None, *args: Any, **narrowing: Any
    ) -> list[Document]:
        """What a function of `near` finds for a reader, of a project or of all, narrowed as a Filter can be."""
        allowed, now_ms = reach(reader, project, **narrowing), to_ms(self._clock())
        where = await self._replica.in_index_thread(work, self._replica.index, allowed, now_ms, *args)
        return [one for one in await self._documents.get(where) if one is not None and may_read(one, reader)]

    async def projects(self, reader: Reader) -> list[str]:
        """The projects in which the reader finds anything, by name; the nameless one is the empty name."""
        allowed, now_ms = reach(reader), to_ms(self._clock())
        return await self._replica.in_index_thread(near.projects, self._replica.index, allowed, now_ms)
