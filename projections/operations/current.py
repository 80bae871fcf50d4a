"""What a command reads before its event is appended.

A read waits until everything that was acknowledged before it is projected, so a client can write a document and then
write about it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from ingest.commands.decide import AnyCommand, Caller
from ingest.commands.handler import Accepted, CommandHandler
from ingest.errors import NotFound
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog
from ingest.log.position import START, Token, partition_of, project_route, session_route
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Document
from projections.nouns.memory import Memory
from projections.nouns.session import Session
from projections.nouns.tombstone import Tombstone
from projections.queries.documents import DocumentReader, Located
from projections.queries.memory import MAX_VERSIONS
from projections.queries.session import locate_session

D = TypeVar("D")

Wait: TypeAlias = "Callable[[Token], Awaitable[None]]"
"""Returns once a position is projected; raises ProjectionBehind when that takes too long."""


class Current:
    """Reads and appends. The fold settles races, in log order."""

    def __init__(self, commands: CommandHandler, documents: DocumentReader, log: EventLog, wait: Wait) -> None:
        self.documents, self.log = documents, log
        self._commands, self._wait = commands, wait

    async def give(self, command: AnyCommand, caller: Caller) -> Accepted:
        """Append a command's event. Raises what the command handler raises."""
        return await self._commands.handle(command, caller)

    async def append_batch(self, commands: Sequence[AnyCommand], caller: Caller) -> Token:
        """Append the events of several commands at once; returns their position. Raises the first rejection."""
        outcome = await self._commands.handle_batch(commands, caller)
        for _, error in outcome.rejected:
            raise error
        return outcome.token

    async def settle(self, *routes: str) -> Token:
        """Wait until what is in the partitions of these routes now is projected; in every partition without any.

        Returns the position waited for.
        """
        partitions = {partition_of(route, self.log.partitions) for route in routes} or range(self.log.partitions)
        token = Token()
        for partition in sorted(partitions):
            head = await self.log.head(partition)
            if head != START:
                token.include(partition, head)
        if token:
            await self._wait(token)
        return token

    async def settle_project(self, tenant: str, project: str) -> None:
        """Wait for a project's own stream."""
        await self.settle(project_route(tenant, project))

    async def settle_session(self, tenant: str, project: str, session_id: str) -> None:
        """Wait for a session's stream."""
        await self.settle(session_route(tenant, project, session_id))

    async def find(self, name: str, kind: type[D], reader: Reader) -> tuple[int, D]:
        """The document of a kind with this id, as it stands after everything acknowledged.

        Raises NotFound if it does not exist, or the reader can't see it.
        """
        located = await self._locate(name, kind, reader)
        if located is None:
            await self.settle()
        else:
            # the document exists, but a write acknowledged before this read may have changed it
            await self.settle_project(reader.tenant, getattr(located.document, "project", ""))
        located = await self._locate(name, kind, reader)
        if located is None or not isinstance(located.document, kind):
            raise NotFound(f"there is no {kind.__name__.lower()} {name!r}")
        return located.partition, located.document

    async def session(self, session_id: str, project: str | None, reader: Reader) -> Session:
        """A session as it stands after everything acknowledged; without a project, the one of that id.

        Raises NotFound if it does not exist, or the reader can't see it; CommandRejected if several projects have one.
        """
        if project is None:
            await self.settle()
        else:
            await self.settle_session(reader.tenant, project, session_id)
        located = await locate_session(self.documents, reader.tenant, session_id, project, reader.key_scope)
        if not isinstance(located.document, Session) or not may_read(located.document, reader):
            raise NotFound(f"there is no session {session_id!r}")
        return located.document

    async def find_all(self, names: Sequence[str], reader: Reader) -> list[Document]:
        """Those of the documents that the reader can see after everything acknowledged, in the order of the names."""
        await self.settle()
        documents = await self.documents.find_all([DocumentId(name) for name in names])
        return [located.document for located in documents if may_read(located.document, reader)]

    async def versions(self, memory: Memory) -> tuple[list[Memory], Memory]:
        """Every version of a memory, oldest first, for any reader; and the newest of what took its place.

        The newest is the last version, unless that was condensed. A forgotten version does not say what came before it.
        """
        home = partition_of(project_route(memory.tenant, memory.project), self.log.partitions)
        chain, at = [memory], memory
        while at.parent_id and len(chain) < MAX_VERSIONS:
            (parent,) = await self.documents.get([(home, DocumentId(at.parent_id))])
            if not isinstance(parent, Memory):
                break
            chain.insert(0, at := parent)
        newest, last, one_memory = memory, memory.id, True
        successor, steps = memory.superseded_by, 0
        while successor and steps < MAX_VERSIONS:
            (following,) = await self.documents.get([(home, DocumentId(successor))])
            if not isinstance(following, Memory | Tombstone):
                break
            if isinstance(following, Memory):
                newest, one_memory = following, one_memory and following.parent_id == last
                if one_memory:
                    chain.append(following)
            last, successor, steps = following.id, following.superseded_by, steps + 1
        return chain, newest

    async def get(self, route: str, name: DocumentId) -> Document | None:
        """The document of a route, as it stands after everything acknowledged there."""
        await self.settle(route)
        (document,) = await self.documents.get([(partition_of(route, self.log.partitions), name)])
        return document

    async def _locate(self, name: str, kind: type[D], reader: Reader) -> Located | None:
        located = await self.documents.find(DocumentId(name))
        if located is None or not isinstance(located.document, kind) or not may_read(located.document, reader):
            return None
        return located


class Writing:
    """Commands given one after another."""

    def __init__(self, current: Current, caller: Caller, position: str = "") -> None:
        """`position`: of what was written before, and is to be covered as well."""
        self._current, self._caller = current, caller
        self._token = Token.parse(position) if position else Token()

    async def give(self, command: AnyCommand) -> Accepted:
        """Append a command's event. Raises what the command handler raises."""
        accepted = await self._current.give(command, self._caller)
        self._token.include_all(Token.parse(accepted.position))
        return accepted

    @property
    def position(self) -> str:
        """Covers all that was written; empty for nothing."""
        return str(self._token)
