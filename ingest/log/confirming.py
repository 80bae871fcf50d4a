"""How durable what was appended is: known from the server's settings, or waited for where a write asks for more.

Waits are shared, as appends are: those who ask while one wait is under way wait together for the next. So however many
writes ask, two connections to a server at most are taken up, and a replica that is away does not keep other writes from
the log, nor a server that is away those to others.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from ingest.durability import LEVELS, Durability, reaches, weakest
from ingest.errors import DurabilityUnavailable, LogUnavailable
from ingest.log.event_log import EventLog
from ingest.log.position import Position

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 10.0
"""Between two looks at the server's settings, which somebody may have changed."""
REACHED_COUNTS_S = 3600.0
"""For so long after a level was reached it is taken for one that can be: a replica that is away may come back."""


class _Round:
    """Those who wait together: the newest position of theirs in each partition, and the task that waits for all."""

    def __init__(self) -> None:
        self.newest: dict[int, Position] = {}
        self.task: asyncio.Task[Durability] | None = None


class Confirmations:
    """Tells how durable writes to a log are. One per process; safe for concurrent use on one event loop."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._standing: Durability | None = None
        self._looked_at = 0.0
        self._looking: asyncio.Task[Durability] | None = None
        self._next: dict[tuple[str, Durability], _Round] = {}
        self._turn: dict[tuple[str, Durability], asyncio.Lock] = {}
        """By server and level."""
        self._can_until: dict[Durability, float] = {}
        """By level, until when it is taken for one that can be reached."""

    async def standing(self) -> Durability:
        """What every acknowledged write has without waiting; learned from the server now and again.

        Nobody waits for that once it is known. As long as a server does not say, it is the least there is.
        """
        if self._standing is None:
            try:
                return await asyncio.shield(self._looking or self._look_again())
            except LogUnavailable:
                self._standing = LEVELS[0]
        if self._looking is None and time.monotonic() - self._looked_at >= LOOK_AGAIN_S:
            self._look_again()
        return self._standing

    async def check(self, wanted: Durability | None) -> None:
        """Return where a write may become as durable as `wanted`; asked before anything is appended.

        Raises DurabilityUnavailable where none ever can, LogUnavailable when the log does not answer.
        """
        if wanted is None or reaches(await self.standing(), wanted):
            return
        if time.monotonic() < self._can_until.get(wanted, 0.0):
            return
        if reason := await self._log.why_never(wanted):
            raise DurabilityUnavailable(wanted, reason)
        self._can_until[wanted] = time.monotonic() + LOOK_AGAIN_S

    async def reached(self, newest: Mapping[int, Position], wanted: Durability | None) -> Durability:
        """What everything appended to these partitions so far has reached, after waiting for `wanted` if need be.

        `newest` has the newest position in each that the caller's entries got.

        That may be less than `wanted`, when it took too long. Raises LogUnavailable when the log does not answer.
        """
        standing = await self.standing()
        if wanted is None or reaches(standing, wanted):
            return standing
        waiting: set[asyncio.Task[Durability]] = set()
        for partition, position in newest.items():
            waiting.add(self._join(self._log.server_of(partition), partition, position, wanted))
        found = weakest(await asyncio.gather(*map(asyncio.shield, waiting)))
        if reaches(found, wanted):
            self._can_until[wanted] = time.monotonic() + REACHED_COUNTS_S
        return found

    def _join(self, server: str, partition: int, position: Position, wanted: Durability) -> "asyncio.Task[Durability]":
        """The wait of those who ask for the same of the same server."""
        joined = self._next.setdefault((server, wanted), _Round())
        joined.newest[partition] = max(position, joined.newest.get(partition, position))
        if joined.task is None:
            joined.task = asyncio.create_task(self._wait(server, wanted), name=f"wait for {wanted}")
        return joined.task

    async def _wait(self, server: str, wanted: Durability) -> Durability:
        async with self._turn.setdefault((server, wanted), asyncio.Lock()):
            waiting = self._next.pop((server, wanted))
            return await self._log.confirm(waiting.newest, wanted)

    def _look_again(self) -> "asyncio.Task[Durability]":
        self._looking = asyncio.create_task(self._look(), name="standing durability")
        self._looking.add_done_callback(self._looked)
        return self._looking

    async def _look(self) -> Durability:
        self._standing = await self._log.standing_durability()
        return self._standing

    def _looked(self, task: "asyncio.Task[Durability]") -> None:
        self._looking, self._looked_at = None, time.monotonic()
        if not task.cancelled() and (fault := task.exception()) is not None:
            logger.info("the log's server does not say how durable writes are: %s", fault)
