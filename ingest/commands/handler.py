"""The write side's shell: commands in, events appended, acknowledgements out."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from ingest.clock import Clock, system_clock
from ingest.commands.decide import Caller, decide
from ingest.commands.requests import AnyCommand
from ingest.errors import CommandRejected
from ingest.events.envelope import encode
from ingest.ids import EventId, dedup_id, new_event_id
from ingest.log.event_log import MAX_ENTRY_BYTES, Appended, Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.partitions import partition_of
from ingest.log.position import Position, Token

EVENTS_PER_SLICE = 200
"""A big batch is decided in slices of about 5 ms, and the event loop serves others in between."""


class Accepted(Struct, frozen=True):
    """An acknowledged write: the document it concerns, its event id, its place in the log.

    `duplicate` is true when the event id was known already; `position` is then the first one's.
    """

    id: str
    event_id: str
    position: str
    duplicate: bool


class BatchOutcome(NamedTuple):
    """What became of a batch: counts, the faults by index, and the token that covers all that was accepted."""

    accepted: int
    duplicates: int
    rejected: list[tuple[int, CommandRejected]]
    token: Token


class _Ready(NamedTuple):
    partition: int
    entry: Entry
    subject: str
    event_id: EventId


class CommandHandler:
    """Decides commands and appends what they become. One per process; safe for concurrent use on one event loop."""

    def __init__(self, log: GroupCommit, partitions: int, clock: Clock = system_clock) -> None:
        self._log, self._partitions, self._clock = log, partitions, clock

    async def handle(self, command: AnyCommand, caller: Caller) -> Accepted:
        """Append one command's event. Raises CommandRejected, Overloaded or LogUnavailable."""
        ready = self._ready(command, caller)
        (appended,) = await self._log.append([(ready.partition, ready.entry)])
        return _accepted(ready, appended)

    async def handle_batch(self, commands: Sequence[AnyCommand | CommandRejected], caller: Caller) -> BatchOutcome:
        """Append a batch; each item is accepted or rejected on its own. What was rejected before is passed through.

        Raises Overloaded or LogUnavailable for the batch as a whole; repeating it with the same event ids is safe.
        """
        ready: list[_Ready] = []
        rejected: list[tuple[int, CommandRejected]] = []
        for start in range(0, len(commands), EVENTS_PER_SLICE):
            for index, command in enumerate(commands[start : start + EVENTS_PER_SLICE], start):
                try:
                    if isinstance(command, CommandRejected):
                        raise command
                    ready.append(self._ready(command, caller))
                except CommandRejected as fault:
                    rejected.append((index, fault))
            await asyncio.sleep(0)
        appended = await self._log.append([(item.partition, item.entry) for item in ready])
        duplicates = sum(row.duplicate for row in appended)
        token = Token.of((item.partition, row.position) for item, row in zip(ready, appended, strict=True))
        return BatchOutcome(len(ready) - duplicates, duplicates, rejected, token)

    def _ready(self, command: AnyCommand, caller: Caller) -> _Ready:
        event_id = EventId(command.event_id) if command.event_id else new_event_id()
        decision = decide(command, caller, event_id, self._clock())
        payload = encode(decision.event)
        if len(payload) > MAX_ENTRY_BYTES:
            raise CommandRejected(
                f"the event is {len(payload):,} bytes; the limit is {MAX_ENTRY_BYTES:,}. "
                "Store the bulk elsewhere and record a reference",
                "data" if getattr(command, "data", None) else "content",
            )
        entry = Entry(dedup_id(decision.route, event_id), payload)
        return _Ready(partition_of(decision.route, self._partitions), entry, decision.subject, event_id)


def _accepted(ready: _Ready, appended: Appended) -> Accepted:
    position: Position = appended.position
    return Accepted(ready.subject, ready.event_id, f"{ready.partition}:{position}", appended.duplicate)
