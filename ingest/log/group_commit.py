"""Group commit: concurrent writes share one round trip and one fsync.

While an append is in progress the next writes gather; the more load, the bigger the batches. When enough have gathered,
another append starts beside the first, so that Redis works while the next batch is prepared. Each server of a cluster
has its own queue, so a server that is down delays only its own partitions. What waits is limited in events and bytes,
over all queues: above the limit a write is refused with Overloaded and none of it is stored.

Waits for durability are shared the same way. However many writes wait, at most two connections to a server are used,
and a replica that is down does not keep other writes from the log.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from ingest.durability import LEVELS, Durability, reaches, weakest
from ingest.errors import DurabilityUnavailable, LogRefused, LogUnavailable, Overloaded
from ingest.log.event_log import Appended, Entry, EventLog
from ingest.log.position import Position
from ingest.platform.tasks import waiting_at_most

logger = logging.getLogger(__name__)

MAX_WAITING_EVENTS = 50_000
MAX_WAITING_BYTES = 128 << 20
EVENTS_PER_APPEND = 1_000
"""Enough to amortize a round trip, few enough not to block Redis for long (about 15 ms at 600 bytes each)."""
APPENDS_AT_ONCE = 3
"""Concurrent appends to one server. Three gave the highest rate of single writes when measured: 2,600 to 2,900 a
second, compared to 2,100 with two. With one, the API waits while Redis works, and vice versa."""
ENOUGH_FOR_ANOTHER = 16
"""Waiting events that start another append while one is in progress; fewer wait."""
GIVE_UP_AFTER_S = 3.0
"""How long a write is retried while its server is away (a restart takes one or two seconds)."""

Rows: TypeAlias = Mapping[int, Sequence[Appended]]
"""The result of each partition's entries."""
_Append: TypeAlias = Callable[[Mapping[int, Sequence[Entry]]], Awaitable[dict[int, list[Appended]]]]


class _Write(NamedTuple):
    entries: Sequence[tuple[int, Entry]]
    size: int
    give_up_at: float
    """When it is refused unless its server has answered, in event loop time."""
    done: "asyncio.Future[list[Appended]]"


class GroupCommit:
    """Gathers writes into appends. A caller that waits for each answer before its next write keeps its order."""

    def __init__(self, log: EventLog, appended: Callable[[Rows], None] = lambda rows: None) -> None:
        """`appended` is called with what is in the log, by partition, before any caller gets its answer."""
        self._log, self._appended = log, appended
        self.confirmations = Confirmations(log)
        """The durability that the append reached."""
        self._queues: dict[tuple[str, bool], _Queue] = {}
        """By server and by whether it is over the limit; idle ones are dropped when another is created."""
        self._events = self._bytes = 0

    @property
    def waiting_events(self) -> int:
        """Events accepted from callers and not acknowledged yet."""
        return self._events

    async def append(self, entries: Sequence[tuple[int, Entry]], *, past_limit: bool = False) -> list[Appended]:
        """Append `(partition, entry)` pairs; answers in the same order. With `past_limit` also at `maxmemory`. Raises
        Overloaded (nothing stored) or LogUnavailable (unknown: repeat with the same event ids). A caller that is
        canceled leaves its entries to be written."""
        if not entries:
            return []
        size = _size(entries)
        # before anything is queued, so that a refused write is stored nowhere
        if self._events + len(entries) > MAX_WAITING_EVENTS or self._bytes + size > MAX_WAITING_BYTES:
            raise Overloaded(f"{self._events:,} events ({self._bytes >> 20} MiB) are queued for writing")
        if len(entries) == 1:
            return await self._put(self._log.server_of(entries[0][0]), entries, size, past_limit)
        servers = {partition: self._log.server_of(partition) for partition in {partition for partition, _ in entries}}
        if len(set(servers.values())) == 1:
            return await self._put(servers[entries[0][0]], entries, size, past_limit)
        places: dict[str, list[int]] = {}
        for n, (partition, _) in enumerate(entries):
            places.setdefault(servers[partition], []).append(n)
        parts = {server: [entries[n] for n in part] for server, part in places.items()}
        writes = [self._put(server, part, _size(part), past_limit) for server, part in parts.items()]
        answers = dict[int, Appended]()
        for part, answered in zip(places.values(), await asyncio.gather(*writes), strict=True):
            answers.update(zip(part, answered, strict=True))
        return [answers[n] for n in range(len(entries))]

    async def aclose(self) -> None:
        """Wait until everything accepted is written or refused."""
        while flushers := [flusher for queue in self._queues.values() for flusher in queue.flushers]:
            await asyncio.wait(flushers)

    def _put(
        self, server: str, entries: Sequence[tuple[int, Entry]], size: int, past_limit: bool
    ) -> "asyncio.Future[list[Appended]]":
        name = (server, past_limit)
        if name not in self._queues:
            # servers that left the cluster would pile up
            self._queues = {name: queue for name, queue in self._queues.items() if queue.flushers}
            append = self._log.append_past_limit if past_limit else self._log.append
            self._queues[name] = _Queue(append, self._finished, self._appended)
        loop = asyncio.get_running_loop()
        write = _Write(entries, size, loop.time() + GIVE_UP_AFTER_S, loop.create_future())
        self._events += len(entries)
        self._bytes += size
        self._queues[name].put(write)
        return write.done

    def _finished(self, write: _Write) -> None:
        self._events -= len(write.entries)
        self._bytes -= write.size


def _size(entries: Sequence[tuple[int, Entry]]) -> int:
    return sum(len(entry.payload) for _, entry in entries)


@dataclass
class _Queue:
    """What waits to be appended to one server, and the appends under way.

    `finished` is called with each write once its caller has an answer or an error.
    """

    _append: _Append
    _finished: Callable[[_Write], None]
    _appended: Callable[[Rows], None]

    def __post_init__(self) -> None:
        self._waiting: deque[_Write] = deque()
        self._gathered = 0
        """Events in `_waiting`."""
        self.flushers: set[asyncio.Task[None]] = set()

    def put(self, write: _Write) -> None:
        """Have a write appended; its `done` tells."""
        self._waiting.append(write)
        self._gathered += len(write.entries)
        if not self.flushers or (len(self.flushers) < APPENDS_AT_ONCE and self._gathered >= ENOUGH_FOR_ANOTHER):
            flusher = asyncio.create_task(self._flush(), name="group-commit")
            self.flushers.add(flusher)
            flusher.add_done_callback(self.flushers.discard)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                group = self._next_group()
                try:
                    with waiting_at_most(GIVE_UP_AFTER_S):  # whatever the context of who wrote first
                        await self._append_group(group)
                except Exception as error:  # every waiting caller gets it; nothing may be left waiting for ever
                    self._refuse(group, error)
                finally:
                    for write in group:
                        self._finished(write)
        finally:
            # at once: what is put until the task is done, also a canceled one, would wait for ever
            self.flushers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _next_group(self) -> list[_Write]:
        group = [self._waiting.popleft()]
        events = len(group[0].entries)
        while self._waiting and events + len(self._waiting[0].entries) <= EVENTS_PER_APPEND:
            group.append(self._waiting.popleft())
            events += len(group[-1].entries)
        self._gathered -= events
        return group

    async def _append_group(self, group: Sequence[_Write]) -> None:
        """Append until the server answers: event ids make a repeat harmless, so a short restart fails no caller."""
        loop, pause = asyncio.get_running_loop(), 0.02
        while group:
            try:
                self._answer(group, await self._append(_batches(group)))
                return
            except LogRefused:  # the server answers: trying again would only hold up the others
                raise
            except LogUnavailable as error:
                again_at = loop.time() + pause
                # each write by its own deadline: one that waited behind others has less time left
                self._refuse([write for write in group if write.give_up_at < again_at], error)
                group = [write for write in group if write.give_up_at >= again_at]
                if group:
                    logger.warning("append failed, trying again in %.2f s: %s", pause, error)
                    await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)

    def _answer(self, group: Sequence[_Write], appended: Rows) -> None:
        # before any caller has its answer: what was acknowledged is on record even if this process ends now
        self._appended(appended)
        rows = {partition: iter(of) for partition, of in appended.items()}
        answers = [[next(rows[partition]) for partition, _ in write.entries] for write in group]
        for write, answer in zip(group, answers, strict=True):
            if not write.done.done():
                write.done.set_result(answer)

    @staticmethod
    def _refuse(group: Sequence[_Write], error: Exception) -> None:
        for write in group:
            if not write.done.done():
                write.done.set_exception(error)
                write.done.exception()  # a caller that went away must not turn it into a warning


def _batches(group: Sequence[_Write]) -> dict[int, list[Entry]]:
    batches: dict[int, list[Entry]] = {}
    for write in group:
        for partition, entry in write.entries:
            batches.setdefault(partition, []).append(entry)
    return batches


LOOK_AGAIN_S = 10.0
"""Between two reads of the server's settings, which an operator can change."""
REACHED_COUNTS_S = 3600.0
"""How long a reached level counts as reachable: a missing replica may return."""


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
        """By level, the time until which it counts as reachable."""

    async def standing(self) -> Durability:
        """What every acknowledged write has without waiting, as the server last said; `memory` until it does. Only the
        first caller waits for the server."""
        if self._standing is None:
            try:
                return await asyncio.shield(self._looking or self._look_again())
            except LogUnavailable:
                self._standing = LEVELS[0]
        if self._looking is None and time.monotonic() - self._looked_at >= LOOK_AGAIN_S:
            self._look_again()
        return self._standing

    async def check(self, requested: Durability | None) -> None:
        """Return if a write can become `requested` durable; checked before anything is appended. Raises
        DurabilityUnavailable if none ever can, LogUnavailable when the log does not answer."""
        if requested is None or reaches(await self.standing(), requested):
            return
        if time.monotonic() < self._can_until.get(requested, 0.0):
            return
        if reason := await self._log.why_never(requested):
            raise DurabilityUnavailable(requested, reason)
        self._can_until[requested] = time.monotonic() + LOOK_AGAIN_S

    async def reached(self, newest: Mapping[int, Position], requested: Durability | None) -> Durability:
        """The durability of everything up to `newest`, the caller's newest position in each partition, after waiting
        for `requested`; less if that took too long. Raises LogUnavailable when the log does not answer."""
        standing = await self.standing()
        if requested is None or reaches(standing, requested):
            return standing
        waiting: set[asyncio.Task[Durability]] = set()
        for partition, position in newest.items():
            waiting.add(self._join(self._log.server_of(partition), partition, position, requested))
        durability = weakest(await asyncio.gather(*map(asyncio.shield, waiting)))
        if reaches(durability, requested):
            self._can_until[requested] = time.monotonic() + REACHED_COUNTS_S
        return durability

    def _join(
        self, server: str, partition: int, position: Position, requested: Durability
    ) -> "asyncio.Task[Durability]":
        """The wait of those who ask for the same of the same server."""
        joined = self._next.setdefault((server, requested), _Round())
        joined.newest[partition] = max(position, joined.newest.get(partition, position))
        if joined.task is None:
            joined.task = asyncio.create_task(self._wait(server, requested), name=f"wait for {requested}")
        return joined.task

    async def _wait(self, server: str, requested: Durability) -> Durability:
        async with self._turn.setdefault((server, requested), asyncio.Lock()):
            # taken only when it is this round's turn: until then others join it
            waiting = self._next.pop((server, requested))
            return await self._log.confirm(waiting.newest, requested)

    def _look_again(self) -> "asyncio.Task[Durability]":
        self._looking = asyncio.create_task(self._look(), name="standing durability")
        self._looking.add_done_callback(self._looked)
        return self._looking

    async def _look(self) -> Durability:
        self._standing = await self._log.standing_durability()
        return self._standing

    def _looked(self, task: "asyncio.Task[Durability]") -> None:
        self._looking, self._looked_at = None, time.monotonic()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.info("the durability of writes in Redis cannot be determined: %s", error)
