"""What every index that follows the log has in common: readers wait for positions, and how far projecting is behind."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from ingest.errors import ProjectionBehind
from ingest.log.event_log import LogHistory
from ingest.log.position import START, Position, Token
from ingest.platform.connections import Client
from ingest.platform.partial import partial_reads
from ingest.platform.tasks import nothing
from projections.health.samples import entries_behind

READ_WAIT_S = 1.0
"""How long a read waits for what it names, unless an index is told otherwise."""


class Waiting:
    """Waits until positions are covered. Whoever covers them overrides `applied` and `ready`, and tells `_notify`."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        read_wait_s: float = READ_WAIT_S,
        history: LogHistory | None = None,
        look_at_log: Callable[[], Awaitable[None]] = nothing,
    ) -> None:
        """`redis` is the log's server; `history` what the log was grown from.

        `look_at_log` is awaited each time behind telling the server that this process is up.
        """
        self._redis, self._partitions, self._read_wait_s = redis, partitions, read_wait_s
        self._history = history or LogHistory(partitions)
        self._look_at_log = look_at_log
        self._changed = asyncio.Condition()
        self.waiting = 0
        """Reads that wait now."""
        self.lag: Mapping[int, int] = {}
        """Log entries not projected yet, by partition that is behind, as of less than a second ago."""

    @property
    def applied(self) -> dict[int, Position]:
        """The log position covered, by partition; the beginning for one that may lack what it covers."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Whether every partition is complete, and has been applied up to where its feed stood at the start."""
        raise NotImplementedError

    async def wait_for(self, token: Token, timeout_s: float | None = None) -> None:
        """Return once everything the token covers is searchable.

        Raises ProjectionBehind after `timeout_s` (None: as long as reads wait here), and CommandRejected for a token of
        another log.
        """
        token = self._history.to_wait_for(token)
        if token.covered_by(self.applied):
            return
        started = time.monotonic()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._read_wait_s if timeout_s is None else timeout_s), self._changed:
                await self._changed.wait_for(lambda: token.covered_by(self.applied))
        except TimeoutError:
            waited = time.monotonic() - started
            raise ProjectionBehind(waited, await self.measure_lag()) from None
        finally:
            self.waiting -= 1

    async def changed(self, at: Token) -> None:
        """Return once something behind `at` is covered, in any partition."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: any(place > at.get(partition, START) for partition, place in self.applied.items())
            )

    async def wait_ready(self, timeout_s: float) -> None:
        """Return once `ready`; raises ProjectionBehind after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.ready)
        except TimeoutError:
            raise ProjectionBehind(timeout_s, await self.measure_lag()) from None

    async def measure_lag(self) -> dict[int, int]:
        """Log entries that are not projected yet, by partition that is behind; also refreshes `lag`.

        Of a cluster, as far as its nodes answer.
        """
        with partial_reads():
            behind = await entries_behind(self._redis, self._partitions)
        self.lag = behind
        return behind

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
