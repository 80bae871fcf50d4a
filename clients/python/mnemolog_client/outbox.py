"""What an emitter does, apart from waiting: takes commands, says when a batch is due, and what came of one.

Both emitters use it under a lock of their own. Commands leave it in the order they came, and only once the server has
acknowledged or refused them: the next batch is made when the previous batch is settled.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec

from mnemolog_client.answers import BatchAccepted, Rejection
from mnemolog_client.calls import new_event_id
from mnemolog_client.errors import EmitterError, MnemologError, NotDelivered, TooLarge
from mnemolog_client.retry import Retry
from mnemolog_client.spool import InMemory, Spool, Waiting

MAX_LINE_BYTES = 8 << 20
"""An event has 1 MiB at most; its JSON has more where characters are escaped."""
MAX_BATCH_EVENTS = 10_000
AGAIN = Retry(first_pause_s=0.1, longest_pause_s=30.0)
CLOSING_PAUSE_S = 0.5
"""The longest pause between attempts while the emitter is being closed."""
_TO_BE_SPLIT = frozenset({"malformed", "too_large"})
"""Refusals of a batch that may be due to one of its commands."""

logger = logging.getLogger(__name__)


class EmitterOptions(TypedDict, total=False):
    """How much may wait, and how long.

    A batch is sent when `batch_events` or `flush_every_s` is reached. When `max_events` or `max_bytes` wait, `emit`
    raises EmitterFull, or blocks with `when_full="block"`. `fsync`: each command is on the disk when `emit` returns.
    `on_rejected` is called, in the sending thread or task, with each command that the server refused, and why.
    """

    max_events: int
    max_bytes: int
    batch_events: int
    batch_bytes: int
    flush_every_s: float
    when_full: Literal["raise", "block"]
    fsync: bool
    on_rejected: Callable[[dict[str, Any], Rejection], None]


class EmitterStats(NamedTuple):
    """What became of what was emitted; `trouble` is why the last batch failed, while it does."""

    waiting: int
    accepted: int
    duplicates: int
    rejected: int
    trouble: MnemologError | None


class Outbox:
    """The commands that wait, and what is known of those that were sent."""

    def __init__(self, waiting: Waiting, agent: str, options: EmitterOptions) -> None:
        self._queue, self._agent = waiting, agent
        self._batch_events = min(options.get("batch_events", 500), MAX_BATCH_EVENTS)
        self._batch_bytes = min(options.get("batch_bytes", 4 << 20), MAX_LINE_BYTES)
        self._flush_every_s = options.get("flush_every_s", 1.0)
        self._on_rejected = options.get("on_rejected", _nothing)
        self.blocks = options.get("when_full", "raise") == "block"
        self._at_most = self._batch_events
        self._accepted = self._duplicates = self._rejected = self._failures = 0
        self._trouble: MnemologError | None = None
        self._refused: list[tuple[bytes, Rejection]] = []
        self._settled = 0
        self._wanted = waiting.count
        """Up to which command, counted from the opening, a flush waits; what an earlier process left goes at once."""
        self._oldest_s = self._not_before_s = time.monotonic()
        self.closed = False

    @property
    def survives(self) -> bool:
        """Whether what waits is still there when the process has ended."""
        return self._queue.survives

    @property
    def waiting(self) -> int:
        """Commands that are neither acknowledged nor refused."""
        return self._queue.count

    @property
    def stats(self) -> EmitterStats:
        return EmitterStats(self.waiting, self._accepted, self._duplicates, self._rejected, self._trouble)

    def encode(self, command: Mapping[str, Any]) -> tuple[str, bytes]:
        """The event id and the line of a command, which says when it happened and who spoke. Raises TooLarge."""
        event_id: str = command.get("event_id") or new_event_id()
        said = {name: value for name, value in command.items() if value is not None}
        named = {"occurred_at": datetime.now(UTC), "agent_id": self._agent, **said, "event_id": event_id}
        line = msgspec.json.encode(named)
        if len(line) > MAX_LINE_BYTES:
            raise TooLarge("too_large", f"the command has {len(line):,} bytes; the limit is {MAX_LINE_BYTES:,}")
        return event_id, line

    def put(self, line: bytes) -> None:
        """Take one more. Raises EmitterFull, OSError."""
        if not self.waiting:
            self._oldest_s = time.monotonic()
        self._queue.append(line)

    def end(self) -> None:
        """Take no more, and try at once to send what waits."""
        self.closed = True
        self._not_before_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to do any more."""
        return self.closed and not self.waiting

    def want_all(self) -> int:
        """Have all that waits sent without delay; the number for `is_settled`."""
        self._wanted = self._settled + self.waiting
        return self._wanted

    def is_settled(self, number: int) -> bool:
        """Whether the server has acknowledged or refused so many commands."""
        return self._settled >= number

    def due_in_s(self) -> float:
        """Seconds until a batch should be sent; infinite while nothing waits."""
        if not self.waiting:
            return math.inf
        hurry = self.closed or self._settled < self._wanted or self.waiting >= self._batch_events
        due_s = self._not_before_s if hurry else max(self._not_before_s, self._oldest_s + self._flush_every_s)
        return max(0.0, due_s - time.monotonic())

    def batch(self) -> list[bytes]:
        """The next to send; nothing, and trouble, while the spool cannot be read."""
        try:
            return self._queue.first(self._at_most, self._batch_bytes)
        except OSError as fault:
            self._fail(EmitterError("spool_unreadable", str(fault)))
            return []

    def settle(self, lines: Sequence[bytes], outcome: BatchAccepted | MnemologError) -> None:
        """Note what became of these, the oldest. Only what the server acknowledged or refused leaves the queue."""
        match outcome:
            case BatchAccepted():
                self._accepted += outcome.accepted
                self._duplicates += outcome.duplicates
                for one in outcome.rejected:
                    self._reject(lines[one.index], one)
                self._done(lines)
            case MnemologError(code=code) if code in _TO_BE_SPLIT and len(lines) > 1:
                self._at_most = len(lines) // 2
            case MnemologError(code=code) if code in _TO_BE_SPLIT and lines:
                self._reject(lines[0], Rejection(index=0, code=code, message=outcome.message, field=outcome.field))
                self._done(lines)
            case _:
                self._fail(outcome)

    def tell_refused(self) -> None:
        """Call `on_rejected` with what was refused since the last time; to be done without the lock."""
        refused, self._refused = self._refused, []
        for line, rejection in refused:
            try:
                self._on_rejected(_command(line), rejection)
            except Exception:
                logger.exception("on_rejected failed")

    def not_delivered(self) -> NotDelivered:
        """The error of a flush that took too long."""
        return NotDelivered(self.waiting, self._trouble)

    def close(self) -> None:
        """Let go of files."""
        self._queue.close()

    def _done(self, lines: Sequence[bytes]) -> None:
        self._queue.drop(lines)
        self._settled += len(lines)
        self._at_most, self._failures, self._trouble = self._batch_events, 0, None
        self._oldest_s = time.monotonic()

    def _fail(self, error: MnemologError) -> None:
        self._failures += 1
        if self._trouble is None or self._trouble.code != error.code:
            logger.warning("%d commands wait: %s", self.waiting, error)
        self._trouble = error
        pause_s = max(AGAIN.pause_s(self._failures), error.retry_after_s or 0.0)
        self._not_before_s = time.monotonic() + (min(pause_s, CLOSING_PAUSE_S) if self.closed else pause_s)

    def _reject(self, line: bytes, rejection: Rejection) -> None:
        self._rejected += 1
        kept = self._queue.keep_rejected(b'{"rejection":%s,"command":%s}' % (msgspec.json.encode(rejection), line))
        where = "kept in the spool" if kept else "not kept"
        logger.error("a command was refused, and is %s: %s: %s", where, rejection.code, rejection.message)
        self._refused.append((line, rejection))


def _nothing(command: dict[str, Any], rejection: Rejection) -> None:
    """What was refused was logged, and is kept where there is a spool."""


def open_outbox(agent: str, spool: Path | str | None, options: EmitterOptions) -> Outbox:
    """What waits in a folder, or a new queue in memory. Raises SpoolInUse and OSError."""
    max_events, max_bytes = options.get("max_events", 100_000), options.get("max_bytes", 256 << 20)
    if spool is None:
        return Outbox(InMemory(max_events, max_bytes), agent, options)
    return Outbox(Spool(Path(spool), max_events, max_bytes, fsync=options.get("fsync", False)), agent, options)


def _command(line: bytes) -> dict[str, Any]:
    """What a line says; a damaged one is its text."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {"line": line.decode(errors="replace")}
