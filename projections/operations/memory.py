"""Changing a memory: a new version, or other readers. What is restricted, only its creator and its owner may change."""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import asdict, replace

from ingest.commands.decide import Caller, ChangeVisibility, Quarantine, ReviseMemory
from ingest.commands.handler import Accepted
from ingest.errors import CommandRejected, Forbidden, NotFound
from ingest.ids import part_id
from ingest.log.position import Position, Token
from ingest.nouns.command import EventName, Importance, Name, Names, Title, Version
from ingest.nouns.memory import MemoryRevised, MemoryType, Purpose, Visibility
from projections.nouns.access import Reader, may_change, may_read
from projections.nouns.document import carried
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.operations.current import Current


class MemoryChanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a memory; null stays, but new `content` drops the old `valid_until`.

    `visibility` and `shared_with` alone make no new version, unless there is an `expected_version`.
    """

    event_id: EventName = ""
    content: str | None = None
    title: Title | None = None
    memory_type: MemoryType | None = None
    purpose: Purpose | None = None
    tags: Names | None = None
    concepts: Names | None = None
    files: Names | None = None
    references: Names | None = None
    importance: Importance | None = None
    visibility: Visibility | None = None
    shared_with: Names | None = None
    agent_id: Name = ""
    valid_until: datetime | None = None
    mandatory: bool | None = None
    expected_version: Version | None = None

    @property
    def only_readers(self) -> bool:
        """Whether nothing but who can read it changes."""
        others = {*self.__struct_fields__} - {"event_id", "agent_id", "visibility", "shared_with", "expected_version"}
        return all(getattr(self, name) is None for name in others)


class MemoryOperations:
    """Commands about memories that exist; and quarantine, also of lessons and observations."""

    def __init__(self, current: Current) -> None:
        self._current = current

    async def find(self, name: str, reader: Reader) -> Memory:
        """A memory as it stands after everything acknowledged; raises NotFound."""
        _, memory = await self._current.find(name, Memory, reader)
        return memory

    async def quarantine(self, order: Quarantine, reader: Reader, caller: Caller) -> Accepted:
        """Hide a memory, a lesson or an observation, or show it again; raises NotFound for any other id."""
        document = next(iter(await self._current.find_all([order.document], reader)), None)
        if not isinstance(document, Memory | Lesson | Observation):
            raise NotFound(f"there is no memory, lesson or observation {order.document!r}")
        session = document.session_id if isinstance(document, Observation) else ""
        return await self._current.give(replace(order, project=document.project, session_id=session), caller)

    async def change(self, name: str, changes: MemoryChanges, reader: Reader, caller: Caller) -> Accepted:
        """Change a memory, as a new version or in who can read it.

        The answer's id is the new version's, or the memory's own. A new version follows the newest, and takes from it
        what does not change, whichever version `name` is. Who can read it changes for its earlier versions as well.
        Raises NotFound, also when the newest is not for this reader; Forbidden when the memory is somebody else's (a
        public one's text anybody may revise, as a new version).
        """
        same_readers = changes.visibility is None and changes.shared_with is None
        if changes.only_readers and same_readers:
            raise CommandRejected("no changes requested", None)
        named = await self.find(name, reader)
        if changes.only_readers and changes.expected_version is None:
            return await self.show_to(named, changes.visibility, changes.shared_with, reader, caller, changes.event_id)
        versions, newest = await self._current.versions(named)
        if not may_read(newest, reader):
            raise NotFound(f"there is no memory {name!r}")
        restricts = changes.visibility not in (None, newest.visibility) or changes.shared_with is not None
        if newest.visibility != "public" or restricts:
            _check_owner(newest, reader)
        revision = revision_of(newest, changes, reader)
        accepted = await self._current.change(revision, MemoryRevised, caller)
        if same_readers:
            return accepted
        readers = revision.visibility, revision.shared_with
        others = [version for version in versions if (version.visibility, version.shared_with) != readers]
        return await self._show_others(others, *readers, accepted, reader, caller)

    async def show_to(
        self,
        memory: Memory,
        visibility: Visibility | None,
        shared_with: list[str] | None,
        reader: Reader,
        caller: Caller,
        event_id: str = "",
    ) -> Accepted:
        """Change who can read a memory, in all its versions that the reader may change. An operator need not own it.

        None keeps what the newest of them has.
        """
        _check_owner(memory, reader)
        versions, _ = await self._current.versions(memory)
        newest = [version for version in versions if _owns(version, reader)][-1]
        visibility = visibility or newest.visibility
        if visibility != "public" and not (memory.agent_id or memory.owner):
            raise CommandRejected("the memory has no creator and no owner: no agent could read it", "visibility")
        readers = newest.shared_with if shared_with is None and newest.id != memory.id else shared_with
        command = _showing(memory, visibility, readers, reader, event_id)
        accepted = await self._current.give(command, caller)
        readers = newest.shared_with if shared_with is None else shared_with
        return await self._show_others(versions, visibility, readers, accepted, reader, caller)

    async def _show_others(
        self,
        versions: list[Memory],
        visibility: Visibility,
        shared_with: list[str],
        accepted: Accepted,
        reader: Reader,
        caller: Caller,
    ) -> Accepted:
        """Show the other versions to the same readers; the answer's position is after all of it.

        Their event ids come from that of the first, so a repeat of a change that was cut short completes it. Versions
        that are newer than the first are not what it was about.
        """
        first = Token.parse(accepted.position)
        commands: list[ChangeVisibility] = []
        for version in versions:
            if version.id == accepted.id or not _owns(version, reader):
                continue
            if Position.parse(version.position) <= max(first.values()):
                own_id = part_id("show", accepted.event_id, version.id)
                commands.append(_showing(version, visibility, shared_with, reader, own_id))
        if not commands:
            return accepted
        position = await self._current.append_batch(commands, caller)
        return replace(accepted, position=str(position))


def _showing(
    memory: Memory, visibility: Visibility, shared_with: list[str] | None, reader: Reader, event_id: str
) -> ChangeVisibility:
    return ChangeVisibility(
        event_id=event_id,
        project=memory.project,
        agent_id=reader.agent_id,
        memory=memory.id,
        visibility=visibility,
        shared_with=shared_with,
    )


def _owns(memory: Memory, reader: Reader) -> bool:
    """Whether the reader can change a memory's readers; any reader can if it has no creator and no owner."""
    return reader.operator or not (memory.agent_id or memory.owner) or may_change(memory, reader.agent_id)


def _check_owner(memory: Memory, reader: Reader) -> None:
    if not _owns(memory, reader):
        raise Forbidden(f"memory {memory.id} belongs to another agent: only its creator or owner can change it")


def revision_of(memory: Memory, changes: MemoryChanges, reader: Reader) -> ReviseMemory:
    """Return the command for a new version of a memory. It has every field of the memory that `changes` leaves out."""
    fields = carried(memory, ReviseMemory, without={"occurred_at"})
    fields |= {name: value for name, value in asdict(changes).items() if value is not None}
    if changes.content is not None and changes.title is None:
        fields["title"] = ""
    if changes.content not in (None, memory.content):  # a new statement does not end when the old one does
        fields |= {"valid_until": changes.valid_until, "trust": ""}
    fields |= {"memory": memory.id, "agent_id": reader.agent_id or memory.agent_id, "creator": memory.agent_id}
    return ReviseMemory(**fields)
