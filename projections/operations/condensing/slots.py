"""Reflecting on a session: the slots that follow the work are brought up to date with it."""

from typing import NamedTuple

from ingest.commands.decide import Caller
from ingest.commands.requests import SetSlot
from ingest.log.partitions import project_route
from ingest.platform.clock import Clock
from projections.condensing import slots as rules
from projections.documents.access import Reader
from projections.documents.sessions import Session
from projections.documents.slots import Slot, default_slots, slot_id
from projections.operations.condensing.evidence import observations_of, readable
from projections.operations.current import Current, Writing

REFLECTED = {"pending_items", "session_patterns", "project_context"}


class SlotsReflected(NamedTuple):
    """How many slots were changed, and of how many observations that was made."""

    slots_changed: int
    observations: int
    position: str


class SlotReflection:
    """Writes what sessions come to into the slots that follow the work."""

    def __init__(self, current: Current, clock: Clock) -> None:
        self._current, self._clock = current, clock

    async def reflect_slots(
        self,
        session: Session,
        caller: Caller,
        newest: int = 50,
        *,
        reader: Reader | None = None,
    ) -> SlotsReflected:
        """Bring the slots of its project that follow the work up to date with a session.

        A reader's are made of what it may see.
        """
        place = session.project
        seen = readable(await observations_of(self._current.documents, session), reader)[-newest:]
        route = project_route(caller.tenant, place)
        known: dict[str, Slot] = default_slots(caller.tenant, place)
        for label in REFLECTED:
            found = await self._current.get(route, slot_id(caller.tenant, place, label))
            if isinstance(found, Slot):
                known[label] = found
        texts = {
            label: rules.SlotText(known[label].content, known[label].size_limit)
            for label in REFLECTED
            if label in known and not known[label].read_only
        }
        changed = rules.reflect(seen, texts, self._clock())
        writing = Writing(self._current, caller)
        for label, content in changed.items():
            await writing.give(SetSlot(label=label, content=content, project=place, session_id=session.session_id))
        return SlotsReflected(len(changed), len(seen), writing.position)
