"""What a command reads before its event is appended.

A read waits until everything that was acknowledged before it is projected, so a client can write a document and then
write about it.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, TypeVar

from msgspec.structs import asdict, replace

from ingest.commands.decide import AnyCommand, Caller
from ingest.commands.handler import Accepted, CommandHandler
from ingest.errors import CHANGE_REFUSED, NotFound, ProjectionBehind
from ingest.events.envelope import EventData
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog
from ingest.log.position import START, Token, partition_of, project_route, session_route
from ingest.nouns.memory import MemoryRevised
from ingest.platform.clock import from_ms
from projections.nouns.access import Reader, may_read
from projections.nouns.batch import mark_id
from projections.nouns.document import Document
from projections.nouns.memory import Memory
from projections.nouns.session import Session
from projections.nouns.tombstone import SupersededEvent, Tombstone
from projections.queries.documents import DocumentReader, Located
from projections.queries.memory import MAX_VERSIONS
from projections.queries.session import locate_session

D = TypeVar("D")

Wait: TypeAlias = "Callable[[Token], Awaitable[None]]"
"""Returns once a position is projected; raises ProjectionBehind when that takes too long."""


DECIDED_WITHIN_WAITS = 5
"""How often a write that the fold decides waits in a row: its caller does not notice the restart of a worker."""


class Applied(Accepted, frozen=True, kw_only=True):
    """An acknowledged change that depended on the document's state, and the version that it made."""

    version: int = 0
    expires_at: datetime | None = None


@dataclass
class Current:
    """Reads and appends. The fold settles races, in log order."""

    _commands: CommandHandler
    documents: DocumentReader
    log: EventLog
    _wait: Wait

    async def give(self, command: AnyCommand, caller: Caller) -> Accepted:
        """Append a command's event. Raises what the command handler raises."""
        return await self._commands.handle(command, caller)

    async def change(self, command: AnyCommand, event: type[EventData], caller: Caller) -> Accepted:
        """Append a change's event. With an expected version or a token, return what the fold decided: see `decided`."""
        if getattr(command, "expected_version", None) is None and not getattr(command, "token", ""):
            return await self.give(command, caller)
        return await self.decided(command, event, caller)

    async def decided(self, command: AnyCommand, event: type[EventData], caller: Caller) -> Applied:
        """Append a command's event, and wait until it is folded.

        Returns the document's id and version after the event. Raises a ChangeRefused, NotFound, or ProjectionBehind if
        that takes too long: then the outcome is unknown, and repeating the command with its event id returns it.
        """
        accepted = await self.give(command, caller)
        token = Token.parse(accepted.position)
        for _ in range(DECIDED_WITHIN_WAITS - 1):
            with suppress(ProjectionBehind):
                await self._wait(token)
        await self._wait(token)
        name = mark_id(project_route(caller.tenant, command.project), event.TYPE, accepted.event_id)
        (mark,) = await self.documents.get([(next(iter(token)), name)])
        if mark is None and event is MemoryRevised:  # a mark would say that it was refused
            (revised,) = await self.documents.get([(next(iter(token)), DocumentId(accepted.id))])
            if isinstance(revised, Memory):
                return Applied(**asdict(accepted), version=revised.version)
        outcome = mark.outcome if isinstance(mark, SupersededEvent) else None
        if not isinstance(mark, SupersededEvent) or outcome is None or outcome.refused == NotFound.code:
            raise NotFound(f"there is no document {accepted.id!r}")
        expires_at = from_ms(outcome.until_ms) if outcome.until_ms else None
        if outcome.refused:
            raise CHANGE_REFUSED[outcome.refused](outcome.version, outcome.changed_by, expires_at)
        applied = Applied(**asdict(accepted), version=outcome.version, expires_at=expires_at)
        return replace(applied, id=mark.subject)

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
