"""StateStore in memory: for tests, and to compare a live projection with a replay from zero."""

from collections.abc import Collection, Sequence

from ingest.events.envelope import Event
from ingest.ids import DocumentId
from ingest.log.position import START, Position
from projections.documents.document import Document, listings
from projections.documents.listings import whole_of
from projections.folds.fold import Changes


class MemoryStore:
    """Keeps everything in dictionaries; `erased` collects the stubs of log entries that forgetting erased."""

    def __init__(self) -> None:
        self.documents: dict[DocumentId, Document] = {}
        self.listings: dict[str, set[str]] = {}
        self.erased: dict[Position, Event] = {}
        self._checkpoint = START

    async def load(self, ids: Collection[DocumentId]) -> dict[DocumentId, Document]:
        return {name: self.documents[name] for name in ids if name in self.documents}

    async def members(self, listings: Collection[str]) -> dict[str, Sequence[str]]:
        return {name: self._members(name) for name in listings}

    async def save(self, changes: Changes, position: Position) -> None:
        for name, (before, after) in changes.documents.items():
            for listing, member in listings(before):
                self.listings[listing].discard(member)
            for listing, member in listings(after):
                self.listings.setdefault(listing, set()).add(member)
            if after is None:
                self.documents.pop(name, None)
            else:
                self.documents[name] = after
        self.erased.update(changes.erased)
        self._checkpoint = max(self._checkpoint, position)

    def _members(self, name: str) -> list[str]:
        listing, beginning = whole_of(name)
        return sorted(member for member in self.listings.get(listing, ()) if member.startswith(beginning))

    async def checkpoint(self) -> Position:
        return self._checkpoint
