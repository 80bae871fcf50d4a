"""The write side's shell: commands in, events appended, acknowledgements out."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, Protocol, cast

import msgspec
from msgspec import Struct

from ingest.commands.decide import AnyCommand, Caller, ForgetSubject, Observe, decide
from ingest.commands.traced import appending, writing, written
from ingest.durability import Durability, reaches
from ingest.errors import CommandRejected, DurabilityNotReached, LogFull, Overloaded, kept
from ingest.events.envelope import Event, encode, route_of
from ingest.ids import EventId, dedup_id, imported_dedup_id, new_event_id
from ingest.log.event_log import MAX_ENTRY_BYTES, Appended, Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.position import Position, Token, partition_of
from ingest.platform import tracing
from ingest.platform.clock import Clock, system_clock
from ingest.platform.tasks import Slices, in_thread
from ingest.secrets.clean import are_clean

BIG_CHARS = 64 << 10
BIG_VALUES = 2_000
"""A command of more is decided in a thread: looking through it for secrets takes more than a slice."""
CHECKED_TOGETHER = 16
"""Commands of a batch that are looked through for secrets at once; none is big, so it takes less than a slice."""
RECORDED_AT_BYTES = 64
"""What an imported event may be bigger than one of our own: it says when it was recorded."""


class Accepted(Struct, frozen=True):
    """An acknowledged write: the document it concerns, its event id, its place in the log, and what that survives.

    `duplicate` is true when the event id was known already; `position` is then the first one's.
    """

    id: str
    event_id: str
    position: str
    duplicate: bool
    durability: Durability


class BatchOutcome(NamedTuple):
    """What became of a batch: counts, the faults by index, the token that covers all that was accepted, and what that
    survives."""

    accepted: int
    duplicates: int
    rejected: list[tuple[int, CommandRejected]]
    token: Token
    durability: Durability
    repeated: Sequence[int] = ()
    """Of imported events: the places of those that the log had already."""


class _Ready(NamedTuple):
    partition: int
    entry: Entry
    subject: str
    event_id: EventId


class Admission(Protocol):
    """Who decides how many observations a session takes."""

    async def enter(self, command: Observe, tenant: str, subject: str) -> None:
        """Count one more, which will be document `subject`.

        Raises SessionFull, a CommandRejected, when there is no room and the document is not there already.
        """
        ...

    def leave(self, command: Observe, tenant: str) -> None:
        """Count one less: it was not stored, or had been already."""
        ...


class CapacityGate(Protocol):
    """Who knows whether there is room for more."""

    def check(self, tenant: str) -> None:
        """Return when there is; else raise Overloaded, which says why and when to come back. Asked before every write,
        so it waits for nothing."""
        ...

    def taken(self, tenant: str, events: int, size: int) -> AbstractContextManager[None]:
        """Count a write of a tenant, of so many bytes, while it is appended; raises Overloaded as `check` does."""
        ...


class CommandHandler:
    """Decides commands and appends what they become. One per process; safe for concurrent use on one event loop."""

    def __init__(
        self, log: GroupCommit, partitions: int, clock: Clock = system_clock, *, durability: Durability | None = None
    ) -> None:
        """`durability` is what writes wait for that do not say it; without it they wait for nothing more."""
        self._log, self._partitions, self._clock = log, partitions, clock
        self._durability: Durability | None = durability
        self.admission: Admission | None = None
        """Asked before every observation, when there is one."""
        self.gate: CapacityGate | None = None
        """Asked before every write but forgetting, when there is one."""
        self.refused: Counter[str] = Counter()
        """Commands and imported events that were refused for want of room, by `cause`."""

    async def handle(self, command: AnyCommand, caller: Caller) -> Accepted:
        """Append one command's event. Raises CommandRejected, Overloaded or LogUnavailable.

        DurabilityNotReached is a LogUnavailable, too: the event is in the log then, and not as durable as was asked.
        """
        with writing([command]) as span:
            accepted = await self._handle(command, caller)
            written(span, accepted.id)
        return accepted

    async def _handle(self, command: AnyCommand, caller: Caller) -> Accepted:
        with tracing.span("decide"):
            ready = await in_thread(self._ready, command, caller) if _is_big(command) else self._ready(command, caller)
        self._check([command], caller.tenant)
        await self._check_durability([command], caller)
        if self.admission is not None and isinstance(command, Observe):
            appended = await self._admitted(command, caller, ready, self.admission)
        else:
            (appended,) = await self._append([ready], caller.tenant, forgets=isinstance(command, ForgetSubject))
        durability = await self._confirmed({ready.partition: appended.position}, caller)
        position = f"{ready.partition}:{appended.position}"
        return Accepted(ready.subject, ready.event_id, position, appended.duplicate, durability)

    async def _check_durability(self, items: Sequence[AnyCommand | CommandRejected], caller: Caller) -> None:
        """Raise DurabilityUnavailable before anything is stored. What is forgotten is forgotten all the same."""
        wanted = caller.durability or self._durability
        if wanted is not None and not any(isinstance(one, ForgetSubject) for one in items):
            await self._log.confirmations.check(wanted)

    async def _confirmed(self, newest: Mapping[int, Position], caller: Caller) -> Durability:
        wanted = caller.durability or self._durability
        reached = await self._log.confirmations.reached(newest, wanted)
        if wanted is not None and not reaches(reached, wanted):
            raise DurabilityNotReached(wanted, reached)
        return reached

    async def _admitted(self, command: Observe, caller: Caller, ready: _Ready, admission: Admission) -> Appended:
        await admission.enter(command, caller.tenant, ready.subject)
        stored = False
        try:
            (appended,) = await self._append([ready], caller.tenant)
            stored = not appended.duplicate
        finally:
            if not stored:
                admission.leave(command, caller.tenant)
        return appended

    async def handle_batch(self, commands: Sequence[AnyCommand | CommandRejected], caller: Caller) -> BatchOutcome:
        """Append a batch; each item is accepted or rejected on its own. What was rejected before is passed through.

        Raises Overloaded or LogUnavailable for the batch as a whole; repeating it with the same event ids is safe.
        """
        with writing([one for one in commands if not isinstance(one, CommandRejected)]):
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
                    await slices.between()
                    if index % CHECKED_TOGETHER == 0:
                        together = commands[index : index + CHECKED_TOGETHER]
                        valid = [one for one in together if not isinstance(one, CommandRejected)]
                        small = not any(map(_is_big, valid))
                        all_clean = small and are_clean(valid)
                    if isinstance(command, CommandRejected):
                        rejected.append((index, command))
                        continue
                    try:
                        if small or not _is_big(command):
                            made = self._ready(command, caller, is_clean=all_clean)
                        else:
                            made = await in_thread(self._ready, command, caller)
                        if self.admission is not None and isinstance(command, Observe):
                            await self.admission.enter(command, caller.tenant, made.subject)
                            admitted[len(ready)] = command
                        ready.append(made)
                    except CommandRejected as fault:
                        rejected.append((index, kept(fault)))
            forgets = any(isinstance(one, ForgetSubject) for one in commands)
            appended = await self._append(ready, caller.tenant, forgets=forgets)
        finally:
            for place, command in admitted.items():
                if self.admission is not None and (not appended or appended[place].duplicate):
                    self.admission.leave(command, caller.tenant)
        return _outcome(ready, appended, rejected, await self._confirmed(_newest(ready, appended), caller))

    async def append_events(self, events: Sequence[Event]) -> BatchOutcome:
        """Append events that another log recorded, as they are; a repeat of the same event in full is a duplicate.

        An event that cannot be stored is rejected on its own. Raises Overloaded or LogUnavailable for all of them;
        repeating them is safe.
        """
        tenant = events[0].envelope.tenant if events else ""  # an export is of one tenant
        self._check(events, tenant)
        ready: list[_Ready] = []
        places: list[int] = []
        rejected: list[tuple[int, CommandRejected]] = []
        slices = Slices()
        for index, event in enumerate(events):
            await slices.between()
            try:
                ready.append(self._imported(event))
                places.append(index)
            except CommandRejected as fault:
                rejected.append((index, kept(fault)))
        appended = await self._append(ready, tenant)
        outcome = _outcome(ready, appended, rejected, await self._confirmed(_newest(ready, appended), Caller()))
        repeated = [place for place, row in zip(places, appended, strict=True) if row.duplicate]
        return outcome._replace(repeated=repeated)

    def _check(self, items: Sequence[AnyCommand | CommandRejected | Event], tenant: str) -> None:
        """Raise Overloaded while there is no room for these. For forgetting, which frees room, there always is.

        What is given together with a forgetting (a slot, rid of the forgotten lines) is part of it.
        """
        if self.gate is None:
            return
        try:
            self.gate.check(tenant)
        except Overloaded as fault:
            writes = [one for one in items if not isinstance(one, CommandRejected)]
            if not writes or any(isinstance(one, ForgetSubject) for one in writes):
                return
            self.refused[fault.cause] += len(writes)
            raise

    async def _append(self, ready: Sequence[_Ready], tenant: str, *, forgets: bool = False) -> list[Appended]:
        with appending(len(ready)):
            entries = [(one.partition, one.entry) for one in ready]
            if context := tracing.current():
                entries = [(partition, entry._replace(context=context)) for partition, entry in entries]
            try:
                if forgets:
                    appended = await self._log.append(entries, past_limit=True)
                else:
                    with self._taken(entries, tenant):
                        appended = await self._log.append(entries)
            except (Overloaded, LogFull) as fault:
                self.refused[fault.cause] += len(ready)
                raise
        if (charged := charge.get()) is not None:
            await charged(len(ready))
        return appended

    def _taken(self, entries: Sequence[tuple[int, Entry]], tenant: str) -> AbstractContextManager[None]:
        if self.gate is None:
            return nullcontext()
        return self.gate.taken(tenant, len(entries), sum(len(entry.payload) for _, entry in entries))

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
        event_id = EventId(
            decision.event.envelope.event_id
        )  # without a secret, where the caller's name for it held one
        entry = Entry(dedup_id(decision.route, event_id), payload)
        return _Ready(partition_of(decision.route, self._partitions), entry, decision.subject, event_id)


@cache
def _unbounded(cls: type[AnyCommand]) -> tuple[str, ...]:
    """The fields of a command whose length the type does not limit."""
    fields = msgspec.inspect.type_info(cls)
    assert isinstance(fields, msgspec.inspect.StructType)
    return tuple(field.name for field in fields.fields if _is_unbounded(field.type))


def _is_unbounded(kind: msgspec.inspect.Type) -> bool:
    match kind:
        case msgspec.inspect.StrType(max_length=None, pattern=None) | msgspec.inspect.DictType():
            return True
        case msgspec.inspect.UnionType(types=types):
            return any(map(_is_unbounded, types))
        case _:
            return False


def _is_big(command: AnyCommand) -> bool:
    """Whether deciding takes long enough to be done elsewhere; looks no further than it must."""
    chars = values = 0
    look: list[Any] = []
    for field in _unbounded(type(command)):
        one: Any = getattr(command, field)
        if isinstance(one, str):
            chars += len(one)
        elif one:
            look.append(one)
    while look and values <= BIG_VALUES and chars <= BIG_CHARS:
        one = look.pop()
        if isinstance(one, dict):
            one = cast("dict[Any, Any]", one).values()
        values += len(one)
        if values <= BIG_VALUES:
            chars += sum(len(part) for part in one if isinstance(part, str))
            look += [part for part in one if isinstance(part, dict | list)]
    return values > BIG_VALUES or chars > BIG_CHARS


def _outcome(
    ready: Sequence[_Ready],
    appended: Sequence[Appended],
    rejected: list[tuple[int, CommandRejected]],
    durability: Durability,
) -> BatchOutcome:
    duplicates = sum(row.duplicate for row in appended)
    token = Token.of((item.partition, row.position) for item, row in zip(ready, appended, strict=True))
    return BatchOutcome(len(ready) - duplicates, duplicates, rejected, token, durability)


def _newest(ready: Sequence[_Ready], appended: Sequence[Appended]) -> dict[int, Position]:
    """The newest position in each partition that was written to."""
    found: dict[int, Position] = {}
    for one, (position, _) in zip(ready, appended, strict=True):
        found[one.partition] = max(position, found.get(one.partition, position))
    return found


charge: ContextVar[Callable[[int], Awaitable[None]] | None] = ContextVar("charge", default=None)
"""Awaited with the number of events that were stored. None where nobody is charged: without a rate, and in workers."""
