"""The command handler: commands in, events appended, acknowledgements out; and what a trace shows of a write."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from msgspec import Struct

from ingest.commands.decide import (
    AnyCommand,
    Caller,
    ForgetSubject,
    Observe,
    decide,
)
from ingest.commands.size import is_big
from ingest.commands.spans import append_span, write_span
from ingest.durability import Durability, reaches
from ingest.errors import CommandRejected, DurabilityNotReached, LogFull, Overloaded, without_traceback
from ingest.events.envelope import Event, encode, route_of
from ingest.ids import EventId, dedup_id, imported_dedup_id, new_event_id
from ingest.log.event_log import MAX_ENTRY_BYTES, Appended, Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.position import Position, Token, partition_of
from ingest.platform import tracing
from ingest.platform.clock import Clock, system_clock
from ingest.platform.tasks import Slices, in_thread
from ingest.secrets.clean import are_clean

CHECKED_TOGETHER = 16
"""Commands of a batch that are scanned for secrets together; none is large, so it takes less than a slice."""
RECORDED_AT_BYTES = 64
"""How much larger an imported event can be than a new one, because it includes its recording time."""


class Accepted(Struct, frozen=True):
    """An acknowledged write: the id of its document, its event id, its position in the log, and how durable it is.

    `duplicate` is true when the log already had the event id; `position` is then the first one's.
    """

    id: str
    event_id: str
    position: str
    duplicate: bool
    durability: Durability


class BatchOutcome(NamedTuple):
    """What became of a batch: counts, rejections by index, the token that covers all accepted, its durability."""

    accepted: int
    duplicates: int
    rejected: list[tuple[int, CommandRejected]]
    token: Token
    durability: Durability
    repeated: Sequence[int] = ()
    """For imported events: the indexes of those that were already in the log."""


class _Ready(NamedTuple):
    partition: int
    entry: Entry
    subject: str
    event_id: EventId


class Admission(Protocol):
    """Limits how many observations a session takes."""

    async def enter(self, command: Observe, tenant: str, subject: str) -> None:
        """Count one more observation, which will be document `subject`. Raises SessionFull, a CommandRejected, when
        there is no room and the document does not exist yet."""
        ...

    def leave(self, command: Observe, tenant: str) -> None:
        """Count one less: it was not stored, or was a duplicate."""
        ...


class CapacityGate(Protocol):
    """Knows whether there is room for more."""

    def check(self, tenant: str) -> None:
        """Raise Overloaded if there is no room. Called before every write, so it does not wait."""
        ...

    def taken(self, tenant: str, events: int, size: int) -> AbstractContextManager[None]:
        """Count a tenant's write, in events and bytes, while it is appended; raises Overloaded as `check` does."""
        ...


charge: ContextVar[Callable[[int], Awaitable[None]] | None] = ContextVar("charge", default=None)
"""Charges a request's key for the events that it stored; awaited with their number. The request itself is counted when
it is admitted. None if nothing is charged: without a rate limit, and in workers."""


def check_unconditional(command: AnyCommand) -> None:
    """Raise CommandRejected for an item of a batch that applies only in some state of its document.

    A batch is acknowledged before it is folded, so its writer would not learn that such an item was refused.
    """
    for name in ("expected_version", "token"):
        if getattr(command, name, None) not in (None, ""):
            raise CommandRejected("a conditional change needs a request of its own, not a batch", name)


class CommandHandler:
    """Decides commands and appends their events. One per process; safe for concurrent use on one event loop."""

    def __init__(
        self, log: GroupCommit, partitions: int, clock: Clock = system_clock, *, durability: Durability | None = None
    ) -> None:
        """`durability` is what writes wait for that do not name a level; without it they wait for nothing more."""
        self._log, self._partitions, self._clock = log, partitions, clock
        self._durability: Durability | None = durability
        self._together: tuple[list[AnyCommand], list[bool]] = [], []
        self.admission: Admission | None = None
        """Called before every observation, if set."""
        self.gate: CapacityGate | None = None
        """Called before every write except deletions, if set."""
        self.refused: Counter[str] = Counter()
        """Commands and imported events that were refused for lack of room, by `cause`."""

    async def handle(self, command: AnyCommand, caller: Caller) -> Accepted:
        """Append one command's event. Raises CommandRejected, Overloaded or LogUnavailable. DurabilityNotReached is
        also a LogUnavailable: then the event is in the log, but less durable than requested."""
        with write_span([command]) as span:
            with tracing.span("decide"):
                small = not is_big(command)
                is_clean = small and await self._is_clean(command)
                ready = await self._decide(command, caller, small=small, is_clean=is_clean)
            self._check([command], caller.tenant)
            await self._check_durability([command], caller)
            if self.admission is not None and isinstance(command, Observe):
                appended = await self._admitted(command, caller, ready, self.admission)
            else:
                (appended,) = await self._append([ready], caller.tenant, forgets=isinstance(command, ForgetSubject))
            durability = await self._confirmed({ready.partition: appended.position}, caller)
            span.set({"gen_ai.memory.record.id": ready.subject})
        position = f"{ready.partition}:{appended.position}"
        return Accepted(ready.subject, ready.event_id, position, appended.duplicate, durability)

    async def _is_clean(self, command: AnyCommand) -> bool:
        """Whether `are_clean` says so of all commands that came in the same turn of the event loop."""
        commands, outcome = self._together
        commands.append(command)
        if len(commands) == CHECKED_TOGETHER:
            self._together = [], []
        await asyncio.sleep(0)  # the others come
        if not outcome:
            self._together = [], []
            outcome.append(are_clean(commands))
        return outcome[0]

    async def _admitted(self, command: Observe, caller: Caller, ready: _Ready, admission: Admission) -> Appended:
        await admission.enter(command, caller.tenant, ready.subject)
        stored = False
        try:
            (appended,) = await self._append([ready], caller.tenant)
            stored = not appended.duplicate
        finally:  # also when it was canceled: a place that is never given back would fill the session
            if not stored:
                admission.leave(command, caller.tenant)
        return appended

    async def handle_batch(self, commands: Sequence[AnyCommand | CommandRejected], caller: Caller) -> BatchOutcome:
        """Append a batch; each item is accepted or rejected on its own. Items rejected earlier are passed through.
        Raises Overloaded or LogUnavailable for the batch as a whole; repeating it with the same event ids is safe."""
        with write_span([command for command in commands if not isinstance(command, CommandRejected)]):
            return await self._handle_batch(commands, caller)

    async def _handle_batch(self, commands: Sequence[AnyCommand | CommandRejected], caller: Caller) -> BatchOutcome:
        self._check(commands, caller.tenant)
        await self._check_durability(commands, caller)
        ready: list[_Ready] = []
        rejected: list[tuple[int, CommandRejected]] = []
        admitted: dict[int, Observe] = {}
        appended: list[Appended] = []
        try:
            slices = Slices()
            small = all_clean = False
            with tracing.span("decide"):
                for index, command in enumerate(commands):
                    await slices.between()  # others on the event loop get their turn
                    if index % CHECKED_TOGETHER == 0:
                        together = commands[index : index + CHECKED_TOGETHER]
                        valid = [item for item in together if not isinstance(item, CommandRejected)]
                        small = not any(map(is_big, valid))
                        all_clean = small and are_clean(valid)  # one pass of RE2 over all of them
                    if isinstance(command, CommandRejected):
                        rejected.append((index, command))
                        continue
                    try:
                        check_unconditional(command)
                        item = await self._decide(command, caller, small=small, is_clean=all_clean)
                        if self.admission is not None and isinstance(command, Observe):
                            await self.admission.enter(command, caller.tenant, item.subject)
                            admitted[len(ready)] = command
                        ready.append(item)
                    except CommandRejected as error:
                        rejected.append((index, without_traceback(error)))
            forgets = any(isinstance(command, ForgetSubject) for command in commands)
            appended = await self._append(ready, caller.tenant, forgets=forgets)
        finally:
            for number, command in admitted.items():
                if self.admission is not None and (not appended or appended[number].duplicate):
                    self.admission.leave(command, caller.tenant)
        return await self._outcome(ready, appended, rejected, caller)

    async def append_events(self, events: Sequence[Event]) -> BatchOutcome:
        """Append events that another log recorded, as they are; a repeat of the same whole event is a duplicate. An
        event that cannot be stored is rejected on its own. Raises Overloaded or LogUnavailable for all of them;
        repeating them is safe."""
        tenant = events[0].envelope.tenant if events else ""  # an export is of one tenant
        self._check(events, tenant)
        ready: list[_Ready] = []
        indexes: list[int] = []
        rejected: list[tuple[int, CommandRejected]] = []
        slices = Slices()
        for index, event in enumerate(events):
            await slices.between()
            try:
                ready.append(self._imported(event))
                indexes.append(index)
            except CommandRejected as error:
                rejected.append((index, without_traceback(error)))
        appended = await self._append(ready, tenant)
        outcome = await self._outcome(ready, appended, rejected, Caller())
        return outcome._replace(repeated=[index for index, row in zip(indexes, appended, strict=True) if row.duplicate])

    def _check(self, items: Sequence[AnyCommand | CommandRejected | Event], tenant: str) -> None:
        """Raise Overloaded while there is no room for these. For forgetting, which frees room, there always is.
        Anything written together with a forgetting (a slot without the forgotten lines) is part of it."""
        if self.gate is None:
            return
        try:
            self.gate.check(tenant)
        except Overloaded as error:
            writes = [item for item in items if not isinstance(item, CommandRejected)]
            if not writes or any(isinstance(write, ForgetSubject) for write in writes):
                return
            self.refused[error.cause] += len(writes)
            raise

    async def _check_durability(self, items: Sequence[AnyCommand | CommandRejected], caller: Caller) -> None:
        """Raise DurabilityUnavailable before anything is stored. Forgetting goes through all the same."""
        requested = caller.durability or self._durability
        if requested is not None and not any(isinstance(item, ForgetSubject) for item in items):
            await self._log.confirmations.check(requested)

    async def _confirmed(self, newest: Mapping[int, Position], caller: Caller) -> Durability:
        requested = caller.durability or self._durability
        reached = await self._log.confirmations.reached(newest, requested)
        if requested is not None and not reaches(reached, requested):
            raise DurabilityNotReached(requested, reached)
        return reached

    async def _outcome(
        self, ready: Sequence[_Ready], appended: Sequence[Appended], rejected: list[tuple[int, CommandRejected]],
        caller: Caller,
    ) -> BatchOutcome:  # fmt: skip
        token = Token.of((item.partition, row.position) for item, row in zip(ready, appended, strict=True))
        durability = await self._confirmed(token, caller)
        duplicates = sum(row.duplicate for row in appended)
        return BatchOutcome(len(ready) - duplicates, duplicates, rejected, token, durability)

    async def _append(self, ready: Sequence[_Ready], tenant: str, *, forgets: bool = False) -> list[Appended]:
        entries = [(item.partition, item.entry) for item in ready]
        size = sum(len(entry.payload) for _, entry in entries)
        with append_span(len(ready)):
            if context := tracing.current():
                entries = [(partition, entry._replace(context=context)) for partition, entry in entries]
            try:
                with nullcontext() if forgets or self.gate is None else self.gate.taken(tenant, len(entries), size):
                    appended = await self._log.append(entries, past_limit=forgets)
            except (Overloaded, LogFull) as error:
                self.refused[error.cause] += len(ready)
                raise
        if (charged := charge.get()) is not None:
            await charged(len(ready))
        return appended

    def _imported(self, event: Event) -> _Ready:
        route = route_of(*event)
        try:
            payload = encode(event)
        except (OverflowError, ValueError) as error:
            raise CommandRejected(f"the event cannot be stored: {error}", "data") from None
        if len(payload) > MAX_ENTRY_BYTES + RECORDED_AT_BYTES:
            raise CommandRejected(f"the event is {len(payload):,} bytes; the limit is {MAX_ENTRY_BYTES:,}", "data")
        event_id = EventId(event.envelope.event_id)
        entry = Entry(imported_dedup_id(route, event_id, payload), payload)
        return _Ready(partition_of(route, self._partitions), entry, "", event_id)

    async def _decide(
        self, command: AnyCommand, caller: Caller, *, small: bool = False, is_clean: bool = False
    ) -> _Ready:
        if small or not is_big(command):
            return self._ready(command, caller, is_clean=is_clean)
        return await in_thread(self._ready, command, caller)

    def _ready(self, command: AnyCommand, caller: Caller, *, is_clean: bool = False) -> _Ready:
        event_id = EventId(command.event_id) if command.event_id else new_event_id()
        decision = decide(command, caller, event_id, self._clock(), is_clean=is_clean)
        payload = encode(decision.event)
        if len(payload) > MAX_ENTRY_BYTES:
            raise CommandRejected(
                f"the event is {len(payload):,} bytes; the limit is {MAX_ENTRY_BYTES:,}. "
                "Store the bulk elsewhere and record a reference",
                "data" if getattr(command, "data", None) else "content",
            )
        event_id = EventId(decision.event.envelope.event_id)  # scrubbed, if the caller's event id held a secret
        entry = Entry(dedup_id(decision.route, event_id), payload)
        return _Ready(partition_of(decision.route, self._partitions), entry, decision.subject, event_id)
