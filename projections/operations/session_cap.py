"""How many observations a session may have; past that a write is refused with an answer that says so.

The count is looked up when a session is first met (and again after REFRESH_S), then stored here, so the hot path does
no I/O. One process is exact; what several processes write to one session within REFRESH_S may exceed the cap.
"""

import asyncio
import time
from bisect import bisect
from collections import OrderedDict
from dataclasses import dataclass, field
from math import inf

from ingest.commands.decide import Observe
from ingest.errors import SessionFull
from ingest.ids import DocumentId
from ingest.log.position import session_route
from projections.nouns.session import Session, session_document_id
from projections.operations.current import Current

SESSIONS = 10_000
"""Sessions whose count is kept, the longest unused goes first: about 4 MB."""
REFRESH_S = 60.0  # bounds how far several processes together may exceed the cap
# an accepted observation may take this long to reach the log; until then a look-up does not see it
IN_FLIGHT_S = 10.0


@dataclass(slots=True)
class _Count:
    """A session's count and when it was looked up; `entered` is when the newest were let in, oldest first."""

    count: int = 0
    counted_at: float = -inf
    entered: list[float] = field(default_factory=list[float])
    lookup: asyncio.Task[None] | None = None
    """The look-up in progress, which all that arrive during it wait for."""


class SessionCap:
    """Counts observations on their way into sessions."""

    def __init__(self, current: Current, limit: int) -> None:
        self._current, self._limit = current, limit
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    async def enter(self, command: Observe, tenant: str, subject: str) -> None:
        """Count one more observation of a session; raises SessionFull when it has its limit.

        A repeat of one that is there, document `subject`, is let through: its sender is owed the first answer.
        """
        name = session_document_id(tenant, command.project, command.session_id)
        route = session_route(tenant, command.project, command.session_id)
        tally = self._counts.setdefault(name, _Count())
        self._counts.move_to_end(name)
        if len(self._counts) > SESSIONS:
            self._counts.popitem(last=False)
        if time.monotonic() - tally.counted_at > REFRESH_S:
            if tally.lookup is None:
                tally.lookup = asyncio.create_task(self._look_up(tally, route, name))
            await asyncio.shield(tally.lookup)  # the caller that began it may disconnect; others still wait
        if tally.count >= self._limit and not (
            command.event_id and await self._current.get(route, DocumentId(subject))
        ):
            raise SessionFull(command.session_id, self._limit)
        now = time.monotonic()
        tally.count += 1
        del tally.entered[: bisect(tally.entered, now - IN_FLIGHT_S)]
        tally.entered.append(now)

    def leave(self, command: Observe, tenant: str) -> None:
        """Count one less: it was there already, or could not be stored."""
        tally = self._counts.get(session_document_id(tenant, command.project, command.session_id))
        if tally is not None:
            tally.count = max(0, tally.count - 1)
            del tally.entered[-1:]

    async def _look_up(self, tally: _Count, route: str, name: DocumentId) -> None:
        """Take the stored count, plus what was counted here and may not be stored yet."""
        started = time.monotonic()
        try:
            existing = await self._current.get(route, name)
        finally:
            tally.lookup = None
        stored = existing.observation_count if isinstance(existing, Session) else 0
        in_flight = len(tally.entered) - bisect(tally.entered, started - IN_FLIGHT_S)
        # not less than was counted here, not more than what can still be on its way on top of what is stored
        tally.count = min(max(stored, tally.count), stored + in_flight)
        tally.counted_at = time.monotonic()
