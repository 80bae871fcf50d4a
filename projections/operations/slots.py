"""Writing slots within their limits.

Two that add a line at the same moment may exceed a limit by one of them; neither is dropped. A write of the whole text
(a replacement, reflection, the rewriting after a forgetting) that races with an added line overwrites that line.
"""

from ingest.commands.decide import Caller
from ingest.commands.handler import Accepted
from ingest.commands.requests import DeleteSlot, SetSlot
from ingest.errors import AlreadyThere, CommandRejected, NotFound, SlotFull
from ingest.log.partitions import project_route
from projections.documents.access import Reader
from projections.documents.slots import SIZE_LIMIT, Slot, appended, default_slots, slot_id
from projections.operations.current import Current


class SlotOperations:
    """Commands about slots, after a look at the slot."""

    def __init__(self, current: Current) -> None:
        self._current = current

    async def set(self, command: SetSlot, caller: Caller, *, overwrite: bool = True) -> Accepted:
        """Create a slot, replace its text, or (`command.append`) add a line.

        Raises SlotFull when the text would exceed the limit, AlreadyThere for one that is there and not to be
        overwritten, CommandRejected for a read-only one.
        """
        known = await self._known(caller.tenant, _place(command), command.label)
        if known is not None:
            _check_writable(known)
            if known.created_ms and not overwrite and not command.append:
                raise AlreadyThere(f"there is a slot {command.label!r} already", "label")
        content = appended(known.content if known else "", command.content) if command.append else command.content
        limit = known.size_limit if known else SIZE_LIMIT
        if command.size_limit is not None and not command.append:
            limit = command.size_limit
        if len(content) > limit:
            raise SlotFull(command.label, len(known.content) if known else 0, limit)
        return await self._current.give(command, caller)

    async def delete(self, command: DeleteSlot, caller: Caller) -> Accepted:
        """Remove a slot; raises NotFound when it is not there, CommandRejected when it is read-only."""
        known = await self._known(caller.tenant, _place(command), command.label)
        if known is None or not known.created_ms:
            raise NotFound(f"there is no slot {command.label!r}")
        _check_writable(known)
        return await self._current.give(command, caller)

    async def get(self, reader: Reader, project: str, label: str) -> Slot:
        """The slot of a project, else the nameless project's of that label; raises NotFound.

        One that somebody wrote comes before one that is there from the start.
        """
        places = list(dict.fromkeys([project, ""]))
        for place in filter(reader.reach.allows, places):
            if (stored := await self._stored(reader.tenant, place, label)) is not None:
                return stored
        for place in places:
            if (known := default_slots(reader.tenant, place).get(label)) is not None:
                return known
        raise NotFound(f"there is no slot {label!r}")

    async def _known(self, tenant: str, project: str, label: str) -> Slot | None:
        """The slot as stored, else as every project begins with it."""
        return await self._stored(tenant, project, label) or default_slots(tenant, project).get(label)

    async def _stored(self, tenant: str, project: str, label: str) -> Slot | None:
        found = await self._current.get(project_route(tenant, project), slot_id(tenant, project, label))
        return found if isinstance(found, Slot) else None


def _place(command: SetSlot | DeleteSlot) -> str:
    return "" if command.scope == "global" else command.project


def _check_writable(slot: Slot) -> None:
    if slot.read_only:
        raise CommandRejected(f"slot {slot.label!r} is read-only", "label")
